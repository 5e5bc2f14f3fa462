#include "loss/moved_fact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "loss/bits_lost.h"

namespace kvtide::loss {
namespace {

/// exp(logit - a row's own reference) of one set of queries, by token; tokens are numbered as recorded.
class FactRows {
 public:
  FactRows(const kv::HeadTensors& head, const MovedFact& fact, MeasureQueries queries) : head_(head), fact_(fact) {
    std::vector<std::int64_t> rows;
    for (std::int64_t group = 0; group < head.group_size; ++group) {
      for (std::int64_t query = 0; query < head.num_queries(); ++query) {
        const std::int64_t position = head.q_positions[static_cast<std::size_t>(query)];
        if (position < queries.first || position > queries.last) continue;
        rows.push_back(group * head.num_queries() + query);
        positions_.push_back(position);
      }
    }
    if (rows.empty()) throw InputError("probe: the trace holds no query that scores or reads the fact");
    queries_.resize(static_cast<std::int64_t>(rows.size()), head.head_dim());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      queries_.row(static_cast<std::int64_t>(row)) = head.q_post.row(rows[row]);
    }
    queries_ *= head.attention_scale;

    const std::int64_t tokens = head.num_positions();
    std::vector<std::int64_t> moved(static_cast<std::size_t>(tokens));
    for (std::int64_t token = 0; token < tokens; ++token) {
      moved[static_cast<std::size_t>(token)] = token < fact.begin ? token + fact.length : token - fact.length;
    }
    kv::RowMatrix shifted_keys = head.k_pre;
    head.rope.rotate_rows(shifted_keys.data(), tokens, head.head_dim(), moved);
    DoubleMatrix recorded = (head.k_post * queries_.transpose()).cast<double>();
    DoubleMatrix shifted = (shifted_keys * queries_.transpose()).cast<double>();
    reference_ = recorded.colwise().maxCoeff();
    sum(recorded, recorded_sums_, [](std::int64_t token) { return token; });
    sum(shifted, shifted_sums_, [&](std::int64_t token) { return moved[static_cast<std::size_t>(token)]; });
  }

  /// The fact begins at `place`: its own weights, and every row's sum.
  void place(std::int64_t place) {
    place_ = place;
    kv::RowMatrix keys = head_.k_pre.middleRows(fact_.begin, fact_.length);
    std::vector<std::int64_t> positions;
    for (std::int64_t token = 0; token < fact_.length; ++token) positions.push_back(place + token);
    head_.rope.rotate_rows(keys.data(), fact_.length, head_.head_dim(), positions);
    fact_weights_ = (keys * queries_.transpose()).cast<double>();
    for (std::int64_t token = 0; token < fact_.length; ++token) {
      for (std::int64_t row = 0; row < num_rows(); ++row) {
        const bool is_seen = place + token <= positions_[static_cast<std::size_t>(row)];
        double& weight = fact_weights_(token, row);
        weight = is_seen ? std::exp(weight - reference_(row)) : 0;
      }
    }
    totals_ = between(0, head_.num_positions());
  }

  /// [row] sum of weights over positions begin..end-1 of the text as it is now.
  [[nodiscard]] Eigen::RowVectorXd between(std::int64_t begin, std::int64_t end) const {
    Eigen::RowVectorXd result = Eigen::RowVectorXd::Zero(num_rows());
    const std::int64_t length = fact_.length;
    const auto add = [&](const DoubleMatrix& sums, std::int64_t first, std::int64_t last, std::int64_t to_token) {
      const std::int64_t from = std::max(begin, first);
      const std::int64_t until = std::min(end, last);
      if (from < until) result += sums.row(until + to_token) - sums.row(from + to_token);
    };
    const std::int64_t tokens = head_.num_positions();
    if (place_ <= fact_.begin) {
      add(recorded_sums_, 0, place_, 0);
      add(shifted_sums_, place_ + length, fact_.begin + length, -length);
      add(recorded_sums_, fact_.begin + length, tokens, 0);
    } else {
      add(recorded_sums_, 0, fact_.begin, 0);
      add(shifted_sums_, fact_.begin, place_, length);
      add(recorded_sums_, place_ + length, tokens, 0);
    }
    for (std::int64_t token = std::max<std::int64_t>(0, begin - place_); token < std::min(length, end - place_);
         ++token) {
      result += fact_weights_.row(token);
    }
    return result;
  }

  [[nodiscard]] std::int64_t num_rows() const { return queries_.rows(); }
  [[nodiscard]] const Eigen::RowVectorXd& totals() const { return totals_; }
  [[nodiscard]] auto fact_weights(std::int64_t token) const { return fact_weights_.row(token); }

 private:
  template <typename PositionOf>
  void sum(DoubleMatrix& logits, DoubleMatrix& sums, PositionOf position_of) const {
    sums.resize(logits.rows() + 1, logits.cols());
    sums.row(0).setZero();
    for (std::int64_t token = 0; token < logits.rows(); ++token) {
      for (std::int64_t row = 0; row < logits.cols(); ++row) {
        const bool is_seen = position_of(token) <= positions_[static_cast<std::size_t>(row)];
        const double weight = is_seen ? std::exp(logits(token, row) - reference_(row)) : 0;
        sums(token + 1, row) = sums(token, row) + weight;
      }
    }
  }

  const kv::HeadTensors& head_;
  const MovedFact& fact_;
  std::vector<std::int64_t> positions_;  ///< [row]
  kv::RowMatrix queries_;                ///< [row, head_dim], scaled
  Eigen::RowVectorXd reference_;         ///< [row]
  DoubleMatrix recorded_sums_;           ///< [token + 1, row] at recorded positions
  DoubleMatrix shifted_sums_;            ///< [token + 1, row] moved by the fact's length towards where it was
  DoubleMatrix fact_weights_;            ///< [token of the fact, row]
  Eigen::RowVectorXd totals_;
  std::int64_t place_ = 0;
};

struct FactHead {
  FactRows scoring;
  FactRows measured;
};

void check(const std::vector<kv::LayerTensors>& layers, const MovedFact& fact) {
  KVTIDE_ASSERT(!layers.empty() && fact.step >= 1 && !fact.cell_begins.empty(), "a trace, a step and cells");
  const std::int64_t end = std::min(fact.num_positions, fact.scoring.first);
  if (fact.begin < 0 || fact.length < 1 || fact.begin + fact.length > end) {
    throw InputError(fmt::format("probe: the fact at {}..{} must lie before the scoring queries ({}..{})", fact.begin,
                                 fact.begin + fact.length - 1, fact.scoring.first, fact.scoring.last));
  }
}

/// What the policy's queries give to each cell with the fact where it stands now, on the cell's first position.
std::vector<double> cell_scores(const FactRows& scoring, const MovedFact& fact) {
  std::vector<double> scores(static_cast<std::size_t>(fact.num_positions), 0.0);
  for (std::size_t cell = 0; cell < fact.cell_begins.size(); ++cell) {
    const std::int64_t begin = fact.cell_begins[cell];
    const std::int64_t end = cell + 1 < fact.cell_begins.size() ? fact.cell_begins[cell + 1] : fact.num_positions;
    scores[static_cast<std::size_t>(begin)] = (scoring.between(begin, end).array() / scoring.totals().array()).sum();
  }
  return scores;
}

/// Attention on the needed tokens with the fact at one place, summed over heads and the rows that read it.
struct Reading {
  std::vector<double> read;  ///< [needed token] with the full cache
  std::vector<double> kept;  ///< [needed token] of it, on tokens that stay
  double kept_mass = 0;
  double bits_lost = 0;  ///< sum over heads, mean over the needed tokens

  explicit Reading(std::size_t num_needed) : read(num_needed, 0.0), kept(num_needed, 0.0) {}

  void add(const FactRows& measured, const kv::PositionRuns& evicted, const MovedFact& fact, std::int64_t place) {
    for (std::size_t token = 0; token < read.size(); ++token) {
      const double attention = (measured.fact_weights(fact.needed[token]).array() / measured.totals().array()).sum();
      read[token] += attention;
      if (kv::contains(evicted, place + fact.needed[token])) {
        bits_lost += kFp16Bits / static_cast<double>(read.size());
      } else {
        kept[token] += attention;
        kept_mass += attention;
      }
    }
  }
  /// Least kept share of the attention on a needed token.
  [[nodiscard]] double success() const {
    double least = 1;
    for (std::size_t token = 0; token < read.size(); ++token) {
      least = std::min(least, read[token] > 0 ? kept[token] / read[token] : 0.0);
    }
    return least;
  }
};

}  // namespace

MovedFactScan scan_moved_fact(const std::vector<kv::LayerTensors>& layers, const MovedFact& fact,
                              const std::function<std::vector<kv::PositionRuns>(const kv::LayerScores&)>& evict) {
  check(layers, fact);
  MovedFactScan scan;
  const std::int64_t end = std::min(fact.num_positions, fact.scoring.first);
  for (std::int64_t place = 0; place + fact.length <= end; place += fact.step) scan.position.push_back(place);
  std::vector<Reading> readings(scan.position.size(), Reading(fact.needed.size()));
  double rows = 0;
  double heads = 0;
  for (const kv::LayerTensors& layer : layers) {
    std::vector<FactHead> of_layer;
    of_layer.reserve(layer.size());
    for (const kv::HeadTensors& head : layer) {
      of_layer.push_back({FactRows(head, fact, fact.scoring), FactRows(head, fact, fact.measured)});
      rows += static_cast<double>(of_layer.back().measured.num_rows());
      heads += 1;
    }
    for (std::size_t index = 0; index < scan.position.size(); ++index) {
      const std::int64_t place = scan.position[index];
      kv::LayerScores scores;
      for (FactHead& head : of_layer) {
        head.scoring.place(place);
        head.measured.place(place);
        scores.push_back(cell_scores(head.scoring, fact));
      }
      const std::vector<kv::PositionRuns> evicted = evict(scores);
      for (std::size_t head = 0; head < of_layer.size(); ++head) {
        readings[index].add(of_layer[head].measured, evicted[head], fact, place);
      }
    }
  }
  for (const Reading& reading : readings) {
    scan.success.push_back(reading.success());
    scan.margin.push_back(reading.success() - 0.5);
    scan.mass.push_back(reading.kept_mass / (rows * static_cast<double>(fact.needed.size())));
    scan.bits.push_back(reading.bits_lost / heads);
  }
  return scan;
}

}  // namespace kvtide::loss
