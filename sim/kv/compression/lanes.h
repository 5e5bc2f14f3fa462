#pragma once
// Sixteen numbers side by side, one register of the widest processors, and sums across sixteen of them at once.
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

/// Lanes without the bit `kStride` hold sums of `first`, those with it sums of `second`.
template <std::size_t kStride, std::size_t... kLane>
[[gnu::always_inline]] inline void fold(Lanes& first, const Lanes& second, std::index_sequence<kLane...> /*lanes*/) {
  const Lanes own =
      __builtin_shufflevector(first, second, static_cast<int>((kLane & kStride) == 0 ? kLane : kNumLanes + kLane)...);
  const Lanes other = __builtin_shufflevector(
      first, second, static_cast<int>((kLane & kStride) == 0 ? kLane + kStride : kNumLanes + kLane - kStride)...);
  first = own + other;
}

template <std::size_t kStride>
[[gnu::always_inline]] inline void fold_all(Lanes* rows) {
  for (std::size_t row = 0; row < kStride; ++row) {
    fold<kStride>(rows[row], rows[row + kStride], std::make_index_sequence<kNumLanes>());
  }
}

/// Lane r of rows[0] becomes the sum over the lanes of rows[r], its halves added first; the others are overwritten.
[[gnu::always_inline]] inline void sum_each(Lanes (&rows)[kNumLanes]) {
  fold_all<8>(rows);
  fold_all<4>(rows);
  fold_all<2>(rows);
  fold_all<1>(rows);
}

}  // namespace kvtide::kv
