#include "kv/compression/softmax_columns.h"

#include <algorithm>

#include "base/vector_width.h"
#include "kv/compression/exponential.h"

namespace kvtide::kv {
namespace {

/// A key that a query does not see: below every logit, and its exponential is set to 0 afterwards.
constexpr float kUnseen = -1e30F;
/// Lanes in which what a key receives is summed.
constexpr std::int64_t kPartialLanes = 16;
/// Exponentials of a lane summed in float32 before float64 takes over.
constexpr std::int64_t kKeysAtOnce = 64;

KVTIDE_EVERY_VECTOR_WIDTH
void largest_of(const float* logits, std::int64_t num_keys, float* largest) {
  float lanes[kQueryLanes];
  for (std::int64_t lane = 0; lane < kQueryLanes; ++lane) lanes[lane] = logits[lane];
  for (std::int64_t key = 1; key < num_keys; ++key) {
    const float* of_key = logits + key * kQueryLanes;
    for (std::int64_t lane = 0; lane < kQueryLanes; ++lane) {
      lanes[lane] = of_key[lane] > lanes[lane] ? of_key[lane] : lanes[lane];
    }
  }
  for (std::int64_t lane = 0; lane < kQueryLanes; ++lane) largest[lane] = lanes[lane];
}

KVTIDE_EVERY_VECTOR_WIDTH
void exponentiate(float* logits, std::int64_t num_keys, const float* largest, double* totals) {
  for (std::int64_t first = 0; first < num_keys; first += kKeysAtOnce) {
    const std::int64_t end = std::min(first + kKeysAtOnce, num_keys);
    // One register of queries at a time: its sum stays where it is.
    for (std::int64_t part = 0; part < kQueryLanes; part += kPartialLanes) {
      float sum[kPartialLanes] = {};
      for (std::int64_t key = first; key < end; ++key) {
        float* of_key = logits + key * kQueryLanes + part;
        for (std::int64_t lane = 0; lane < kPartialLanes; ++lane) {
          const float e = exponential(of_key[lane] - largest[part + lane]);
          of_key[lane] = e;
          sum[lane] += e;
        }
      }
      for (std::int64_t lane = 0; lane < kPartialLanes; ++lane) totals[part + lane] += static_cast<double>(sum[lane]);
    }
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void add_shares(const float* exponentials, std::int64_t num_keys, const float* factors, float* partial) {
  for (std::int64_t key = 0; key < num_keys; ++key) {
    const float* of_key = exponentials + key * kQueryLanes;
    float* sum = partial + key * kPartialLanes;
    for (std::int64_t lane = 0; lane < kPartialLanes; ++lane) {
      const float low = of_key[lane] * factors[lane] + of_key[lane + 16] * factors[lane + 16];
      const float high = of_key[lane + 32] * factors[lane + 32] + of_key[lane + 48] * factors[lane + 48];
      sum[lane] += low + high;
    }
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void move_sums(float* partial, std::int64_t num_keys, double* sums) {
  for (std::int64_t key = 0; key < num_keys; ++key) {
    float* lanes = partial + key * kPartialLanes;
    double four[4];
    for (std::int64_t lane = 0; lane < 4; ++lane) {
      four[lane] = (static_cast<double>(lanes[lane]) + static_cast<double>(lanes[lane + 8])) +
                   (static_cast<double>(lanes[lane + 4]) + static_cast<double>(lanes[lane + 12]));
    }
    sums[key] += (four[0] + four[2]) + (four[1] + four[3]);
    for (std::int64_t lane = 0; lane < kPartialLanes; ++lane) lanes[lane] = 0;
  }
}

}  // namespace

SoftmaxColumns::SoftmaxColumns(std::int64_t num_keys)
    : logits_((num_keys + kProductRows) * kQueryLanes), partial_(num_keys * kPartialLanes), num_keys_(num_keys) {
  std::fill_n(partial_.data(), num_keys * kPartialLanes, 0.0F);
}

void SoftmaxColumns::add(const std::array<std::int64_t, kQueryLanes>& seen,
                         const std::array<double, kQueryLanes>& weight, std::int64_t last_seen) {
  float* logits = logits_.data();
  const auto set_unseen = [&](float value) {
    for (std::size_t lane = 0; lane < seen.size(); ++lane) {
      if (seen[lane] == 0) continue;
      for (std::int64_t key = seen[lane]; key < last_seen; ++key) {
        logits[key * kQueryLanes + static_cast<std::int64_t>(lane)] = value;
      }
    }
  };
  set_unseen(kUnseen);
  float largest[kQueryLanes];
  double totals[kQueryLanes] = {};
  largest_of(logits, last_seen, largest);
  exponentiate(logits, last_seen, largest, totals);
  set_unseen(0);
  float factors[kQueryLanes];
  for (std::size_t lane = 0; lane < seen.size(); ++lane) {
    factors[lane] = seen[lane] == 0 ? 0.0F : static_cast<float>(weight[lane] / totals[lane]);
  }
  add_shares(logits, last_seen, factors, partial_.data());
}

void SoftmaxColumns::move_into(std::vector<double>& sums) {
  move_sums(partial_.data(), num_keys_, sums.data());
}

}  // namespace kvtide::kv
