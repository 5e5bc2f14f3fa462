#include "loss/scan_period.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "loss/fold_index.h"
#include "loss/period_range.h"
#include "loss/scan_surrogates.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kSurrogates = 999;
constexpr double kPointsPerCycle = 4;
/// Candidates of the family of every period; more are thinned evenly.
constexpr std::size_t kMaxCandidates = 300;
constexpr std::size_t kScales = 2;
constexpr std::size_t kStatistics = 2;

struct Pair {
  std::uint32_t from;
  std::uint32_t to;
};

/// What one candidate period needs of the positions.
struct Candidate {
  double period = 0;
  std::vector<std::uint8_t> bin;  ///< [point]
  std::array<double, kTestBins> count{};
  std::vector<Pair> pairs;  ///< points one period apart, to half a step
};

struct Figures {
  double share = 0;
  double agreement = 0;
};

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Candidate candidate_at(double period, const ScanSeries& series, double step) {
  Candidate result;
  result.period = period;
  for (const double at : series.at) {
    const double turns = (at - series.at.front()) / period;
    const auto bin =
        std::min<std::size_t>(kTestBins - 1, static_cast<std::size_t>((turns - std::floor(turns) + 1e-12) * kTestBins));
    result.bin.push_back(static_cast<std::uint8_t>(bin));
    result.count[bin] += 1;
  }
  // Points exactly half a step off count only where there are no nearer ones.
  for (const double reach : {0.499 * step, 0.501 * step}) {
    std::size_t low = 0;
    for (std::size_t i = 0; i < series.at.size(); ++i) {
      const double target = series.at[i] + period;
      while (low < series.at.size() && series.at[low] < target - reach) ++low;
      for (std::size_t j = low; j < series.at.size() && series.at[j] <= target + reach; ++j) {
        result.pairs.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j)});
      }
    }
    if (!result.pairs.empty()) break;
  }
  return result;
}

/// @param values  centred
Figures figures_of(const Candidate& candidate, const std::vector<double>& values, double squares) {
  std::array<double, kTestBins> sum{};
  for (std::size_t i = 0; i < values.size(); ++i) sum[candidate.bin[i]] += values[i];
  Figures result;
  for (std::size_t bin = 0; bin < sum.size(); ++bin) {
    if (candidate.count[bin] > 0) result.share += sum[bin] * sum[bin] / candidate.count[bin];
  }
  result.share /= squares;
  double product = 0;
  double both = 0;
  for (const Pair& pair : candidate.pairs) {
    product += values[pair.from] * values[pair.to];
    both += values[pair.from] * values[pair.from] + values[pair.to] * values[pair.to];
  }
  result.agreement = both > 1e-9 * squares ? 2 * product / both : 0;
  return result;
}

/// What varies over the scan as a whole. For noise a parabola: without any compression accuracy is already U-shaped in the place of a fact
/// (Liu and others, Lost in the Middle, TACL 2024). Elsewhere a line, since a parabola takes a part of three cycles with it.
class Trend {
 public:
  Trend(const std::vector<double>& at, int degrees) {
    const double middle = (at.front() + at.back()) / 2;
    const double half = std::max((at.back() - at.front()) / 2, 1e-300);
    for (int degree = 0; degree <= degrees; ++degree) {
      std::vector<double> part;
      for (const double place : at) part.push_back(std::pow((place - middle) / half, degree));
      (void)remove(part);
      double squares = 0;
      for (const double value : part) squares += value * value;
      for (double& value : part) value /= std::sqrt(std::max(squares, 1e-300));
      parts_.push_back(std::move(part));
    }
  }
  /// @return sum of squares left
  double remove(std::vector<double>& values) const {
    for (const std::vector<double>& part : parts_) {
      const double amount = std::inner_product(part.begin(), part.end(), values.begin(), 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= amount * part[i];
    }
    return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  }

 private:
  std::vector<std::vector<double>> parts_;  ///< orthonormal
};

/// asinh of the distance from the median in units of two robust standard deviations, of at least 2 % of the range.
std::vector<double> compressed_scale(const std::vector<double>& values) {
  const double middle = median_of(values);
  std::vector<double> distance;
  for (const double value : values) distance.push_back(std::abs(value - middle));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  constexpr double kNormal = 1.4826;  // median absolute deviation -> standard deviation of a normal law
  const double sigma = std::max(kNormal * median_of(distance), 0.02 * (*high - *low));
  std::vector<double> result;
  for (const double value : values) result.push_back(std::asinh((value - middle) / (2 * sigma)));
  return result;
}

/// Distance of the periods tried.
double grain_of(const ScanSeries& series) {
  const bool integral = std::all_of(series.at.begin(), series.at.end(), [](double at) { return at == std::floor(at); });
  return integral ? 1.0 : series.step() / 8;
}

std::vector<double> periods_to_try(const ScanSeries& series, double known_period) {
  const double shortest = std::max(2.0, kPointsPerCycle * series.step());
  const double longest = series.extent() / 2;
  std::vector<double> result;
  if (known_period > 0) {
    // A known period may be sampled as coarsely as twice a cycle.
    if (known_period >= 2 * series.step() && known_period <= longest) result.push_back(known_period);
    return result;
  }
  const double grain = grain_of(series);
  double fine = 16;
  do {
    // Neighbours drift by a sixteenth of a cycle over the scan.
    result.clear();
    for (double period = shortest; period <= longest + 1e-9;) {
      result.push_back(period);
      period += std::max(grain, grain * std::round(period * period / (fine * series.extent()) / grain));
    }
    fine /= 2;
  } while (result.size() > kMaxCandidates && fine > 0.5);
  return result;
}

bool is_power_of_two(double period) {
  return period == std::exp2(std::round(std::log2(period)));
}

std::vector<Candidate> candidates_of(const ScanSeries& series, double known_period) {
  std::vector<double> periods = periods_to_try(series, known_period);
  if (known_period <= 0 && !periods.empty()) {
    for (double power = 2; power <= series.extent() / 2; power *= 2) {
      if (power >= periods.front() && std::find(periods.begin(), periods.end(), power) == periods.end()) {
        periods.push_back(power);
      }
    }
    std::sort(periods.begin(), periods.end());
  }
  std::vector<Candidate> result;
  for (const double period : periods) result.push_back(candidate_at(period, series, series.step()));
  return result;
}

/// Means of neighbours, at most kMaxScanPoints of them.
ScanSeries thinned(const ScanSeries& series) {
  if (series.at.size() <= kMaxScanPoints) return series;
  const std::size_t width = (series.at.size() + kMaxScanPoints - 1) / kMaxScanPoints;
  ScanSeries result;
  for (std::size_t begin = 0; begin + width <= series.at.size(); begin += width) {
    double at = 0;
    double value = 0;
    for (std::size_t i = begin; i < begin + width; ++i) {
      at += series.at[i] / static_cast<double>(width);
      value += series.value[i] / static_cast<double>(width);
    }
    result.at.push_back(at);
    result.value.push_back(value);
  }
  return result;
}

/// All figures of the scan (row 0) and its surrogates, [row][candidate], on one scale.
struct Ranking {
  std::vector<std::vector<Figures>> rows;
};

/// Value of one statistic, in standard deviations of the surrogates' at the same period: [row][candidate].
std::vector<std::vector<double>> standardised(const Ranking& ranking, double Figures::*statistic) {
  const std::size_t candidates = ranking.rows.front().size();
  const auto n = static_cast<double>(ranking.rows.size() - 1);
  std::vector<std::vector<double>> result(ranking.rows.size(), std::vector<double>(candidates, 0.0));
  for (std::size_t c = 0; c < candidates; ++c) {
    double sum = 0;
    double squares = 0;
    for (std::size_t row = 1; row < ranking.rows.size(); ++row) {
      const double value = ranking.rows[row][c].*statistic;
      sum += value;
      squares += value * value;
    }
    const double mean = sum / n;
    const double sd = std::sqrt(std::max(0.0, squares / n - mean * mean));
    if (sd <= 1e-12) continue;
    for (std::size_t row = 0; row < ranking.rows.size(); ++row) {
      result[row][c] = (ranking.rows[row][c].*statistic - mean) / sd;
    }
  }
  return result;
}

/// Figures of every candidate, the line over the positions taken away.
std::vector<Figures> figures_at_all(const std::vector<Candidate>& candidates, const Trend& trend,
                                    std::vector<double>& values) {
  const double squares = std::max(trend.remove(values), 1e-300);
  std::vector<Figures> figures;
  figures.reserve(candidates.size());
  for (const Candidate& candidate : candidates) figures.push_back(figures_of(candidate, values, squares));
  return figures;
}

/// What the search of a scan and of its surrogates comes to.
struct SearchOutcome {
  double p = 1;
  std::size_t place = 0;  ///< best candidate
};

/// Which candidates are searched together: powers of two, since most block sizes are; all. A period asked for is in
/// both.
std::vector<std::vector<bool>> families_of(const std::vector<Candidate>& candidates, bool is_known_period) {
  std::vector<std::vector<bool>> families(2);
  for (const Candidate& candidate : candidates) {
    families[0].push_back(is_known_period || is_power_of_two(candidate.period));
    families[1].push_back(true);
  }
  return families;
}

/// One statistic on one scale over one family: its best at every row, and where the scan's is.
struct Search {
  std::vector<double> best;  ///< [row] 0: the scan
  std::size_t place = 0;     ///< candidate that is the scan's best
};

constexpr double kNoCandidate = -1e300;

/// @param scores  [row][candidate]
/// @param family  [candidate] whether it is searched
Search search_family(const std::vector<std::vector<double>>& scores, const std::vector<bool>& family) {
  Search search;
  for (const std::vector<double>& row : scores) {
    double best = kNoCandidate;
    std::size_t place = 0;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (!family[c] || row[c] <= best) continue;
      best = row[c];
      place = c;
    }
    if (search.best.empty()) search.place = place;
    search.best.push_back(best);
  }
  return search;
}

/// [row] share of the rows whose best is at least as good.
std::vector<double> p_of_rows(const Search& search) {
  std::vector<double> sorted = search.best;
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> p;
  for (const double best : search.best) {
    const auto at_least = sorted.end() - std::lower_bound(sorted.begin(), sorted.end(), best - 1e-12);
    p.push_back(static_cast<double>(at_least) / static_cast<double>(sorted.size()));
  }
  return p;
}

/// @param rankings  one a scale
SearchOutcome rank_search(const std::vector<Candidate>& candidates, const std::array<Ranking, kScales>& rankings,
                          const std::vector<std::vector<bool>>& families) {
  SearchOutcome result;
  std::vector<double> strength(candidates.size(), 0.0);  // sum of the scan's standardised figures, for ties
  std::vector<Search> searches;
  for (const Ranking& ranking : rankings) {
    for (double Figures::*statistic : {&Figures::share, &Figures::agreement}) {
      const auto scores = standardised(ranking, statistic);
      for (std::size_t c = 0; c < candidates.size(); ++c) strength[c] += scores[0][c];
      for (const std::vector<bool>& family : families) {
        if (std::find(family.begin(), family.end(), true) != family.end())
          searches.push_back(search_family(scores, family));
      }
    }
  }

  // The smallest p of every row over the searches, and the rank of the scan's among those (Westfall and Young).
  std::vector<double> smallest(rankings[0].rows.size(), 1.0);
  double best_p = 2;
  double best_strength = 0;
  for (const Search& search : searches) {
    const std::vector<double> p = p_of_rows(search);
    for (std::size_t row = 0; row < p.size(); ++row) smallest[row] = std::min(smallest[row], p[row]);
    if (p[0] < best_p || (p[0] == best_p && strength[search.place] > best_strength)) {
      best_p = p[0];
      best_strength = strength[search.place];
      result.place = search.place;
    }
  }
  const auto as_small = std::ranges::count_if(smallest, [&](double p) { return p <= smallest[0]; });
  result.p = static_cast<double>(as_small) / static_cast<double>(smallest.size());
  return result;
}

/// Mean by phase of the scan on the compressed scale, `bins` a period; NaN where no point falls.
std::vector<double> phase_means(const ScanSeries& series, const std::vector<double>& values, double period,
                                std::size_t bins) {
  std::vector<double> sum(bins, 0.0);
  std::vector<double> count(bins, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double turns = (series.at[i] - series.at.front()) / period;
    const auto bin =
        std::min(bins - 1, static_cast<std::size_t>((turns - std::floor(turns) + 1e-12) * static_cast<double>(bins)));
    sum[bin] += values[i];
    count[bin] += 1;
  }
  for (std::size_t bin = 0; bin < bins; ++bin) {
    sum[bin] = count[bin] > 0 ? sum[bin] / count[bin] : std::numeric_limits<double>::quiet_NaN();
  }
  return sum;
}

/// Do the two halves of the fold have the same shape (correlation 0.7)? Then half the period is the period, and every other cycle is
/// only milder.
bool halves_agree(const ScanSeries& series, const std::vector<double>& values, double period) {
  const auto half = static_cast<std::size_t>(std::min(64.0, std::floor(period / series.step() / 2 + 1e-9)));
  constexpr std::size_t kEnoughBins = 8;  // fewer have the same shape by chance too often
  constexpr double kSameShape = 0.7;
  if (half < kEnoughBins) {
    std::vector<double> centred = values;
    const double squares = Trend(series.at, 1).remove(centred);
    const auto agreement = [&](double distance) {
      return figures_of(candidate_at(distance, series, series.step()), centred, squares).agreement;
    };
    return agreement(period / 2) >= std::max(kSameShape, 0.9 * agreement(period));
  }
  const std::vector<double> fold = phase_means(series, values, period, 2 * half);
  double n = 0;
  double a = 0;
  double b = 0;
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (std::size_t bin = 0; bin < half; ++bin) {
    const double x = fold[bin];
    const double y = fold[bin + half];
    if (std::isnan(x) || std::isnan(y)) continue;
    n += 1;
    a += x;
    b += y;
    aa += x * x;
    bb += y * y;
    ab += x * y;
  }
  const double spread = (aa - a * a / n) * (bb - b * b / n);
  return n >= static_cast<double>(kEnoughBins) && spread > 1e-12 && (ab - a * b / n) >= kSameShape * std::sqrt(spread);
}

/// Mean length of the gap that a boundary falls into: larger gaps catch more. Even places: the step. Gaps of 1 and 3 by turns: 10 / 4.
double gap_at_random(const ScanSeries& series) {
  double squares = 0;
  for (std::size_t i = 1; i < series.at.size(); ++i) squares += std::pow(series.at[i] - series.at[i - 1], 2);
  return squares / (series.at.back() - series.at.front());
}

/// A comb folds sharply on an integer part of its period too (dips 8 wide every 48 on 16), but its points one such part apart do not
/// agree. @return `period` or the smallest multiple of it, where points `period` apart agree less than half as well as those a multiple
/// apart
double fundamental(const ScanSeries& series, std::vector<double> values, double period, double longest) {
  const double squares = Trend(series.at, 1).remove(values);
  if (!(squares > 0)) return period;
  std::vector<double> agreement;
  double best = 0;
  for (double multiple = period; multiple <= longest + 1e-9; multiple += period) {
    agreement.push_back(figures_of(candidate_at(multiple, series, series.step()), values, squares).agreement);
    best = std::max(best, agreement.back());
  }
  if (!(best > 0) || agreement.front() >= 0.5 * best) return period;
  const auto first =
      std::find_if(agreement.begin(), agreement.end(), [&](double value) { return value >= 0.8 * best; });
  return period * static_cast<double>(first - agreement.begin() + 1);
}

/// The period that a candidate stands for, of which it may be a part or a multiple, and those that fit as well.
/// @param values  on the compressed scale
PeriodRange refined_period(double candidate, const ScanSeries& series, const std::vector<double>& values,
                           double longest) {
  std::vector<double> flat = values;
  (void)Trend(series.at, 1).remove(flat);
  const double grain = grain_of(series);
  PeriodRange range = period_range(series, flat, fundamental(series, values, candidate, longest), grain);
  double period = range.period;
  while (std::fmod(period, 2) == 0 && period / 2 >= 2 * series.step() && halves_agree(series, values, period))
    period /= 2;
  if (period < range.period) range = period_range(series, flat, period, grain);
  return range;
}

/// [scale][point] the values, and compressed.
using Scales = std::array<std::vector<double>, kScales>;

/// What stands out of the noise; p is the larger of that against noise and that against moved stretches.
SearchOutcome search_beside_surrogates(const ScanSeries& series, const Scales& scales,
                                       const std::vector<Candidate>& candidates, bool is_known, std::uint64_t seed) {
  const Trend line(series.at, 1);
  const Trend parabola(series.at, 2);
  const auto families = families_of(candidates, is_known);
  const auto searched = [&](const Trend& trend, const auto& draw) {
    std::array<Ranking, kScales> rankings;
    for (std::size_t scale = 0; scale < kScales; ++scale) {
      for (std::int64_t row = 0; row <= kSurrogates; ++row) {
        std::vector<double> values = scales[scale];
        if (row > 0) draw(scale, values);
        rankings[scale].rows.push_back(figures_at_all(candidates, trend, values));
      }
    }
    return rank_search(candidates, rankings, families);
  };
  // Noise as correlated as what `trend` leaves of the scan.
  const auto searched_in_noise = [&](const Trend& trend) {
    std::vector<AutoregressiveSurrogates> noise;
    for (std::vector<double> values : scales) {
      (void)trend.remove(values);
      noise.emplace_back(series.at, std::move(values), series.step(), seed);
    }
    return searched(parabola, [&](std::size_t scale, std::vector<double>& values) { noise[scale].draw(values); });
  };
  SearchOutcome found = searched_in_noise(line);
  constexpr double kNoiseExplainsIt = 0.05;
  // To a line alone a U is noise with a long memory, beside which what a parabola leaves is too calm to be chance.
  if (found.p <= kNoiseExplainsIt) found.p = std::max(found.p, searched_in_noise(parabola).p);
  if (found.p > kNoiseExplainsIt) return found;
  std::vector<MovedStretches> stretches(kScales, MovedStretches(scales[1], seed));
  std::vector<std::size_t> order;
  const SearchOutcome against_stretches = searched(line, [&](std::size_t scale, std::vector<double>& values) {
    stretches[scale].draw(order);
    for (std::size_t i = 0; i < order.size(); ++i) values[i] = scales[scale][order[i]];
  });
  found.p = std::max(found.p, against_stretches.p);
  return found;
}

}  // namespace

double ScanSeries::step() const {
  if (at.size() < 2) return 0;
  std::vector<double> gaps;
  for (std::size_t i = 1; i < at.size(); ++i) gaps.push_back(at[i] - at[i - 1]);
  return median_of(std::move(gaps));
}

double ScanSeries::extent() const {
  return at.empty() ? 0 : at.back() - at.front() + step();
}

ScanPeriod search_scan_period(const ScanSeries& whole, std::uint64_t seed, double known_period) {
  ScanPeriod result;
  if (whole.at.size() < kMinScanPoints) return result;
  const ScanSeries series = thinned(whole);
  const std::vector<Candidate> candidates = candidates_of(series, known_period);
  if (candidates.empty()) return result;
  result.shortest_searched = candidates.front().period;
  result.longest_searched = candidates.back().period;
  const auto [low, high] = std::minmax_element(series.value.begin(), series.value.end());
  if (!(*high - *low > 1e-12 * std::max(1.0, std::abs(*high)))) return result;

  const bool is_known = known_period > 0;
  const Scales scales{series.value, compressed_scale(series.value)};
  const SearchOutcome found = search_beside_surrogates(series, scales, candidates, is_known, seed);
  result.p = found.p;
  result.surrogates = kSurrogates;
  const double candidate = candidates[found.place].period;
  const PeriodRange range = is_known ? PeriodRange{candidate, candidate, candidate}
                                     : refined_period(candidate, series, scales[1], result.longest_searched);
  result.period = range.period;
  std::vector<double> values = series.value;
  const double squares = Trend(series.at, 1).remove(values);
  const Figures figures = figures_of(candidate_at(result.period, series, series.step()), values, squares);
  result.cycles = series.extent() / result.period;
  result.resolution = std::max({gap_at_random(series) / 2 / std::max(1.0, result.cycles - 1), range.high - range.period,
                                range.period - range.low});
  result.phase_share = figures.share;
  result.agreement = figures.agreement;
  return result;
}

double phase_share_ratio(const ScanSeries& series, double period) {
  std::vector<double> values = series.value;
  const double squares = Trend(series.at, 1).remove(values);
  if (!(squares > 0) || series.at.size() < kMinScanPoints) return 0;
  const double step = series.step();
  const auto share = [&](double p) { return figures_of(candidate_at(p, series, step), values, squares).share; };
  const double blur = 2 * period * period / series.extent();
  std::vector<double> others;
  constexpr int kNeighbours = 48;
  for (int i = 0; i <= kNeighbours; ++i) {
    const double other = period / 1.5 + i * (1.5 * period - period / 1.5) / kNeighbours;
    if (std::abs(other - period) > blur) others.push_back(share(other));
  }
  if (others.empty()) return 0;
  const double usual = median_of(std::move(others));
  return usual > 0 ? share(period) / usual : kMaxRatio;
}

}  // namespace kvtide::loss
