#pragma once
// Step times from measured tables of one model on one GPU: `<run>.attention.csv`, `.dense.csv`, `.per_sequence.csv`, times of one
// layer in microseconds on one rank.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serving/step_shape.h"

namespace kvtide::serving {

/// Values on a rectangular grid of up to four axes; between grid points linear in each axis. Where the measured points are the
/// union of several grids, the missing ones are filled: linear between the nearest known neighbours on each axis that has both,
/// averaged, in rounds until nothing changes.
class GridTable {
 public:
  /// @param points  [row][axis]  @param values  [row]
  /// @throws InputError  no point, or a grid of more than 2^22 cells: points that share few coordinates span one far larger than they are
  GridTable(const std::vector<std::vector<double>>& points, const std::vector<double>& values);
  /// Beyond the last grid point of an axis the last two are continued. @return NaN where a needed corner is missing
  [[nodiscard]] double at(const std::vector<double>& point) const;

 private:
  [[nodiscard]] double between_neighbours(const std::vector<std::size_t>& cell) const;
  void fill();

  std::vector<std::vector<double>> axes_;  // [axis] sorted values
  std::vector<std::size_t> strides_;       // [axis]
  std::vector<double> values_;             // row-major, NaN where missing
};

/// Between ranks of a tensor-parallel group, twice a layer.
struct AllReduceCost {
  double latency = 0;           ///< s
  double bytes_per_second = 0;  ///< 0: no all-reduce
  double bytes_per_token = 0;   ///< hidden size x bytes of an activation
};

class ProfileTables : public StepTime {
 public:
  /// @param prefix  path up to ".attention.csv"
  /// @param max_num_seqs  bounds the captured batch sizes: decode-only steps are padded to 1, 2, 4, 8, 16, ..., 256, 272, ..., at
  ///                      most min(2 * max_num_seqs, 512)
  /// @throws InputError
  ProfileTables(const std::string& prefix, std::int64_t num_layers, std::int64_t max_num_seqs,
                const AllReduceCost& all_reduce);

  [[nodiscard]] Picoseconds duration(const StepShape& shape) override;

 private:
  [[nodiscard]] double attention_us(const StepShape& shape) const;
  [[nodiscard]] double mixed_us(double chunk, double kv_prefill, double decodes, double kv_decode) const;
  [[nodiscard]] double decode_us(double decodes, double kv_decode) const;

  double num_layers_;
  std::int64_t largest_capture_;
  AllReduceCost all_reduce_;
  std::unique_ptr<GridTable> prefill_, decode_, mixed_;
  std::map<std::string, GridTable> dense_;         // over tokens
  std::map<std::string, GridTable> per_sequence_;  // over rows
  double decode_us_per_kv_token_ = 0;
};

}  // namespace kvtide::serving
