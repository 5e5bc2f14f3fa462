#include "serving/memory_account.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "config/csv_table.h"

namespace kvtide::serving {
namespace {

constexpr double kGiBs = 1073741824.0;

TEST(MemoryAccount, The4090RunHadItsBlocks) {
  // vLLM 0.19.0, Llama-3.1-8B, RTX 4090: 25,250,627,584 B x 0.9 - 16,060,522,496 B of weights - 1,237,612,953 B of activations and
  // context = 5,427,429,376 B; a block is 16 tokens x 131,072 B = 2,097,152 B: 2,588 of them.
  MemoryAccount account{.total_bytes = 25250627584.0,
                        .weight_bytes = 16060522496.0,
                        .activation_bytes = 1237612953.0,
                        .kv_bytes_per_token = 131072};
  EXPECT_EQ(account.num_blocks(32768), 2588);
  // Sized as 24 GiB x 0.9 - weights, as simulators do, it would have 3,400.
  account.total_bytes = 24 * kGiBs;
  account.activation_bytes = 0;
  EXPECT_NEAR(static_cast<double>(account.num_blocks(32768)), 3400, 20);
}

TEST(MemoryAccount, ReproducesVllmOnAnH100GivenItsOverheads) {
  const std::string path = KVTIDE_SOURCE_DIR "/../shared/data/e2e/vllm_memory_h100.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs ../shared/data/e2e/vllm_memory_h100.csv";
  const config::CsvTable table = config::CsvTable::load(path);
  ASSERT_GE(table.num_rows(), 8U);
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto gib = [&](const char* column) { return table.number(row, column, -100, 1000) * kGiBs; };
    const MemoryAccount account{.total_bytes = 79.18 * kGiBs,
                                .utilization = table.number(row, "gpu_memory_utilization", 0, 1),
                                .weight_bytes = gib("weights_gib"),
                                .activation_bytes = gib("activation_peak_gib"),
                                .other_bytes = gib("non_torch_gib")};
    EXPECT_NEAR(account.kv_bytes() / kGiBs, table.number(row, "kv_cache_gib", 0, 1000), 0.1)
        << table.text(row, "model");
  }
}

// Budget = 79.18 GiB x utilization; the overheads are predicted, only the weights are vLLM's. Mistral-Small-3.2 is left out: its peak of
// 2.12 GiB is less than half of what text models of its vocabulary take, and its multimodal start-up is not modeled.
TEST(MemoryAccount, PredictsVllmOnAnH100WithinOnePercentOfTheBudget) {
  const std::string path = KVTIDE_SOURCE_DIR "/../shared/data/e2e/vllm_memory_h100.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs ../shared/data/e2e/vllm_memory_h100.csv";
  struct Shape {
    const char* model;
    std::int64_t vocab, hidden;
  };
  const Shape shapes[] = {{"gpt-oss-20b", 201088, 2880},       {"gpt-oss-120b", 201088, 2880},
                          {"Llama-3.3-70B-FP8", 128256, 8192}, {"Llama-3.1-8B", 128256, 4096},
                          {"Qwen3-0.6B", 151936, 1024},        {"Qwen3-32B", 151936, 5120}};
  const config::CsvTable table = config::CsvTable::load(path);
  int predicted = 0;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    for (const Shape& shape : shapes) {
      if (table.text(row, "model") != shape.model) continue;
      ++predicted;
      MemoryAccount account{.total_bytes = 79.18 * kGiBs,
                            .utilization = table.number(row, "gpu_memory_utilization", 0, 1),
                            .weight_bytes = table.number(row, "weights_gib", 0, 100) * kGiBs};
      account.activation_bytes = predicted_activation_bytes(1024, shape.vocab, 8192, shape.hidden);
      account.other_bytes = predicted_context_bytes(table.integer(row, "tp", 1, 8));
      EXPECT_NEAR(account.kv_bytes(), table.number(row, "kv_cache_gib", 0, 1000) * kGiBs, 0.01 * account.budget_bytes())
          << shape.model;
    }
  }
  EXPECT_EQ(predicted, 7);
}

// 256 x 128,256 x 38.2 + 2,048 x 4,096 x 2.6 B = 1.276e9 B. The measured run leaves 1.238e9 B for that and the context together: with
// the H100's 0.13 GiB of context beside it the prediction is 2,502 blocks, 3.3 % short; without, 2,569, 0.7 % short.
TEST(MemoryAccount, PredictsThe4090RunsBlocksWithoutContextGrowth) {
  MemoryAccount account{.total_bytes = 25250627584.0, .weight_bytes = 16060522496.0, .kv_bytes_per_token = 131072};
  account.activation_bytes = predicted_activation_bytes(256, 128256, 2048, 4096);
  EXPECT_NEAR(static_cast<double>(account.num_blocks(16)), 2588, 0.02 * 2588);
  account.other_bytes = predicted_context_bytes(1);
  EXPECT_NEAR(static_cast<double>(account.num_blocks(16)), 2588, 0.04 * 2588);
}

TEST(MemoryAccount, PartsAddUpToTheTotal) {
  const MemoryAccount account{
      .total_bytes = 100, .utilization = 0.75, .weight_bytes = 40, .activation_bytes = 5, .other_bytes = 2};
  double sum = 0;
  for (const auto& [name, bytes] : account.parts()) sum += bytes;
  EXPECT_DOUBLE_EQ(sum, 100);
  EXPECT_DOUBLE_EQ(account.kv_bytes(), 28);
}

TEST(MemoryAccount, SaysWhatIsShort) {
  const MemoryAccount account{.total_bytes = 40 * kGiBs,
                              .utilization = 1,
                              .weight_bytes = 30 * kGiBs,
                              .kv_bytes_per_token = 1 << 20,
                              .block_size = 16};
  // 10 GiB are 640 blocks of 16 MiB; 639 blocks of tokens and the null block fit, one more does not.
  EXPECT_EQ(account.num_blocks(639 * 16), 640);
  try {
    (void)account.num_blocks(639 * 16 + 1);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("needed 10.02 GiB of KV cache, available 10.00 GiB, short by 16.00 MiB"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace kvtide::serving
