#pragma once
// The names serving stacks give to cache element types, and the preset each means.

#include <string>
#include <vector>

#include "experiment/import/imported.h"

namespace kvtide::experiment {

struct KvDtype {
  std::string name;      ///< as the stack spells it, lower case
  std::string preset;    ///< empty: 16 bits, nothing is lost
  std::string sentence;  ///< what it does
};

/// Sets the compression and says so. @throws InputError listing `known` for another name
void set_kv_dtype(const std::string& option, const std::string& dtype, const std::vector<KvDtype>& known,
                  Imported& imported);

/// --dtype of the model: 16 bits are what is simulated, 32 are said.
void note_model_dtype(const StackText& text, Imported& imported);

}  // namespace kvtide::experiment
