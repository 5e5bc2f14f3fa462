#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "gpu/memory/memory_device.h"

namespace kvtide::gpu {
namespace {

MemoryDevice h100_sxm() {
  return {load_memory_standard("hbm3"), 80, 5.24e9};
}
MemoryDevice one_stack() {
  return {load_memory_standard("hbm2"), 8, 2.0e9};
}

TEST(MemoryModel, TheThreeTiersAgreeWhereEachIsAtItsBest) {
  // Many large reads in flight: the roofline is an upper bound that the scheduled tiers reach to 15 %: refresh takes
  // 260 of 3900 ns (6.7 %), activates of 64-entry queues the rest.
  const auto roofline = make_memory_model(one_stack(), Fidelity::roofline);
  for (const Bytes chunk : {4096U, 65536U}) {
    const AccessPattern pattern{.chunk_bytes = chunk, .num_streams = 256, .bytes_in_flight = 512 << 10};
    const double bound = roofline->measure(pattern).bytes_per_second;
    for (const Fidelity fidelity : {Fidelity::sampled, Fidelity::detailed}) {
      const double rate = make_memory_model(one_stack(), fidelity)->measure(pattern).bytes_per_second;
      EXPECT_LE(rate, bound) << chunk;
      EXPECT_GE(rate, 0.85 * bound) << chunk;
    }
  }
}

TEST(MemoryModel, SampledIsNearDetailed) {
  const auto detailed = make_memory_model(one_stack(), Fidelity::detailed);
  const auto sampled = make_memory_model(one_stack(), Fidelity::sampled);
  for (const AccessPattern& pattern :
       {AccessPattern{.chunk_bytes = 4096, .num_streams = 64, .bytes_in_flight = 64 << 10},
        AccessPattern{.chunk_bytes = 64, .num_streams = 512, .bytes_in_flight = 256 << 10},
        AccessPattern{.chunk_bytes = 65536, .num_streams = 128, .write_share = 0.5, .bytes_in_flight = 128 << 10},
        AccessPattern{.chunk_bytes = 1024, .num_streams = 16, .bytes_in_flight = 4 << 10}}) {
    const MemoryPerformance whole = detailed->measure(pattern);
    const MemoryPerformance part = sampled->measure(pattern);
    EXPECT_NEAR(part.bytes_per_second / whole.bytes_per_second, 1.0, 0.05) << pattern.chunk_bytes;
    EXPECT_NEAR(part.row_hit_rate, whole.row_hit_rate, 0.02) << pattern.chunk_bytes;
    EXPECT_LT(part.relative_half_width, 0.02);
    EXPECT_GE(part.peak_fraction, 0.0);
    EXPECT_LE(part.peak_fraction, 1.0);
  }
}

/// Chunk, streams and bytes in flight log-uniform over what kernels do; one signature in three writes.
std::pair<MemoryDevice, AccessPattern> random_signature(std::uint64_t index) {
  RandomStream random(index, "signature");
  const std::vector<std::string> standards{"hbm2", "hbm3", "hbm3e", "gddr6", "hbm2e"};
  const std::vector<std::int64_t> num_channels{8, 16, 20, 24, 32, 40};
  MemoryDevice device;
  device.standard = load_memory_standard(standards[random.below(standards.size())]);
  device.num_channels = num_channels[random.below(num_channels.size())];
  device.data_rate = device.standard.data_rate;
  device.queue_size = random.below(2) == 0 ? 256 : 64;
  const auto log_uniform = [&random](double from, double to) { return from * std::pow(to / from, random.uniform()); };
  AccessPattern pattern;
  pattern.chunk_bytes = static_cast<Bytes>(log_uniform(32, 65536));
  pattern.num_streams = static_cast<std::int64_t>(log_uniform(1, 4096));
  pattern.write_share = random.below(3) == 0 ? 0.5 * random.uniform() : 0.0;
  pattern.bytes_in_flight = static_cast<Bytes>(log_uniform(4096, 2e6));
  return {device, pattern};
}

TEST(MemoryModel, SampledIsWithin3PercentMedianAnd8PercentWorstOnRandomSignatures) {
  const char* scope = std::getenv("KVTIDE_TEST_SCOPE");
  const std::uint64_t num_signatures = scope != nullptr && std::string(scope) == "all" ? 500 : 24;
  std::vector<double> errors;
  for (std::uint64_t index = 0; index < num_signatures; ++index) {
    const auto [device, pattern] = random_signature(index);
    const double whole = make_memory_model(device, Fidelity::detailed)->measure(pattern).bytes_per_second;
    const double part = make_memory_model(device, Fidelity::sampled)->measure(pattern).bytes_per_second;
    errors.push_back(std::abs(part / whole - 1.0));
    EXPECT_LE(errors.back(), 0.08) << device.standard.name << ", channels " << device.num_channels << ", queue "
                                   << device.queue_size << ", chunk " << pattern.chunk_bytes << " B, streams "
                                   << pattern.num_streams << ", write share " << pattern.write_share << ", in flight "
                                   << pattern.bytes_in_flight << " B";
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.03);
  RecordProperty("median_error", std::to_string(errors[errors.size() / 2]));
  RecordProperty("worst_error", std::to_string(errors.back()));
}

TEST(MemoryModel, SampledReportsHowOftenItKnewASignature) {
  const auto memory = make_memory_model(one_stack(), Fidelity::sampled);
  EXPECT_EQ(memory->statistics().hit_rate(), 0.0);
  const AccessPattern first{.chunk_bytes = 256, .num_streams = 32, .bytes_in_flight = 1 << 14};
  const AccessPattern second{.chunk_bytes = 512, .num_streams = 32, .bytes_in_flight = 1 << 14};
  const double half_width = memory->measure(first).relative_half_width;
  (void)memory->measure(first);
  (void)memory->measure(first);
  const double other = memory->measure(second).relative_half_width;
  EXPECT_EQ(memory->statistics().num_lookups, 4);
  EXPECT_EQ(memory->statistics().num_known, 2);
  EXPECT_DOUBLE_EQ(memory->statistics().hit_rate(), 0.5);
  EXPECT_DOUBLE_EQ(memory->statistics().worst_half_width, std::max(half_width, other));
  EXPECT_EQ(make_memory_model(one_stack(), Fidelity::roofline)->statistics().num_lookups, 0);
}

TEST(MemoryModel, AnH100StreamsPagesNearItsPins) {
  // Measured read-only fractions of HBM GPUs are .92-.96 (A100 40 GB, H100 PCIe; RRZE gpu-benches 1c36d50); refresh
  // alone takes 1 - 0.90. With hundreds of pages in flight a 64-entry queue gives 0.6 to 0.9 of peak.
  const auto memory = make_memory_model(h100_sxm(), Fidelity::sampled);
  const MemoryPerformance pages =
      memory->measure({.chunk_bytes = 4096, .num_streams = 1024, .bytes_in_flight = 2 << 20});
  EXPECT_GT(pages.peak_fraction, 0.6);
  EXPECT_LT(pages.peak_fraction, 0.91);
  EXPECT_DOUBLE_EQ(pages.bytes_per_second, pages.peak_fraction * 3353.6e9);
  EXPECT_LT(pages.relative_half_width, 0.02);
}

TEST(MemoryModel, PageSizeAloneChangesLittle) {
  // Pages of 16 and 64 tokens of one head (128 fp16 values): 4 KiB and 16 KiB; the same bytes must take the same time
  // to 1.5 %.
  const auto memory = make_memory_model(h100_sxm(), Fidelity::sampled);
  const double small = memory->measure({.chunk_bytes = 4096, .num_streams = 512}).bytes_per_second;
  const double large = memory->measure({.chunk_bytes = 16384, .num_streams = 512}).bytes_per_second;
  EXPECT_NEAR(small / large, 1.0, 0.015);
}

TEST(MemoryModel, FewBytesInFlightAreBoundByLatency) {
  // One 32 B read at a time: at least RCD + CL + burst = 14 + 1 + 14 + 2 = 31 ns each, so at most 1.03 GB/s.
  const auto memory = make_memory_model(one_stack(), Fidelity::sampled);
  const double one = memory->measure({.chunk_bytes = 32, .num_streams = 1, .bytes_in_flight = 32}).bytes_per_second;
  EXPECT_LT(one, 32 / 31e-9);
  EXPECT_GT(one, 32 / 60e-9);
  double previous = 0;
  for (const Bytes in_flight : {32U, 1024U, 16384U, 131072U, 1048576U}) {
    const double rate =
        memory->measure({.chunk_bytes = 4096, .num_streams = 256, .bytes_in_flight = in_flight}).bytes_per_second;
    EXPECT_GT(rate, 0.99 * previous) << in_flight;
    previous = rate;
  }
}

TEST(MemoryModel, PartialBurstsCostWholeOnes) {
  const auto memory = make_memory_model(one_stack(), Fidelity::sampled);
  const double whole =
      memory->measure({.chunk_bytes = 64, .num_streams = 256, .bytes_in_flight = 1 << 18}).bytes_per_second;
  const double odd =
      memory->measure({.chunk_bytes = 33, .num_streams = 256, .bytes_in_flight = 1 << 18}).bytes_per_second;
  EXPECT_NEAR(odd / whole, 33.0 / 64.0, 0.06);  // 33 B at multiples of 33 always touch two bursts
}

TEST(MemoryModel, RooflineIsPeakTimesOneEfficiency) {
  MemoryDevice device = h100_sxm();
  device.roofline_efficiency = 0.5;
  const MemoryPerformance roof =
      make_memory_model(device, Fidelity::roofline)->measure({.chunk_bytes = 32, .num_streams = 1});
  EXPECT_DOUBLE_EQ(roof.bytes_per_second, 0.5 * 3353.6e9);
  EXPECT_TRUE(std::isnan(roof.row_hit_rate));
}

TEST(MemoryModel, IsTheSameFromAnyThreadAndInAnyOrder) {
  const std::vector<AccessPattern> patterns{{.chunk_bytes = 256, .num_streams = 32, .bytes_in_flight = 1 << 16},
                                            {.chunk_bytes = 8192, .num_streams = 32, .bytes_in_flight = 1 << 16}};
  const auto shared = make_memory_model(one_stack(), Fidelity::sampled);
  std::vector<std::vector<double>> rates(4);
  {
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < rates.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 2; ++i) rates[t].push_back(shared->measure(patterns[(t + i) % 2]).bytes_per_second);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const auto fresh = make_memory_model(one_stack(), Fidelity::sampled);
  for (std::size_t t = 0; t < rates.size(); ++t) {
    EXPECT_EQ(rates[t][0], fresh->measure(patterns[t % 2]).bytes_per_second);
    EXPECT_EQ(rates[t][1], fresh->measure(patterns[(t + 1) % 2]).bytes_per_second);
  }
}

TEST(MemoryModel, RefusesPatternsOutOfRange) {
  const auto memory = make_memory_model(one_stack(), Fidelity::sampled);
  EXPECT_THROW((void)memory->measure({.chunk_bytes = 31}), InputError);
  EXPECT_THROW((void)memory->measure({.chunk_bytes = (64 << 20) + 1}), InputError);
  EXPECT_THROW((void)memory->measure({.num_streams = 0}), InputError);
  EXPECT_THROW((void)memory->measure({.write_share = 1.01}), InputError);
  EXPECT_THROW((void)memory->measure({.write_share = std::nan("")}), InputError);
  EXPECT_THROW((void)memory->measure({.bytes_in_flight = 0}), InputError);
  EXPECT_NO_THROW(
      (void)memory->measure({.chunk_bytes = 64 << 20, .num_streams = INT64_MAX, .bytes_in_flight = UINT64_MAX}));
}

}  // namespace
}  // namespace kvtide::gpu
