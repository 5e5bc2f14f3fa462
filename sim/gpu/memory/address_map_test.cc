#include "gpu/memory/address_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace kvtide::gpu {
namespace {

MemoryGeometry hbm3_stack() {
  return {.num_channels = 16,
          .num_pseudo_channels = 2,
          .pseudo_channel_bits = 32,
          .burst_length = 8,
          .num_stack_ids = 2,
          .num_bank_groups = 4,
          .num_banks = 4,
          .num_rows = 16384,
          .row_bytes = 1024};
}

DramLocation location(int channel, int pc, int sid, int group, int bank, int row, int column) {
  return {.channel = channel,
          .pseudo_channel = pc,
          .stack_id = sid,
          .bank_group = group,
          .bank = bank,
          .row = row,
          .column = column};
}

// Values computed by an independent program from the definition of the two maps.
TEST(AddressMap, Hash256GivesThePublishedLocations) {
  const AddressMap map(hbm3_stack(), 16, AddressMapping::hash256);
  EXPECT_EQ(map.locate(0x100), location(1, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(map.locate(0x2000), location(1, 0, 0, 1, 0, 0, 0));
  EXPECT_EQ(map.locate(0x12345680), location(12, 1, 0, 1, 2, 291, 4));
  EXPECT_EQ(map.locate(0x3fffffe0), location(3, 0, 0, 0, 0, 1023, 31));
  EXPECT_EQ(map.locate(0x2aaaaaaa0), location(11, 0, 1, 3, 3, 10922, 13));
}

TEST(AddressMap, Row1kGivesThePublishedLocations) {
  const AddressMap map(hbm3_stack(), 16, AddressMapping::row1k);
  EXPECT_EQ(map.locate(0x100), location(0, 0, 0, 0, 0, 0, 8));
  EXPECT_EQ(map.locate(0x2000), location(8, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(map.locate(0x12345680), location(5, 1, 0, 0, 2, 291, 20));
  EXPECT_EQ(map.locate(0x3fffffe0), location(15, 1, 1, 3, 3, 1023, 31));
  EXPECT_EQ(map.locate(0x2aaaaaaa0), location(10, 0, 1, 1, 1, 10922, 21));
}

TEST(AddressMap, IsOneToOneForAnyChannelCount) {
  MemoryGeometry small = hbm3_stack();
  small.num_rows = 12;
  for (const int num_channels : {1, 3, 5, 7, 12, 16, 80, 96}) {
    for (const AddressMapping mapping : {AddressMapping::hash256, AddressMapping::row1k}) {
      const AddressMap map(small, num_channels, mapping);
      const std::uint64_t bursts = map.capacity() / 32;
      std::vector<bool> seen(bursts);
      for (std::uint64_t burst = 0; burst < bursts; ++burst) {
        const DramLocation at = map.locate(burst * 32);
        ASSERT_LT(at.channel, num_channels);
        ASSERT_LT(at.row, 12);
        std::uint64_t index = static_cast<std::uint64_t>(at.channel);
        index = index * 2 + static_cast<std::uint64_t>(at.pseudo_channel);
        index = index * 2 + static_cast<std::uint64_t>(at.stack_id);
        index = index * 4 + static_cast<std::uint64_t>(at.bank_group);
        index = index * 4 + static_cast<std::uint64_t>(at.bank);
        index = index * 12 + static_cast<std::uint64_t>(at.row);
        index = index * 32 + static_cast<std::uint64_t>(at.column);
        ASSERT_LT(index, bursts);
        ASSERT_FALSE(seen[index]) << "two addresses at one place, " << num_channels << " channels, burst " << burst;
        seen[index] = true;
      }
    }
  }
}

TEST(AddressMap, PowerOfTwoStridesSpreadOverTheChannels) {
  // 16,384 accesses over N pseudo channels: no pseudo channel may get twice its share, whatever the stride.
  for (const int num_channels : {16, 80, 96, 160}) {
    const AddressMap map(hbm3_stack(), num_channels, AddressMapping::hash256);
    for (Bytes stride = 256; stride <= (Bytes{1} << 21); stride *= 2) {
      std::vector<int> hits(static_cast<std::size_t>(num_channels) * 2);
      for (Bytes i = 0; i < 16384; ++i) {
        const DramLocation at = map.locate(i * stride);
        ++hits[static_cast<std::size_t>(at.pseudo_channel * num_channels + at.channel)];
      }
      const double share = 16384.0 / static_cast<double>(hits.size());
      EXPECT_LT(*std::max_element(hits.begin(), hits.end()), 2 * share)
          << num_channels << " channels, stride " << stride;
    }
  }
}

TEST(AddressMap, WrapsAtTheCapacityAndKeeps256BytesTogether) {
  const AddressMap map(hbm3_stack(), 80, AddressMapping::hash256);
  EXPECT_EQ(map.capacity(), 80 * kGiB);  // 5 stacks of 16 GiB
  EXPECT_EQ(map.interleave(), 256U);
  for (const std::uint64_t address : {0ULL, 0x123400ULL, 0x1eadbeef00ULL}) {
    const DramLocation first = map.locate(address);
    DramLocation last = map.locate(address + 224);
    EXPECT_EQ(map.locate(address + map.capacity()), first);
    EXPECT_EQ(last.column, first.column + 7);
    last.column = first.column;
    EXPECT_EQ(last, first);
  }
}

}  // namespace
}  // namespace kvtide::gpu
