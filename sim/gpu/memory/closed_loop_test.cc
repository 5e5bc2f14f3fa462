#include "gpu/memory/closed_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gpu/validation/dram_reference.h"

namespace kvtide::gpu {
namespace {

using Outcome = ReferenceOutcome;
using RunCase = ReferenceRun;

Outcome run(const RunCase& run_case, RequestSource* source = nullptr) {
  return run_reference(run_case, source);
}

/// The same addresses again and again.
class Repeated : public RequestSource {
 public:
  Repeated(std::uint64_t begin, std::int64_t num_bursts)
      : run_{.address = begin, .num_bursts = num_bursts, .is_write = false} {}
  RequestRun next() override { return run_; }

 private:
  RequestRun run_;
};

/// Another stream, shifted.
class Shifted : public RequestSource {
 public:
  Shifted(RequestSource& inner, std::uint64_t shift) : inner_(inner), shift_(shift) {}
  RequestRun next() override {
    RequestRun run = inner_.next();
    run.address += shift_;
    return run;
  }

 private:
  RequestSource& inner_;
  std::uint64_t shift_;
};

TEST(ClosedLoop, SequentialStreamReachesThePins) {
  // 32,768 reads of 32 B over 8 channels x 128 bit x 2 Gb/s = 256 GB/s (ramulator2 issue 104 reports 125 GB/s).
  const Outcome seq =
      run({.standard = "hbm2", .num_requests = 32768, .max_outstanding = 2048, .refresh = RefreshMode::none});
  EXPECT_GT(seq.peak_fraction, 0.90);
  EXPECT_LE(seq.peak_fraction, 1.0);
  EXPECT_GE(seq.row_hit_rate, 0.90);
  for (const char* standard : {"hbm2e", "hbm3", "hbm3e", "hbm4", "gddr6", "gddr6x", "gddr7"}) {
    const Outcome other =
        run({.standard = standard, .max_outstanding = 16384, .queue_size = 128, .refresh = RefreshMode::none});
    EXPECT_GT(other.peak_fraction, 0.90) << standard;
    EXPECT_LE(other.peak_fraction, 1.0) << standard;
  }
}

TEST(ClosedLoop, RefreshingBankByBankHidesMostOfIt) {
  // HBM3: all-bank refresh takes (RTP + RP + RFC + RCD) / REFI = 391 / 3900 = 10 % of the time. Of a bank at a time it
  // takes (16 + 200) / 3900 = 5.5 % of each bank's time, which other banks fill.
  for (const char* pattern : {"seq", "paged_n64"}) {
    const auto fraction = [pattern](RefreshMode refresh) {
      return run({.standard = "hbm3",
                  .pattern = pattern,
                  .block_bytes = 16384,
                  .max_outstanding = 8192,
                  .queue_size = 256,
                  .refresh = refresh})
          .peak_fraction;
    };
    const double none = fraction(RefreshMode::none);
    EXPECT_GT(fraction(RefreshMode::per_bank), fraction(RefreshMode::all_bank)) << pattern;
    EXPECT_GT(fraction(RefreshMode::per_bank), 0.945 * none) << pattern;
    EXPECT_LE(fraction(RefreshMode::per_bank), none) << pattern;
  }
}

TEST(ClosedLoop, StreamingWithRefreshMeetsItsCeiling) {
  // Each interval loses tRTP + tRP + tRFC + tRCD: HBM2 1 - (5 + 14 + 260 + 14) / 3900 = 0.925.
  const Outcome hbm2 = run({.standard = "hbm2", .num_requests = 600000, .max_outstanding = 2048});
  EXPECT_LT(hbm2.peak_fraction, 0.9255);
  EXPECT_GT(hbm2.peak_fraction, 0.915);
  // HBM3 with 128 queue entries: 1 - (5.6 + 16.25 + 350 + 19.4) / 3900 = 0.900; requests gathered meanwhile add a
  // little.
  const Outcome hbm3 = run({.num_requests = 400000, .queue_size = 128});
  EXPECT_NEAR(hbm3.peak_fraction, 0.900, 0.006);
}

TEST(ClosedLoop, SingleBurstsAreBoundByTheActivateWindow) {
  // HBM3: four activates of 32 B each in tFAW 48 ticks, a burst takes 4: 4 * 4 / 48 = 0.333 of peak.
  const Outcome random = run({.pattern = "random32",
                              .num_requests = 100000,
                              .max_outstanding = 8192,
                              .queue_size = 256,
                              .refresh = RefreshMode::none});
  EXPECT_LE(random.peak_fraction, 16.0 / 48.0);
  EXPECT_GT(random.peak_fraction, 0.30);
}

TEST(ClosedLoop, SingleBurstsOnHbm2AreBoundByTheSharedRowBus) {
  // ACT 2 + PRE 1 ticks for each of two pseudo channels: one burst of 2 ticks every 6 ticks, 0.333; tFAW alone allows
  // 0.53.
  const Outcome random = run({.standard = "hbm2",
                              .pattern = "random32",
                              .num_requests = 100000,
                              .max_outstanding = 8192,
                              .queue_size = 256,
                              .refresh = RefreshMode::none});
  EXPECT_LE(random.peak_fraction, 2.0 / 6.0);
  EXPECT_GT(random.peak_fraction, 0.30);
}

TEST(ClosedLoop, OneBankGroupReachesHalfThePins) {
  // Always the same eight bursts of one row: tCCD_L is twice the burst; one of the two pseudo channels idles: 0.25 of
  // the channel.
  Repeated source(0, 8);
  const Outcome one =
      run({.num_requests = 20000, .max_outstanding = 256, .refresh = RefreshMode::none, .num_channels = 1}, &source);
  EXPECT_LE(one.peak_fraction, 0.25);
  EXPECT_GT(one.peak_fraction, 0.245);
}

TEST(ClosedLoop, ADeeperQueueNeverLoses) {
  for (const char* pattern : {"gather256", "random64", "paged_n64_w5"}) {
    double previous = 0;
    for (const std::int64_t queue_size : {8, 16, 32, 64, 128, 256}) {
      const double fraction =
          run({.pattern = pattern, .num_requests = 60000, .max_outstanding = 8192, .queue_size = queue_size})
              .peak_fraction;
      EXPECT_GT(fraction, previous * 0.995) << pattern << ", queue " << queue_size;
      previous = fraction;
    }
  }
}

TEST(ClosedLoop, ShiftByAWholeMappingPeriodChangesNothing) {
  for (const std::int64_t num_channels : {16, 5}) {
    const MemoryGeometry geometry = load_memory_standard("hbm3").geometry;
    const Bytes period = AddressMap(geometry, num_channels, AddressMapping::hash256).capacity();
    ReferenceStream plain(parse_stream_pattern("gather256_w5", 0), period, 32);
    Shifted shifted(plain, 3 * period);
    const RunCase run_case{.pattern = "gather256_w5", .num_requests = 30000, .num_channels = num_channels};
    const Outcome here = run(run_case);
    const Outcome there = run(run_case, &shifted);
    EXPECT_EQ(here.last_completion, there.last_completion);
    EXPECT_EQ(here.counters.activates, there.counters.activates);
    EXPECT_EQ(here.counters.read_latency, there.counters.read_latency);
  }
}

TEST(ClosedLoop, EveryRequestIsServedOnceAndEveryMissIsAnActivate) {
  for (const std::int64_t num_channels : {1, 5, 16}) {
    const Outcome outcome = run({.pattern = "random64_w5", .num_requests = 20000, .num_channels = num_channels});
    EXPECT_EQ(outcome.counters.reads + outcome.counters.writes, 20000);
    EXPECT_GT(outcome.counters.writes, 700);  // 5 % of 10,000 chunks of two: 1,000, sigma 44
    EXPECT_LT(outcome.counters.writes, 1300);
    // Who found its row closed opened it; rarely somebody else's request for the same row did.
    EXPECT_NEAR(20000 - outcome.counters.row_hits, outcome.counters.activates, 200);
    EXPECT_LE(outcome.peak_fraction, 1.0);
  }
}

TEST(ClosedLoop, TwoRunsAreEqual) {
  const RunCase run_case{.pattern = "paged_n64_w5", .num_requests = 30000};
  EXPECT_EQ(run(run_case).last_completion, run(run_case).last_completion);
  EXPECT_EQ(run(run_case).counters.read_latency, run(run_case).counters.read_latency);
}

struct ReferenceRow {
  const char* standard;
  const char* pattern;
  Bytes block_bytes;
  std::int64_t num_requests, max_outstanding, queue_size;
  double peak_fraction, row_hit_rate;
};

// Ramulator 2.1 (CMU-SAFARI/ramulator2 c5b1c3a) fed with the same streams, timings and window, 0.4 to 1 million
// requests.
TEST(ClosedLoop, MatchesRamulatorOnASliceOfReferenceRuns) {
  for (const ReferenceRow& row : {ReferenceRow{"hbm3", "seq", 0, 1000000, 4096, 64, 0.8800, 0.9673},
                                  ReferenceRow{"hbm3", "gather256", 0, 400000, 4096, 128, 0.7758, 0.8728},
                                  ReferenceRow{"hbm3", "paged_n64", 16384, 400000, 4096, 256, 0.8802, 0.8717},
                                  ReferenceRow{"hbm2", "seq_w5", 0, 600000, 2048, 64, 0.8769, 0.9627},
                                  ReferenceRow{"hbm2", "random64_w5", 0, 600000, 2048, 64, 0.5846, 0.4881},
                                  ReferenceRow{"hbm4", "gather256", 0, 1000000, 8192, 64, 0.5757, 0.8738}}) {
    const Outcome outcome = run({.standard = row.standard,
                                 .pattern = row.pattern,
                                 .block_bytes = row.block_bytes,
                                 .num_requests = row.num_requests,
                                 .max_outstanding = row.max_outstanding,
                                 .queue_size = row.queue_size});
    EXPECT_NEAR(outcome.peak_fraction / row.peak_fraction, 1.0, 0.03) << row.standard << ' ' << row.pattern;
    EXPECT_NEAR(outcome.row_hit_rate, row.row_hit_rate, 0.01) << row.standard << ' ' << row.pattern;
  }
}

// DRAMsim3 serves in another order; `default`, `pbref` and native-* rows have another scheduler, refresh or map.
TEST(ClosedLoop, MatchesEveryRamulatorRowOfTheSharedFile) {
  const std::string path = KVTIDE_SOURCE_DIR "/../shared/data/dram-reference.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no ../shared/data/dram-reference.csv";
  std::vector<DramRow> rows = load_dram_rows(path);
  std::erase_if(rows, [](const DramRow& row) { return row.simulator != "ramulator2" || !row.run; });
  EXPECT_GE(rows.size(), 70U);
  run_dram_rows(rows, std::clamp(std::thread::hardware_concurrency(), 1U, 8U));

  double worst = 0, worst_latency = 0, worst_row_hit = 0;
  for (const DramRow& row : rows) {
    const std::string line = row.standard + " " + row.mapping + " " + row.pattern + " " + row.variant;
    if (row.is_idle()) {
      const double error = row.outcome.read_latency_ns / row.mean_latency_ns - 1.0;
      worst_latency = std::max(worst_latency, std::abs(error));
      EXPECT_NEAR(error, 0.0, 0.05) << line;
      continue;
    }
    const double error = row.outcome.peak_fraction / row.peak_fraction - 1.0;
    worst = std::max(worst, std::abs(error));
    worst_row_hit = std::max(worst_row_hit, std::abs(row.outcome.row_hit_rate - row.row_hit_rate));
    EXPECT_NEAR(error, 0.0, 0.03) << line;
    EXPECT_NEAR(row.outcome.row_hit_rate, row.row_hit_rate, 0.01) << line;
  }
  RecordProperty("rows", static_cast<int>(rows.size()));
  RecordProperty("worst_bandwidth_error", std::to_string(worst));
  RecordProperty("worst_row_hit_error", std::to_string(worst_row_hit));
  RecordProperty("worst_idle_latency_error", std::to_string(worst_latency));
}

}  // namespace
}  // namespace kvtide::gpu
