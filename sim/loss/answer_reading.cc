#include "loss/answer_reading.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "loss/head_comparison.h"

namespace kvtide::loss {
namespace {

constexpr double kSmallestOutput = 1e-12;  // below it an output has no direction to lose

double strength(const HeadReference& reference, std::int64_t row, std::int64_t position) {
  return std::pow(reference.weights(row, position), kReadingPower);
}

}  // namespace

AnswerReading::AnswerReading(AnswerPlaces places, std::int64_t first_compressed_query)
    : places_(std::move(places)),
      first_compressed_query_(first_compressed_query),
      own_(places_.sources.size()),
      question_(places_.sources.size() + 1) {
  KVTIDE_ASSERT(!places_.sources.empty(), "an answer has a token");
}

std::size_t AnswerReading::token_of(std::int64_t position) const {
  const std::int64_t token = position - places_.first_query;
  if (token < 0) return places_.sources.size();
  KVTIDE_ASSERT(token < static_cast<std::int64_t>(places_.sources.size()), "no query behind the answer's last one");
  return static_cast<std::size_t>(token);
}

void AnswerReading::add_evicted(const HeadReference& reference, const kv::PositionRuns& evicted) {
  std::vector<bool> is_lost;  // [position of the fact]
  for (std::int64_t j = places_.fact.begin; j < places_.fact.end; ++j) is_lost.push_back(kv::contains(evicted, j));
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const std::int64_t query = reference.row_positions[static_cast<std::size_t>(row)];
    const bool sees_compressed = query >= first_compressed_query_;
    const std::size_t token = token_of(query);
    const bool is_own = token < own_.size();
    Share& question = question_[is_own ? token + 1 : 0];
    for (std::int64_t j = places_.fact.begin; j < places_.fact.end; ++j) {
      const double read = strength(reference, row, j);
      question.read += read;
      if (sees_compressed && is_lost[static_cast<std::size_t>(j - places_.fact.begin)]) question.lost += read;
    }
    if (!is_own) continue;
    const double read = strength(reference, row, places_.sources[token]);
    own_[token].read += read;
    if (sees_compressed && kv::contains(evicted, places_.sources[token])) own_[token].lost += read;
  }
}

void AnswerReading::add_cache(const HeadReference& reference, const kv::HeadCache& cache) {
  const HeadComparison comparison = compare_head(reference, cache, /*with_outputs=*/true);
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const std::size_t token = token_of(reference.row_positions[static_cast<std::size_t>(row)]);
    KVTIDE_ASSERT(token < own_.size(), "the answer's queries alone");
    const double read = strength(reference, row, places_.sources[token]);
    own_[token].read += read;
    if (comparison.identical()) continue;
    const double error = (reference.outputs.row(row) - comparison.outputs.row(row)).norm() /
                         std::max(reference.outputs.row(row).norm(), kSmallestOutput);
    own_[token].lost += read * std::min(error, 1.0);
  }
}

std::vector<double> AnswerReading::lost_share() const {
  std::vector<double> share;
  Share asked = question_.front();
  for (std::size_t token = 0; token < own_.size(); ++token) {
    asked.lost += question_[token + 1].lost;
    asked.read += question_[token + 1].read;
    share.push_back(1 - (1 - own_[token].value()) * (1 - asked.value()));
  }
  return share;
}

}  // namespace kvtide::loss
