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

struct Direction {
  float cosine = 0;
  float sine = 0;
};

Direction direction_of(float angle) {
  return {std::cos(angle), std::sin(angle)};
}

constexpr std::size_t kFirstAngles = 16;
constexpr float kFirstStep = kFullTurn / kFirstAngles;

/// What an angle in [0, 2 pi] of the first level reads back as.
Direction nearest_first(float angle) {
  static const auto kDirections = [] {
    std::array<Direction, kFirstAngles + 1> directions;  // the last for 2 pi itself
    for (std::size_t index = 0; index < directions.size(); ++index) {
      directions[index] = direction_of((static_cast<float>(index) + 0.5F) * kFirstStep);
    }
    return directions;
  }();
  return kDirections[static_cast<std::size_t>(angle / kFirstStep)];
}

/// Levels of the angles at depth 2, 3, 4, and their directions.
struct AngleLevels {
  std::vector<float> angles;
  std::vector<Direction> directions;

  [[nodiscard]] Direction nearest(float angle) const {
    std::size_t index = 0;
    for (std::size_t upper = 1; upper < angles.size(); ++upper) {
      if (angle - angles[upper - 1] > angles[upper] - angle) index = upper;
    }
    return directions[index];
  }
};

const std::array<AngleLevels, kDepth>& angle_levels() {
  static const std::array<AngleLevels, kDepth> kLevels = [] {
    std::array<AngleLevels, kDepth> levels;
    for (std::size_t depth = 1; depth < kDepth; ++depth) {
      const double power = std::pow(2.0, static_cast<double>(depth)) - 1;
      levels[depth].angles = density_levels([power](double angle) { return std::pow(std::sin(2 * angle), power); }, 0,
                                            std::numbers::pi / 2, 4);
      for (const float angle : levels[depth].angles) levels[depth].directions.push_back(direction_of(angle));
    }
    return levels;
  }();
  return kLevels;
}

void code_block(float* x) {
  std::array<std::array<Direction, kBlock / 2>, kDepth> directions{};
  std::array<float, kBlock> radius{};
  for (std::size_t index = 0; index < kBlock; ++index) radius[index] = x[index];
  std::size_t count = kBlock / 2;
  for (std::size_t depth = 0; depth < kDepth; ++depth, count /= 2) {
    for (std::size_t pair = 0; pair < count; ++pair) {
      const float left = radius[2 * pair];
      const float right = radius[2 * pair + 1];
      const float angle = std::atan2(right, left);
      directions[depth][pair] =
          depth == 0 ? nearest_first(angle < 0 ? angle + kFullTurn : angle) : angle_levels()[depth].nearest(angle);
      radius[pair] = std::hypot(left, right);
    }
  }
  radius[0] = static_cast<float>(static_cast<Eigen::half>(radius[0]));
  count = 1;
  for (std::size_t depth = kDepth; depth-- > 0; count *= 2) {
    std::array<float, kBlock> wider{};
    for (std::size_t pair = 0; pair < count; ++pair) {
      wider[2 * pair] = radius[pair] * directions[depth][pair].cosine;
      wider[2 * pair + 1] = radius[pair] * directions[depth][pair].sine;
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
