// The shapes of the measured effects, not only the mean error: floor, task waves, L2 cliff, split staircase, fp8 gain,
// window, GQA factor. Rows: aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), under ../shared; skipped where absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "gpu/validation/measured_report.h"
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

// Nine single rows of ten are to be within 25 %: the median of a whole regime may not be farther off, and half of that
// where bytes decide.
constexpr double kRegimeBound = 0.25;
constexpr const char* kFolder = KVTIDE_SOURCE_DIR "/../shared/data/measured/";

struct Row {
  std::string framework, kv_dtype;
  std::int64_t batch = 0, kv_len = 0, heads = 0, kv_heads = 0, head_dim = 0, window = 0;
  double bytes = 0, measured = 0, predicted = 0;

  [[nodiscard]] std::int64_t num_tasks() const { return batch * kv_heads; }
  [[nodiscard]] double kv_mib() const {
    const std::int64_t entries = window > 0 ? std::min(window, kv_len) : kv_len;
    return static_cast<double>(2 * num_tasks() * entries * head_dim * (kv_dtype == "fp8" ? 1 : 2)) / (1 << 20);
  }
};

/// Every decode attention row of a GPU with its prediction; empty where the files are absent.
const std::vector<Row>& rows_of(const std::string& gpu_name) {
  static std::map<std::string, std::vector<Row>> cache;
  const auto found = cache.find(gpu_name);
  if (found != cache.end()) return found->second;
  std::vector<Row>& rows = cache[gpu_name];
  const std::string path = kFolder + gpu_name + "_decode_attn.csv";
  if (!std::filesystem::exists(path)) return rows;
  const config::CsvTable table = config::CsvTable::load(path);
  Gpu gpu(load_gpu_profile(gpu_name), Fidelity::roofline);
  constexpr std::int64_t kAny = std::int64_t{1} << 40;
  for (std::size_t index = 0; index < table.num_rows(); ++index) {
    const RowPrediction prediction = predict_row(gpu, "decode_attn", table, index);
    if (!prediction.microseconds) continue;
    const auto count = [&](const char* column) { return table.integer(index, column, 0, kAny); };
    rows.push_back({table.text(index, "framework"), table.text(index, "kv_dtype"), count("batch"), count("kv_len"),
                    count("heads"), count("kv_heads"), count("head_dim"), count("window"), prediction.bytes,
                    table.number(index, "latency_us", 0, 1e12), *prediction.microseconds});
  }
  return rows;
}

double median(std::vector<double> values) {
  EXPECT_FALSE(values.empty());
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Medians {
  std::size_t rows = 0;
  double measured = 0, predicted = 0;
};

/// Medians of `value(row, time)` over the rows that `selects`.
Medians medians(const std::vector<Row>& rows, const std::function<bool(const Row&)>& selects,
                const std::function<double(const Row&, double)>& value) {
  std::vector<double> measured, predicted;
  for (const Row& row : rows) {
    if (!selects(row)) continue;
    measured.push_back(value(row, row.measured));
    predicted.push_back(value(row, row.predicted));
  }
  return {measured.size(), median(measured), median(predicted)};
}

double time_itself(const Row& /*row*/, double time) {
  return time;
}

class MeasuredShape : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (rows().empty()) GTEST_SKIP() << kFolder << GetParam() << "_decode_attn.csv is not here";
  }
  [[nodiscard]] static const std::vector<Row>& rows() { return rows_of(GetParam()); }
  [[nodiscard]] static std::vector<std::string> frameworks() {
    std::vector<std::string> names;
    for (const Row& row : rows()) {
      if (std::ranges::find(names, row.framework) == names.end()) names.push_back(row.framework);
    }
    return names;
  }
};

// Below 64 KiB of KV a call costs its launch and one task, whatever its bytes.
TEST_P(MeasuredShape, FloorIsThatOfTheFramework) {
  for (const std::string& framework : frameworks()) {
    const Medians floor = medians(
        rows(), [&](const Row& row) { return row.framework == framework && row.kv_mib() < 1.0 / 16; }, time_itself);
    EXPECT_NEAR(floor.predicted / floor.measured, 1, kRegimeBound) << framework << ", " << floor.rows << " rows";
  }
}

// At 32 tokens and fewer the time is set by the number of tasks over the SMs.
TEST_P(MeasuredShape, ShortContextsCostByTask) {
  for (const std::string& framework : frameworks()) {
    const Medians per_task = medians(
        rows(),
        [&](const Row& row) { return row.framework == framework && row.kv_len <= 32 && row.num_tasks() >= 1024; },
        [](const Row& row, double time) { return time / static_cast<double>(row.num_tasks()); });
    EXPECT_NEAR(per_task.predicted / per_task.measured, 1, kRegimeBound)
        << framework << ", " << per_task.rows << " rows";
  }
}

// Twins of one shape: fp8 gains between 0.9 and 2 at the median of each size class where measured medians do.
TEST_P(MeasuredShape, Fp8GainFollowsTheSize) {
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>,
           const Row*>
      wide;
  const auto key = [](const Row& row) {
    return std::tuple(row.framework, row.batch, row.kv_len, row.heads, row.kv_heads, row.head_dim, row.window);
  };
  for (const Row& row : rows()) {
    if (row.kv_dtype == "bfloat16") wide[key(row)] = &row;
  }
  std::map<std::pair<std::string, int>, std::pair<std::vector<double>, std::vector<double>>> gains;
  for (const Row& row : rows()) {
    const auto twin = wide.find(key(row));
    if (row.kv_dtype != "fp8" || twin == wide.end()) continue;
    const double mib = twin->second->kv_mib();
    const int size = mib < 16 ? 0 : mib < 256 ? 16 : 256;
    auto& [measured, predicted] = gains[{row.framework, size}];
    measured.push_back(twin->second->measured / row.measured);
    predicted.push_back(twin->second->predicted / row.predicted);
  }
  for (const auto& [group, values] : gains) {
    const double measured = median(values.first), predicted = median(values.second);
    EXPECT_NEAR(predicted / measured, 1, kRegimeBound) << group.first << " from " << group.second << " MiB";
    if (measured >= 0.9 && measured <= 2) {
      EXPECT_GE(predicted, 0.85) << group.first << " from " << group.second << " MiB";
      EXPECT_LE(predicted, 2.1) << group.first << " from " << group.second << " MiB";
    }
  }
}

// Tokens before the window are not read: twice the context costs the same. Not so under TensorRT-LLM, whose XQA counts
// splits by the whole history and launches blocks that find nothing.
TEST_P(MeasuredShape, WindowedTimeIsFlatBeyondTheWindow) {
  std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>,
           double>
      seen;
  for (const Row& row : rows()) {
    if (row.window == 0 || row.kv_len <= row.window || row.framework == "trtllm") continue;
    const auto [place, is_new] = seen.try_emplace(
        std::tuple(row.framework, row.kv_dtype, row.batch, row.heads, row.kv_heads, row.head_dim, row.window),
        row.predicted);
    EXPECT_DOUBLE_EQ(place->second, row.predicted) << row.kv_len;
  }
}

TEST_P(MeasuredShape, WindowUnderXqaCostsItsEmptyBlocks) {
  const auto is_windowed = [](const Row& row) {
    return row.framework == "trtllm" && row.window == 128 && row.kv_len >= 2048;
  };
  if (std::ranges::none_of(rows(), is_windowed))
    GTEST_SKIP() << GetParam() << " has no TensorRT-LLM rows with a window of 128";
  const Medians ratio = medians(rows(), is_windowed, [](const Row& row, double time) { return time / row.measured; });
  EXPECT_NEAR(ratio.predicted, 1, kRegimeBound) << ratio.rows << " rows";
}

// KV that fits into L2 is served from it; beyond, from device memory. Time per byte over the cliff.
TEST_P(MeasuredShape, TimePerByteBeyondL2IsThatOfDeviceMemory) {
  const double l2 = static_cast<double>(load_gpu_profile(GetParam()).l2_bytes);
  for (const std::string& framework : frameworks()) {
    const Medians beyond = medians(
        rows(), [&](const Row& row) { return row.framework == framework && row.bytes >= 4 * l2; },
        [](const Row& row, double time) { return time / row.bytes; });
    EXPECT_NEAR(beyond.predicted / beyond.measured, 1, kRegimeBound / 2) << framework << ", " << beyond.rows << " rows";
  }
}

// Groups of up to 8 query heads share what is read; 16 and more cost up to half as much again.
TEST_P(MeasuredShape, GroupedQueriesShareTheirReads) {
  for (const auto& [smallest, largest] : {std::pair<std::int64_t, std::int64_t>{2, 8}, {12, 64}}) {
    const Medians errors = medians(
        rows(),
        [&, smallest = smallest, largest = largest](const Row& row) {
          const std::int64_t group = row.heads / row.kv_heads;
          return row.window == 0 && group >= smallest && group <= largest;
        },
        [](const Row& row, double time) { return time / row.measured; });
    EXPECT_NEAR(errors.predicted, 1, kRegimeBound / 2)
        << smallest << " to " << largest << ", " << errors.rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, MeasuredShape,
                         testing::Values("a100_sxm", "h100_sxm", "h200_sxm", "rtx_pro_6000_server", "b300_sxm", "b60"));

double predicted_us(const std::string& gpu_name, const std::string& row) {
  Gpu gpu(load_gpu_profile(gpu_name), Fidelity::roofline);
  const auto table =
      config::CsvTable::parse("framework,batch,kv_len,heads,kv_heads,head_dim,window,kv_dtype\n" + row, "row");
  return predict_row(gpu, "decode_attn", table, 0).microseconds.value_or(0);
}

// Measured on an RTX PRO 6000 under TensorRT-LLM, 1 MiB a task, L2 of 128 MiB: 128 tasks 42 us, 160 tasks 120 us, 2.9
// times. Beyond the edge the model still finds a part in L2. What it must not miss is that a quarter more bytes cost far
// more than a quarter more time: at least twice that.
TEST(MeasuredCliff, RtxPro6000LeavesL2Between128And160Mebibytes) {
  const double inside = predicted_us("rtx_pro_6000", "trtllm,16,2048,32,8,128,0,bfloat16");
  const double beyond = predicted_us("rtx_pro_6000", "trtllm,20,2048,32,8,128,0,bfloat16");
  EXPECT_NEAR(inside / 42, 1, kRegimeBound);
  EXPECT_GT(beyond / inside, 1.5);
}

// Measured on an H100 under TensorRT-LLM, MHA, kv_len 2048: 24 tasks 17 us, 32 tasks 28; 512 tasks 184, 640 tasks 275.
TEST(MeasuredStaircase, H100StepsWithTheWaves) {
  const auto of = [](int tasks) {
    return predicted_us("h100_sxm",
                        "trtllm,1,2048," + std::to_string(tasks) + "," + std::to_string(tasks) + ",128,0,bfloat16");
  };
  EXPECT_GT(of(32), of(24));
  EXPECT_GT(of(640) / of(512), 1.25);  // measured 1.49, the bytes 1.25
  EXPECT_NEAR(of(512) / 184, 1, kRegimeBound);
}

}  // namespace
}  // namespace kvtide::gpu
