#pragma once
// One run's part of an experiment file -> Setting. Errors are recorded in the document, with place and key path.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config/yaml_value.h"
#include "experiment/setting.h"
#include "model/model.h"

namespace kvtide::experiment {

/// What a file's names mean; asked once per name, however many runs use it.
class NameResolver {
 public:
  /// @param base_folder  of the experiment file: relative paths start there
  explicit NameResolver(std::string base_folder) : base_folder_(std::move(base_folder)) {}

  struct Resolved {
    std::string path;                    ///< of the file behind the name
    std::string fingerprint;             ///< of its content
    std::int64_t head_dim = 0;           ///< models only
    std::shared_ptr<const Model> model;  ///< models only; null where it cannot be used
    std::int64_t most_ranks = 0;         ///< GPUs only: how many its interconnect joins
    std::string error;                   ///< not empty: what is wrong with it
  };
  [[nodiscard]] const Resolved& model(const std::string& name);
  [[nodiscard]] const Resolved& gpu(const std::string& name);
  [[nodiscard]] const Resolved& trace(const std::string& path);
  /// The path below the experiment's folder when a file is there, else the text itself (relative to where the user
  /// stands).
  [[nodiscard]] std::string located(const std::string& path) const;

 private:
  /// located(), and folders with a config.json.
  [[nodiscard]] std::string located_model(const std::string& name) const;

  std::string base_folder_;
  std::map<std::string, Resolved> models_;
  std::map<std::string, Resolved> gpus_;
  std::map<std::string, Resolved> traces_;
};

/// `weights:` as written: published, or one of weight_format_names().
[[nodiscard]] std::string read_weights(const config::Value& root);

/// Reads every key but `name` and `sweep` (which are the experiment's). Never throws for a wrong value: see
/// Document::errors().
[[nodiscard]] Setting read_setting(const config::Value& root, NameResolver& resolver);

}  // namespace kvtide::experiment
