#pragma once
// Sixteen numbers side by side, one register of the widest processors; sums across sixteen of them at once, and squares of
// sixteen by sixteen transposed.
//
// Example, four lanes: rows (a b c d) and (e f g h): halves folded onto one another give (a+c b+d e+g f+h), then one more
// fold (a+b+c+d ...): each step halves what is left to add for all rows together.

#include <cstdint>
#include <cstring>
#include <utility>

namespace kvtide::kv {

inline constexpr std::int64_t kNumLanes = 16;
/// As the compiler keeps them: left to itself it shuffles a square of sums instead of widening its rows.
using Lanes = float __attribute__((vector_size(kNumLanes * sizeof(float))));

/// Rounded up to whole registers.
[[nodiscard]] constexpr std::int64_t whole_lanes(std::int64_t count) {
  return (count + kNumLanes - 1) / kNumLanes * kNumLanes;
}

// Always inlined: by themselves these would be compiled for the narrowest registers.

[[gnu::always_inline]] inline void load(const float* from, Lanes& lanes) {
  std::memcpy(&lanes, from, sizeof lanes);
}

/// The first `count` lanes; the others are 0.
[[gnu::always_inline]] inline void load(const float* from, std::int64_t count, Lanes& lanes) {
  lanes = Lanes{};
  std::memcpy(&lanes, from, static_cast<std::size_t>(count) * sizeof(float));
}

[[gnu::always_inline]] inline void store(const Lanes& lanes, float* to) {
  std::memcpy(to, &lanes, sizeof lanes);
}

/// One lane after the other.
[[gnu::always_inline]] inline float sum_of(const Lanes& lanes) {
  float sum = 0;
  for (std::int64_t lane = 0; lane < kNumLanes; ++lane) sum += lanes[lane];
  return sum;
}

/// Of each run of 2 `kStride` lanes the first half: `first`'s, then `second`'s; and the second halves likewise.
template <std::size_t kStride, std::size_t... kLane>
[[gnu::always_inline]] inline void take_halves(const Lanes& first, const Lanes& second, Lanes& low, Lanes& high,
                                               std::index_sequence<kLane...> /*lanes*/) {
  low = __builtin_shufflevector(first, second,
                                static_cast<int>((kLane & kStride) == 0 ? kLane : kNumLanes + kLane - kStride)...);
  high = __builtin_shufflevector(first, second,
                                 static_cast<int>((kLane & kStride) == 0 ? kLane + kStride : kNumLanes + kLane)...);
}

/// Lanes without the bit `kStride` combine those of the former row, those with it those of the one `kStride` behind it.
template <std::size_t kStride, typename Combine>
[[gnu::always_inline]] inline void fold_all(Lanes* rows, const Combine& combine) {
  for (std::size_t row = 0; row < kStride; ++row) {
    Lanes low, high;
    take_halves<kStride>(rows[row], rows[row + kStride], low, high, std::make_index_sequence<kNumLanes>());
    combine(low, high);
    rows[row] = low;
  }
}

/// Squares of `kStride` by `kStride`, four a square of twice the size: the second and third change places.
template <std::size_t kStride>
[[gnu::always_inline]] inline void swap_all(Lanes* rows) {
  for (std::size_t row = 0; row < kNumLanes; ++row) {
    if ((row & kStride) != 0) continue;
    Lanes low, high;
    take_halves<kStride>(rows[row], rows[row + kStride], low, high, std::make_index_sequence<kNumLanes>());
    rows[row] = low;
    rows[row + kStride] = high;
  }
}

/// Lane r of rows[0] becomes what the lanes of rows[r] combine to, its halves first; the others are overwritten.
/// @param combine  makes its second argument part of its first
template <typename Combine>
[[gnu::always_inline]] inline void combine_each(Lanes (&rows)[kNumLanes], const Combine& combine) {
  fold_all<8>(rows, combine);
  fold_all<4>(rows, combine);
  fold_all<2>(rows, combine);
  fold_all<1>(rows, combine);
}

/// combine_each with sums.
[[gnu::always_inline]] inline void sum_each(Lanes (&rows)[kNumLanes]) {
  combine_each(
      rows, [](Lanes & sum, const Lanes& more) __attribute__((always_inline)) { sum += more; });
}

/// Lane c of rows[r] becomes lane r of rows[c].
[[gnu::always_inline]] inline void transpose(Lanes (&rows)[kNumLanes]) {
  swap_all<8>(rows);
  swap_all<4>(rows);
  swap_all<2>(rows);
  swap_all<1>(rows);
}

}  // namespace kvtide::kv
