#include "gpu/collective.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/link_topology.h"

namespace kvtide::gpu {
namespace {

Interconnect pcie_pairs() {
  Interconnect link;
  link.name = "pairs";
  link.kind = LinkKind::root_complex;
  link.max_ranks = 4;
  link.link_bandwidth = 60e9;
  link.cross_bandwidth = 40e9;
  return link;
}

GpuProfile with_ring() {
  GpuProfile profile;
  profile.bandwidth = 1e12;
  profile.read_efficiency = 1;
  Interconnect& link = profile.interconnect;
  link.name = "ring";
  link.max_ranks = 8;
  link.link_bandwidth = 100e9;
  link.link_latency = 1e-6;
  link.ring_launch = 5e-6;
  link.ring_ramp = 20e-6;
  link.ring_small_share = 0.25;
  link.ring_large_share = 0.8;
  link.host_launch = 30e-6;
  return profile;
}

double microseconds(const GpuProfile& profile, CollectiveWork work) {
  return to_microseconds(time_collective(profile, work).duration);
}

// One decoded token of Llama-3.1-8B in 16 bit, batch 4, hidden 4096: 4 x 4096 x 2 B = 32,768 B. Two ranks: each sends
// half in the reduce-scatter and half in the all-gather, 32,768 B in all. Four ranks: 2 x 3/4 x 32,768 = 49,152 B.
TEST(Collective, AllReduceSendsTwiceTheForeignShare) {
  EXPECT_DOUBLE_EQ(bytes_sent_per_rank({.num_ranks = 2, .bytes = 32768}), 32768);
  EXPECT_DOUBLE_EQ(bytes_sent_per_rank({.num_ranks = 4, .bytes = 32768}), 49152);
  EXPECT_DOUBLE_EQ(bytes_sent_per_rank({.kind = CollectiveKind::all_gather, .num_ranks = 4, .bytes = 32768}), 24576);
}

// 4 ranks, 100,000 B: 6 steps x 1 us + 150,000 B / 25 GB/s = 6 us + 6 us, + 5 us launch = 17 us. A large message:
// 400 MB: 600 MB x (6 + 1/3) / 6 / 80 GB/s = 7916.7 us, + 20 + 6 + 5.
TEST(Collective, RingTakesTheCheaperProtocol) {
  const GpuProfile profile = with_ring();
  EXPECT_NEAR(microseconds(profile, {.num_ranks = 4, .bytes = 100'000, .library = "nccl"}), 17, 1e-3);
  EXPECT_NEAR(microseconds(profile, {.num_ranks = 4, .bytes = 400'000'000, .library = "nccl"}), 7947.667, 1e-2);
}

// Eager: 100 kB would take 5 + 2 + 4 us with two ranks; the host needs 30. 400 MB: the result is copied, 0.8 ms more.
TEST(Collective, WithoutGraphTheHostPacesSmallMessagesAndACopyIsAdded) {
  const GpuProfile profile = with_ring();
  EXPECT_NEAR(microseconds(profile, {.num_ranks = 2, .bytes = 100'000, .library = "nccl", .has_graph = false}), 30,
              1e-3);
  const double replayed = microseconds(profile, {.num_ranks = 2, .bytes = 400'000'000, .library = "nccl"});
  EXPECT_NEAR(
      microseconds(profile, {.num_ranks = 2, .bytes = 400'000'000, .library = "nccl", .has_graph = false}) - replayed,
      800, 1e-2);
}

TEST(Collective, OneRankNeedsNone) {
  EXPECT_EQ(time_collective(with_ring(), {.num_ranks = 1, .bytes = 1 << 20}).duration.count(), 0);
}

TEST(Collective, MoreRanksThanTheNodeHasAreRefused) {
  EXPECT_NO_THROW((void)time_collective(with_ring(), {.num_ranks = 8, .bytes = 1024}));
  EXPECT_THROW((void)time_collective(with_ring(), {.num_ranks = 9, .bytes = 1024}), InputError);
  EXPECT_THROW((void)time_collective(with_ring(), {.num_ranks = 2, .bytes = 8, .library = "mpi"}), InputError);
}

// vLLM's limits of an H100 node with 8 ranks: one-shot below 256 KiB; the two-shot kernel's fixed cost shows right at it.
TEST(Collective, VllmLeavesTheOneShotKernelAtItsLimit) {
  const GpuProfile h100 = load_gpu_profile("h100-sxm");
  const double below = microseconds(h100, {.num_ranks = 8, .bytes = (256 << 10) - 16, .library = "vllm"});
  const double at = microseconds(h100, {.num_ranks = 8, .bytes = 256 << 10, .library = "vllm"});
  // One-shot: 7 x 256 KiB / 256.5 GB/s = 7.15 us + 4.5; two-shot: 2 x 256 KiB / 387 GB/s = 1.35 us + 9.
  EXPECT_NEAR(below, 11.65, 0.01);
  EXPECT_NEAR(at, 10.35, 0.01);
}

// Pairs 0-1 and 2-3 talk directly at 60 GB/s; 1 to 2 crosses the host over two links of 40 GB/s.
TEST(LinkTopology, ForeignPairsCrossTheHost) {
  const LinkTopology topology(pcie_pairs(), 4);
  EXPECT_EQ(topology.num_links(0, 1), 1);
  EXPECT_EQ(topology.num_links(1, 2), 2);
  EXPECT_EQ(topology.num_links(2, 2), 0);
  EXPECT_DOUBLE_EQ(topology.ring_time(60e9), 1.5);                            // the crossing decides
  EXPECT_DOUBLE_EQ(topology.transfer_time({{0, 1, 60e9}, {1, 0, 60e9}}), 1);  // directions do not share
  // Every rank 20 GB to each of three others: its two foreign ones share 40 GB/s.
  EXPECT_DOUBLE_EQ(topology.direct_time(60e9), 1);
}

// A mesh of 4: three links a GPU. 60 GB over all three at 20 GB/s each: 1 s; a ring uses one link: 3 s.
TEST(LinkTopology, MeshUsesAllItsLinksOnlyWhenAllPairsTalk) {
  Interconnect link = pcie_pairs();
  link.kind = LinkKind::mesh;
  link.link_bandwidth = 20e9;
  const LinkTopology topology(link, 4);
  EXPECT_DOUBLE_EQ(topology.direct_time(60e9), 1);
  EXPECT_DOUBLE_EQ(topology.ring_time(60e9), 3);
}

TEST(Interconnect, EveryShippedProfileNamesOne) {
  for (const std::string& name : known_gpus()) {
    const Interconnect link = load_gpu_profile(name).interconnect;
    EXPECT_GT(link.link_bandwidth, 0) << name;
    EXPECT_GE(link.max_ranks, 2) << name;
  }
}

}  // namespace
}  // namespace kvtide::gpu
