#include "loss/answer_reading.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "loss/head_comparison.h"

namespace kvtide::loss {
namespace {

constexpr double kSmallestEnergy = 1e-24;  // below it an output has no direction to lose

double power_of(double reading) {
  return std::pow(reading, kReadingPower);
}

/// What the head takes from a position, (a |v|)^2.
double carried_energy(const HeadReference& reference, std::int64_t row, std::int64_t position) {
  return power_of(reference.weights(row, position) * reference.v.row(position).cast<double>().norm());
}

}  // namespace

AnswerReading::AnswerReading(AnswerPlaces places, std::int64_t first_compressed_query)
    : places_(std::move(places)),
      first_compressed_query_(first_compressed_query),
      own_(places_.sources.size()),
      question_(places_.sources.size() + 1),
      missed_(places_.sources.size()),
      of_layer_(places_.sources.size()) {
  KVTIDE_ASSERT(!places_.sources.empty(), "an answer has a token");
}

std::size_t AnswerReading::token_of(std::int64_t position) const {
  const std::int64_t token = position - places_.first_query;
  if (token < 0) return places_.sources.size();
  KVTIDE_ASSERT(token < static_cast<std::int64_t>(places_.sources.size()), "no query behind the answer's last one");
  return static_cast<std::size_t>(token);
}

void AnswerReading::add_evicted(const HeadReference& reference, const kv::PositionRuns& evicted) {
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    add_row(reference, row, [&](std::int64_t position) { return kv::contains(evicted, position) ? 1.0 : 0.0; });
  }
}

void AnswerReading::add_cache(const HeadReference& reference, const kv::HeadCache& cache) {
  const HeadComparison comparison = compare_head(reference, cache, /*with_outputs=*/true);
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    double noise = 0;
    if (!comparison.identical()) {
      noise = (reference.outputs.row(row) - comparison.outputs.row(row)).squaredNorm() /
              std::max(reference.outputs.row(row).squaredNorm(), kSmallestEnergy);
    }
    add_row(reference, row, [lost = std::min(noise, 1.0)](std::int64_t) { return lost; });
  }
}

template <typename LostAt>
void AnswerReading::add_row(const HeadReference& reference, std::int64_t row, const LostAt& lost_at) {
  const std::int64_t query = reference.row_positions[static_cast<std::size_t>(row)];
  const bool sees_compressed = query >= first_compressed_query_;
  const auto lost = [&](std::int64_t position) { return sees_compressed ? lost_at(position) : 0.0; };
  const std::size_t token = token_of(query);
  const bool is_own = token < own_.size();
  Share& question = question_[is_own ? token + 1 : 0];
  for (std::int64_t j = places_.fact.begin; j < places_.fact.end; ++j) {
    const double read = power_of(reference.weights(row, j));
    question.read += read;
    question.lost += read * lost(j);
  }
  if (!is_own) return;
  const std::int64_t source = places_.sources[token];
  const double attention = reference.weights(row, source);
  const double unfound = missed_[token].compressed - missed_[token].full;
  const double sureness = 1 / (1 + (1 - attention) * std::expm1(kMatchLogits * unfound));
  add_copied(token, carried_energy(reference, row, source), 1 - (1 - lost(source)) * sureness);
  if (source == 0) return;
  const double found = power_of(reference.weights(row, source - 1));
  of_layer_[token].full *= 1 - found;
  of_layer_[token].compressed *= 1 - found * (1 - lost(source - 1));
}

void AnswerReading::add_copied(std::size_t token, double carried, double lost) {
  for (Share* share : {&own_[token], &copied_}) {
    share->read += carried;
    share->lost += carried * lost;
  }
}

void AnswerReading::end_layer() {
  lost_by_layer_.push_back(copied_.value());
  energy_by_layer_.push_back(copied_.read);
  copied_ = {};
  for (std::size_t token = 0; token < missed_.size(); ++token) {
    missed_[token].full *= of_layer_[token].full;
    missed_[token].compressed *= of_layer_[token].compressed;
    of_layer_[token] = {};
  }
}

std::vector<double> AnswerReading::carried_by_layer() const {
  const double sum = std::accumulate(energy_by_layer_.begin(), energy_by_layer_.end(), 0.0);
  std::vector<double> share;
  for (const double energy : energy_by_layer_) share.push_back(sum > 0 ? energy / sum : 0);
  return share;
}

std::vector<double> AnswerReading::lost_share() const {
  std::vector<double> share;
  Share asked = question_.front();
  for (std::size_t token = 0; token < own_.size(); ++token) {
    const double kept = std::max(0.0, (1 - own_[token].value()) * (1 - asked.value()));
    share.push_back(1 - std::pow(kept, kReadingGain));
    asked.lost += question_[token + 1].lost;
    asked.read += question_[token + 1].read;
  }
  return share;
}

}  // namespace kvtide::loss
