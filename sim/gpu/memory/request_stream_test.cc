#include "gpu/memory/request_stream.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

constexpr Bytes kHbm3Capacity = Bytes{1} << 34;

/// FNV-1a 64 over the little-endian bytes of address * 2 + is_write of the first requests.
std::uint64_t checksum(RequestSource& source, std::int64_t num_requests) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (std::int64_t count = 0; count < num_requests;) {
    const RequestRun run = source.next();
    for (std::int64_t i = 0; i < run.num_bursts && count < num_requests; ++i, ++count) {
      const std::uint64_t value = (run.address + static_cast<std::uint64_t>(i) * 32) * 2 + (run.is_write ? 1 : 0);
      for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (value >> (8 * byte) & 0xff)) * 1099511628211ULL;
    }
  }
  return hash;
}

std::uint64_t reference_checksum(const std::string& name, Bytes block, Bytes capacity) {
  ReferenceStream stream(parse_stream_pattern(name, block), capacity, 32);
  return checksum(stream, 100000);
}

// Published with the reference runs; two independent programs agree on them.
TEST(ReferenceStream, GivesThePublishedChecksums) {
  EXPECT_EQ(reference_checksum("seq", 0, kHbm3Capacity), 0xcb56185888b4b163);
  EXPECT_EQ(reference_checksum("seq_w5", 0, kHbm3Capacity), 0x6e0a952fdf715423);
  EXPECT_EQ(reference_checksum("gather256", 0, kHbm3Capacity), 0x722b42120633cb23);
  EXPECT_EQ(reference_checksum("random64", 0, kHbm3Capacity), 0xf648d791cde362b3);
  EXPECT_EQ(reference_checksum("paged_n64", 16384, kHbm3Capacity), 0x21a8df841c277ce3);
  EXPECT_EQ(reference_checksum("paged_n64", 524288, kHbm3Capacity / 2), 0xde69922015ef9dbb);
  EXPECT_EQ(reference_checksum("paged_n64_w5", 16384, kHbm3Capacity), 0xc200abf015082db3);
  EXPECT_EQ(reference_checksum("paged_n64_randil", 16384, kHbm3Capacity), 0xf1d9ec8ee80af6db);
  EXPECT_EQ(reference_checksum("paged_n64_off512", 16384, kHbm3Capacity), 0x53ca47fc9ba7e9d3);
}

TEST(ReferenceStream, AgreesWithEveryChecksumOfTheSharedFile) {
  std::ifstream file(KVTIDE_SOURCE_DIR "/../shared/data/dram-traces/checksums.csv");
  if (!file) GTEST_SKIP() << "no ../shared/data/dram-traces/checksums.csv";
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::stringstream fields(line);
    std::string label, capacity, count, hash;
    std::getline(fields, label, ',');
    std::getline(fields, capacity, ',');
    std::getline(fields, count, ',');
    std::getline(fields, hash, ',');
    // "paged_n64_16K_w5" names the block between the stream count and the rest.
    Bytes block = 0;
    if (const auto at = label.find("K"); at != std::string::npos) {
      const auto begin = label.rfind('_', at);
      block = std::stoull(label.substr(begin + 1)) * 1024;
      label.erase(begin, at + 1 - begin);
    }
    EXPECT_EQ(reference_checksum(label, block, std::stoull(capacity)), std::stoull(hash, nullptr, 16)) << line;
  }
}

TEST(ReferenceStream, RefusesUnknownNamesAndImpossibleSizes) {
  for (const char* name : {"", "sequ", "gather", "gatherx", "paged", "paged_nx", "seq_q5", "gather-64"}) {
    EXPECT_THROW((void)parse_stream_pattern(name, 4096), InputError) << name;
  }
  const auto make = [](const char* name, Bytes block) {
    return ReferenceStream(parse_stream_pattern(name, block), Bytes{1} << 20, 32);
  };
  EXPECT_NO_THROW(make("gather32", 0));
  EXPECT_THROW(make("gather16", 0), InputError);  // less than a burst
  EXPECT_THROW(make("gather0", 0), InputError);
  EXPECT_THROW(make("paged_n0", 4096), InputError);
  EXPECT_NO_THROW(make("paged_n4", 1 << 19));
  EXPECT_THROW(make("paged_n4", (1 << 19) + 1), InputError);  // two blocks do not fit
  EXPECT_THROW(make("seq_w101", 0), InputError);
}

TEST(PatternStream, ReadsEachChunkWholeInPiecesOfOneStreamAfterTheOther) {
  // 2 streams of 512 B chunks: two pieces of 256 B = 8 bursts each.
  PatternStream stream({.chunk_bytes = 512, .num_streams = 2}, 2, Bytes{1} << 20, 32);
  const RequestRun a = stream.next(), b = stream.next(), a2 = stream.next(), b2 = stream.next();
  EXPECT_EQ(a.address % 512, 0U);
  EXPECT_EQ(a.num_bursts, 8);
  EXPECT_EQ(a2.address, a.address + 256);
  EXPECT_EQ(b2.address, b.address + 256);
  EXPECT_EQ(a2.num_bursts, 8);
  EXPECT_DOUBLE_EQ(stream.useful_share(), 1.0);
}

TEST(PatternStream, ChunksThatAreNotWholeBurstsReadMoreThanTheyUse) {
  // 48 B chunks at multiples of 48: starts at 0 or 16 B into a burst; both touch exactly 2 bursts = 64 B.
  EXPECT_DOUBLE_EQ(PatternStream({.chunk_bytes = 48}, 1, Bytes{1} << 20, 32).useful_share(), 0.75);
  // 40 B: starts 0, 8, 16, 24 B in, touching 2, 2, 2, 2 bursts. 33 B: every start r = 0..31 touches 2 bursts.
  EXPECT_DOUBLE_EQ(PatternStream({.chunk_bytes = 40}, 1, Bytes{1} << 20, 32).useful_share(), 40.0 / 64.0);
  EXPECT_DOUBLE_EQ(PatternStream({.chunk_bytes = 33}, 1, Bytes{1} << 20, 32).useful_share(), 33.0 / 64.0);
}

TEST(PatternStream, WritesTheAskedShare) {
  PatternStream stream({.chunk_bytes = 256, .num_streams = 8, .write_share = 0.25}, 8, Bytes{1} << 30, 32);
  int writes = 0;
  for (int i = 0; i < 10000; ++i) writes += stream.next().is_write ? 1 : 0;
  EXPECT_NEAR(writes, 2500, 4 * 43.3);  // sigma = sqrt(10000 * 0.25 * 0.75) = 43.3
}

}  // namespace
}  // namespace kvtide::gpu
