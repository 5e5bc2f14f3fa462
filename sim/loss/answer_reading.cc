#include "loss/answer_reading.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "loss/head_comparison.h"

namespace kvtide::loss {
namespace {

constexpr double kSmallestOutput = 1e-12;  // below it an output has no direction to lose

}  // namespace

AnswerReading::AnswerReading(std::vector<std::int64_t> positions)
    : positions_(std::move(positions)), lost_(positions_.size(), 0.0), read_(positions_.size(), 0.0) {}

double AnswerReading::strength(const HeadReference& reference, std::int64_t row) const {
  const auto token = static_cast<std::size_t>(row) % positions_.size();
  return std::pow(reference.weights(row, positions_[token]), kReadingPower);
}

void AnswerReading::add_evicted(const HeadReference& reference, const kv::PositionRuns& evicted) {
  KVTIDE_ASSERT(!positions_.empty() && reference.num_rows() % static_cast<std::int64_t>(positions_.size()) == 0,
                "one measured query an answer token");
  std::vector<bool> is_lost;
  is_lost.reserve(positions_.size());
  for (const std::int64_t position : positions_) is_lost.push_back(kv::contains(evicted, position));
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const auto token = static_cast<std::size_t>(row) % positions_.size();
    const double read = strength(reference, row);
    read_[token] += read;
    if (is_lost[token]) lost_[token] += read;
  }
}

void AnswerReading::add_cache(const HeadReference& reference, const kv::HeadCache& cache) {
  KVTIDE_ASSERT(!positions_.empty() && reference.num_rows() % static_cast<std::int64_t>(positions_.size()) == 0,
                "one measured query an answer token");
  const HeadComparison comparison = compare_head(reference, cache, /*with_outputs=*/true);
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const auto token = static_cast<std::size_t>(row) % positions_.size();
    const double read = strength(reference, row);
    read_[token] += read;
    if (comparison.identical()) continue;
    const double error = (reference.outputs.row(row) - comparison.outputs.row(row)).norm() /
                         std::max(reference.outputs.row(row).norm(), kSmallestOutput);
    lost_[token] += read * std::min(error, 1.0);
  }
}

std::vector<double> AnswerReading::lost_share() const {
  std::vector<double> share;
  for (std::size_t token = 0; token < read_.size(); ++token) {
    share.push_back(read_[token] > 0 ? lost_[token] / read_[token] : 0.0);
  }
  return share;
}

}  // namespace kvtide::loss
