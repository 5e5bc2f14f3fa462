#include "loss/head_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "loss/attention_rows.h"
#include "loss/value_sums.h"

namespace kvtide::loss {
namespace {

/// exp() of more would let a sum over a million entries leave float64.
constexpr double kMaxExponent = 650;

bool rows_equal(const kv::RowMatrix& a, std::int64_t row_a, const kv::RowMatrix& b, std::int64_t row_b) {
  const std::size_t bytes = static_cast<std::size_t>(a.cols()) * sizeof(float);
  return std::memcmp(a.data() + row_a * a.cols(), b.data() + row_b * b.cols(), bytes) == 0;
}

/// Its entry has one member and no bias and holds the recorded key.
bool has_own_key(const HeadReference& reference, const kv::EntryTable& table, std::int32_t entry, std::int64_t position,
                 std::int32_t num_members) {
  return num_members == 1 && table.bias[static_cast<std::size_t>(entry)] == 0 &&
         rows_equal(reference.k, position, table.k, entry);
}

/// [entry] positions that it stands for.
std::vector<std::int32_t> members_of_entries(const kv::EntryTable& table) {
  const std::size_t num_entries =
      table.is_recorded ? table.entry_of.size() : static_cast<std::size_t>(table.k.rows());  // a bound on them
  std::vector<std::int32_t> num_members(num_entries, 0);
  for (const std::int32_t entry : table.entry_of) {
    KVTIDE_ASSERT(entry < static_cast<std::int32_t>(num_entries), "entry_of points behind the entry table");
    if (entry >= 0) ++num_members[static_cast<std::size_t>(entry)];
  }
  return num_members;
}

/// Groups the changed positions by their entries.
void list_changed_entries(const HeadReference& reference, const kv::EntryTable& table, HeadComparison& result) {
  const std::vector<std::int32_t> num_members = members_of_entries(table);
  std::vector<std::int32_t> changed_index(num_members.size(), -1);
  for (const std::int32_t position : result.changed_positions) {
    const std::int32_t entry = table.entry_of[static_cast<std::size_t>(position)];
    std::int32_t& index = changed_index[static_cast<std::size_t>(entry)];
    if (index < 0) {
      index = static_cast<std::int32_t>(result.changed.size());
      result.changed.push_back(
          {entry, has_own_key(reference, table, entry, position, num_members[static_cast<std::size_t>(entry)]), {}});
    }
    result.changed[static_cast<std::size_t>(index)].members.push_back(position);
  }
}

/// phat / Z of every changed entry.
void weigh_changed(const HeadReference& reference, const kv::EntryTable& table, HeadComparison& result) {
  const auto num_changed = static_cast<std::int64_t>(result.changed.size());
  kv::RowMatrix keys(num_changed, reference.k.cols());
  for (std::int64_t c = 0; c < num_changed; ++c)
    keys.row(c) = table.k.row(result.changed[static_cast<std::size_t>(c)].entry);
  const std::int64_t num_rows = reference.num_rows();
  const DoubleMatrix queries = reference.q.cast<double>() * reference.scale;
  result.entry_weights.resize(num_rows, num_changed);
  key_products(queries.data(), num_rows, keys.data(), num_changed, keys.cols(), result.entry_weights.data());
  for (std::int64_t row = 0; row < num_rows; ++row) {
    double* weights = result.entry_weights.row(row).data();
    for (std::int64_t c = 0; c < num_changed; ++c) {
      const ChangedEntry& entry = result.changed[static_cast<std::size_t>(c)];
      weights[c] += static_cast<double>(table.bias[static_cast<std::size_t>(entry.entry)]) - reference.log_sum_exp(row);
    }
    exponentials(weights, num_changed, kMaxExponent);
    const std::int64_t query = reference.row_positions[static_cast<std::size_t>(row)];
    for (std::int64_t c = 0; c < num_changed; ++c) {
      const ChangedEntry& entry = result.changed[static_cast<std::size_t>(c)];
      if (!is_formed(entry, query)) {
        weights[c] = 0;
      } else if (entry.same_key) {
        weights[c] = reference.weights(row, entry.members.front());
      }
    }
  }
}

/// Adds the members of pools that do not exist yet for a row, as the full cache holds them.
void add_unformed(const HeadReference& reference, bool with_outputs, HeadComparison& result) {
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const std::int64_t query = reference.row_positions[static_cast<std::size_t>(row)];
    for (const ChangedEntry& entry : result.changed) {
      if (is_formed(entry, query)) continue;
      for (const std::int32_t j : entry.members) {
        const double weight = reference.weights(row, j);
        result.mass_ratio(row) += weight;
        if (with_outputs && weight > 0) result.outputs.row(row) += weight * reference.v.row(j).cast<double>();
      }
    }
  }
}

}  // namespace

TouchedPositions touched_positions(const HeadReference& reference, const kv::EntryTable& table) {
  const auto positions = static_cast<std::size_t>(reference.num_positions());
  KVTIDE_ASSERT(table.entry_of.size() == positions,
                fmt::format("cache of {} positions against a reference of {}", table.entry_of.size(), positions));
  KVTIDE_ASSERT(table.is_recorded ||
                    (table.k.cols() == reference.k.cols() && table.v.cols() == reference.v.cols() &&
                     table.v.rows() == table.k.rows() && table.bias.size() == static_cast<std::size_t>(table.k.rows())),
                "entry table shapes disagree");
  const std::vector<std::int32_t> num_members = members_of_entries(table);
  TouchedPositions touched;
  touched.state.assign(positions, PositionState::untouched);
  for (std::size_t position = 0; position < positions; ++position) {
    const std::int32_t entry = table.entry_of[position];
    const auto j = static_cast<std::int64_t>(position);
    if (entry < 0) {
      touched.state[position] = PositionState::evicted;
      touched.evicted.push_back(static_cast<std::int32_t>(j));
      continue;
    }
    if (table.is_recorded) continue;
    const std::int32_t members = num_members[static_cast<std::size_t>(entry)];
    if (has_own_key(reference, table, entry, j, members) && rows_equal(reference.v, j, table.v, entry)) continue;
    touched.state[position] = PositionState::changed;
    touched.changed_positions.push_back(static_cast<std::int32_t>(j));
    touched.has_pools = touched.has_pools || members > 1;
  }
  return touched;
}

HeadComparison compare_head(const HeadReference& reference, const kv::HeadCache& cache, bool with_outputs) {
  KVTIDE_ASSERT(cache.entries.has_value(), "a cache without entries cannot be measured");
  const kv::EntryTable& table = *cache.entries;
  HeadComparison result;
  static_cast<TouchedPositions&>(result) = touched_positions(reference, table);
  list_changed_entries(reference, table, result);
  const auto first = std::ranges::find_if(result.state, [](PositionState s) { return s != PositionState::untouched; });
  result.first_touched = std::distance(result.state.begin(), first);
  const std::int64_t rows = reference.num_rows();
  result.mass_ratio = Eigen::VectorXd::Ones(rows);
  if (result.identical()) {
    if (with_outputs) result.outputs = reference.outputs;
    return result;
  }
  weigh_changed(reference, table, result);

  std::vector<std::int64_t> kept;
  for (std::size_t j = 0; j < result.state.size(); ++j) {
    if (result.state[j] == PositionState::untouched) kept.push_back(static_cast<std::int64_t>(j));
  }
  const auto num_kept = static_cast<std::int64_t>(kept.size());
  DoubleMatrix weights(rows, num_kept);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t u = 0; u < num_kept; ++u)
      weights(row, u) = reference.weights(row, kept[static_cast<std::size_t>(u)]);
  }
  result.mass_ratio = weights.rowwise().sum();
  result.mass_ratio += result.entry_weights.rowwise().sum();
  if (with_outputs) {
    kv::RowMatrix values(num_kept, reference.v.cols());
    for (std::int64_t u = 0; u < num_kept; ++u) values.row(u) = reference.v.row(kept[static_cast<std::size_t>(u)]);
    const auto num_changed = static_cast<std::int64_t>(result.changed.size());
    kv::RowMatrix changed_values(num_changed, reference.v.cols());
    for (std::int64_t c = 0; c < num_changed; ++c) {
      changed_values.row(c) = table.v.row(result.changed[static_cast<std::size_t>(c)].entry);
    }
    result.outputs = DoubleMatrix::Zero(rows, reference.v.cols());
    add_value_sums(weights, values, 0, num_kept, 1.0, result.outputs);
    add_value_sums(result.entry_weights, changed_values, 0, num_changed, 1.0, result.outputs);
  }
  add_unformed(reference, with_outputs, result);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (reference.row_positions[static_cast<std::size_t>(row)] < result.first_touched) {
      result.mass_ratio(row) = 1;
      if (with_outputs) result.outputs.row(row) = reference.outputs.row(row);
      continue;
    }
    KVTIDE_ASSERT(std::isfinite(result.mass_ratio(row)), "compressed keys give scores that are not finite");
    if (with_outputs && result.mass_ratio(row) > 0) result.outputs.row(row) /= result.mass_ratio(row);
  }
  return result;
}

}  // namespace kvtide::loss
