#pragma once
// kvtide show presets | policies | codecs: the catalogue of compression methods.

#include <string>

namespace kvtide::cli {

/// Every preset, one line each; with a name its mapping, cost and paper. @throws InputError for an unknown name
void show_presets(const std::string& name, const std::string& model, bool as_json);
/// Every preset with what it costs on `model`; `as_markdown`: docs/catalogue.md.
void show_policies(const std::string& name, const std::string& model, bool as_markdown, bool as_json);
/// Formats of the quantize stage, and the other stages' parameters. @throws InputError for an unknown name
void show_codecs(const std::string& name, bool as_json);

}  // namespace kvtide::cli
