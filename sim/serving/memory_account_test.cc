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
