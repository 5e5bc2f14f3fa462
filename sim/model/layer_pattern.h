#pragma once
// Which layer of a model does what: the many spellings of a layer list, and the rules of classes that spell none.

#include <cstdint>
#include <vector>

#include "config/yaml_value.h"
#include "model/layer_kind.h"
#include "model/model_class.h"

namespace kvtide {

/// One layer as the file or its class describes it.
struct LayerSpec {
  AttentionKind kind = AttentionKind::full_attention;
  std::int64_t window = 0;          ///< positions; 0: none
  std::int64_t num_kv_heads = 0;    ///< 0: the model's
  std::int64_t compress_ratio = 1;  ///< compressed_attention only
  bool has_index = false;           ///< a sparse-attention indexer with keys of its own
};

struct PatternContext {
  const ModelClass& model_class;
  std::int64_t num_layers = 0;
  std::int64_t num_query_heads = 0;
  std::int64_t num_prediction_layers = 0;  ///< per-layer lists may run on over them
  std::int64_t max_positions = 0;          ///< a window that long is none
};

/// @return one LayerSpec per layer; errors are recorded in the document
[[nodiscard]] std::vector<LayerSpec> read_layer_pattern(const config::Value& text, const PatternContext& context);

}  // namespace kvtide
