// The GEMM model against kernel times measured on an H100 (aiconfigurator-core 0.12.0 tables, NVIDIA, Apache-2.0); the
// collector rotates weight copies, so weights mostly come from HBM.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "gpu/constant_rate_memory.h"
#include "gpu/gemm.h"

namespace kvtide::gpu {
namespace {

// Columns: framework, kernel, m, n, k, dtype, latency_us.
TEST(MeasuredGemm, BfloatOnH100) {
  std::ifstream file(KVTIDE_SOURCE_DIR "/../shared/data/measured/h100_sxm_gemm.csv");
  std::string line;
  if (!std::getline(file, line)) GTEST_SKIP() << "../shared/data/measured/h100_sxm_gemm.csv is not here";
  const GpuProfile profile = load_gpu_profile("h100-sxm");
  ConstantRateMemory memory(profile.bandwidth, 0.94);
  std::vector<double> errors;
  while (std::getline(file, line)) {
    std::vector<std::string> cells;
    std::stringstream fields(line);
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    if (cells.size() != 7 || cells[5] != "bfloat16") continue;
    const GemmWork work{.m = std::stoll(cells[2]), .n = std::stoll(cells[3]), .k = std::stoll(cells[4])};
    const double predicted = to_microseconds(time_gemm(profile, memory, work).duration);
    errors.push_back(std::abs(predicted / std::stod(cells[6]) - 1) * 100);
  }
  ASSERT_GT(errors.size(), 200u);
  std::ranges::sort(errors);
  const double median = errors[errors.size() / 2];
  fmt::print("gemm bf16 on h100-sxm, absolute percentage error: {} rows, median {:.1f}, p90 {:.1f}\n", errors.size(),
             median, errors[errors.size() * 9 / 10]);
  EXPECT_LE(median, 12);
}

}  // namespace
}  // namespace kvtide::gpu
