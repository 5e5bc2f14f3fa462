// What holds for every codec, whatever its formula: more bits never cost precision, a block is its own, what was read back can be
// stored again.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "kv/compression/codec.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kRows = 256;
constexpr std::int64_t kColumns = 128;
constexpr std::int64_t kBlockRows = 64;

enum class Shape { gaussian, uniform, heavy };

RowMatrix drawn(Shape shape, std::uint64_t seed) {
  RandomStream random(seed, "codec_property");
  RowMatrix rows(kRows, kColumns);
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const double normal = random.normal();
    // Heavy: Student's t with two degrees of freedom, bounded so that fp16 holds it.
    const double heavy = std::clamp(normal / std::sqrt(-std::log(1 - random.uniform())), -100.0, 100.0);
    rows.data()[i] = static_cast<float>(shape == Shape::gaussian  ? normal
                                        : shape == Shape::uniform ? random.uniform()
                                                                  : heavy);
  }
  return rows;
}

HeadTensors head_of(const RowMatrix& keys, const RowMatrix& values) {
  HeadTensors head;
  head.k_pre = head.k_post = keys;
  head.v = values;
  head.q_post = drawn(Shape::gaussian, 99);
  for (std::int64_t position = 0; position < kRows; ++position) head.q_positions.push_back(position);
  head.attention_scale = 1.0F / std::sqrt(static_cast<float>(kColumns));
  return head;
}

RowMatrix read_back(const std::string& name, const RowMatrix& rows, bool is_key, GroupAxis axis) {
  const Codec& codec = find_codec(name);
  Quantize stage;
  stage.k_axis = stage.v_axis = axis;
  const std::vector<std::int64_t> block_rows(kRows / kBlockRows, kBlockRows);
  std::vector<std::int64_t> positions(kRows);
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  const HeadTensors head = head_of(rows, rows);
  RowMatrix values = rows;
  codec.code({&codec, &stage, is_key, kColumns}, {&values, block_rows, positions, &head});
  return values;
}

double squared_error(const RowMatrix& a, const RowMatrix& b) {
  return (a - b).cast<double>().squaredNorm();
}

TEST(EveryCodec, MoreBitsOfOneFamilyNeverRaiseTheError) {
  const std::vector<std::vector<std::string>> families{{"int2", "int3", "int4", "int8", "fp16"},
                                                       {"int4_per_token_head", "int8_per_token_head", "fp16"},
                                                       {"qserve_kv4", "qserve_kv8", "fp16"},
                                                       {"q4_0", "q5_0", "q8_0", "fp16"},
                                                       {"q4_1", "q5_1", "fp16"},
                                                       {"mxfp4", "nvfp4", "mxfp8", "fp16"},
                                                       {"turboquant2", "turboquant3", "turboquant4", "fp16"},
                                                       {"kvquant2", "kvquant3", "kvquant4", "fp16"},
                                                       {"gear2", "gear4", "fp16"}};
  for (const auto& family : families) {
    for (const Shape shape : {Shape::gaussian, Shape::uniform, Shape::heavy}) {
      for (const bool is_key : {true, false}) {
        for (const GroupAxis axis : {GroupAxis::channel, GroupAxis::token}) {
          const RowMatrix rows = drawn(shape, 1);
          double last = INFINITY;
          for (const std::string& name : family) {
            const double error = squared_error(read_back(name, rows, is_key, axis), rows);
            EXPECT_LE(error, last) << name << " shape " << static_cast<int>(shape) << (is_key ? " K" : " V");
            last = error;
          }
          EXPECT_EQ(last, 0) << "fp16 changes something";
        }
      }
    }
  }
}

// A codec that keeps nothing for the whole head reads a block the same whatever the others hold.
TEST(EveryCodec, ABlockDoesNotSeeTheOthers) {
  const RowMatrix rows = drawn(Shape::gaussian, 1);
  RowMatrix others = rows;
  others.topRows(kBlockRows) = 5 * drawn(Shape::heavy, 2).topRows(kBlockRows);
  for (const std::string name : {"int2", "int3", "int4", "int8", "fp8_e4m3", "fp8_e5m2", "int4_per_token_head",
                                 "fp8_per_token_head", "qserve_kv4", "q8_0", "q4_0", "q5_1", "mxfp4", "mxfp8"}) {
    for (const bool is_key : {true, false}) {
      for (const GroupAxis axis : {GroupAxis::channel, GroupAxis::token}) {
        const RowMatrix alone = read_back(name, rows, is_key, axis).bottomRows(kRows - kBlockRows);
        const RowMatrix beside = read_back(name, others, is_key, axis).bottomRows(kRows - kBlockRows);
        EXPECT_EQ(alone, beside) << name << (is_key ? " K" : " V");
      }
    }
  }
}

// Numbers that a format has are stored as they are: a second trip changes nothing.
TEST(EveryCodec, FloatsReadBackAreTheirOwnCodes) {
  for (const std::string name : {"fp8_e4m3", "fp8_e5m2", "fp16"}) {
    const RowMatrix once = read_back(name, drawn(Shape::heavy, 3), false, GroupAxis::token);
    EXPECT_EQ(read_back(name, once, false, GroupAxis::token), once) << name;
  }
}

// Twice the numbers, twice the error: scales and zero points double with them (a power of two; nothing is subnormal here).
TEST(EveryCodec, ErrorScalesWithTheNumbers) {
  const RowMatrix rows = drawn(Shape::gaussian, 4);
  for (const std::string name : {"int2", "int4", "int8", "int4_per_token_head", "fp8_per_token_head", "qserve_kv4",
                                 "q8_0", "q5_1", "mxfp4", "turboquant4"}) {
    const double error = squared_error(read_back(name, rows, false, GroupAxis::token), rows);
    const double doubled = squared_error(read_back(name, 2 * rows, false, GroupAxis::token), 2 * rows);
    EXPECT_NEAR(doubled, 4 * error, 1e-5 * error) << name;
  }
}

}  // namespace
}  // namespace kvtide::kv
