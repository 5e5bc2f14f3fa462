#include "gpu/sparse_crossover.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/compressed_attention.h"
#include "gpu/mla_decode.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kShortest = 512;
constexpr double kPrecision = 1.01;  // of the length

}  // namespace

Picoseconds dense_module_time(Gpu& gpu, const SparseSetting& setting, std::int64_t context) {
  CompressedAttentionWork work =
      compressed_attention_work(sparse_model(setting.model), 1, false, setting.batch, context, setting.num_heads,
                                setting.weight_bytes_per_element);
  work.attended_entries = 0;  // the latent kernel below does that
  const AttentionModule module = load_attention_module(setting.framework, "mla", gpu.profile().memory_standard);
  const KernelTime around = time_compressed_attention(gpu.profile(), gpu.memory(), module, work);
  const MlaShape shape{
      .batch = setting.batch, .num_entries = context, .num_heads = setting.num_heads, .element_bits = setting.kv_bits};
  return around.duration + gpu.decode_attention(mla_decode_work(gpu.profile(), shape, setting.framework)).duration;
}

Picoseconds sparse_module_time(Gpu& gpu, const SparseSetting& setting, std::int64_t context) {
  const CompressedAttentionWork work =
      compressed_attention_work(sparse_model(setting.model), 1, true, setting.batch, context, setting.num_heads,
                                setting.weight_bytes_per_element);
  const AttentionModule module = load_attention_module(setting.framework, "dsa", gpu.profile().memory_standard);
  return time_compressed_attention(gpu.profile(), gpu.memory(), module, work).duration;
}

double sparse_crossover(Gpu& gpu, const SparseSetting& setting, std::int64_t longest) {
  const auto wins = [&](double context) {
    const auto tokens = static_cast<std::int64_t>(std::llround(context));
    return sparse_module_time(gpu, setting, tokens) < dense_module_time(gpu, setting, tokens);
  };
  auto loses_at = static_cast<double>(kShortest);
  if (wins(loses_at)) return loses_at;
  double wins_at = loses_at;
  while (!wins(wins_at)) {
    if (wins_at >= static_cast<double>(longest)) return std::numeric_limits<double>::infinity();
    loses_at = wins_at;
    wins_at = std::min(2 * wins_at, static_cast<double>(longest));
  }
  while (wins_at > kPrecision * loses_at) {
    const double middle = std::sqrt(wins_at * loses_at);
    (wins(middle) ? wins_at : loses_at) = middle;
  }
  return wins_at;
}

}  // namespace kvtide::gpu
