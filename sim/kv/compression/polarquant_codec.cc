// PolarQuant (arXiv 2502.02617): after a random rotation, 16 channels become one radius and 15 angles. Level 1 pairs the
// channels (8 angles in [0, 2 pi), 4 bits each); levels 2 to 4 pair the radii of the level before (4, 2, 1 angles in
// [0, pi/2], 2 bits each). The density of a level-l angle is proportional to sin(2 a)^(2^(l-1) - 1): its levels are of least
// squared error for it. The last radius is fp16.
// Example: 8*4 + 4*2 + 2*2 + 1*2 + 16 = 62 bits for 16 channels, 3.875 bits an element; head_dim 128: 62 B a row.

#include <array>
#include <cmath>
#include <numbers>

#include "kv/compression/codec.h"
#include "kv/compression/level_table.h"
#include "kv/compression/random_rotation.h"

namespace kvtide::kv {
namespace {

constexpr std::size_t kBlock = 16;
constexpr std::size_t kDepth = 4;
constexpr std::int64_t kBlockBits = 62;
constexpr float kFullTurn = 2 * std::numbers::pi_v<float>;

float round_first_angle(float angle) {
  constexpr float kStep = kFullTurn / 16;
  return (std::floor(angle / kStep) + 0.5F) * kStep;
}

/// Levels of the angles at depth 2, 3, 4.
const std::array<std::vector<float>, kDepth>& angle_levels() {
  static const std::array<std::vector<float>, kDepth> kLevels = [] {
    std::array<std::vector<float>, kDepth> levels;
    for (std::size_t depth = 1; depth < kDepth; ++depth) {
      const double power = std::pow(2.0, static_cast<double>(depth)) - 1;
      levels[depth] = density_levels([power](double angle) { return std::pow(std::sin(2 * angle), power); }, 0,
                                     std::numbers::pi / 2, 4);
    }
    return levels;
  }();
  return kLevels;
}

void code_block(float* x) {
  std::array<std::array<float, kBlock / 2>, kDepth> angles{};
  std::array<float, kBlock> radius{};
  for (std::size_t index = 0; index < kBlock; ++index) radius[index] = x[index];
  std::size_t count = kBlock / 2;
  for (std::size_t depth = 0; depth < kDepth; ++depth, count /= 2) {
    for (std::size_t pair = 0; pair < count; ++pair) {
      const float left = radius[2 * pair];
      const float right = radius[2 * pair + 1];
      float angle = std::atan2(right, left);
      if (depth == 0) {
        angle = round_first_angle(angle < 0 ? angle + kFullTurn : angle);
      } else {
        angle = nearest_level(angle_levels()[depth], angle);
      }
      angles[depth][pair] = angle;
      radius[pair] = std::hypot(left, right);
    }
  }
  radius[0] = static_cast<float>(static_cast<Eigen::half>(radius[0]));
  count = 1;
  for (std::size_t depth = kDepth; depth-- > 0; count *= 2) {
    std::array<float, kBlock> wider{};
    for (std::size_t pair = 0; pair < count; ++pair) {
      wider[2 * pair] = radius[pair] * std::cos(angles[depth][pair]);
      wider[2 * pair + 1] = radius[pair] * std::sin(angles[depth][pair]);
    }
    radius = wider;
  }
  for (std::size_t index = 0; index < kBlock; ++index) x[index] = radius[index];
}

void code(const CodecUse&, const CodecRows& rows) {
  const auto columns = static_cast<std::size_t>(rows.values->cols());
  const RandomRotation rotation(columns);
  for (std::int64_t row = 0; row < rows.values->rows(); ++row) {
    const std::span<float> channels(rows.values->row(row).data(), columns);
    rotation.rotate(channels);
    for (std::size_t first = 0; first < columns; first += kBlock) code_block(&channels[first]);
    rotation.rotate_back(channels);
  }
}

}  // namespace

std::vector<Codec> polarquant_codecs() {
  return {{.name = "polarquant",
           .summary = "random rotation, angles of 4, 2, 2, 2 bits and an fp16 radius for 16 channels",
           .paper = "arXiv 2502.02617",
           .bits = 4,
           .read_cost = 4,  // sine and cosine from tables, one product a level
           .write_operations = 60,
           .divisor = kBlock,
           .needs_power_of_two = true,
           .row_bytes =
               [](const CodecUse& use) {
                 return static_cast<Bytes>(ceil_div(use.columns / static_cast<std::int64_t>(kBlock) * kBlockBits, 8));
               },
           .code = &code}};
}

}  // namespace kvtide::kv
