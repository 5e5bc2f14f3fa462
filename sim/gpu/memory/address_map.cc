#include "gpu/memory/address_map.h"

#include <algorithm>
#include <bit>

namespace kvtide::gpu {
namespace {

unsigned log2_of(std::uint64_t power_of_two) {
  return static_cast<unsigned>(std::countr_zero(power_of_two));
}

std::uint64_t take(std::uint64_t& bits, unsigned count) {
  const std::uint64_t field = bits & ((std::uint64_t{1} << count) - 1);
  bits >>= count;
  return field;
}

}  // namespace

AddressMap::AddressMap(const MemoryGeometry& geometry, std::int64_t num_channels, AddressMapping mapping)
    : mapping_(mapping),
      capacity_(static_cast<Bytes>(num_channels * geometry.num_pseudo_channels) * geometry.pseudo_channel_bytes()),
      num_pseudo_channels_(static_cast<std::uint64_t>(num_channels * geometry.num_pseudo_channels)),
      num_channels_(static_cast<std::uint64_t>(num_channels)),
      even_bits_(log2_of(num_pseudo_channels_)),
      odd_part_(num_pseudo_channels_ >> even_bits_),
      burst_shift_(log2_of(geometry.burst_bytes())) {
  const unsigned column_bits = log2_of(static_cast<std::uint64_t>(geometry.columns_per_row()));
  const unsigned line_bits = burst_shift_ < 8 ? 8 - burst_shift_ : 0;  // bursts of 256 B
  column_low_bits_ = mapping == AddressMapping::hash256 ? std::min(line_bits, column_bits) : column_bits;
  column_high_bits_ = column_bits - column_low_bits_;
  interleave_ = geometry.burst_bytes() << column_low_bits_;
  group_bits_ = log2_of(static_cast<std::uint64_t>(geometry.num_bank_groups));
  bank_bits_ = log2_of(static_cast<std::uint64_t>(geometry.num_banks));
  stack_bits_ = log2_of(static_cast<std::uint64_t>(geometry.num_stack_ids));
}

std::uint64_t AddressMap::fold(std::uint64_t p, std::uint64_t upper) const {
  std::uint64_t even = p & ((std::uint64_t{1} << even_bits_) - 1);
  std::uint64_t odd = p >> even_bits_;
  if (even_bits_ > 0) {
    std::uint64_t digits = 0;
    for (std::uint64_t rest = upper; rest != 0; rest >>= even_bits_) digits ^= rest;
    even ^= digits & ((std::uint64_t{1} << even_bits_) - 1);
  }
  if (odd_part_ > 1) {
    // Any function of the upper bits keeps the map one-to-one; a multiplicative hash (Knuth, TAOCP 3, 6.4) has no
    // period that a power-of-two stride could meet.
    const std::uint64_t sum = upper * 0x9E3779B97F4A7C15ULL >> 32;
    odd = (odd + sum) % odd_part_;
  }
  return odd << even_bits_ | even;
}

DramLocation AddressMap::locate(std::uint64_t address) const {
  std::uint64_t bits = (address < capacity_ ? address : address % capacity_) >> burst_shift_;
  const std::uint64_t column_low = take(bits, column_low_bits_);
  std::uint64_t p = odd_part_ == 1 ? take(bits, static_cast<unsigned>(even_bits_)) : bits % num_pseudo_channels_;
  if (odd_part_ != 1) bits /= num_pseudo_channels_;
  const std::uint64_t upper = bits;
  std::uint64_t group = take(bits, group_bits_);
  const std::uint64_t column_high = take(bits, column_high_bits_);
  std::uint64_t bank = take(bits, bank_bits_);
  std::uint64_t stack = take(bits, stack_bits_);
  const std::uint64_t row = bits;
  if (mapping_ == AddressMapping::hash256) {
    p = fold(p, upper);
    group ^= row & ((1U << group_bits_) - 1);
    bank ^= row >> group_bits_ & ((1U << bank_bits_) - 1);
    stack ^= row >> (group_bits_ + bank_bits_) & ((1U << stack_bits_) - 1);
  }
  // Both below 2^32: a short division.
  const auto index = static_cast<std::uint32_t>(p);
  const auto num_channels = static_cast<std::uint32_t>(num_channels_);
  return {.channel = static_cast<std::int32_t>(index % num_channels),
          .pseudo_channel = static_cast<std::int32_t>(index / num_channels),
          .stack_id = static_cast<std::int32_t>(stack),
          .bank_group = static_cast<std::int32_t>(group),
          .bank = static_cast<std::int32_t>(bank),
          .row = static_cast<std::int32_t>(row),
          .column = static_cast<std::int32_t>(column_low | column_high << column_low_bits_)};
}

}  // namespace kvtide::gpu
