#pragma once
// Which of a pseudo channel's banks goes first: the inner loop of the scheduler.
//
// Each bank has one key (age of its candidate, smaller is older; kNoKey: none) and one tick from which its command is
// allowed. All banks are looked at, eight at a time and without a branch: whether a bank is ready cannot be predicted.
//
// Example: keys {7, 3, -, 5}, gates {10, 40, 0, 20}, now 20: banks 0 and 3 are ready, key 5 is the older one; the
// earliest candidate was ready at 10. At 9 none is ready (kNoKey), and 10 is when to look again.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace kvtide::gpu {

/// Ticks since the controller's epoch, which moves on long before 32 bits are full.
using ShortTick = std::int32_t;

constexpr int kMaxBanks = 64;     ///< of a pseudo channel: one machine word of flags
constexpr int kBanksPerScan = 8;  ///< scans take a multiple of it
constexpr std::int32_t kNoKey = std::numeric_limits<std::int32_t>::max();
constexpr ShortTick kNotSoon = std::numeric_limits<ShortTick>::max();

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
  std::int32_t oldest = kNoKey;  ///< smallest key of the candidates that are ready
  ShortTick next = kNotSoon;     ///< smallest gate of all candidates
};

/// Gates that depend on whether a bank is open.
struct RowGates {
  const std::int32_t* open_row;  ///< [bank] negative: closed
  ShortTick precharge;           ///< of all open banks
  ShortTick activate;            ///< of all closed banks
};

/// The scans in the widest instructions of this processor; the results are the same with any.
struct BankScanner {
  /// @param key    [count]
  /// @param gate   [count], >= 0
  /// @param count  a multiple of kBanksPerScan, > 0
  BankScan (*columns)(const std::int32_t* key, const ShortTick* gate, int count, ShortTick now);
  /// The same with the later one of a bank's gate and that of its state.
  BankScan (*rows)(const std::int32_t* key, const ShortTick* gate, const RowGates& gates, int count, ShortTick now);
};

[[nodiscard]] BankScanner best_bank_scanner();
/// Runs anywhere.
[[nodiscard]] BankScanner portable_bank_scanner();

}  // namespace kvtide::gpu
