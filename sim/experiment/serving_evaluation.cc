#include "experiment/serving_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/csv_table.h"
#include "experiment/served_engine.h"
#include "experiment/served_traffic.h"

namespace kvtide::experiment {
namespace {

std::int64_t limit_of(const ServingSetting& setting, const Model& model) {
  return setting.max_model_len > 0 ? setting.max_model_len : model.max_positions;
}

/// Of the cache of one engine. vLLM refuses to start where a sequence of max_model_len tokens is longer than the model, or than the cache
/// that it has measured; with given blocks, and in other engines, such a sequence is refused when it comes.
std::int64_t cache_blocks(const Run& run, const Model& model, const serving::MemoryAccount& account,
                          const serving::CacheGrowth& growth, RunResult& result) {
  const ServingSetting& asked = *run.setting.serving;
  const std::int64_t limit = limit_of(asked, model), page_size = run.setting.page_size;
  const bool is_vllm = asked.engine == "vllm";
  if (limit > model.max_positions) {
    const std::string text =
        fmt::format("engine.max_model_len: {} is more than the model's {} positions", limit, model.max_positions);
    if (is_vllm) throw InputError(text + ": vLLM refuses to start");
    result.warnings.push_back(text);
  }
  if (is_vllm && asked.num_blocks == 0) {
    try {
      return account.num_blocks(limit, growth, asked.max_num_batched_tokens);
    } catch (const InputError& error) {
      throw InputError(fmt::format("engine.max_model_len: vLLM refuses to start: {}", error.what()));
    }
  }
  const std::int64_t blocks = asked.num_blocks > 0 ? asked.num_blocks : account.num_blocks(page_size, growth);
  const std::int64_t needed = growth.most_blocks(limit, asked.max_num_batched_tokens, page_size);
  if (asked.max_model_len > 0 && needed > blocks - 1) {
    result.warnings.push_back(fmt::format(
        "engine.max_model_len: a prompt of {} tokens needs {} blocks, the cache has {}", limit, needed, blocks - 1));
  }
  return blocks;
}

}  // namespace

void check_requests(const Run& run, const Model& model) {
  const ServingSetting& setting = *run.setting.serving;
  const std::int64_t limit = limit_of(setting, model);
  if (!setting.requests.empty()) {
    (void)serving::limit_requests(serving::load_requests(setting.requests), limit, setting.long_requests,
                                  setting.requests);
  } else if (setting.long_requests == serving::LongRequests::refuse) {
    for (std::int64_t seed = 0; seed < setting.seeds; ++seed)
      serving::check_lengths(setting.drawn, draws_of(run, seed), limit);
  }
}

void evaluate_serving(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                      const kv::RecordedScores& scores, RunResult& result) {
  const ServingSetting& asked = *run.setting.serving;
  if (asked.requests.empty()) check_requests(run, model);
  const ServedTraffic traffic(run, limit_of(asked, model));
  const std::int64_t context = traffic.mean_context();
  const CompressedShare share = compressed_share(run, setting, model, scores, context);
  const serving::MemoryAccount account = memory_account(run, model, gpu.profile(), share.bytes);
  const serving::CacheGrowth growth = cache_growth(model, setting, share, context);
  const std::int64_t num_blocks = cache_blocks(run, model, account, growth, result);
  const serving::EngineSettings engine = engine_settings(run, account, num_blocks, growth);
  const serving::Fleet fleet = fleet_of(run, model, gpu.profile(), share.bytes, engine);
  serving::MachineStepTime modeled(gpu, step_options(run, setting, model, scores, share.bytes, context));
  serving::CalibratedStepTime calibrated(modeled, asked.calibration);
  const bool is_calibrated = asked.calibration != serving::Calibration{};
  serving::StepTime& step_time = is_calibrated ? static_cast<serving::StepTime&>(calibrated) : modeled;
  auto& numbers = result.numbers;
  numbers["serving_blocks"] = static_cast<double>(engine.num_blocks);
  numbers["serving_kv_tokens"] = static_cast<double>((engine.num_blocks - 1) * engine.block_size);
  numbers["serving_keep_ratio"] = engine.growth.keep_ratio;
  numbers["serving_entry_share"] = share.bytes;
  numbers["serving_engines"] = static_cast<double>(fleet.replicas + fleet.prefill_replicas);
  traffic.serve(fleet, step_time, result);
}

std::vector<double> load_fact_places(const std::string& path, std::size_t num_positions) {
  const config::CsvTable table = config::CsvTable::load(path);
  const bool has_weight = std::ranges::find(table.columns(), "weight") != table.columns().end();
  std::vector<double> weights(num_positions, 0.0);
  double sum = 0;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const double place = table.number(row, "place", 0, 1);
    const double weight = has_weight ? table.number(row, "weight", 0, 1e12) : 1;
    const auto position = static_cast<std::size_t>(place * static_cast<double>(num_positions));
    weights[std::min(position, num_positions - 1)] += weight;
    sum += weight;
  }
  if (!(sum > 0)) throw InputError(fmt::format("{}: no fact has a weight above 0", path));
  return weights;
}

void add_expected_loss(const ServingSetting& asked, RunResult& result) {
  const auto profile = std::ranges::find(result.arrays, "loss/mass_loss", &ResultArray::path);
  if (profile == result.arrays.end()) return;
  std::vector<double> losses;
  std::visit([&](const auto& values) { losses.assign(values.begin(), values.end()); }, profile->values);
  const auto expect = [&](const char* name, const auto& weight_of) {
    double sum = 0, weights = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (std::isnan(losses[i])) continue;
      sum += weight_of(i) * losses[i];
      weights += weight_of(i);
    }
    if (weights > 0) result.numbers[name] = sum / weights;
  };
  const auto late = [&](std::size_t i) { return (static_cast<double>(i) + 0.5) / static_cast<double>(losses.size()); };
  expect("expected_loss_uniform", [](std::size_t) { return 1.0; });
  expect("expected_loss_start", [&](std::size_t i) { return 1 - late(i); });
  expect("expected_loss_end", late);
  if (asked.facts.empty() || losses.empty()) return;
  const std::vector<double> measured = load_fact_places(asked.facts, losses.size());
  expect("expected_loss_measured", [&](std::size_t i) { return measured[i]; });
}

}  // namespace kvtide::experiment
