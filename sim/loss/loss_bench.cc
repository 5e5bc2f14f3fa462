// Speed of the loss meter on the recorded trace. Reference point: plain NumPy on one thread does about 2,950 evaluations
// (one shift, ratio, mode, layer and KV head, with exact loss) a CPU second on the same trace.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "attention/trace.h"
#include "base/random.h"
#include "kv/compression/compression.h"
#include "kv/compression/scorer.h"
#include "loss/loss_meter.h"
#include "loss/periodicity.h"
#include "loss/prefix_scan.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kContext = 2021;

struct Recorded {
  explicit Recorded(MeasureQueries measure) : reference(measure) {
    const attention::Trace trace = attention::Trace::open(KVTIDE_SOURCE_DIR "/experiments/traces/smollm2-135m-2k.h5");
    for (std::int64_t layer = 0; layer < trace.num_layers(); ++layer) {
      tensors.push_back(trace.load_layer(layer));
      reference.add_layer(tensors.back());
      scores.push_back(kv::find_scorer("attention_sum").score(tensors.back(), {kContext, 64}));
    }
  }
  [[nodiscard]] kv::LayerCache compress(const kv::Compression& setting, std::int64_t layer) const {
    const auto index = static_cast<std::size_t>(layer);
    return kv::compress_layer(setting, kContext, 3, 64, scores[index], &tensors[index]);
  }
  AttentionReference reference;
  std::vector<kv::LayerTensors> tensors;
  std::vector<kv::LayerScores> scores;
};

/// Shifts of block eviction, four answer queries: the work of the NumPy program.
void prefix_scan_evaluations(benchmark::State& state) {
  const Recorded recorded({2047, 2050});
  kv::Compression setting;
  setting.block_size = 64;
  setting.stages = {kv::Evict{}};
  PrefixScanSettings settings;
  settings.max_shift = 63;
  for (auto _ : state) {
    benchmark::DoNotOptimize(scan_prefix(
        recorded.reference,
        [&](std::int64_t layer, std::int64_t shift) {
          kv::Compression shifted = setting;
          shifted.grid_offset = shift;
          return recorded.compress(shifted, layer);
        },
        settings));
  }
  state.counters["evaluations_per_s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 64 * 6, benchmark::Counter::kIsRate);
}
BENCHMARK(prefix_scan_evaluations)->Unit(benchmark::kMillisecond);

/// One run's loss at every position, question and answer queries; 0: evict one half, 1: int4.
void measure_loss_of_a_run(benchmark::State& state) {
  const Recorded recorded({2021, 2050});
  kv::Compression setting;
  setting.stages = {state.range(0) == 0 ? kv::Stage(kv::Evict{}) : kv::Stage(kv::Quantize{})};
  std::vector<kv::LayerCache> caches;
  for (std::int64_t layer = 0; layer < 2; ++layer) caches.push_back(recorded.compress(setting, layer));
  for (auto _ : state) benchmark::DoNotOptimize(measure_loss(recorded.reference, caches, HeadReduction::reader));
}
BENCHMARK(measure_loss_of_a_run)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

/// The whole verdict on noise, where every rule is asked.
void find_period_in_noise(benchmark::State& state) {
  RandomStream random(1, "bench.noise");
  std::vector<double> noise(static_cast<std::size_t>(state.range(0)));
  for (double& value : noise) value = random.normal();
  PeriodQuestion question;
  question.loss = noise;
  for (auto _ : state) benchmark::DoNotOptimize(find_period(question));
}
BENCHMARK(find_period_in_noise)->Arg(2048)->Arg(32768)->Arg(131072)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvtide::loss
