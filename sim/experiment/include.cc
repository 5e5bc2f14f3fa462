#include "experiment/include.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"

namespace kvtide::experiment {
namespace {

using config::Document;
using config::Value;
namespace fs = std::filesystem;

class Includes {
 public:
  void resolve(Document& document, const fs::path& folder) {
    const Value root = document.root();
    if (!root.is_map()) return;
    const Value include = root.at("include");
    if (!include.exists()) return;
    const std::vector<Value> names = include.is_list() ? include.items() : std::vector<Value>{include};
    for (auto name = names.rbegin(); name != names.rend(); ++name) {  // the last one wins: it fills first
      Document base = load(*name, folder);
      document.fill_from(base);
    }
    include.accept_all();
  }

  [[nodiscard]] const std::string& texts() const { return texts_; }

 private:
  Document load(const Value& name, const fs::path& folder) {
    if (!name.is_scalar() || name.text().empty()) {
      throw InputError(fmt::format("{}: {}: expected a file name or a list of them", name.where(), name.path()));
    }
    const fs::path path = folder / name.text();
    std::error_code failure;
    const fs::path identity = fs::weakly_canonical(path, failure);
    if (std::ranges::find(open_, identity) != open_.end()) {
      throw InputError(fmt::format("{}: {}: {} includes itself", name.where(), name.path(), name.text()));
    }
    if (static_cast<int>(open_.size()) >= kMaxIncludeDepth || ++num_files_ > kMaxIncludedFiles) {
      throw InputError(fmt::format("{}: {}: more than {} files inside each other or {} in all", name.where(),
                                   name.path(), kMaxIncludeDepth, kMaxIncludedFiles));
    }
    open_.push_back(identity);
    try {
      Document document = Document::load(path.string());
      if (!document.root().is_map()) throw InputError(fmt::format("{}: expected a mapping", path.string()));
      texts_ += fmt::format("# included: {}\n{}{}", name.text(), document.text(),
                            document.text().ends_with('\n') ? "" : "\n");
      resolve(document, path.parent_path());
      open_.pop_back();
      return document;
    } catch (const InputError& error) {
      if (open_.size() > 1) throw;
      throw InputError(fmt::format("{}: {}: {}", name.where(), name.path(), error.what()));
    }
  }

  std::vector<fs::path> open_;  ///< files that are being read, outermost first
  int num_files_ = 0;
  std::string texts_;
};

}  // namespace

std::string resolve_includes(Document& document, const std::string& folder) {
  Includes includes;
  includes.resolve(document, folder);
  return includes.texts();
}

}  // namespace kvtide::experiment
