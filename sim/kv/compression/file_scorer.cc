#include "kv/compression/file_scorer.h"

#include "base/error.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& /*layer*/, const ScorerContext& context) {
  KVTIDE_ASSERT(context.given != nullptr, "whoever scores with a file has read it");
  return *context.given;
}

}  // namespace

ScorerEntry file_scorer() {
  return {"file", "kept positions or scores of any program, read from `kept`",     "",
          {},     {.keys = false, .keep_ratio = true, .flops_per_key_element = 0}, &scores};
}

}  // namespace kvtide::kv
