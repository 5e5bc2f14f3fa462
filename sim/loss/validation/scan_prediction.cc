#include "loss/validation/scan_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "attention/trace.h"
#include "base/error.h"
#include "hdf5/child_trial.h"
#include "hdf5/hdf5_file.h"
#include "kv/compression/evicted_runs.h"
#include "kv/compression/scorer.h"
#include "loss/answer_reading.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kValueGroup = 64;   // channels of a head of the measured model
constexpr std::int64_t kScoreWindow = 64;  // last queries that score blocks, and last tokens that stay
constexpr std::int64_t kPoolSinks = 4;
constexpr int kAnswerChoices = 10;

/// What of a capture the prediction needs besides its tensors.
struct AskedAnswer {
  std::vector<double> margins;
  AnswerPlaces places;
};

AskedAnswer asked_answer(const std::string& capture, const attention::Trace& trace) {
  AskedAnswer answer;
  for (const attention::Probe& probe : trace.probes()) {
    if (!probe.is_asked) continue;
    answer.places.sources = probe.digit_positions;
    answer.places.fact = {probe.start, std::min(probe.start + probe.length, trace.info().num_context)};
  }
  const auto read_margins = [&capture] { return hdf5::InputFile(capture).read_doubles("/answer/margin"); };
  hdf5::require_trial(capture, [&] { (void)read_margins(); });
  answer.margins = read_margins();
  const attention::QueryRange queries = trace.info().answer;
  const auto num_queries = static_cast<std::size_t>(queries.last - queries.first + 1);
  answer.places.first_query = queries.first;
  const std::vector<std::int64_t>& sources = answer.places.sources;
  if (sources.empty() || answer.margins.size() != sources.size() || num_queries != sources.size()) {
    throw InputError(fmt::format(
        "{}: expected one margin and one answer query for each of the asked probe's positions, found {} margins, {} "
        "queries and {} positions",
        capture, answer.margins.size(), num_queries, sources.size()));
  }
  return answer;
}

}  // namespace

kv::Compression compression_of(const AskedSetting& asked) {
  const MeasuredSetting& setting = asked.setting;
  kv::Compression compression;
  compression.grid_offset = asked.grid_offset % setting.block;
  compression.block_size = setting.block;
  if (setting.policy == "evict") {
    compression.sinks = 1;
    compression.window = kScoreWindow;
    kv::Evict evict;
    evict.keep = 1'000'000 - setting.removed_ppm;
    evict.heads = setting.head_scope == "shared" ? kv::HeadScope::shared : kv::HeadScope::per_head;
    compression.stages = {evict};
  } else if (setting.policy == "int2" || setting.policy == "int4") {
    compression.sinks = 0;
    compression.window = 0;
    kv::Quantize quantize;
    quantize.k_format = quantize.v_format = setting.policy;
    // A group of values lies within a head: blocks of 128 tokens have their keys in two groups of 64 where the measured
    // cache had one.
    quantize.group = std::min<std::int64_t>(setting.block, kValueGroup);
    compression.stages = {quantize};
  } else {
    compression.sinks = kPoolSinks;
    compression.window = kScoreWindow;
    kv::Pool pool;
    pool.width = setting.block;
    pool.rope = setting.policy == "pool_prerope" ? kv::RopeState::pre : kv::RopeState::post;
    compression.stages = {pool};
  }
  return compression;
}

std::vector<PredictedAnswer> predict_prompt(const std::string& capture, const std::vector<AskedSetting>& settings) {
  const attention::Trace trace = attention::Trace::open(capture);
  const attention::TraceInfo& info = trace.info();
  const AskedAnswer answer = asked_answer(capture, trace);
  const auto compressed_tokens = [&](const MeasuredSetting& setting) {
    return setting.time == CompressionTime::agnostic ? info.num_context : info.question.last;
  };
  std::vector<kv::Compression> compressions;
  compressions.reserve(settings.size());
  for (const AskedSetting& setting : settings) compressions.push_back(compression_of(setting));
  std::vector<AnswerReading> readings;
  for (const AskedSetting& setting : settings) {
    readings.emplace_back(answer.places, compressed_tokens(setting.setting));
  }

  for (std::int64_t layer = 0; layer < trace.num_layers(); ++layer) {
    const kv::LayerTensors tensors = trace.load_layer(layer);
    std::vector<HeadReference> asking;  // the question's queries and the answer's
    for (const kv::HeadTensors& head : tensors) {
      asking.push_back(make_head_reference(head, {info.question.first, info.answer.last}));
    }
    std::array<std::optional<kv::LayerScores>, 2> scores;  // by time
    for (std::size_t index = 0; index < settings.size(); ++index) {
      const std::int64_t tokens = compressed_tokens(settings[index].setting);
      auto& of_time = scores[static_cast<std::size_t>(settings[index].setting.time)];
      if (!of_time) of_time = kv::find_scorer("attention_sum").score(tensors, {tokens, kScoreWindow});
      if (kv::only_evicts(compressions[index])) {
        const auto evicted = kv::evicted_runs(compressions[index], tokens, *of_time);
        for (std::size_t head = 0; head < asking.size(); ++head) {
          readings[index].add_evicted(asking[head], evicted[head]);
        }
      } else {
        const auto num_heads = static_cast<std::int64_t>(tensors.size());
        const kv::LayerCache cache =
            kv::compress_layer(compressions[index], tokens, num_heads, info.head_dim, *of_time, &tensors);
        for (std::size_t head = 0; head < asking.size(); ++head) {
          readings[index].add_cache(asking[head], cache.heads[head]);
        }
      }
      readings[index].end_layer();
    }
  }
  std::vector<PredictedAnswer> predicted;
  predicted.reserve(readings.size());
  for (const AnswerReading& reading : readings) {
    const std::vector<double> lost = reading.lost_share();
    std::vector<double> kept;
    for (const double share : lost) kept.push_back(1 - share);
    PredictedAnswer one;
    one.loss = answer_loss(answer.margins, lost, kAnswerChoices);
    std::vector<double> probability;
    for (const double margin : one.loss.margins) probability.push_back(1 / (1 + std::exp(-margin)));
    one.snowball = follow_path(probability, kept);
    one.lost_by_layer = reading.lost_by_layer();
    one.carried_by_layer = reading.carried_by_layer();
    predicted.push_back(std::move(one));
  }
  return predicted;
}

}  // namespace kvtide::loss
