#include "loss/scan_surrogates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace kvtide::loss {

AutoregressiveSurrogates::AutoregressiveSurrogates(const std::vector<double>& at, std::vector<double> values,
                                                   double step, std::uint64_t seed)
    : values_(std::move(values)), random_(seed, "loss.scan_period") {
  double lagged = 0;
  double squares = 0;
  for (std::size_t i = 1; i < values_.size(); ++i) {
    lagged += values_[i] * values_[i - 1];
    squares += values_[i - 1] * values_[i - 1];
  }
  const double raw = squares > 0 ? lagged / squares : 0;
  // The estimate is low by about (1 + 4 rho) / n when a line is fitted too (Marriott and Pope, Biometrika 1954).
  const double rho = std::clamp(raw + (1 + 4 * raw) / static_cast<double>(values_.size()), -0.99, 0.99);
  for (std::size_t i = 1; i < values_.size(); ++i) {
    const double steps = (at[i] - at[i - 1]) / step;
    // A negative correlation has no meaning at other distances than the usual one.
    decay_.push_back(rho > 0 ? std::pow(rho, steps) : std::abs(steps - 1) < 0.01 ? rho : 0);
    innovations_.push_back(values_[i] - rho * values_[i - 1]);
    // A longer gap lets more noise in: (1 - rho^2k) / (1 - rho^2) times the variance.
    gain_.push_back(std::sqrt((1 - decay_.back() * decay_.back()) / (1 - rho * rho)));
  }
}

void AutoregressiveSurrogates::draw(std::vector<double>& surrogate) {
  surrogate.resize(values_.size());
  double value = values_[random_.below(values_.size())];
  surrogate[0] = value;
  for (std::size_t i = 1; i < values_.size(); ++i) {
    value = decay_[i - 1] * value + gain_[i - 1] * innovations_[random_.below(innovations_.size())];
    surrogate[i] = value;
  }
}

MovedStretches::MovedStretches(const std::vector<double>& values, std::uint64_t seed)
    : random_(seed, "loss.moved_stretches") {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double middle = (*low + *high) / 2;
  const auto above = std::count_if(values.begin(), values.end(), [&](double value) { return value > middle; });
  const bool are_high = 2 * static_cast<std::size_t>(above) <= values.size();
  const auto is_beyond = [&](std::size_t i) { return (values[i] > middle) == are_high; };

  std::vector<std::size_t> changes;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (is_beyond(i) != is_beyond(i - 1)) changes.push_back(i);
  }
  std::size_t cell = 0;
  for (std::size_t i = 1; i < changes.size(); ++i) cell = std::gcd(cell, changes[i] - changes[i - 1]);
  cell = std::max<std::size_t>(1, cell);
  std::size_t end = changes.empty() ? 0 : changes.front() % cell;
  for (std::size_t begin = 0; begin < values.size(); begin = end, end = begin + cell) {
    if (end == begin) end += cell;
    while (is_beyond(begin) && end < values.size() && is_beyond(end)) end += cell;
    end = std::min(end, values.size());
    pieces_.push_back({begin, end});
  }
}

void MovedStretches::draw(std::vector<std::size_t>& order) {
  for (std::size_t i = pieces_.size(); i > 1; --i) std::swap(pieces_[i - 1], pieces_[random_.below(i)]);
  order.clear();
  for (const Piece& piece : pieces_) {
    for (std::size_t i = piece.begin; i < piece.end; ++i) order.push_back(i);
  }
}

}  // namespace kvtide::loss
