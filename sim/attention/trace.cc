#include "attention/trace.h"

#include <fmt/format.h>

#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "attention/trace_layout.h"
#include "base/error.h"
#include "hdf5/child_trial.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::attention {
namespace {

/// Layers of an open file, or of a file and its companion.
class FileSource : public LayerSource {
 public:
  FileSource(hdf5::InputFile file, std::optional<hdf5::InputFile> companion, TraceInfo info,
             std::vector<LayerLayout> layers)
      : file_(std::move(file)), companion_(std::move(companion)), info_(std::move(info)), layers_(std::move(layers)) {}

  [[nodiscard]] RecordedLayer load(std::int64_t layer_index) const override {
    const LayerLayout& layout = layers_.at(static_cast<std::size_t>(layer_index));
    const auto num_queries = static_cast<std::int64_t>(layout.q_positions.size());
    RecordedLayer layer;
    layer.q_positions = layout.q_positions;
    for (std::int64_t kv_head = 0; kv_head < info_.num_kv_heads; ++kv_head) {
      layer.k_pre.push_back(read_heads(layout.k_pre, kv_head, 1, info_.num_tokens));
      layer.v.push_back(read_heads(layout.v, kv_head, 1, info_.num_tokens));
      layer.q_pre.push_back(read_heads(layout.q_pre, kv_head * info_.group_size(), info_.group_size(), num_queries));
    }
    return layer;
  }

  [[nodiscard]] std::vector<std::int64_t> query_positions(std::int64_t layer_index) const override {
    return layers_.at(static_cast<std::size_t>(layer_index)).q_positions;
  }

  /// Reads every value of a layer and appends the first fault of each dataset, with its path.
  void check_values(std::int64_t layer_index, std::vector<std::string>& findings) const {
    const LayerLayout& layout = layers_.at(static_cast<std::size_t>(layer_index));
    const auto check = [&](const std::vector<TensorPart>& parts, std::int64_t num_heads) {
      for (const TensorPart& part : parts) {
        try {
          for (std::int64_t head = 0; head < num_heads; ++head) (void)read_heads({part}, head, 1, part.num_rows);
        } catch (const InputError& error) {
          findings.emplace_back(error.what());
        }
      }
    };
    check(layout.k_pre, info_.num_kv_heads);
    check(layout.v, info_.num_kv_heads);
    check(layout.q_pre, info_.num_query_heads);
    try {
      (void)output_projection(layer_index);
    } catch (const InputError& error) {
      findings.emplace_back(error.what());
    }
  }

  [[nodiscard]] kv::RowMatrix output_projection(std::int64_t layer_index) const override {
    const TensorPart& part = layers_.at(static_cast<std::size_t>(layer_index)).w_o;
    if (part.dataset.empty()) return {};
    const std::vector<float> values = file_of(part).read_floats(part.dataset, true);
    const std::int64_t columns = info_.num_query_heads * info_.head_dim;
    check_finite(part, values, columns, part.num_rows);
    return Eigen::Map<const kv::RowMatrix>(values.data(), part.num_rows, columns);
  }

 private:
  [[nodiscard]] const hdf5::InputFile& file_of(const TensorPart& part) const {
    return part.is_in_companion ? *companion_ : file_;
  }

  void check_finite(const TensorPart& part, const std::vector<float>& values, std::int64_t num_columns,
                    std::int64_t num_rows) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      const auto at = static_cast<std::int64_t>(i);
      throw InputError(fmt::format("{}: {}: {} at row {}, channel {}; every value must be finite", file_of(part).path(),
                                   part.dataset, values[i], at / num_columns % num_rows, at % num_columns));
    }
  }

  /// Consecutive heads stacked, each with the rows of all parts. @return [num_heads * num_rows, head_dim]
  [[nodiscard]] kv::RowMatrix read_heads(const std::vector<TensorPart>& parts, std::int64_t first_head,
                                         std::int64_t num_heads, std::int64_t num_rows) const {
    kv::RowMatrix heads(num_heads * num_rows, info_.head_dim);
    std::int64_t first_row = 0;
    for (const TensorPart& part : parts) {
      const std::uint64_t start[] = {static_cast<std::uint64_t>(first_head), 0, 0};
      const std::uint64_t count[] = {static_cast<std::uint64_t>(num_heads), static_cast<std::uint64_t>(part.num_rows),
                                     static_cast<std::uint64_t>(info_.head_dim)};
      const std::vector<float> values = file_of(part).read_floats(part.dataset, start, count, true);
      check_finite(part, values, info_.head_dim, part.num_rows);
      for (std::int64_t head = 0; head < num_heads; ++head)
        heads.middleRows(head * num_rows + first_row, part.num_rows) = Eigen::Map<const kv::RowMatrix>(
            values.data() + head * part.num_rows * info_.head_dim, part.num_rows, info_.head_dim);
      first_row += part.num_rows;
    }
    return heads;
  }

  hdf5::InputFile file_;
  std::optional<hdf5::InputFile> companion_;
  TraceInfo info_;
  std::vector<LayerLayout> layers_;
};

/// A file with its companion, inspected.
struct Opened {
  Opened(const std::string& path, const std::string& companion_path) : file(path) {
    if (!companion_path.empty()) companion.emplace(companion_path);
    layout = inspect_layout(file, companion ? &*companion : nullptr, findings);
  }
  hdf5::InputFile file;
  std::optional<hdf5::InputFile> companion;
  std::vector<std::string> findings;
  TraceLayout layout;
};

}  // namespace

Trace::Trace(TraceInfo info, std::vector<std::int64_t> token_ids, std::vector<std::string> token_strings,
             std::vector<Probe> probes, std::shared_ptr<const LayerSource> source)
    : info_(std::move(info)),
      token_ids_(std::move(token_ids)),
      token_strings_(std::move(token_strings)),
      probes_(std::move(probes)),
      source_(std::move(source)) {}

Trace Trace::open(const std::string& path, const std::string& companion_path) {
  hdf5::require_trial(path, [&] { (void)Opened(path, companion_path); });
  Opened opened(path, companion_path);
  const std::vector<std::string>& findings = opened.findings;
  TraceLayout& layout = opened.layout;
  if (findings.size() == 1) throw InputError(findings.front());
  if (findings.size() > 1)
    throw InputError(
        fmt::format("{} (and {} more; `kvtide trace check` lists them)", findings.front(), findings.size() - 1));
  auto source =
      std::make_shared<FileSource>(std::move(opened.file), std::move(opened.companion), layout.info, layout.layers);
  return {std::move(layout.info), std::move(layout.token_ids), std::move(layout.token_strings),
          std::move(layout.probes), std::move(source)};
}

RecordedLayer Trace::load_recorded_layer(std::int64_t layer_index) const {
  KVTIDE_ASSERT(layer_index >= 0 && layer_index < num_layers(), "layer_index counts recorded layers");
  return source_->load(layer_index);
}

kv::LayerTensors Trace::load_layer(std::int64_t layer_index) const {
  RecordedLayer recorded = load_recorded_layer(layer_index);
  const kv::Rope rope{info_.layer_rope_theta(layer_index)};
  std::vector<std::int64_t> positions(static_cast<std::size_t>(info_.num_tokens));
  for (std::size_t position = 0; position < positions.size(); ++position)
    positions[position] = static_cast<std::int64_t>(position);
  kv::LayerTensors heads(recorded.k_pre.size());
  for (std::size_t kv_head = 0; kv_head < heads.size(); ++kv_head) {
    kv::HeadTensors& head = heads[kv_head];
    head.k_pre = std::move(recorded.k_pre[kv_head]);
    head.v = std::move(recorded.v[kv_head]);
    head.q_pre = std::move(recorded.q_pre[kv_head]);
    head.q_post = head.q_pre;
    head.q_positions = recorded.q_positions;
    head.group_size = info_.group_size();
    head.attention_scale = static_cast<float>(info_.attention_scale);
    head.rope = rope;
    head.k_post = head.k_pre;
    rope.rotate_rows(head.k_post.data(), head.k_post.rows(), head.k_post.cols(), positions);
    rope.rotate_rows(head.q_post.data(), head.q_post.rows(), head.q_post.cols(), head.q_positions);
  }
  return heads;
}

std::vector<std::int64_t> Trace::query_positions(std::int64_t layer_index) const {
  KVTIDE_ASSERT(layer_index >= 0 && layer_index < num_layers(), "layer_index counts recorded layers");
  return source_->query_positions(layer_index);
}

kv::RowMatrix Trace::output_projection(std::int64_t layer_index) const {
  KVTIDE_ASSERT(layer_index >= 0 && layer_index < num_layers(), "layer_index counts recorded layers");
  return source_->output_projection(layer_index);
}

TraceInfo trace_info(const std::string& path) {
  return Trace::open(path).info();
}

std::vector<std::string> check_trace(const std::string& path, const std::string& companion_path) {
  const auto check = [&] {
    Opened opened(path, companion_path);
    std::vector<std::string> findings = std::move(opened.findings);
    if (!findings.empty()) return findings;
    const std::int64_t num_layers = opened.layout.info.num_layers();
    const FileSource source(std::move(opened.file), std::move(opened.companion), std::move(opened.layout.info),
                            std::move(opened.layout.layers));
    for (std::int64_t layer_index = 0; layer_index < num_layers; ++layer_index)
      source.check_values(layer_index, findings);
    return findings;
  };
  try {
    hdf5::require_trial(path, [&] { (void)check(); });
    return check();
  } catch (const InputError& error) {
    return {error.what()};
  }
}

}  // namespace kvtide::attention
