#include "serving/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvtide::serving {
namespace {

using testing::ElementsAre;

RequestTrace load(const std::string& text, const std::string& arrival = "arrival_s") {
  const std::string path = testing::TempDir() + "/requests-" + std::to_string(::getpid()) + ".csv";
  std::ofstream(path) << text;
  struct Remove {
    std::string path;
    ~Remove() { std::filesystem::remove(path); }
  } remove{path};
  return load_requests(path, arrival);
}

TEST(BlockIds, RangesIncludeBothEnds) {
  EXPECT_THAT(parse_block_ids("0-2 7"), ElementsAre(0, 1, 2, 7));
  EXPECT_THAT(parse_block_ids(""), ElementsAre());
  EXPECT_THAT(parse_block_ids("5-5"), ElementsAre(5));
  for (const char* wrong : {"a", "1-", "-1", "3-2", "1,2", "0-2000000", "1.5"}) {
    EXPECT_THROW(parse_block_ids(wrong), InputError) << wrong;
  }
}

TEST(RequestTraceFile, IsSortedByArrival) {
  const RequestTrace trace = load("arrival_s,input_tokens,output_tokens\n2.5,10,1\n0.000001,20,2\n2.5,30,3\n");
  ASSERT_EQ(trace.requests.size(), 3U);
  EXPECT_EQ(trace.requests[0].input_tokens, 20);
  EXPECT_EQ(trace.requests[0].arrival.count(), 1'000'000);  // ps
  EXPECT_EQ(trace.requests[1].input_tokens, 10);            // equal times keep the order of the file
  EXPECT_EQ(trace.requests[2].input_tokens, 30);
  EXPECT_EQ(trace.shared_block_tokens, 0);
}

TEST(RequestTraceFile, KnowsTheBlockIdsOfItsSources) {
  const RequestTrace mooncake = load("arrival_s,input_tokens,output_tokens,hash_blocks\n0,1025,5,0-1 9\n");
  EXPECT_EQ(mooncake.shared_block_tokens, 512);
  EXPECT_THAT(mooncake.requests[0].shared_blocks, ElementsAre(0, 1, 9));
  EXPECT_EQ(load("input_tokens,output_tokens,shared_prefix_blocks\n9,1,\n").shared_block_tokens, 16);
}

// 100 tokens are 6 blocks of 16 and a part of a seventh: no prompt shares what lies behind it, however many ids a row claims.
TEST(RequestTraceFile, KeepsTheIdsThatThePromptHolds) {
  const RequestTrace trace = load("input_tokens,output_tokens,shared_prefix_blocks\n100,1,5 0-999998\n");
  EXPECT_THAT(trace.requests[0].shared_blocks, ElementsAre(5, 0, 1, 2, 3, 4, 5));
}

// A prompt of 2^30 tokens holds a million ids; 68 rows of them are more than 2^26 = 67,108,864.
TEST(RequestTraceFile, HoldsSoManyIdsAndNoMore) {
  std::string text = "input_tokens,output_tokens,shared_prefix_blocks\n";
  for (int row = 0; row < 68; ++row) text += "1073741824,1,0-999999\n";
  try {
    (void)load(text);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(".csv:69: shared_prefix_blocks: more than 67108864 block ids"));
  }
}

TEST(RequestTraceFile, WithoutTimesEverybodyIsThereAtOnce) {
  EXPECT_EQ(load("input_tokens,output_tokens\n9,1\n").requests[0].arrival.count(), 0);
  EXPECT_THROW(load("input_tokens,output_tokens\n9,1\n", "queued_s"), InputError);
}

// Seconds, or nothing: milliseconds, or a time stamp, are not passed over.
TEST(RequestTraceFile, TimesOfAnotherNameAreNotTakenForNone) {
  for (const char* column : {"arrival_ms", "TIMESTAMP", "Arrived at"}) {
    try {
      (void)load(std::string(column) + ",input_tokens,output_tokens\n0,9,1\n");
      ADD_FAILURE() << column;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string(".csv:1: no column arrival_s, but ") + column));
    }
    EXPECT_NO_THROW((void)load(std::string("arrival_s,input_tokens,output_tokens,") + column + "\n0,9,1,x\n"));
  }
}

TEST(RequestTraceFile, RefusesWhatNoClientSends) {
  EXPECT_THROW(load("arrival_s,input_tokens,output_tokens\n"), InputError);
  EXPECT_THROW(load("arrival_s,input_tokens,output_tokens\n0,0,1\n"), InputError);
  EXPECT_THROW(load("arrival_s,input_tokens,output_tokens\n0,1,0\n"), InputError);
  EXPECT_THROW(load("arrival_s,input_tokens,output_tokens\n-1,1,1\n"), InputError);
  EXPECT_THROW(load("arrival_s,input_tokens\n0,1\n"), InputError);
}

}  // namespace
}  // namespace kvtide::serving
