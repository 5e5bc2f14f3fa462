#include "serving/profile_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "config/csv_table.h"
#include "serving/captured_batch.h"

namespace kvtide::serving {
namespace {

using config::CsvTable;

constexpr double kLargest = 1e12;
constexpr std::size_t kMostCells = std::size_t{1} << 22;

/// @param first_line  of the rows  @throws InputError naming the file and that line
GridTable table_of(const std::string& path, std::size_t first_line, const std::vector<std::vector<double>>& points,
                   const std::vector<double>& values) {
  try {
    return GridTable(points, values);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}:{}: {}", path, first_line, error.what()));
  }
}

/// Index of the grid interval that holds `value`, and the weight of its upper end.
std::pair<std::size_t, double> locate(const std::vector<double>& axis, double value) {
  if (axis.size() == 1) return {0, 0.0};
  const auto above = std::ranges::upper_bound(axis, value);
  const std::size_t upper = std::clamp<std::size_t>(static_cast<std::size_t>(above - axis.begin()), 1, axis.size() - 1);
  const double low = axis[upper - 1], high = axis[upper];
  return {upper - 1, std::max(0.0, (value - low) / (high - low))};
}

std::map<std::string, GridTable> read_layers(const std::string& path, const char* axis) {
  const CsvTable table = CsvTable::load(path);
  std::map<std::string, std::pair<std::vector<std::vector<double>>, std::vector<double>>> rows;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    auto& [points, values] = rows[table.text(row, "layer")];
    points.push_back({table.number(row, axis, 1, kLargest)});
    values.push_back(table.number(row, "time_us", 0, kLargest));
  }
  std::map<std::string, GridTable> layers;
  for (const auto& [layer, data] : rows) layers.emplace(layer, GridTable(data.first, data.second));
  return layers;
}

}  // namespace

GridTable::GridTable(const std::vector<std::vector<double>>& points, const std::vector<double>& values) {
  if (points.empty()) throw InputError("a table of measured times holds no row of a kind that is needed");
  axes_.resize(points.front().size());
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    std::set<double> seen;
    for (const auto& point : points) seen.insert(point[axis]);
    axes_[axis].assign(seen.begin(), seen.end());
  }
  std::size_t size = 1;
  strides_.resize(axes_.size());
  for (std::size_t axis = axes_.size(); axis-- > 0;) {
    strides_[axis] = size;
    size *= axes_[axis].size();
    if (size > kMostCells) {
      throw InputError(fmt::format(
          "{} measured points span a grid of more than {} cells: expected rows that share their coordinates",
          points.size(), kMostCells));
    }
  }
  values_.assign(size, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t row = 0; row < points.size(); ++row) {
    std::size_t index = 0;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const auto found = std::ranges::lower_bound(axes_[axis], points[row][axis]);
      index = index * axes_[axis].size() + static_cast<std::size_t>(found - axes_[axis].begin());
    }
    values_[index] = values[row];
  }
  fill();
}

/// Mean over the axes on which the cell has a known value on both sides; NaN where there is none.
double GridTable::between_neighbours(const std::vector<std::size_t>& cell) const {
  std::size_t index = 0;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) index += cell[axis] * strides_[axis];
  double sum = 0, count = 0;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    const std::size_t here = cell[axis], stride = strides_[axis];
    std::size_t down = 1, up = 1;
    while (down <= here && std::isnan(values_[index - down * stride])) ++down;
    while (here + up < axes_[axis].size() && std::isnan(values_[index + up * stride])) ++up;
    if (down > here || here + up >= axes_[axis].size()) continue;
    const double low = axes_[axis][here - down], high = axes_[axis][here + up];
    const double weight = (axes_[axis][here] - low) / (high - low);
    sum += (1 - weight) * values_[index - down * stride] + weight * values_[index + up * stride];
    ++count;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

void GridTable::fill() {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    std::vector<double> filled = values_;  // a round sees the values of the round before
    std::vector<std::size_t> cell(axes_.size());
    for (std::size_t index = 0; index < values_.size(); ++index) {
      if (!std::isnan(values_[index])) continue;
      for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
        cell[axis] = index / strides_[axis] % axes_[axis].size();
      }
      filled[index] = between_neighbours(cell);
      has_changed = has_changed || !std::isnan(filled[index]);
    }
    values_ = std::move(filled);
  }
}

double GridTable::at(const std::vector<double>& point) const {
  std::vector<std::pair<std::size_t, double>> places;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) places.push_back(locate(axes_[axis], point[axis]));
  double sum = 0;
  for (unsigned corner = 0; corner < 1U << axes_.size(); ++corner) {
    double weight = 1;
    std::size_t index = 0;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const bool is_upper = (corner >> axis & 1U) != 0;
      weight *= is_upper ? places[axis].second : 1 - places[axis].second;
      index = index * axes_[axis].size() + std::min(places[axis].first + (is_upper ? 1 : 0), axes_[axis].size() - 1);
    }
    if (weight != 0) sum += weight * values_[index];
  }
  return sum;
}

ProfileTables::ProfileTables(const std::string& prefix, std::int64_t num_layers, std::int64_t max_num_seqs,
                             const AllReduceCost& all_reduce)
    : num_layers_(static_cast<double>(num_layers)),
      largest_capture_(largest_captured_batch(max_num_seqs)),
      all_reduce_(all_reduce),
      dense_(read_layers(prefix + ".dense.csv", "tokens")),
      per_sequence_(read_layers(prefix + ".per_sequence.csv", "sequences")) {
  const std::string path = prefix + ".attention.csv";
  const CsvTable table = CsvTable::load(path);
  std::vector<std::vector<double>> points[3];
  std::size_t first_line[3] = {1, 1, 1};
  std::vector<double> times[3];
  double kv_sum = 0, kv_square = 0, time_sum = 0, kv_time = 0, count = 0;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const double chunk = table.number(row, "prefill_chunk", 0, kLargest);
    const double kv_prefill = table.number(row, "kv_prefill", 0, kLargest);
    const double decodes = table.number(row, "n_decode", 0, kLargest);
    const double kv_decode = table.number(row, "kv_decode", 0, kLargest);
    const double time = table.number(row, "time_us", 0, kLargest);
    const int kind = chunk == 0 ? 1 : decodes == 0 ? 0 : 2;
    if (points[kind].empty()) first_line[kind] = row + 2;
    points[kind].push_back(kind == 0   ? std::vector{chunk, kv_prefill}
                           : kind == 1 ? std::vector{decodes, kv_decode}
                                       : std::vector{chunk, kv_prefill, decodes, kv_decode});
    times[kind].push_back(time);
    if (kind == 1 && decodes * kv_decode >= 65536) {  // far from the floor and from L2
      const double kv = decodes * kv_decode;
      kv_sum += kv, kv_square += kv * kv, time_sum += time, kv_time += kv * time, ++count;
    }
  }
  const auto grid = [&](int kind) {
    return std::make_unique<GridTable>(table_of(path, first_line[kind], points[kind], times[kind]));
  };
  prefill_ = grid(0);
  decode_ = grid(1);
  mixed_ = grid(2);
  if (count >= 2) {
    decode_us_per_kv_token_ = (count * kv_time - kv_sum * time_sum) / (count * kv_square - kv_sum * kv_sum);
  }
}

/// Decode attention alone: measured up to some product of decodes and length, and linear in that product beyond.
double ProfileTables::decode_us(double decodes, double kv_decode) const {
  double known_kv = kv_decode;
  double time = decode_->at({decodes, known_kv});
  while (std::isnan(time) && known_kv > 16) {
    known_kv /= 2;
    time = decode_->at({decodes, known_kv});
  }
  return time + decodes * (kv_decode - known_kv) * decode_us_per_kv_token_;
}

/// A chunk with decodes beside it; where that was not measured, each alone.
double ProfileTables::mixed_us(double chunk, double kv_prefill, double decodes, double kv_decode) const {
  double known_kv = kv_decode;
  double time = mixed_->at({chunk, kv_prefill, decodes, known_kv});
  while (std::isnan(time) && known_kv > 16) {
    known_kv /= 2;
    time = mixed_->at({chunk, kv_prefill, decodes, known_kv});
  }
  if (std::isnan(time)) return prefill_->at({chunk, kv_prefill}) + decode_us(decodes, kv_decode);
  return time + decodes * (kv_decode - known_kv) * decode_us_per_kv_token_;
}

double ProfileTables::attention_us(const StepShape& shape) const {
  const auto decodes = static_cast<double>(shape.num_decodes);
  const double kv_decode = decodes > 0 ? static_cast<double>(shape.decode_kv_tokens) / decodes : 0;
  if (shape.prefills.empty()) return decode_us(decodes, kv_decode);
  // One kernel serves the batch: its largest chunk is looked up with the decodes, each further one by what it adds alone.
  const auto largest = std::ranges::max_element(shape.prefills, {}, &PrefillChunk::tokens);
  const auto tokens = static_cast<double>(largest->tokens), before = static_cast<double>(largest->kv_before);
  double time = decodes > 0 ? mixed_us(tokens, before, decodes, kv_decode) : prefill_->at({tokens, before});
  const double floor = prefill_->at({1, 0});
  for (auto chunk = shape.prefills.begin(); chunk != shape.prefills.end(); ++chunk) {
    if (chunk == largest) continue;
    const double alone = prefill_->at({static_cast<double>(chunk->tokens), static_cast<double>(chunk->kv_before)});
    time += std::max(0.0, alone - floor);
  }
  return time;
}

Picoseconds ProfileTables::duration(const StepShape& shape) {
  const std::int64_t num_tokens = shape.num_tokens();
  const auto tokens =
      static_cast<double>(shape.prefills.empty() ? padded_batch(num_tokens, largest_capture_) : num_tokens);
  double layer_us = attention_us(shape);
  double once_us = 0;
  for (const auto& [name, table] : dense_) {
    const double time = table.at({tokens});
    if (name == "embedding" || name == "final_layernorm") {
      once_us += time;
    } else {
      layer_us += name == "layernorm" ? 2 * time : time;  // before attention and before the MLP
    }
  }
  for (const auto& [name, table] : per_sequence_) once_us += table.at({static_cast<double>(shape.num_rows)});
  double step = (num_layers_ * layer_us + once_us) * 1e-6;
  if (all_reduce_.bytes_per_second > 0) {
    step +=
        2 * num_layers_ * (all_reduce_.latency + tokens * all_reduce_.bytes_per_token / all_reduce_.bytes_per_second);
  }
  return from_seconds(step);
}

}  // namespace kvtide::serving
