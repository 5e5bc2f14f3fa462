#include "gpu/validation/measured_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader =
    "framework,kernel,batch,kv_len,heads,kv_heads,head_dim,window,attn_dtype,kv_dtype,latency_us\n";

/// A folder of one test, removed with it.
class MeasuredReportFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("measured_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

// Errors +10, -5, 0, -40 %: magnitudes 0 5 10 40: mean 55 / 4 = 13.75, median (5 + 10) / 2, p90 = 4th of 4 (0.9 x 4 =
// 3.6, rounded up); signed -40 -5 0 10: median (-5 + 0) / 2.
TEST(ErrorStatistics, FollowTheirDefinitions) {
  const ErrorStatistics errors = error_statistics({10, -5, 0, -40}, 3);
  EXPECT_EQ(errors.rows, 4);
  EXPECT_EQ(errors.refused, 3);
  EXPECT_DOUBLE_EQ(errors.ape_mean, 13.75);
  EXPECT_DOUBLE_EQ(errors.ape_median, 7.5);
  EXPECT_DOUBLE_EQ(errors.ape_p90, 40);
  EXPECT_DOUBLE_EQ(errors.signed_median, -2.5);
  // Ten errors 1..10: nine of ten do not exceed 9.
  EXPECT_DOUBLE_EQ(error_statistics({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0).ape_p90, 9);
  EXPECT_TRUE(std::isnan(error_statistics({}, 2).ape_median));
}

TEST(MeasuredFileName, SplitsAtTheLongestKnownOperation) {
  EXPECT_EQ(parse_measured_file_name("a/rtx_pro_6000_server_decode_attn.csv").gpu, "rtx_pro_6000_server");
  EXPECT_EQ(parse_measured_file_name("h100_sxm_compressed_decode.csv").operation, "compressed_decode");
  EXPECT_THROW((void)parse_measured_file_name("h100_sxm.csv"), InputError);
  EXPECT_THROW((void)parse_measured_file_name("decode_attn.csv"), InputError);
  EXPECT_THROW((void)parse_measured_file_name("h100_sxm_decode_attn.txt"), InputError);
}

// batch 2 x 8 KV heads x 1024 tokens x 128 x 2 B x (K, V) = 8,388,608 B, Q and O 2 x 2 x 32 x 128 x 2 B = 32,768 B.
TEST(PredictRow, CountsKvQueryAndOutputBytesAndNeverReadsTheMeasurement) {
  Gpu gpu(load_gpu_profile("h100_sxm"), Fidelity::roofline);
  const std::string row = "vllm,any,2,1024,32,8,128,0,bfloat16,bfloat16,";
  const auto fast = config::CsvTable::parse(kHeader + row + "1", "x");
  const auto slow = config::CsvTable::parse(kHeader + row + "1000", "x");
  const RowPrediction first = predict_row(gpu, "decode_attn", fast, 0);
  EXPECT_EQ(first.bytes, 8'388'608 + 32'768);
  ASSERT_TRUE(first.microseconds.has_value());
  EXPECT_EQ(first.microseconds, predict_row(gpu, "decode_attn", slow, 0).microseconds);
  // A window of 128 reads 128 of the 1024 tokens: an eighth of the KV.
  const auto windowed =
      config::CsvTable::parse(std::string(kHeader) + "vllm,any,2,1024,32,8,128,128,bfloat16,bfloat16,1", "x");
  EXPECT_EQ(predict_row(gpu, "decode_attn", windowed, 0).bytes, 1'048'576 + 32'768);
}

TEST_F(MeasuredReportFiles, GroupsByFrameworkAndSizeAndCountsRefusals) {
  // H100: L2 50 MiB, so big begins at 200 MiB: 64 x 8 x 4096 x 128 x 2 B x 2 = 1 GiB is, 2 MiB is not.
  write("h100_sxm_decode_attn.csv", std::string(kHeader) +
                                        "vllm,k,64,4096,32,8,128,0,bfloat16,bfloat16,400\n"
                                        "vllm,k,1,1024,4,4,128,0,bfloat16,bfloat16,12\n"
                                        "vllm,k,1,1024,5,4,128,0,bfloat16,bfloat16,12\n"
                                        "vllm,k,1,1024,4,4,128,0,bfloat16,fp4,12\n"
                                        "toi,k,1,1024,4,4,128,0,bfloat16,bfloat16,12\n");
  const std::string rows = (folder_ / "rows.out").string();
  const MeasuredReport report = validate_measured({folder_.string()}, Fidelity::roofline, rows);
  ASSERT_EQ(report.groups.size(), 3u);
  EXPECT_EQ(report.groups[0].framework, "toi");
  EXPECT_EQ(report.groups[0].errors.rows, 0);
  EXPECT_EQ(report.groups[0].errors.refused, 1);
  EXPECT_EQ(report.groups[1].size_class, "all");
  EXPECT_EQ(report.groups[1].errors.rows, 2);
  EXPECT_EQ(report.groups[1].errors.refused, 2);  // 5 query heads over 4 KV heads, fp4
  EXPECT_EQ(report.groups[2].size_class, "big");
  EXPECT_EQ(report.groups[2].errors.rows, 1);
  EXPECT_EQ(report.overall.rows, 2);
  EXPECT_EQ(report.overall.refused, 3);
  std::ifstream file(rows);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("latency_us,predicted_us\n"));
  EXPECT_THAT(text.str(), HasSubstr("h100_sxm,decode_attn,toi,k,1,1024,4,4,128,0,bfloat16,bfloat16,12,\n"));
}

// A cast of 1 x 32 counts in percent; a difference of -1 us only by its absolute error, in a group of its own.
TEST_F(MeasuredReportFiles, DifferencesOfMeasurementsStandApart) {
  write("h100_sxm_quantize.csv",
        "framework,op,kernel,m,k,quant_dtype,latency_us\n"
        "vllm,scale_matrix,x,1,32,fp8,2\n"
        "vllm,computescale,x,1,32,fp8,-1\n");
  const MeasuredReport report = validate_measured({folder_.string()}, Fidelity::roofline);
  ASSERT_EQ(report.groups.size(), 2u);
  EXPECT_EQ(report.groups[0].operation, "quantize");
  EXPECT_EQ(report.groups[0].errors.rows, 1);
  EXPECT_EQ(report.groups[1].operation, "quantize difference");
  EXPECT_EQ(report.groups[1].errors.rows, 0);
  EXPECT_EQ(report.groups[1].errors.refused, 0);
  EXPECT_GE(report.groups[1].errors.absolute_median_us, 1);  // no time is below zero
  EXPECT_EQ(report.overall.rows, 1);
}

TEST_F(MeasuredReportFiles, ErrorsNameWhatIsMissing) {
  const auto error_of = [](const std::string& path, const std::string& rows = "") {
    try {
      (void)validate_measured({path}, Fidelity::roofline, rows);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of(folder_.string()), HasSubstr("no files"));
  EXPECT_THAT(error_of(write("p3_decode_attn.csv", kHeader)), HasSubstr("p3"));
  EXPECT_THAT(error_of(write("h100_decode_attn.csv", "batch\n1\n")), HasSubstr("latency_us"));
  EXPECT_THAT(error_of((folder_ / "a100_decode_attn.csv").string()), HasSubstr("no such file"));
  EXPECT_THAT(error_of(write("h200_decode_attn.csv", kHeader), (folder_ / "no/rows.csv").string()),
              HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace kvtide::gpu
