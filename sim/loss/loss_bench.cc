// Speed of the loss meter on the recorded trace. Reference point: plain NumPy on one thread does about 2,950 evaluations
// (one shift, ratio, mode, layer and KV head, with exact loss) a CPU second of the same job; cmake/run_benchmarks.py
// measures it again where its program is at hand.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "attention/trace.h"
#include "base/random.h"
#include "kv/compression/compression.h"
#include "kv/compression/evicted_runs.h"
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

/// The job of the NumPy reference program, on the two layers of the committed trace: blocks of 64 (every shift) and 128
/// (every other), a quarter, a half and three quarters evicted, lost mass, output error and kept digits of the four
/// answer queries; and how the loss moves with the shift on top. Only reading the trace is outside the clock.
/// @param by_runs  without caches
void loss_prefix_scan(benchmark::State& state, bool by_runs) {
  const Recorded recorded({2047, 2050});
  PrefixScanSettings settings;
  settings.kept_positions = {1213, 1214, 1215, 1216};
  std::int64_t evaluations = 0;
  for (auto _ : state) {
    AttentionReference reference({2047, 2050});
    for (const kv::LayerTensors& layer : recorded.tensors) reference.add_layer(layer);
    std::vector<EvictionLoss> heads = eviction_losses(reference, settings.with_output_error);
    for (const std::int64_t context : {2021, 2047}) {
      std::vector<kv::LayerScores> scores;
      for (const kv::LayerTensors& layer : recorded.tensors) {
        scores.push_back(kv::find_scorer("attention_sum").score(layer, {context, 64}));
      }
      for (const std::int64_t block_size : {64, 128}) {
        for (const kv::PartsPerMillion keep : {750'000, 500'000, 250'000}) {
          kv::Compression setting;
          setting.block_size = block_size;
          setting.sinks = 1;
          setting.stages = {kv::Evict{.keep = keep}};
          settings.max_shift = 2 * block_size;
          settings.step = block_size / 64;
          const auto scores_of = [&](std::int64_t layer) -> const kv::LayerScores& {
            return scores[static_cast<std::size_t>(layer)];
          };
          const PrefixScan scan =
              by_runs ? scan_prefix_of_eviction(
                            reference, heads,
                            [&](std::int64_t layer, std::int64_t shift) {
                              setting.grid_offset = shift % block_size;
                              return kv::evicted_runs(setting, context, scores_of(layer));
                            },
                            settings)
                      : scan_prefix(
                            reference,
                            [&](std::int64_t layer, std::int64_t shift) {
                              setting.grid_offset = shift % block_size;
                              return kv::compress_layer(setting, context, 3, 64, scores_of(layer),
                                                        &recorded.tensors[static_cast<std::size_t>(layer)]);
                            },
                            settings);
          benchmark::DoNotOptimize(scan.sensitivity.data());
          evaluations += static_cast<std::int64_t>(scan.lost_mass.size());
        }
      }
    }
  }
  state.SetItemsProcessed(evaluations);
  state.SetLabel("evaluations");
}
BENCHMARK_CAPTURE(loss_prefix_scan, by_runs, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(loss_prefix_scan, by_caches, false)->Unit(benchmark::kMillisecond)->Iterations(1);

/// One run's loss at every position, question and answer queries; 0: evict one half, 1: int4.
void loss_of_a_run(benchmark::State& state) {
  const Recorded recorded({2021, 2050});
  kv::Compression setting;
  setting.stages = {state.range(0) == 0 ? kv::Stage(kv::Evict{}) : kv::Stage(kv::Quantize{})};
  std::vector<kv::LayerCache> caches;
  for (std::int64_t layer = 0; layer < 2; ++layer) caches.push_back(recorded.compress(setting, layer));
  for (auto _ : state) benchmark::DoNotOptimize(measure_loss(recorded.reference, caches, HeadReduction::reader));
}
BENCHMARK(loss_of_a_run)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

/// The whole verdict on noise, where every rule is asked.
void loss_find_period_in_noise(benchmark::State& state) {
  RandomStream random(1, "bench.noise");
  std::vector<double> noise(static_cast<std::size_t>(state.range(0)));
  for (double& value : noise) value = random.normal();
  PeriodQuestion question;
  question.loss = noise;
  for (auto _ : state) benchmark::DoNotOptimize(find_period(question));
}
BENCHMARK(loss_find_period_in_noise)->Arg(2048)->Arg(32768)->Arg(131072)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvtide::loss
