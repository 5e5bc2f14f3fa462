#include "experiment/validation/merged_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "hdf5/child_trial.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

void compare(const std::string& path, const std::string& method, std::int64_t layer, double removed,
             const std::vector<std::vector<std::uint8_t>>& kept, const kv::LayerTensors& tensors,
             const kv::MergeRule& rule, KeptRow& row) {
  const hdf5::InputFile file(path);
  const std::string place = fmt::format("layer{}_ratio{}", layer, removed);
  const std::string kept_name = fmt::format("/{}/kept_{}", method, place);
  const std::size_t num_tokens = kept.front().size();
  if (file.exists(kept_name)) {
    const std::vector<std::int64_t> theirs = file.read_integers(kept_name);
    if (theirs.size() != kept.size() * num_tokens) {
      throw InputError(fmt::format("{}: {}: expected [{}, {}]", path, kept_name, kept.size(), num_tokens));
    }
    for (std::size_t index = 0; index < theirs.size(); ++index) {
      if (theirs[index] != kept[index / num_tokens][index % num_tokens]) ++row.num_differing;
    }
    row.agreement = 1 - static_cast<double>(row.num_differing) / static_cast<double>(theirs.size());
  }
  for (std::size_t head = 0; head < kept.size(); ++head) {
    const std::string positions_name = fmt::format("/{}/positions_{}_head{}", method, place, head);
    const std::string values_name = fmt::format("/{}/values_{}_head{}", method, place, head);
    if (!file.exists(positions_name) || !file.exists(values_name)) continue;
    const std::vector<std::int64_t> positions = file.read_integers(positions_name);
    const std::vector<float> values = file.read_floats(values_name);
    const std::int64_t head_dim = tensors[head].head_dim();
    if (values.size() != positions.size() * static_cast<std::size_t>(head_dim)) {
      throw InputError(fmt::format("{}: {}: expected [{}, {}]", path, values_name, positions.size(), head_dim));
    }
    std::vector<std::int64_t> ours;
    for (std::size_t position = 0; position < num_tokens; ++position) {
      if (kept[head][position] != 0) ours.push_back(static_cast<std::int64_t>(position));
    }
    const kv::RowMatrix merged = kv::merged_values(tensors[head], static_cast<std::int64_t>(num_tokens), ours, rule);
    float largest = 0;
    float difference = 0;
    for (std::size_t index = 0; index < positions.size(); ++index) {
      const auto found = std::ranges::lower_bound(ours, positions[index]);
      if (found == ours.end() || *found != positions[index]) continue;  // counted as a differing choice
      for (std::int64_t channel = 0; channel < head_dim; ++channel) {
        const float theirs = values[index * static_cast<std::size_t>(head_dim) + static_cast<std::size_t>(channel)];
        largest = std::max(largest, std::abs(theirs));
        difference = std::max(difference, std::abs(theirs - merged(found - ours.begin(), channel)));
      }
    }
    row.value_error = static_cast<double>(difference / largest);
  }
}

}  // namespace

void compare_merged(const std::string& path, const std::string& method, std::int64_t layer, double removed,
                    const std::vector<std::vector<std::uint8_t>>& kept, const kv::LayerTensors& tensors,
                    const kv::MergeRule& rule, KeptRow& row) {
  hdf5::require_trial(path, [&] {
    KeptRow unused = row;
    compare(path, method, layer, removed, kept, tensors, rule, unused);
  });
  compare(path, method, layer, removed, kept, tensors, rule, row);
}

}  // namespace kvtide::experiment
