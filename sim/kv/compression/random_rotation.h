#pragma once
// The random rotation that spreads a row's energy evenly over its channels: random signs, then a Walsh-Hadamard transform
// scaled to keep lengths (QuaRot, arXiv 2404.00456). d log2 d additions a row instead of d^2 multiplications.
// Example: d = 2, signs (+, -): (1, 0) -> (1, 1) / sqrt 2.

#include <span>
#include <vector>

namespace kvtide::kv {

class RandomRotation {
 public:
  /// @param num_channels  a power of two; the signs depend on nothing else
  explicit RandomRotation(std::size_t num_channels);
  void rotate(std::span<float> row) const;
  void rotate_back(std::span<float> row) const;

 private:
  std::vector<float> signs_;
};

}  // namespace kvtide::kv
