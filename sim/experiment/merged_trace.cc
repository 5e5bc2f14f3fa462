#include "experiment/merged_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kv/merged_layers.h"

namespace kvtide::experiment {

std::string unmeasurable_reason(const kv::LayerSharing& sharing, const attention::TraceInfo& trace) {
  if (sharing == kv::LayerSharing{}) return {};
  if (!sharing.merges) {
    return "share_layers: loss is not measurable on this trace: models that share layers are trained so, and the "
           "recorded one is not";
  }
  const std::vector<std::int64_t> owners = sharing.owners(trace.num_model_layers);
  bool merges_any = false;
  for (const std::int64_t layer : trace.layers) {
    if (!kv::is_shared(owners, layer)) continue;
    std::vector<std::int64_t> absent;
    for (std::int64_t other = 0; other < trace.num_model_layers; ++other) {
      if (owners[static_cast<std::size_t>(other)] != owners[static_cast<std::size_t>(layer)]) continue;
      if (std::ranges::find(trace.layers, other) == trace.layers.end()) absent.push_back(other);
    }
    if (!absent.empty()) {
      return fmt::format(
          "share_layers: the loss of merging is not measurable on this trace: its layer {} is merged with {}, which {} "
          "not recorded",
          layer, fmt::join(absent, ", "), absent.size() == 1 ? "is" : "are");
    }
    merges_any = true;
  }
  if (merges_any) return {};
  return "share_layers: the loss of merging is not measurable on this trace: none of its layers is merged";
}

std::vector<kv::LayerTensors> merged_trace(const kv::LayerSharing& sharing, const TraceInputs& trace) {
  if (!sharing.merges) return {};
  const std::vector<std::int64_t>& recorded = trace.info().layers;
  const std::vector<std::int64_t> owners = sharing.owners(trace.info().num_model_layers);
  const auto owner_of = [&](std::size_t index) { return owners[static_cast<std::size_t>(recorded[index])]; };
  std::vector<kv::LayerTensors> tensors(trace.layers());
  for (std::size_t first = 0; first < recorded.size(); ++first) {
    if (!kv::is_shared(owners, recorded[first]) || owner_of(first) != recorded[first]) continue;
    std::vector<const kv::LayerTensors*> group;
    for (std::size_t index = first; index < recorded.size(); ++index) {
      if (owner_of(index) == recorded[first]) group.push_back(&trace.layers()[index]);
    }
    std::ranges::move(kv::merged_layers(group, trace.num_compressed(), sharing.retained),
                      tensors.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return tensors;
}

}  // namespace kvtide::experiment
