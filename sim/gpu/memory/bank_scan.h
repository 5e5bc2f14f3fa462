#pragma once
// Which of a pseudo channel's banks goes first: the inner loop of the scheduler.
//
// Each bank has one key (age of its candidate, smaller is older; kNoKey: none) and one tick from which its command is
// allowed. The loop has no branch but its end: whether a bank is ready cannot be predicted.
//
// Example: keys {7, 3, -, 5}, ready {10, 40, -, 20}, now 20: banks 0 and 3 are ready, key 5 is the older one; the next
// bank is ready at 40.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace kvtide::gpu {

/// Ticks since the controller's epoch, which moves on long before 32 bits are full.
using ShortTick = std::int32_t;

constexpr int kMaxBanks = 64;  ///< of a pseudo channel: one machine word of flags
constexpr std::int32_t kNoKey = std::numeric_limits<std::int32_t>::max();
constexpr ShortTick kNotSoon = std::numeric_limits<ShortTick>::max();

constexpr int kRead = 0, kWrite = 1;  ///< kinds of requests

/// A set of one bank.
constexpr std::uint64_t bit(int bank) {
  return std::uint64_t{1} << bank;
}

/// A command of `ready` waits until `tick` at least. @param tick  since the epoch, fits a ShortTick
inline void raise_to(ShortTick& ready, std::int64_t tick) {
  ready = std::max(ready, static_cast<ShortTick>(tick));
}

template <typename T>
using PerBank = std::array<T, kMaxBanks>;

struct BankScan {
  std::int32_t oldest = kNoKey;  ///< smallest key of the banks that are ready
  ShortTick next = kNotSoon;     ///< when the first of the others is
};

/// @param banks  bit b set: bank b takes part
/// @param now    >= 0; ready >= 0
inline BankScan scan_banks(std::uint64_t banks, const PerBank<std::int32_t>& key, const PerBank<ShortTick>& ready,
                           ShortTick now) {
  BankScan scan;
  for (; banks != 0; banks &= banks - 1) {
    const auto bank = static_cast<std::size_t>(std::countr_zero(banks));
    // All bits but the sign when the bank waits: that is kNoKey in place of its key.
    const std::int32_t waits = (now - ready[bank]) >> 31 & kNoKey;
    scan.oldest = std::min(scan.oldest, key[bank] | waits);
    scan.next = std::min(scan.next, ready[bank] | (waits ^ kNoKey));
  }
  return scan;
}

}  // namespace kvtide::gpu
