#include "experiment/trace_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kv/compression/evict.h"

namespace kvtide::experiment {
namespace {

/// Half of each block by the keys' norms.
kv::Compression half_of_each_block() {
  kv::Compression setting;
  setting.block_size = 8;
  setting.stages = {
      kv::Evict{.scorer = "knorm", .granularity = kv::Granularity::token, .selection = kv::Selection::quota}};
  return setting;
}

/// Of the half of all positions with the highest scores, how many lie in `begin`..`begin` + 7, the eight after those, ...
std::vector<std::int64_t> chosen_of_eight(const TraceInputs& trace, const kv::Compression& setting,
                                          std::int64_t begin) {
  const auto scores = trace.scores(setting, std::get<kv::Evict>(setting.stages.front()), {});
  const std::int64_t size = trace.num_compressed();
  std::vector<std::int64_t> counts(static_cast<std::size_t>((size - begin) / 8), 0);
  for (const std::size_t best : kv::best_positions(scores->scores.front().front(), size / 2)) {
    const std::int64_t place = static_cast<std::int64_t>(best) - begin;
    if (place >= 0 && place / 8 < std::ssize(counts)) counts[static_cast<std::size_t>(place / 8)] += 1;
  }
  return counts;
}

// 224 positions. Fixed blocks 0..7, 8..15, ...: four are chosen of each. Boundaries at 4, 12, 20, ... (a place 4 repeated every 8
// tokens) make blocks 0..3, 4..11, 12..19, ...: four of each but the first and the last, which have two. Whichever is asked for
// first, the other does not get its scores.
TEST(TraceInputs, ScoresOfAPartitionDependOnNoOtherPartition) {
  TraceSource source;
  source.kind = TraceKind::synthetic;
  source.synthetic_kind = "uniform";
  source.parameters = {{"tokens", 256}, {"question_tokens", 32}};
  LossSetting loss;
  loss.measure_queries = MeasureQueries::answer;
  const kv::Compression fixed = half_of_each_block();
  kv::Compression content = half_of_each_block();
  content.partition.kind = kv::PartitionKind::content;
  content.partition.boundaries = {{4}, 8};
  const std::vector<std::int64_t> of_fixed(28, 4);
  const std::vector<std::int64_t> of_content(27, 4);
  const TraceInputs fixed_first(source, loss, 1);
  ASSERT_EQ(fixed_first.num_compressed(), 224);
  EXPECT_EQ(chosen_of_eight(fixed_first, fixed, 0), of_fixed);
  EXPECT_EQ(chosen_of_eight(fixed_first, content, 4), of_content);
  const TraceInputs content_first(source, loss, 1);
  EXPECT_EQ(chosen_of_eight(content_first, content, 4), of_content);
  EXPECT_EQ(chosen_of_eight(content_first, fixed, 0), of_fixed);
  EXPECT_NE(chosen_of_eight(fixed_first, fixed, 4), of_content);
}

}  // namespace
}  // namespace kvtide::experiment
