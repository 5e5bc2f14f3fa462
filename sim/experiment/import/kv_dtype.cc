#include "experiment/import/kv_dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "experiment/import/stack_text.h"

namespace kvtide::experiment {

void set_kv_dtype(const std::string& option, const std::string& dtype, const std::vector<KvDtype>& known,
                  Imported& imported) {
  std::vector<std::string> names;
  for (const KvDtype& entry : known) {
    names.push_back(entry.name);
    if (entry.name != dtype) continue;
    if (entry.preset.empty()) {
      imported.keeps.push_back(fmt::format("{} {}: {}", option, dtype, entry.sentence));
    } else {
      imported.compression = fmt::format("{{preset: {}}}", entry.preset);
      imported.loses.push_back(fmt::format("{} {}: {}", option, dtype, entry.sentence));
    }
    return;
  }
  throw InputError(fmt::format("import: {}: expected one of {}, got \"{}\"", option, fmt::join(names, ", "), dtype));
}

void note_model_dtype(const StackText& text, Imported& imported) {
  const std::string dtype = text.value({"dtype"}).value_or("auto");
  if (dtype == "float" || dtype == "float32") {
    imported.left_out.push_back(fmt::format(
        "dtype {}: weights and a cache of the model's own type take twice the bytes they have here", dtype));
  }
}

}  // namespace kvtide::experiment
