// The exact prefix experiment on the recorded trace against an independent float64 computation in NumPy: block eviction
// with the grid moved by 0..2B, sinks 1, window 64, measured with queries 2047..2050, per layer and KV head.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "attention/trace.h"
#include "hdf5/hdf5_file.h"
#include "kv/compression/compression.h"
#include "kv/compression/evicted_runs.h"
#include "kv/compression/scorer.h"
#include "loss/prefix_scan.h"

namespace kvtide::loss {
namespace {

constexpr double kTolerance = 1e-4;
constexpr std::array<std::pair<std::string_view, std::int64_t>, 2> kModes = {{{"agnostic", 2021}, {"aware", 2047}}};

/// A trace, its reference and both modes' scores.
struct Experiment {
  explicit Experiment(const attention::Trace& trace) : reference({2047, 2050}) {
    for (std::int64_t layer = 0; layer < trace.num_layers(); ++layer) {
      tensors.push_back(trace.load_layer(layer));
      reference.add_layer(tensors.back());
      model_layers.push_back(trace.info().layers[static_cast<std::size_t>(layer)]);
    }
    for (const attention::Probe& probe : trace.probes()) {
      if (probe.is_asked) digits = probe.digit_positions;
    }
    for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
      for (const kv::LayerTensors& layer : tensors) {
        scores[mode].push_back(kv::find_scorer("attention_sum").score(layer, {kModes[mode].second, 64}));
      }
    }
  }

  /// @param by_runs  through scan_prefix_of_eviction(), which makes no cache
  [[nodiscard]] PrefixScan scan(std::size_t mode, double removed, std::int64_t block_size, std::int64_t step,
                                bool by_runs) const {
    kv::Compression setting;
    setting.block_size = block_size;
    setting.sinks = 1;
    setting.window = 64;
    kv::Evict evict;
    evict.keep = std::llround((1 - removed) * 1e6);
    setting.stages = {evict};
    const CompressAtShift compress = [&, setting](std::int64_t layer, std::int64_t shift) {
      kv::Compression shifted = setting;
      shifted.grid_offset = shift % block_size;
      const kv::LayerTensors& layer_tensors = tensors[static_cast<std::size_t>(layer)];
      return kv::compress_layer(shifted, kModes[mode].second, static_cast<std::int64_t>(layer_tensors.size()),
                                layer_tensors.front().head_dim(), scores[mode][static_cast<std::size_t>(layer)],
                                &layer_tensors);
    };
    PrefixScanSettings settings;
    settings.max_shift = 2 * block_size;
    settings.step = step;
    settings.repeats_after = block_size;
    settings.kept_positions = digits;
    if (by_runs) {
      const EvictAtShift evict_at = [&, setting](std::int64_t layer, std::int64_t shift) {
        kv::Compression shifted = setting;
        shifted.grid_offset = shift % block_size;
        return kv::evicted_runs(shifted, kModes[mode].second, scores[mode][static_cast<std::size_t>(layer)]);
      };
      return scan_prefix_of_eviction(reference, evict_at, settings);
    }
    return scan_prefix(reference, compress, settings);
  }

  AttentionReference reference;
  std::vector<kv::LayerTensors> tensors;
  std::vector<std::int64_t> model_layers;
  std::vector<std::int64_t> digits;
  std::array<std::vector<kv::LayerScores>, 2> scores;
};

std::size_t mode_index(std::string_view name) {
  return name == kModes[0].first ? 0 : 1;
}

/// The slice of the reference in testdata/, by either way of scanning.
void expect_slice(bool by_runs) {
  const Experiment experiment(attention::Trace::open(KVTIDE_SOURCE_DIR "/experiments/traces/smollm2-135m-2k.h5"));
  ASSERT_EQ(experiment.model_layers, (std::vector<std::int64_t>{9, 18}));
  ASSERT_EQ(experiment.digits.size(), 4U);
  std::ifstream file(KVTIDE_SOURCE_DIR "/sim/loss/testdata/golden_offsets.csv");
  std::string line;
  std::map<std::tuple<std::int64_t, std::size_t, double>, PrefixScan> scans;
  std::int64_t rows = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line.front() == '#' || line.front() == 'b') continue;
    std::istringstream cells(line);
    std::vector<std::string> cell;
    for (std::string text; std::getline(cells, text, ',');) cell.push_back(text);
    ASSERT_EQ(cell.size(), 9U) << line;
    const std::int64_t block_size = std::stoll(cell[0]);
    const auto key = std::tuple(block_size, mode_index(cell[1]), std::stod(cell[2]));
    if (!scans.contains(key))
      scans.emplace(key, experiment.scan(std::get<1>(key), std::get<2>(key), block_size, 1, by_runs));
    const PrefixScan& scan = scans.at(key);
    const std::size_t at = scan.index(std::stoll(cell[3]), std::stoll(cell[4]) == 9 ? 0 : 1, std::stoll(cell[5]));
    EXPECT_NEAR(scan.lost_mass[at], std::stod(cell[6]), kTolerance) << line;
    EXPECT_NEAR(scan.output_error[at], std::stod(cell[7]), kTolerance) << line;
    EXPECT_NEAR(scan.kept_share[at], std::stod(cell[8]), kTolerance) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 468);  // 13 prefixes x 2 modes x 3 ratios x 2 layers x 3 heads
}

TEST(GoldenOffsets, CommittedTraceReproducesTheSlice) {
  expect_slice(/*by_runs=*/false);
}

TEST(GoldenOffsets, CommittedTraceReproducesTheSliceFromRunsAlone) {
  expect_slice(/*by_runs=*/true);
}

// Every prefix, layer, head, ratio and mode of the whole reference; by runs, which the slice ties to the caches.
TEST(GoldenOffsets, WholeReferenceIsReproduced) {
  const std::string data = KVTIDE_SOURCE_DIR "/../shared/data/";
  if (!std::filesystem::exists(data + "trace-offset-golden.h5"))
    GTEST_SKIP() << "no trace-offset-golden.h5 beside the tree";
  const Experiment experiment(attention::Trace::open(data + "smollm2-135m-trace-2k.h5"));
  const hdf5::InputFile golden(data + "trace-offset-golden.h5");
  constexpr std::array<double, 3> kRemoved = {0.25, 0.5, 0.75};
  for (const std::int64_t block_size : {64, 128}) {
    const std::string group = "/B" + std::to_string(block_size);
    const std::vector<float> lost = golden.read_floats(group + "/lost_mass");
    const std::vector<float> error = golden.read_floats(group + "/out_err");
    const std::vector<float> kept = golden.read_floats(group + "/digits_kept");
    std::size_t at = 0;
    double worst = 0;
    for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
      for (const double removed : kRemoved) {
        const PrefixScan scan = experiment.scan(mode, removed, block_size, block_size / 64, /*by_runs=*/true);
        ASSERT_EQ(scan.shift.size(), 129U);
        for (std::size_t cell = 0; cell < scan.lost_mass.size(); ++cell, ++at) {
          worst = std::max({worst, std::abs(scan.lost_mass[cell] - static_cast<double>(lost[at])),
                            std::abs(scan.output_error[cell] - static_cast<double>(error[at])),
                            std::abs(scan.kept_share[cell] - static_cast<double>(kept[at]))});
        }
      }
    }
    EXPECT_EQ(at, lost.size());
    EXPECT_LE(worst, kTolerance) << "block_size " << block_size;
    RecordProperty("worst_difference_" + std::to_string(block_size), std::to_string(worst));
  }
}

}  // namespace
}  // namespace kvtide::loss
