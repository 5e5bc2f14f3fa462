#include "kv/compression/rest.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "kv/compression/merged_values.h"
#include "kv/compression/neighbour_merge.h"
#include "kv/compression/scorer.h"
#include "kv/compression/working_layer.h"

namespace kvtide::kv {
namespace {

constexpr Bytes kVoteBytes = 2;
constexpr Bytes kHalfBytes = 2;

std::vector<std::int64_t> kept_positions(const RestOfHead& rest) {
  std::vector<std::int64_t> kept;
  for (std::int64_t position = 0; position < rest.num_positions; ++position) {
    if (!contains(rest.evicted, position)) kept.push_back(position);
  }
  return kept;
}

/// The entries' rows written out, as they were recorded.
void write_out(const HeadTensors& tensors, EntryTable& table) {
  const auto num_entries =
      static_cast<std::int64_t>(std::ranges::count_if(table.entry_of, [](std::int32_t entry) { return entry >= 0; }));
  table.is_recorded = false;
  table.k.resize(num_entries, tensors.head_dim());
  table.v.resize(num_entries, tensors.head_dim());
  table.bias.assign(static_cast<std::size_t>(num_entries), 0.0F);
  for (std::size_t position = 0; position < table.entry_of.size(); ++position) {
    if (table.entry_of[position] < 0) continue;
    table.k.row(table.entry_of[position]) = tensors.k_post.row(static_cast<std::int64_t>(position));
    table.v.row(table.entry_of[position]) = tensors.v.row(static_cast<std::int64_t>(position));
  }
}

/// Replaces an entry by the sums of its members over their weight.
void set_entry(EntryTable& table, std::int64_t entry, const Eigen::RowVectorXd& key, const Eigen::RowVectorXd& value,
               double weight) {
  RowMatrix rows(2, key.cols());
  rows.row(0) = (key / weight).cast<float>();
  rows.row(1) = (value / weight).cast<float>();
  round_to_half(rows);
  table.k.row(entry) = rows.row(0);
  table.v.row(entry) = rows.row(1);
}

/// weighted and votes: evicted positions become members of the kept entry most like them. Entry of kept[j] is j.
void average_into_kept(const RestOfHead& rest, const std::vector<std::int64_t>& kept, EntryTable& table) {
  const NearestKept nearest = nearest_kept(*rest.tensors, rest.num_positions, kept);
  const bool by_count = rest.stage.rest == Rest::votes;
  const double own_weight = by_count ? 1.0 : std::numbers::e;
  std::vector<double> weights(kept.size(), own_weight);
  std::vector<std::int64_t> members(kept.size(), 1);
  const auto num_kept = static_cast<std::int64_t>(kept.size());
  Eigen::MatrixXd keys = own_weight * table.k.topRows(num_kept).cast<double>();
  Eigen::MatrixXd values = own_weight * table.v.topRows(num_kept).cast<double>();
  for (std::size_t index = 0; index < nearest.evicted.size(); ++index) {
    if (nearest.likeness[index] < rest.stage.similarity) continue;
    const std::int64_t target = nearest.target[index];
    const double weight = by_count ? 1.0 : std::exp(nearest.likeness[index]);
    keys.row(target) += weight * rest.tensors->k_post.row(nearest.evicted[index]).cast<double>();
    values.row(target) += weight * rest.tensors->v.row(nearest.evicted[index]).cast<double>();
    weights[static_cast<std::size_t>(target)] += weight;
    members[static_cast<std::size_t>(target)] += 1;
    table.entry_of[static_cast<std::size_t>(nearest.evicted[index])] = static_cast<std::int32_t>(target);
  }
  for (std::int64_t entry = 0; entry < num_kept; ++entry) {
    const std::int64_t count = members[static_cast<std::size_t>(entry)];
    if (count == 1) continue;
    set_entry(table, entry, keys.row(entry), values.row(entry), weights[static_cast<std::size_t>(entry)]);
    if (by_count) table.bias[static_cast<std::size_t>(entry)] = std::log(static_cast<float>(count));
  }
}

void merge_neighbours(const RestOfHead& rest, const std::vector<std::int64_t>& kept, EntryTable& table) {
  const HeadTensors& tensors = *rest.tensors;
  const std::vector<NeighbourSet> sets = neighbour_sets(tensors, rest.evicted, kept, rest.stage.similarity);
  for (std::size_t entry = 0; entry < sets.size(); ++entry) {
    const NeighbourSet& members = sets[entry];
    if (members.empty()) continue;
    const std::vector<double> weights = gaussian_weights(tensors.k_post, kept[entry], members);
    Eigen::RowVectorXd key = tensors.k_post.row(kept[entry]).cast<double>();
    Eigen::RowVectorXd value = tensors.v.row(kept[entry]).cast<double>();
    double total = 1;
    for (std::size_t member = 0; member < members.size(); ++member) {
      key += weights[member] * tensors.k_post.row(members[member]).cast<double>();
      value += weights[member] * tensors.v.row(members[member]).cast<double>();
      total += weights[member];
      table.entry_of[static_cast<std::size_t>(members[member])] = static_cast<std::int32_t>(entry);
    }
    set_entry(table, static_cast<std::int64_t>(entry), key, value, total);
    table.bias[entry] = std::log(static_cast<float>(members.size() + 1));
  }
}

void spread_over_following(const RestOfHead& rest, const std::vector<std::int64_t>& kept, EntryTable& table) {
  std::size_t next = 0;  // first kept position behind the evicted one
  RowMatrix values = table.v.topRows(static_cast<std::int64_t>(kept.size()));
  for (const PositionRun& run : rest.evicted) {
    for (std::int64_t position = run.begin; position < run.end; ++position) {
      while (next < kept.size() && kept[next] < position) ++next;
      const std::int64_t count =
          std::min<std::int64_t>(rest.stage.spread, std::ssize(kept) - static_cast<std::int64_t>(next));
      if (count == 0) continue;
      double mean = 0;
      for (std::int64_t index = 0; index < count; ++index) {
        mean += rest.scores[static_cast<std::size_t>(kept[next + static_cast<std::size_t>(index)])];
      }
      mean /= static_cast<double>(count);
      const double own = rest.scores[static_cast<std::size_t>(position)];
      const double chance = mean > 0 ? std::clamp(own / mean, 0.0, 1.0) : 0.0;
      const auto share = static_cast<float>(chance / static_cast<double>(count));
      for (std::int64_t index = 0; index < count; ++index) {
        values.row(static_cast<std::int64_t>(next) + index) += share * rest.tensors->v.row(position);
      }
    }
  }
  round_to_half(values);
  table.v.topRows(values.rows()) = values;
}

void add_compensation(const RestOfHead& rest, EntryTable& table) {
  const std::int64_t count = num_positions_of(rest.evicted);
  Eigen::RowVectorXd key = Eigen::RowVectorXd::Zero(rest.head_dim);
  Eigen::RowVectorXd value = Eigen::RowVectorXd::Zero(rest.head_dim);
  const auto entry = static_cast<std::int32_t>(table.k.rows());
  for (const PositionRun& run : rest.evicted) {
    key += rest.tensors->k_post.middleRows(run.begin, run.end - run.begin).cast<double>().colwise().sum();
    value += rest.tensors->v.middleRows(run.begin, run.end - run.begin).cast<double>().colwise().sum();
    std::fill(table.entry_of.begin() + run.begin, table.entry_of.begin() + run.end, entry);
  }
  RowMatrix rows(2, rest.head_dim);
  rows.row(0) = (key / static_cast<double>(count)).cast<float>();
  rows.row(1) = (value / static_cast<double>(count)).cast<float>();
  round_to_half(rows);
  table.k.conservativeResize(entry + 1, Eigen::NoChange);
  table.v.conservativeResize(entry + 1, Eigen::NoChange);
  table.k.row(entry) = rows.row(0);
  table.v.row(entry) = rows.row(1);
  table.bias.push_back(std::log(static_cast<float>(count)));
}

std::vector<Segment> evicted_segments(const RestOfHead& rest) {
  const StoredForm recorded = recorded_form(rest.head_dim);
  std::vector<Segment> segments;
  for (const PositionRun& run : rest.evicted) {
    segments.push_back({run.begin, run.end, run.end - run.begin, recorded, recorded, 0, 0});
  }
  return segments;
}

}  // namespace

void settle_rest(const RestOfHead& rest, HeadCache& cache) {
  const Rest kind = rest.stage.rest;
  if (kind == Rest::dropped || cache.segments.empty()) return;
  KVTIDE_ASSERT(rest.tensors == nullptr || cache.entries.has_value(), "entries where there are numbers");
  Segment& first = cache.segments.front();
  if (kind == Rest::unread || kind == Rest::host) {
    (kind == Rest::unread ? cache.unread : cache.host) = evicted_segments(rest);
    const std::int64_t vectors = digests_of(rest.stage).vectors_of(rest.num_positions);
    first.k_metadata += static_cast<Bytes>(vectors * rest.head_dim) * kHalfBytes;
    return;
  }
  if (rest.evicted.empty()) return;
  if (kind == Rest::votes || kind == Rest::neighbours) {
    first.k_metadata += kVoteBytes * static_cast<Bytes>(rest.num_positions - num_positions_of(rest.evicted));
  }
  if (kind == Rest::compensated) {
    first.k_metadata += static_cast<Bytes>(rest.head_dim) * kHalfBytes;
    first.v_metadata += static_cast<Bytes>(rest.head_dim) * kHalfBytes;
  }
  if (rest.tensors == nullptr) return;
  EntryTable& table = *cache.entries;
  write_out(*rest.tensors, table);
  const std::vector<std::int64_t> kept = kept_positions(rest);
  if (kept.empty() && kind != Rest::compensated) return;
  if (kind == Rest::values) {
    RowMatrix values = merged_values(*rest.tensors, rest.num_positions, kept, {rest.stage.similarity, 1});
    round_to_half(values);
    table.v.topRows(values.rows()) = values;
  } else if (kind == Rest::weighted || kind == Rest::votes) {
    average_into_kept(rest, kept, table);
  } else if (kind == Rest::neighbours) {
    merge_neighbours(rest, kept, table);
  } else if (kind == Rest::following) {
    spread_over_following(rest, kept, table);
  } else {
    add_compensation(rest, table);
  }
}

}  // namespace kvtide::kv
