#pragma once
// What the runs of an experiment share of one attention trace: tensors, full-cache attention, importance scores.
// Each is made once, whichever run asks first, and never changes afterwards.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "attention/trace.h"
#include "experiment/setting.h"
#include "kv/compression/compression.h"
#include "kv/served_cache.h"
#include "loss/attention_reference.h"

namespace kvtide::experiment {

/// Largest trace held in memory, K, V and queries in float32 over all recorded layers.
inline constexpr Bytes kMaxTraceBytes = 4 * kGiB;

class TraceInputs {
 public:
  /// @throws InputError when the trace is damaged or larger than kMaxTraceBytes
  TraceInputs(const TraceSource& source, const LossSetting& loss, std::uint64_t seed);

  [[nodiscard]] const attention::TraceInfo& info() const { return trace_.info(); }
  [[nodiscard]] const std::vector<std::int64_t>& token_ids() const { return trace_.token_ids(); }
  [[nodiscard]] const std::vector<std::string>& token_strings() const { return trace_.token_strings(); }
  [[nodiscard]] const std::vector<attention::Probe>& probes() const { return trace_.probes(); }
  [[nodiscard]] const std::vector<kv::LayerTensors>& layers() const { return layers_; }
  [[nodiscard]] const loss::AttentionReference& reference() const { return reference_; }
  /// Positions that the policy compresses: the context, or everything before the first answer token when queries are
  /// aware.
  [[nodiscard]] std::int64_t num_compressed() const { return num_compressed_; }

  /// Final scores of every recorded layer for an evict stage under a setting's grid (kv/compression/importance.h), each
  /// layer at its own share of the budget.
  /// @throws InputError when the trace lacks what the scorer needs
  [[nodiscard]] std::shared_ptr<const kv::RecordedScores> scores(const kv::Compression& setting, const kv::Evict& stage,
                                                                 const kv::LayerBudget& budget) const;

  /// The setting as one recorded layer has it: the evict stages at the layer's own keep ratio.
  [[nodiscard]] kv::Compression setting_of_layer(const kv::Compression& setting, const kv::LayerBudget& budget,
                                                 std::size_t layer) const;

 private:
  /// A budget by head for this trace's model, where its table is not the served one's. @throws InputError when it is of
  /// neither
  [[nodiscard]] kv::LayerBudget fitted(kv::LayerBudget budget) const;
  [[nodiscard]] bool is_lazy(const kv::LayerBudget& budget, std::size_t layer) const;

  LossSetting loss_;
  attention::Trace trace_;
  std::int64_t num_compressed_;
  std::vector<kv::LayerTensors> layers_;
  loss::AttentionReference reference_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const kv::RecordedScores>> scores_;
};

/// Queries that measure the loss, as absolute positions. @throws InputError when the range lies outside the recorded
/// queries
[[nodiscard]] loss::MeasureQueries measured_queries(const LossSetting& loss, const attention::Trace& trace);

}  // namespace kvtide::experiment
