#pragma once
// What a scan without a period could have looked like: series that share what is irregular in it. A search for periods is
// repeated on many of them; what it finds there it finds by chance.
//
// Two kinds, since neither stands for the other. Noise with a memory: an AR(1) series. Blocks lost here and there: the scan's own failing
// stretches, whole, in another order. Any two stretches are some distance apart, and to AR(1) noise they look like two beats of a wave.
//
// Example: failing at 2 of 97 places: whatever their distance, nearly every order of the stretches has one distance too, so nothing follows
// from it. Failing at 6 of 97, 16 apart: of the C(97, 6) = 1e9 orders about a hundred are as regular.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace kvtide::loss {

/// AR(1) at the scan's own places, from its own innovations.
class AutoregressiveSurrogates {
 public:
  /// @param at      ascending places
  /// @param values  one each, without their line
  /// @param step    usual distance of neighbours
  AutoregressiveSurrogates(const std::vector<double>& at, std::vector<double> values, double step, std::uint64_t seed);
  void draw(std::vector<double>& surrogate);

 private:
  std::vector<double> values_;
  std::vector<double> decay_;
  std::vector<double> gain_;
  std::vector<double> innovations_;
  RandomStream random_;
};

/// The scan's stretches beyond the middle of its range (on the side where fewer places are), whole, and its other places one
/// by one, in random order. Where all stretches and the gaps between them are multiples of some number of places, that many stay together: a
/// grid is no period.
class MovedStretches {
 public:
  MovedStretches(const std::vector<double>& values, std::uint64_t seed);
  /// @param order  [place] which place of the scan has its value there
  void draw(std::vector<std::size_t>& order);

 private:
  struct Piece {
    std::size_t begin;
    std::size_t end;
  };
  std::vector<Piece> pieces_;
  RandomStream random_;
};

}  // namespace kvtide::loss
