#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "experiment/setting_reader.h"
#include "gpu/gpu_profile.h"
#include "model/model.h"

namespace kvtide::experiment {
namespace fs = std::filesystem;

std::string NameResolver::located(const std::string& path) const {
  std::error_code ignored;
  const fs::path beside = fs::path(base_folder_) / path;
  if (!path.empty() && fs::is_regular_file(beside, ignored)) return beside.string();
  return path;
}

std::string NameResolver::located_model(const std::string& name) const {
  std::string path = located(name);
  const std::size_t slash = name.find('/');
  if (path != name || slash == std::string::npos) return path;
  std::error_code ignored;
  const fs::path beside = fs::path(base_folder_) / name, folder = fs::path(base_folder_) / name.substr(0, slash);
  const bool is_checkpoint = fs::is_regular_file(beside / "config.json", ignored);
  // Where its first folder is there, "a/b" is a path and no id; load_model() refuses what it does not find.
  const bool is_path = fs::is_directory(folder, ignored) && !fs::exists(name, ignored);
  return is_checkpoint || is_path ? beside.string() : path;
}

const NameResolver::Resolved& NameResolver::model(const std::string& name) {
  const auto [entry, is_new] = models_.try_emplace(name);
  Resolved& resolved = entry->second;
  if (!is_new) return resolved;
  try {
    resolved.path = located_model(name);
    const Model model = load_model(resolved.path);
    const std::string unsupported = model.unsupported_reason();
    if (!unsupported.empty()) {
      throw InputError(fmt::format("kvtide run cannot simulate {}: it has {} (its bytes: kvtide show models {})",
                                   model.name, unsupported, name));
    }
    resolved.head_dim = model.head_dim;
    resolved.model = std::make_shared<const Model>(model);
    // The geometry, not the file: comments and the order of keys do not change a run.
    resolved.fingerprint = fmt::format("{} {} {} {} {} {} {} {} {} 2", model.num_layers, model.num_query_heads,
                                       model.num_kv_heads, model.head_dim, model.hidden_size, model.intermediate_size,
                                       model.vocab_size, model.max_positions, model.num_parameters());
    // Only what plain models lack, so that their keys stay.
    if (model.layers.size() > 1 || model.layers.front().window > 0) {
      for (const LayerKind& kind : model.layers)
        resolved.fingerprint +=
            fmt::format(" {} {} {} {}", to_string(kind.kind), kind.count, kind.k_bytes, kind.window);
    }
    if (model.experts.num_experts > 0)
      resolved.fingerprint += fmt::format(" {} {} {} {}", model.experts.num_experts, model.experts.num_active,
                                          model.experts.intermediate_size, model.experts.shared_intermediate_size);
    if (model.latent.kv_rank > 0)
      resolved.fingerprint +=
          fmt::format(" {} {} {}", model.latent.query_rank, model.latent.kv_rank, model.latent.value_dim);
  } catch (const Error& error) {
    resolved.error = error.what();
  }
  return resolved;
}

const NameResolver::Resolved& NameResolver::gpu(const std::string& name) {
  const auto [entry, is_new] = gpus_.try_emplace(name);
  Resolved& resolved = entry->second;
  if (!is_new) return resolved;
  try {
    resolved.path = located(name);
    const gpu::GpuProfile profile = gpu::load_gpu_profile(resolved.path);
    resolved.fingerprint = profile.name;
    resolved.most_ranks = profile.interconnect.max_ranks;
    for (const gpu::ProfileFact& fact : profile.facts)
      resolved.fingerprint += fmt::format(" {}={}", fact.key, fact.value);
  } catch (const Error& error) {
    resolved.error = error.what();
  }
  return resolved;
}

const NameResolver::Resolved& NameResolver::trace(const std::string& path) {
  const auto [entry, is_new] = traces_.try_emplace(path);
  Resolved& resolved = entry->second;
  if (!is_new) return resolved;
  try {
    resolved.path = located(path);
    std::error_code ignored;
    if (!fs::is_regular_file(resolved.path, ignored)) {
      throw InputError(fmt::format("no such file, neither in {} nor here", base_folder_.empty() ? "." : base_folder_));
    }
    resolved.fingerprint = file_fingerprint(resolved.path);
  } catch (const Error& error) {
    resolved.error = error.what();
  }
  return resolved;
}

}  // namespace kvtide::experiment
