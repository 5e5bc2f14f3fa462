#include "gpu/memory/bank_scan.h"

#include <cstring>

namespace kvtide::gpu {
namespace {

using Lanes = std::int32_t __attribute__((vector_size(kBanksPerScan * sizeof(std::int32_t))));

// Inlined into each variant, so that the compiler emits it in that variant's instructions.
#define KVTIDE_INLINE inline __attribute__((always_inline))

KVTIDE_INLINE void load(Lanes& lanes, const std::int32_t* values) {
  std::memcpy(&lanes, values, sizeof(lanes));
}

/// The smallest lane of either; both in one go.
KVTIDE_INLINE BankScan smallest(const Lanes& oldest, const Lanes& next) {
  const Lanes low = __builtin_shufflevector(oldest, next, 0, 1, 2, 3, 8, 9, 10, 11);
  const Lanes high = __builtin_shufflevector(oldest, next, 4, 5, 6, 7, 12, 13, 14, 15);
  Lanes least = low < high ? low : high;  // four lanes of oldest, four of next
  const Lanes pairs = __builtin_shufflevector(least, least, 2, 3, 0, 1, 6, 7, 4, 5);
  least = least < pairs ? least : pairs;
  const Lanes singles = __builtin_shufflevector(least, least, 1, 0, 3, 2, 5, 4, 7, 6);
  least = least < singles ? least : singles;
  return {.oldest = least[0], .next = least[4]};
}

/// @param gates  null: the banks' own gates only
template <bool kHasRowGates>
KVTIDE_INLINE BankScan scan(const std::int32_t* key, const ShortTick* gate, const RowGates* gates, int count,
                            ShortTick now) {
  const Lanes none = kNoKey - Lanes{};
  const Lanes time = now - Lanes{};
  Lanes precharge{}, activate{};
  if constexpr (kHasRowGates) {
    precharge += gates->precharge;
    activate += gates->activate;
  }
  Lanes oldest = none, next = none;
  for (int bank = 0; bank < count; bank += kBanksPerScan) {
    Lanes keys, ready;
    load(keys, key + bank);
    load(ready, gate + bank);
    if constexpr (kHasRowGates) {
      Lanes rows;
      load(rows, gates->open_row + bank);
      const Lanes state_gate = rows < 0 ? activate : precharge;
      ready = ready > state_gate ? ready : state_gate;
    }
    const Lanes waiting = ready > time ? none : keys;
    oldest = oldest < waiting ? oldest : waiting;
    const Lanes candidate = keys == none ? none : ready;
    next = next < candidate ? next : candidate;
  }
  return smallest(oldest, next);
}

BankScan portable_columns(const std::int32_t* key, const ShortTick* gate, int count, ShortTick now) {
  return scan<false>(key, gate, nullptr, count, now);
}
BankScan portable_rows(const std::int32_t* key, const ShortTick* gate, const RowGates& gates, int count,
                       ShortTick now) {
  return scan<true>(key, gate, &gates, count, now);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) BankScan avx2_columns(const std::int32_t* key, const ShortTick* gate, int count,
                                                      ShortTick now) {
  return scan<false>(key, gate, nullptr, count, now);
}
__attribute__((target("avx2"))) BankScan avx2_rows(const std::int32_t* key, const ShortTick* gate,
                                                   const RowGates& gates, int count, ShortTick now) {
  return scan<true>(key, gate, &gates, count, now);
}
#endif

}  // namespace

BankScanner portable_bank_scanner() {
  return {.columns = portable_columns, .rows = portable_rows};
}

BankScanner best_bank_scanner() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx2")) return {.columns = avx2_columns, .rows = avx2_rows};
#endif
  return portable_bank_scanner();
}

}  // namespace kvtide::gpu
