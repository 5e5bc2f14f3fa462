#include "serving/machine_step_time.h"

#include <gtest/gtest.h>

#include "gpu/testing/llama_on_h100.h"

namespace kvtide::serving {
namespace {

class MachineStepTimeTest : public ::testing::Test {
 protected:
  static MachineStepTime::Options llama() { return {.iteration = gpu::testing_support::llama()}; }
  static StepShape decodes(std::int64_t count, std::int64_t length) {
    return {.prefills = {}, .num_decodes = count, .decode_kv_tokens = count * length, .num_rows = count};
  }
  double whole_graph(const gpu::BatchShape& batch) {
    gpu::IterationModel model(gpu_, llama().iteration);
    return to_seconds(model.step(batch));
  }

  gpu::Gpu gpu_ = gpu::testing_support::h100();
  MachineStepTime step_time_{gpu_, llama()};
};

// 8 is a captured batch and 1,024 a priced length, so nothing is rounded: the parts are the graph's kernels.
TEST_F(MachineStepTimeTest, ThePartsAddUpToTheGraph) {
  const std::vector<std::int64_t> lengths(8, 1024);
  EXPECT_NEAR(to_seconds(step_time_.duration(decodes(8, 1024))), whole_graph({.decode_lengths = lengths, .chunks = {}}),
              1e-9);
  StepShape mixed = decodes(8, 1024);
  mixed.prefills = {{240, 0}};
  mixed.num_rows = 9;
  EXPECT_NEAR(to_seconds(step_time_.duration(mixed)), whole_graph({.decode_lengths = lengths, .chunks = {{240, 0}}}),
              1e-9);
}

TEST_F(MachineStepTimeTest, BetweenPricedLengthsTheErrorIsBelowOnePercent) {
  for (const std::int64_t length : {200, 1000, 3333, 9000}) {
    const std::vector<std::int64_t> lengths(64, length);
    const double exact = whole_graph({.decode_lengths = lengths, .chunks = {}});
    EXPECT_NEAR(to_seconds(step_time_.duration(decodes(64, length))) / exact, 1, 0.01) << length;
  }
}

// The closed form against one step after another; each step is rounded to a picosecond.
TEST_F(MachineStepTimeTest, ARunOfDecodesTakesTheSumOfItsSteps) {
  StepShape shape = decodes(5, 3);
  Picoseconds sum{0};
  for (int step = 0; step < 300; ++step) {
    sum += step_time_.duration(shape);
    shape.decode_kv_tokens += 5;
  }
  EXPECT_NEAR(static_cast<double>(step_time_.decode_run(5, 15, 300).count()), static_cast<double>(sum.count()), 300);
}

// 9 sequences replay the graph captured for 16; their attention and logits are those of 9.
TEST_F(MachineStepTimeTest, DecodesOnlyArePaddedToACapturedBatch) {
  MachineStepTime::Options exact = llama();
  exact.largest_capture = 1;
  MachineStepTime unpadded(gpu_, exact);
  EXPECT_GT(step_time_.duration(decodes(9, 1024)), unpadded.duration(decodes(9, 1024)));
  EXPECT_EQ(step_time_.duration(decodes(8, 1024)), unpadded.duration(decodes(8, 1024)));
}

// Chunks of (16 new, 0 cached) and (32, 1024); one chunk of (16, 0) beside 32 decodes of 1,024 tokens: the same numbers in a row, other
// kernels. Whichever is asked first, each costs what it costs alone. Both have 48 tokens; rows differ on purpose.
TEST_F(MachineStepTimeTest, ASecondChunkIsNotTakenForDecodes) {
  StepShape chunks{.prefills = {{16, 0}, {32, 1024}}, .num_decodes = 0, .decode_kv_tokens = 0, .num_rows = 2};
  StepShape mixed = decodes(32, 1024);
  mixed.prefills = {{16, 0}};
  mixed.num_rows = 33;
  const Picoseconds chunks_alone = MachineStepTime(gpu_, llama()).duration(chunks);
  const Picoseconds mixed_alone = MachineStepTime(gpu_, llama()).duration(mixed);
  EXPECT_EQ(step_time_.duration(chunks), chunks_alone);
  EXPECT_EQ(step_time_.duration(mixed), mixed_alone);
  EXPECT_EQ(step_time_.duration(chunks), chunks_alone);
}

TEST_F(MachineStepTimeTest, AKnownShapeIsNotPricedAgain) {
  (void)step_time_.duration(decodes(8, 1000));
  const std::size_t priced = step_time_.num_priced();
  (void)step_time_.duration(decodes(8, 1001));
  EXPECT_EQ(step_time_.num_priced(), priced);
}

// 1,600 tokens of 131,072 B are 100 pages in each of 32 layers: 3,200 pieces beside the step itself, decoding or not.
TEST_F(MachineStepTimeTest, CopiesToHostMemoryLengthenTheirStep) {
  MachineStepTime::Options options = llama();
  options.swap_bytes = 131072;
  MachineStepTime swapping(gpu_, options);
  const double copy = to_seconds(gpu_.host_transfer({.bytes = 1600 * 131072, .num_pieces = 3200}).duration);
  ASSERT_GT(copy, 1600 * 131072 / 63e9);  // an H100's link
  StepShape shape = decodes(8, 1024);
  const double without = to_seconds(swapping.duration(shape));
  shape.swapped_tokens = 1600;
  EXPECT_NEAR(to_seconds(swapping.duration(shape)), without + copy, 1e-9);
  StepShape prompt{.prefills = {{.tokens = 512, .kv_before = 0}}, .num_rows = 1};
  const double plain = to_seconds(swapping.duration(prompt));
  prompt.swapped_tokens = 1600;
  EXPECT_NEAR(to_seconds(swapping.duration(prompt)), plain + copy, 1e-9);
}

}  // namespace
}  // namespace kvtide::serving
