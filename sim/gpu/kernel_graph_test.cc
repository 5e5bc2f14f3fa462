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

// Five kernels on two streams, us: q (4) -> attend (10) -> o (3) -> down (5); compress (12) after attend, on the side;
// the end waits for both. Main: 4 + 10 + 3 + 5 = 22; side: 4 + 10 + 12 = 26: the side stream is critical, o and down may
// slip by 26 - 22 = 4.
TEST(KernelGraph, SideStreamBecomesCriticalWhenItIsLonger) {
  KernelGraph graph;
  const KernelIndex q = graph.add("q", Picoseconds{4}, {});
  const KernelIndex attend = graph.add("attend", Picoseconds{10}, {q});
  const KernelIndex compress = graph.add("compress", Picoseconds{12}, {attend}, 0, 1);
  const KernelIndex o = graph.add("o", Picoseconds{3}, {attend});
  const KernelIndex down = graph.add("down", Picoseconds{5}, {o});
  const KernelSchedule schedule = graph.schedule();
  EXPECT_EQ(schedule.duration.count(), 26);
  EXPECT_EQ(schedule.kernels[compress].start.count(), 14);
  EXPECT_EQ(schedule.kernels[compress].stream, 1);
  EXPECT_EQ(schedule.kernels[compress].slack.count(), 0);
  EXPECT_EQ(schedule.kernels[q].slack.count(), 0);
  EXPECT_EQ(schedule.kernels[attend].slack.count(), 0);
  EXPECT_EQ(schedule.kernels[o].slack.count(), 4);
  EXPECT_EQ(schedule.kernels[down].slack.count(), 4);
}

TEST(KernelGraph, NoKernelsTakeNoTime) {
  EXPECT_EQ(KernelGraph().schedule().duration.count(), 0);
}

}  // namespace
}  // namespace kvtide::gpu
