#include "gpu/split_rule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

// FlashAttention-2, csrc/flash_attn/flash_api.cpp.
constexpr std::int64_t kSlotsPerSm = 2;
constexpr double kOccupied = 0.8;
constexpr double kGoodEnough = 0.85;
// FlashAttention-3, hopper/flash_prepare_scheduler.cu.
constexpr double kMargin = 1.1;
// TensorRT-LLM, decoderXQAConstants.h and decoderXQAImplCommon.h.
constexpr std::int64_t kHistoryPerBlock = 128;
constexpr double kCombineBound = 8;
constexpr double kMaxWaves = 8;

std::int64_t fill_waves(const SplitWork& work) {
  const auto slots = static_cast<double>(kSlotsPerSm * work.num_sms);
  const auto blocks = static_cast<double>(work.num_blocks);
  if (blocks >= kOccupied * slots) return 1;
  const auto filling = [&](std::int64_t splits) {
    const double waves = blocks * static_cast<double>(splits) / slots;
    return waves / std::ceil(waves);
  };
  const std::int64_t largest = std::min({work.max_splits, kSlotsPerSm * work.num_sms, work.num_tiles});
  double best = 0;
  for (std::int64_t splits = 1; splits <= largest; ++splits) best = std::max(best, filling(splits));
  std::int64_t splits = 1;
  while (filling(splits) < kGoodEnough * best) ++splits;
  return splits;
}

std::int64_t balance_tiles(const SplitWork& work) {
  const double tiles_per_block = std::ceil(work.total_tiles * kMargin / static_cast<double>(work.num_sms));
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(work.num_tiles) / std::max(1.0, tiles_per_block)));
}

std::int64_t by_history(const SplitWork& work) {
  const double filled = static_cast<double>(std::max<std::int64_t>(1, work.num_history / kHistoryPerBlock));
  double splits = std::min(filled, std::round(std::sqrt(kCombineBound * filled)));
  const double waves = static_cast<double>(work.num_blocks) * splits / static_cast<double>(work.num_sms);
  if (waves > kMaxWaves) splits = std::floor(splits / (waves / kMaxWaves));
  return static_cast<std::int64_t>(splits);
}

}  // namespace

const std::vector<std::string>& split_rule_names() {
  static const std::vector<std::string> names{"none",      "fill_waves",   "balance_tiles", "by_history",
                                              "cover_sms", "within_slots", "fixed"};
  return names;
}

SplitRule split_rule_of(const std::string& name) {
  const auto found = std::ranges::find(split_rule_names(), name);
  KVTIDE_ASSERT(found != split_rule_names().end(), "the caller checks the name");
  return static_cast<SplitRule>(found - split_rule_names().begin());
}

std::int64_t split_count(SplitRule rule, const SplitWork& work) {
  std::int64_t splits = 1;
  switch (rule) {
    case SplitRule::none:
      break;
    case SplitRule::fill_waves:
      splits = fill_waves(work);
      break;
    case SplitRule::balance_tiles:
      splits = balance_tiles(work);
      break;
    case SplitRule::by_history:
      return std::clamp<std::int64_t>(by_history(work), 1, work.max_splits);
    case SplitRule::cover_sms:
      splits = (work.num_sms + work.num_blocks - 1) / work.num_blocks;
      break;
    case SplitRule::within_slots:
      splits = work.num_sms * work.blocks_per_sm / work.num_blocks;
      break;
    case SplitRule::fixed:
      return work.max_splits;
  }
  return std::clamp<std::int64_t>(splits, 1, std::min(work.max_splits, work.num_tiles));
}

}  // namespace kvtide::gpu
