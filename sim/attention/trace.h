#pragma once
// Attention traces: queries, keys and values recorded from a model (HDF5) or made by a rule (`synthetic.h`), one layer
// at a time. What a policy compresses and what the loss meter replays.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kv/head_tensors.h"

namespace kvtide::attention {

/// The longest trace: 1 Mi tokens, as long as any published context window in the model facts.
inline constexpr std::int64_t kMaxTraceTokens = 1'048'576;
inline constexpr std::int64_t kMaxTraceHeadDim = 512;
inline constexpr std::int64_t kMaxTraceHeads = 1024;
inline constexpr std::int64_t kMaxTraceLayers = 1024;

/// Absolute positions of queries, both ends included.
struct QueryRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const QueryRange&) const = default;
};

/// A fact in the context whose retrieval is tested.
struct Probe {
  std::string noun;
  std::string code;
  std::int64_t start = 0;                     ///< first token
  std::int64_t length = 0;                    ///< tokens
  std::vector<std::int64_t> digit_positions;  ///< the tokens that hold the code
  bool is_asked = false;                      ///< the question asks for this one; the others distract
};

struct TraceInfo {
  std::string origin;  ///< the file, or "synthetic: ..."
  std::string format;  ///< "kvtide-trace-1", "kvtide-trace-research-1" or "synthetic"
  std::string model;
  std::int64_t num_model_layers = 0;
  std::int64_t num_query_heads = 0;
  std::int64_t num_kv_heads = 0;  ///< divides num_query_heads
  std::int64_t head_dim = 0;
  double rope_theta = 0;                  ///< 0: no rotation
  std::vector<double> layer_rope_thetas;  ///< [recorded layer] where layers turn differently; empty: all by rope_theta
  double attention_scale = 0;
  std::int64_t num_tokens = 0;       ///< positions with K and V
  std::int64_t num_context = 0;      ///< tokens compressed when queries are agnostic; the question starts here
  QueryRange question;               ///< queries of the question's own tokens
  QueryRange answer;                 ///< answer token i is predicted by query answer.first + i
  std::vector<std::int64_t> layers;  ///< which model layers are recorded, ascending

  [[nodiscard]] std::int64_t group_size() const { return num_query_heads / num_kv_heads; }
  [[nodiscard]] std::int64_t num_layers() const { return static_cast<std::int64_t>(layers.size()); }
  /// @param layer_index  0..num_layers()-1
  [[nodiscard]] double layer_rope_theta(std::int64_t layer_index) const {
    return layer_rope_thetas.empty() ? rope_theta : layer_rope_thetas[static_cast<std::size_t>(layer_index)];
  }
  /// Queries the loss is measured with by default: question and answer. Example: 2021..2047 and 2047..2050 ->
  /// 2021..2050.
  [[nodiscard]] QueryRange question_and_answer() const { return {question.first, answer.last}; }
};

/// One layer as recorded, before RoPE.
struct RecordedLayer {
  std::vector<kv::RowMatrix> k_pre;       ///< per KV head [position, head_dim]
  std::vector<kv::RowMatrix> v;           ///< per KV head [position, head_dim]
  std::vector<kv::RowMatrix> q_pre;       ///< per KV head [group * query, head_dim], row g * num_queries + i
  std::vector<std::int64_t> q_positions;  ///< [query] ascending
};

/// Where layers come from. Each call makes one layer; nothing is kept.
class LayerSource {
 public:
  virtual ~LayerSource() = default;
  [[nodiscard]] virtual RecordedLayer load(std::int64_t layer_index) const = 0;
  [[nodiscard]] virtual std::vector<std::int64_t> query_positions(std::int64_t layer_index) const = 0;
  /// W_o [hidden, query_head * head_dim]; empty when it was not recorded.
  [[nodiscard]] virtual kv::RowMatrix output_projection(std::int64_t layer_index) const = 0;
};

/// Cheap to copy; safe to load from several threads at once (files are read one thread at a time).
class Trace {
 public:
  /// Opens and validates a file: our own layout, or the recorded research layout with an optional companion file that
  /// holds the queries at all positions and W_o. Reads no tensor. @throws InputError naming the file and the dataset at
  /// fault
  [[nodiscard]] static Trace open(const std::string& path, const std::string& companion_path = "");

  Trace(TraceInfo info, std::vector<std::int64_t> token_ids, std::vector<std::string> token_strings,
        std::vector<Probe> probes, std::shared_ptr<const LayerSource> source);

  [[nodiscard]] const TraceInfo& info() const { return info_; }
  [[nodiscard]] std::int64_t num_layers() const { return info_.num_layers(); }
  [[nodiscard]] const std::vector<std::int64_t>& token_ids() const { return token_ids_; }         ///< [token], or empty
  [[nodiscard]] const std::vector<std::string>& token_strings() const { return token_strings_; }  ///< [token], or empty
  [[nodiscard]] const std::vector<Probe>& probes() const { return probes_; }

  /// @param layer_index  0..num_layers()-1, an index into info().layers
  /// @throws InputError when the data are damaged or not finite
  [[nodiscard]] kv::LayerTensors load_layer(std::int64_t layer_index) const;
  [[nodiscard]] RecordedLayer load_recorded_layer(std::int64_t layer_index) const;
  /// Positions of the recorded queries of a layer, ascending.
  [[nodiscard]] std::vector<std::int64_t> query_positions(std::int64_t layer_index) const;
  /// W_o [hidden, query_head * head_dim]; empty when it was not recorded.
  [[nodiscard]] kv::RowMatrix output_projection(std::int64_t layer_index) const;

 private:
  TraceInfo info_;
  std::vector<std::int64_t> token_ids_;
  std::vector<std::string> token_strings_;
  std::vector<Probe> probes_;
  std::shared_ptr<const LayerSource> source_;
};

/// Header of a file, validated; no tensor is read. @throws InputError
[[nodiscard]] TraceInfo trace_info(const std::string& path);

/// Everything wrong with a file, the values of the tensors included; empty when it is sound. Each line names the
/// dataset. A file that cannot be opened at all gives one finding.
[[nodiscard]] std::vector<std::string> check_trace(const std::string& path, const std::string& companion_path = "");

}  // namespace kvtide::attention
