#pragma once
// Byte address -> channel, pseudo channel, bank, row, column.
//
// hash256: 256 B stay in one row of one pseudo channel, the next 256 B go to another one. Fields of the burst number,
// from the low end: column_low (256 B worth) | p (pseudo channel) | bank group | column_high | bank | stack ID | row.
// All bits above p are folded onto p, and row bits onto bank group, bank and stack ID, so that no power-of-two stride
// camps on one channel or bank. With N = 2^k * m pseudo channels, the 2^k part is folded by XOR and the odd part m by
// addition modulo m: one-to-one for any N. row1k: column | p | bank group | bank | stack ID | row without any folding:
// a whole row per pseudo channel.
//
// Example, HBM3 stack, hash256: address 0x2000 is burst 256 = line 32: p = 0, u = 1 (bank group 1), p = 0 ^ 1 =
// channel 1.

#include <cstdint>

#include "base/units.h"
#include "gpu/memory/memory_standard.h"

namespace kvtide::gpu {

enum class AddressMapping : std::uint8_t { hash256, row1k };

struct DramLocation {
  std::int32_t channel = 0;
  std::int32_t pseudo_channel = 0;  ///< within the channel
  std::int32_t stack_id = 0, bank_group = 0, bank = 0;
  std::int32_t row = 0, column = 0;  ///< column: burst within the row
  bool operator==(const DramLocation&) const = default;
};

class AddressMap {
 public:
  /// @param num_channels  over all units of the device, > 0
  AddressMap(const MemoryGeometry& geometry, std::int64_t num_channels, AddressMapping mapping);

  /// Addresses beyond capacity() wrap around.
  [[nodiscard]] DramLocation locate(std::uint64_t address) const;
  [[nodiscard]] Bytes capacity() const { return capacity_; }
  /// Bytes that share channel, bank and row when aligned to their size: 256, or the row.
  [[nodiscard]] Bytes interleave() const { return interleave_; }

 private:
  [[nodiscard]] std::uint64_t fold(std::uint64_t p, std::uint64_t upper) const;

  AddressMapping mapping_;
  Bytes capacity_, interleave_;
  std::uint64_t num_pseudo_channels_, num_channels_;
  std::uint64_t even_bits_, odd_part_;  // N = 2^even_bits * odd_part
  unsigned burst_shift_, column_low_bits_, column_high_bits_, group_bits_, bank_bits_, stack_bits_;
};

}  // namespace kvtide::gpu
