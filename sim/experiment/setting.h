#pragma once
// Everything that decides the result of one run, as a plain immutable value. Two equal settings give equal results.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiment/serving_setting.h"
#include "gpu/access_pattern.h"
#include "kv/cache_layout.h"
#include "kv/cache_schedule.h"
#include "kv/compression/layer_budget.h"
#include "kv/layer_sharing.h"
#include "loss/head_reduction.h"
#include "loss/planted_probe.h"
#include "model/weight_storage.h"

namespace kvtide::experiment {

enum class TraceKind : std::uint8_t { recorded, synthetic };

/// Where attention comes from: a file, or a generator with a known answer.
struct TraceSource {
  TraceKind kind = TraceKind::recorded;
  std::string path;            ///< recorded: resolved against the experiment file's folder
  std::string companion;       ///< recorded: a second file with queries of all positions and W_o; may be empty
  std::string synthetic_kind;  ///< uniform, needle, recency, ar1, rope
  /// The generator's parameters by name, sorted ("tokens" always present). Meanings: attention/synthetic.h.
  std::vector<std::pair<std::string, double>> parameters;
  bool operator==(const TraceSource&) const = default;
};

enum class QueryMode : std::uint8_t { agnostic, aware };
enum class MeasureQueries : std::uint8_t { question, answer, all, range };
enum class LossMetric : std::uint8_t { mass_loss, output_loss, bits_lost };
using loss::HeadReduction;

[[nodiscard]] std::string to_string(kv::CacheLayout value);
[[nodiscard]] std::string to_string(gpu::Fidelity value);
[[nodiscard]] std::string to_string(QueryMode value);
[[nodiscard]] std::string to_string(MeasureQueries value);
[[nodiscard]] std::string to_string(LossMetric value);
/// "1" or "bit".
[[nodiscard]] std::string units_of(LossMetric value);

/// What protect.anchors asks for, before a trace says where that is.
struct AnchorSetting {
  /// numbers, names, headings, paragraphs, sentences (token strings); trace (its probes); key_norm, attention (the best
  /// `share` of positions by the smallest key norm, by attention received).
  std::vector<std::string> kinds;
  std::vector<std::int64_t> positions;
  double share = 0.05;
  bool operator==(const AnchorSetting&) const = default;
  [[nodiscard]] bool empty() const { return kinds.empty() && positions.empty(); }
};

struct LossSetting {
  QueryMode queries = QueryMode::agnostic;
  std::int64_t score_window = 64;  ///< last queries that feed attention scorers
  MeasureQueries measure_queries = MeasureQueries::question;
  std::int64_t first_query = 0;  ///< range only: absolute positions, both included
  std::int64_t last_query = 0;
  LossMetric metric = LossMetric::mass_loss;
  HeadReduction heads = HeadReduction::reader;
  std::int64_t span = 8;            ///< positions of one fact
  std::int64_t sample_queries = 0;  ///< measured queries drawn at random from them; 0: all
  std::int64_t requests = 1;  ///< partition random_offset: requests, each with its own offset, whose mean is measured
  bool operator==(const LossSetting&) const = default;
};

struct MeasureSetting {
  bool memory = true;
  bool time = true;
  bool loss = true;
  bool position_scan = true;
  bool prefix_scan = true;
  bool detail = false;
  bool operator==(const MeasureSetting&) const = default;
};

struct Setting {
  std::string model;  ///< as load_model() takes it
  std::string gpu;    ///< as load_gpu_profile() takes it
  TraceSource trace;
  std::int64_t context_tokens = 32768;
  std::int64_t batch = 8;
  WeightStorage weights;                            ///< of the served model
  std::int64_t tensor_parallel = 1;                 ///< GPUs that share every layer
  std::int64_t expert_parallel = 1;                 ///< ranks that hold whole experts: 1 (cut) or tensor_parallel
  std::int64_t pipeline_parallel = 1;               ///< groups of GPUs, each with a part of the layers
  gpu::Fidelity fidelity = gpu::Fidelity::sampled;  ///< of the machine's memory
  std::int64_t page_size = 16;
  kv::CacheLayout layout = kv::CacheLayout::per_head;
  kv::LayerBudget layer_budget;  ///< of the evict stages
  kv::CacheSchedule schedule;
  kv::LayerSharing sharing;
  /// grid_offset is 0 until the run draws it when the partition is random_offset; anchors and boundaries are empty until
  /// resolved_compression() finds them in the trace.
  kv::Compression compression;
  AnchorSetting anchors;
  std::string boundaries = "paragraphs";  ///< partition content: where a block may end, as in AnchorSetting::kinds
  LossSetting loss;
  MeasureSetting measure;
  std::optional<loss::ProbeSpec> probe;   ///< what the position scan plants; none: it reads the loss profile
  std::optional<ServingSetting> serving;  ///< a workload through an engine; none: no serving
  bool moves_recorded_fact = false;       ///< the scan moves the trace's own asked fact instead of planting one
  std::uint64_t seed = 1;  ///< the user's; synthetic traces use it, so that every run of a sweep sees the same trace
  bool operator==(const Setting&) const = default;
};

/// The compression as one line of YAML flow text, every key written out: what the run key hashes and what tables show.
/// Example: "{block_size: 128, partition: {kind: fixed, offset: 0}, protect: {sinks: 4, window: 64}, stages: [...]}"
[[nodiscard]] std::string compression_text(const Setting& setting);

/// Every field that decides the result, one a line, with files by content (their fingerprint), never by place, so that
/// the same run in another folder has the same key and the same seed.
[[nodiscard]] std::string canonical_text(const Setting& setting, const std::string& model_fingerprint,
                                         const std::string& gpu_fingerprint, const std::string& trace_fingerprint);

/// Size and FNV-1a of a file: whole up to 64 MiB, else 64 windows of 1 MiB spread evenly (first and last included).
/// @throws InputError when it cannot be read
[[nodiscard]] std::string file_fingerprint(const std::string& path);

}  // namespace kvtide::experiment
