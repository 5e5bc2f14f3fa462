#include "loss/planted_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "loss/bits_lost.h"

namespace kvtide::loss {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Rows that ask in one head.
struct AskingHead {
  const HeadReference* reference = nullptr;
  DoubleMatrix mass_sums;     ///< [position + 1, row] attention below
  DoubleMatrix code_scores;   ///< [row, code] what the head's own output says of each code
  DoubleMatrix code_overlap;  ///< [code, code]
  std::vector<double> seen;   ///< [row] keys that the row sees
};

/// Rows that feed the scores of one head.
struct ScoringHead {
  const HeadReference* reference = nullptr;
  DoubleMatrix cell_mass;  ///< [cell, row]
};

DoubleMatrix draw_codes(std::int64_t num_codes, std::int64_t head_dim, RandomStream random) {
  DoubleMatrix codes(num_codes, head_dim);
  for (std::int64_t index = 0; index < codes.size(); ++index) codes.data()[index] = random.normal();
  codes.rowwise().normalize();
  return codes;
}

AskingHead make_asking(const HeadReference& reference, const ProbeSpec& spec, RandomStream random) {
  AskingHead head;
  head.reference = &reference;
  head.mass_sums = DoubleMatrix::Zero(reference.num_positions() + 1, reference.num_rows());
  for (std::int64_t j = 0; j < reference.num_positions(); ++j) {
    head.mass_sums.row(j + 1) = head.mass_sums.row(j) + reference.weights.col(j).transpose();
  }
  const DoubleMatrix codes = draw_codes(spec.codes, reference.v.cols(), random);
  const double norm = std::max(
      1e-12, static_cast<double>(reference.v.norm()) / std::sqrt(static_cast<double>(reference.num_positions())));
  head.code_scores = reference.outputs * codes.transpose() / norm;
  head.code_overlap = codes * codes.transpose();
  for (const std::int64_t row : reference.row_positions) {
    head.seen.push_back(static_cast<double>(std::min(row + 1, reference.num_positions())));
  }
  return head;
}

ScoringHead make_scoring(const HeadReference& reference, const std::vector<std::int64_t>& cells, std::int64_t end) {
  ScoringHead head;
  head.reference = &reference;
  head.cell_mass.resize(static_cast<std::int64_t>(cells.size()), reference.num_rows());
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    const std::int64_t next = cell + 1 < cells.size() ? cells[cell + 1] : end;
    head.cell_mass.row(static_cast<std::int64_t>(cell)) =
        reference.weights.middleCols(cells[cell], next - cells[cell]).rowwise().sum().transpose();
  }
  return head;
}

class ProbeScanner {
 public:
  ProbeScanner(const ProbeSpec& spec, const ProbeInputs& inputs) : spec_(spec), inputs_(inputs) {
    for (std::size_t layer = 0; layer < inputs.measured->layers().size(); ++layer) {
      auto& asking = asking_.emplace_back();
      auto& scoring = scoring_.emplace_back();
      const auto& heads = inputs.measured->layers()[layer];
      for (std::size_t head = 0; head < heads.size(); ++head) {
        asking.push_back(
            make_asking(heads[head], spec, RandomStream(inputs.seed, fmt::format("probe_codes/{}/{}", layer, head))));
        if (inputs.scoring == nullptr) continue;
        scoring.push_back(
            make_scoring(inputs.scoring->layers()[layer][head], inputs.cell_begins, inputs.num_positions));
      }
    }
    choose_readers();
    if (inputs.scoring == nullptr) {
      for (std::size_t layer = 0; layer < asking_.size(); ++layer) {
        unchanged_.push_back(inputs.evict(static_cast<std::int64_t>(layer), inputs.fixed_scores[layer]));
      }
    }
  }

  ProbeScan scan() {
    ProbeScan result;
    const std::int64_t length = (num_facts(spec_.kind) - 1) * spec_.spacing + spec_.span;
    for (std::int64_t first = 0; first + length <= inputs_.num_positions; first += spec_.step) {
      place(first);
      measure(first, result);
    }
    return result;
  }

 private:
  /// The `readers` heads that read most; on a tie the earlier.
  void choose_readers() {
    std::vector<std::pair<std::size_t, std::size_t>> heads;
    for (std::size_t layer = 0; layer < asking_.size(); ++layer) {
      is_reader_.emplace_back(asking_[layer].size(), spec_.readers == 0 ? 1 : 0);
      for (std::size_t head = 0; head < asking_[layer].size(); ++head) heads.emplace_back(layer, head);
    }
    if (!inputs_.reading.empty()) {
      std::ranges::stable_sort(heads, std::ranges::greater{},
                               [&](const auto& head) { return inputs_.reading[head.first][head.second]; });
    }
    for (std::size_t index = 0; index < std::min(heads.size(), static_cast<std::size_t>(spec_.readers)); ++index) {
      is_reader_[heads[index].first][heads[index].second] = 1;
    }
  }

  void place(std::int64_t first) {
    places_.clear();
    for (std::int64_t fact = 0; fact < num_facts(spec_.kind); ++fact) {
      for (std::int64_t token = 0; token < spec_.span; ++token) {
        places_.push_back(first + fact * spec_.spacing + token);
      }
    }
    evicted_.clear();
    for (std::size_t layer = 0; layer < asking_.size(); ++layer) {
      evicted_.push_back(inputs_.scoring == nullptr
                             ? unchanged_[layer]
                             : inputs_.evict(static_cast<std::int64_t>(layer), scores_with_probe(layer)));
    }
  }

  /// Each cell's score at its first position: a policy only sums over whole cells.
  kv::LayerScores scores_with_probe(std::size_t layer) const {
    kv::LayerScores scores;
    for (const ScoringHead& head : scoring_[layer]) {
      const HeadReference& reference = *head.reference;
      const std::int64_t rows = reference.num_rows();
      const auto queries = static_cast<std::int64_t>(inputs_.scoring_margin.size());
      Eigen::VectorXd scale(rows);
      Eigen::VectorXd token(rows);
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t last_seen = reference.row_positions[static_cast<std::size_t>(row)];
        const double strength = std::exp(inputs_.scoring_margin[static_cast<std::size_t>(row % queries)]) /
                                static_cast<double>(std::min(last_seen + 1, reference.num_positions()));
        double sum = 1;
        for (const std::int64_t place : places_) {
          if (place <= last_seen) sum += strength - reference.weights(row, place);
        }
        scale(row) = 1 / sum;
        token(row) = strength / sum;
      }
      const Eigen::VectorXd cells = head.cell_mass * scale;
      auto& of_head = scores.emplace_back(static_cast<std::size_t>(inputs_.num_positions), 0.0);
      for (std::size_t cell = 0; cell < inputs_.cell_begins.size(); ++cell) {
        of_head[static_cast<std::size_t>(inputs_.cell_begins[cell])] = cells(static_cast<std::int64_t>(cell));
      }
      for (const std::int64_t place : places_) {
        const auto cell = std::ranges::upper_bound(inputs_.cell_begins, place) - inputs_.cell_begins.begin() - 1;
        double change = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          if (place > reference.row_positions[static_cast<std::size_t>(row)]) continue;
          change += token(row) - reference.weights(row, place) * scale(row);
        }
        of_head[static_cast<std::size_t>(inputs_.cell_begins[static_cast<std::size_t>(cell)])] += change;
      }
    }
    return scores;
  }

  struct Reading {
    double gamma = 0;
    double full_gamma = 0;
    double control_gamma = 0;
    double mass = 0;
    double lost_share = 0;  ///< of heads
  };

  /// Background mass that each row lost.
  Eigen::RowVectorXd lost_mass(const AskingHead& head, const kv::PositionRuns& runs) const {
    Eigen::RowVectorXd lost = Eigen::RowVectorXd::Zero(head.mass_sums.cols());
    for (const kv::PositionRun& run : runs) lost += head.mass_sums.row(run.end) - head.mass_sums.row(run.begin);
    for (const std::int64_t place : places_) {
      if (kv::contains(runs, place)) lost -= head.reference->weights.col(place).transpose();
    }
    return lost;
  }

  void measure(std::int64_t first, ProbeScan& result) {
    std::vector<std::vector<Eigen::RowVectorXd>> lost(asking_.size());
    for (std::size_t layer = 0; layer < asking_.size(); ++layer) {
      for (std::size_t head = 0; head < asking_[layer].size(); ++head) {
        lost[layer].push_back(lost_mass(asking_[layer][head], evicted_[layer][head]));
      }
    }
    std::vector<Reading> readings;
    for (std::size_t index = 0; index < places_.size(); ++index) {
      // Where any token will do, all tokens of a fact carry one answer: else some would be right by chance.
      const std::size_t answer = any_token() ? index - index % static_cast<std::size_t>(spec_.span) : index;
      readings.push_back(read(places_[index], places_[answer], lost));
    }

    double mass = 0;
    double bits = 0;
    double control = 0;
    for (const Reading& reading : readings) {
      const double share = 1.0 / static_cast<double>(readings.size());
      mass += share * reading.mass;
      bits += share * reading.lost_share * kFp16Bits;
      control += share * (reading.control_gamma > 0 ? 1 : 0);
    }
    const auto [success, margin] = judge(readings, &Reading::gamma);
    const auto [full_success, full_margin] = judge(readings, &Reading::full_gamma);
    result.position.push_back(first);
    result.success.push_back(success);
    result.margin.push_back(margin);
    result.mass.push_back(mass);
    result.bits.push_back(bits);
    result.full_success.push_back(full_success);
    result.control_success.push_back(control);
  }

  [[nodiscard]] bool any_token() const {
    return spec_.kind == ProbeKind::keyword || spec_.kind == ProbeKind::coreference;
  }

  /// @param answer  the position that draws the token's code
  Reading read(std::int64_t place, std::int64_t answer,
               const std::vector<std::vector<Eigen::RowVectorXd>>& lost) const {
    Reading reading;
    Eigen::ArrayXd score = Eigen::ArrayXd::Zero(spec_.codes);
    Eigen::ArrayXd full = Eigen::ArrayXd::Zero(spec_.codes);
    Eigen::ArrayXd control = Eigen::ArrayXd::Zero(spec_.codes);
    // The token's own answer, the same in every head.
    const auto code =
        static_cast<std::int64_t>(mix64(inputs_.seed ^ static_cast<std::uint64_t>(answer) * 0x9E3779B97F4A7C15ULL) %
                                  static_cast<std::uint64_t>(spec_.codes));
    double rows = 0;
    double heads = 0;
    for (std::size_t layer = 0; layer < asking_.size(); ++layer) {
      for (std::size_t index = 0; index < asking_[layer].size(); ++index) {
        if (is_reader_[layer][index] == 0) continue;
        const AskingHead& head = asking_[layer][index];
        const bool stays = !kv::contains(evicted_[layer][index], place);
        heads += 1;
        reading.lost_share += stays ? 0 : 1;
        for (std::int64_t row = 0; row < head.mass_sums.cols(); ++row) {
          if (place > head.reference->row_positions[static_cast<std::size_t>(row)]) continue;  // it came later
          const double seen = head.seen[static_cast<std::size_t>(row)];
          const double others = 1 - head.reference->weights(row, place);
          const double now =
              stays ? needle_attention(spec_.margin, seen * std::max(0.0, others - lost[layer][index](row))) : 0;
          const double before = needle_attention(spec_.margin, seen * others);
          const auto own = head.code_overlap.row(code).transpose().array();
          const auto background = head.code_scores.row(row).transpose().array();
          score += now * own + (1 - now) * background;
          full += before * own + (1 - before) * background;
          control += background;
          reading.mass += now;
          rows += 1;
        }
      }
    }
    rows = std::max(1.0, rows);  // seen by none: read by none, and retrieved by none
    reading.mass /= rows;
    reading.lost_share /= heads;
    const auto gamma = [code](const Eigen::ArrayXd& of_codes, double count) {
      double best = -kInfinity;
      for (std::int64_t other = 0; other < of_codes.size(); ++other) {
        if (other != code) best = std::max(best, of_codes(other));
      }
      return (of_codes(code) - best) / count;
    };
    reading.gamma = gamma(score, rows);
    reading.full_gamma = gamma(full, rows);
    reading.control_gamma = gamma(control, rows);
    return reading;
  }

  /// Success and the Gamma that decided it.
  std::pair<double, double> judge(const std::vector<Reading>& readings, double Reading::*gamma) const {
    double found = 0;
    double weakest = kInfinity;
    const std::int64_t facts = num_facts(spec_.kind);
    for (std::int64_t fact = 0; fact < facts; ++fact) {
      double decides = any_token() ? -kInfinity : kInfinity;
      for (std::int64_t token = 0; token < spec_.span; ++token) {
        const double value = readings[static_cast<std::size_t>(fact * spec_.span + token)].*gamma;
        decides = any_token() ? std::max(decides, value) : std::min(decides, value);
      }
      found += decides > 0 ? 1 : 0;
      weakest = std::min(weakest, decides);
    }
    if (spec_.kind == ProbeKind::multi_needle) return {found / static_cast<double>(facts), weakest};
    return {weakest > 0 ? 1.0 : 0.0, weakest};
  }

  const ProbeSpec& spec_;
  const ProbeInputs& inputs_;
  std::vector<std::vector<AskingHead>> asking_;           ///< [layer][kv_head]
  std::vector<std::vector<ScoringHead>> scoring_;         ///< [layer][kv_head]
  std::vector<std::vector<kv::PositionRuns>> unchanged_;  ///< [layer][kv_head] where scores do not see the probe
  std::vector<std::vector<std::uint8_t>> is_reader_;      ///< [layer][kv_head]
  std::vector<std::int64_t> places_;                      ///< fact by fact
  std::vector<std::vector<kv::PositionRuns>> evicted_;    ///< [layer][kv_head]
};

}  // namespace

std::string_view to_string(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::factual:
      return "factual";
    case ProbeKind::keyword:
      return "keyword";
    case ProbeKind::reasoning:
      return "reasoning";
    case ProbeKind::coreference:
      return "coreference";
    case ProbeKind::multi_needle:
      return "multi_needle";
  }
  return {};
}

std::int64_t num_facts(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::factual:
    case ProbeKind::keyword:
      return 1;
    case ProbeKind::reasoning:
      return 2;
    case ProbeKind::coreference:
      return 3;
    case ProbeKind::multi_needle:
      return 4;
  }
  return 1;
}

double needle_attention(double margin, double background) {
  return 1 / (1 + background * std::exp(-margin));
}

ProbeScan scan_planted_probe(const ProbeSpec& spec, const ProbeInputs& inputs) {
  const std::int64_t length = (num_facts(spec.kind) - 1) * spec.spacing + spec.span;
  if (spec.span < 1 || spec.step < 1 || spec.codes < 2 || spec.readers < 0 ||
      (num_facts(spec.kind) > 1 && spec.spacing < spec.span)) {
    throw InputError(
        fmt::format("probe: expected span >= 1, step >= 1, codes >= 2 and spacing >= span, got span {}, step {}, codes "
                    "{}, spacing {}",
                    spec.span, spec.step, spec.codes, spec.spacing));
  }
  if (length > inputs.num_positions) {
    throw InputError(fmt::format("probe: its {} facts reach over {} tokens, the context has {}", num_facts(spec.kind),
                                 length, inputs.num_positions));
  }
  return ProbeScanner(spec, inputs).scan();
}

}  // namespace kvtide::loss
