#include "gpu/kernel_graph.h"

#include <gtest/gtest.h>

namespace kvtide::gpu {
namespace {

// The header's example: the end waits for a, b, d (3 + 5 + 2 = 10); c may slip from 3 to 7.
TEST(KernelGraph, EndWaitsForTheLongestChain) {
  KernelGraph graph;
  const KernelIndex a = graph.add("a", Picoseconds{3}, {});
  const KernelIndex b = graph.add("b", Picoseconds{5}, {a});
  const KernelIndex c = graph.add("c", Picoseconds{1}, {a});
  const KernelIndex d = graph.add("d", Picoseconds{2}, {b, c});
  const KernelSchedule schedule = graph.schedule();
  EXPECT_EQ(schedule.duration.count(), 10);
  EXPECT_EQ(schedule.kernels[d].start.count(), 8);
  EXPECT_EQ(schedule.kernels[a].slack.count(), 0);
  EXPECT_EQ(schedule.kernels[b].slack.count(), 0);
  EXPECT_EQ(schedule.kernels[c].slack.count(), 4);
  EXPECT_EQ(schedule.kernels[d].slack.count(), 0);
}

TEST(KernelGraph, IndependentKernelsRunSideBySide) {
  KernelGraph graph;
  graph.add("a", Picoseconds{3}, {});
  graph.add("b", Picoseconds{7}, {});
  EXPECT_EQ(graph.schedule().duration.count(), 7);
  EXPECT_EQ(graph.schedule().kernels[0].slack.count(), 4);
}

TEST(KernelGraph, NoKernelsTakeNoTime) {
  EXPECT_EQ(KernelGraph().schedule().duration.count(), 0);
}

}  // namespace
}  // namespace kvtide::gpu
