#include "loss/bits_lost.h"

#include <algorithm>
#include <cmath>

namespace kvtide::loss {
namespace {

/// 1 / variance of each channel over positions; 0 for a constant channel.
Eigen::ArrayXd inverse_variance(const kv::RowMatrix& rows) {
  Eigen::ArrayXd inverse(rows.cols());
  for (std::int64_t channel = 0; channel < rows.cols(); ++channel) {
    const Eigen::ArrayXd column = rows.col(channel).cast<double>();
    const double variance = (column - column.mean()).square().mean();
    inverse(channel) = variance > 0 ? 1.0 / variance : 0.0;
  }
  return inverse;
}

double distortion(const kv::RowMatrix& truth, std::int64_t position, const kv::RowMatrix& stored, std::int64_t entry,
                  const Eigen::ArrayXd& inverse) {
  const auto varying = static_cast<double>((inverse > 0).count());
  if (varying == 0) return 0;
  const Eigen::ArrayXd error =
      (truth.row(position).cast<double>() - stored.row(entry).cast<double>()).transpose().array();
  return (error.square() * inverse).sum() / varying;
}

}  // namespace

double bits_lost_at_distortion(double distortion) {
  static const double kReferenceError = std::exp2(-2 * kFp16Bits);
  if (!(distortion > kReferenceError)) return 0;
  return 0.5 * std::log2(std::min(distortion, 1.0) / kReferenceError);
}

std::vector<double> bits_lost(const HeadReference& reference, const HeadComparison& comparison,
                              const kv::EntryTable& table) {
  std::vector<double> bits(comparison.state.size(), 0.0);
  for (const std::int32_t j : comparison.evicted) bits[static_cast<std::size_t>(j)] = kFp16Bits;
  if (comparison.changed.empty()) return bits;
  const Eigen::ArrayXd k_inverse = inverse_variance(reference.k);
  const Eigen::ArrayXd v_inverse = inverse_variance(reference.v);
  for (const ChangedEntry& entry : comparison.changed) {
    for (const std::int32_t j : entry.members) {
      const double k_bits = bits_lost_at_distortion(distortion(reference.k, j, table.k, entry.entry, k_inverse));
      const double v_bits = bits_lost_at_distortion(distortion(reference.v, j, table.v, entry.entry, v_inverse));
      bits[static_cast<std::size_t>(j)] = 0.5 * (k_bits + v_bits);
    }
  }
  return bits;
}

}  // namespace kvtide::loss
