#include "serving/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "config/csv_table.h"
#include "gpu/gpu.h"
#include "model/model.h"
#include "serving/captured_batch.h"
#include "serving/device_name.h"
#include "serving/machine_step_time.h"
#include "serving/memory_account.h"
#include "serving/profile_tables.h"
#include "serving/serving_statistics.h"

namespace kvtide::serving {
namespace {

using config::CsvTable;

// All-reduce over PCIe between GPUs without a direct link, as the notes on these runs give it: two hops of 20 us, 16 GB/s.
// The measured run says nothing of its links; with them left out its times come out 30 to 47 % short.
constexpr double kPcieAllReduceLatency = 40e-6;
constexpr double kPcieAllReduceRate = 16e9;
constexpr double kActivationBytes = 2;  // of an element
// Activations and context of the one run whose block count is known: 2,048 batched tokens on an RTX 4090.
constexpr double kOverheadBytes = 1237612953.0;

/// A cell that may be empty.
std::int64_t integer_or(const CsvTable& table, std::size_t row, const char* column, std::int64_t fallback) {
  return table.text(row, column).empty() ? fallback : table.integer(row, column, 1, std::int64_t{1} << 40);
}

/// Parameters of a dense decoder with untied embeddings, two bytes each.
double weight_bytes(const CsvTable& runs, std::size_t row) {
  const auto value = [&](const char* column) { return runs.number(row, column, 1, 1e9); };
  const double heads = value("n_q_heads") + 2 * value("n_kv_heads");
  const double attention = value("hidden") * value("head_dim") * (heads + value("n_q_heads"));
  const double layer = attention + 3 * value("hidden") * value("ffn");
  return 2 * (value("n_layers") * layer + 2 * value("vocab") * value("hidden"));
}

/// The shipped model whose name occurs in the run's, where layers and width agree: the table has no columns for experts.
std::optional<Model> shipped_model(const CsvTable& runs, std::size_t row) {
  const std::string wanted = letters_and_digits(runs.text(row, "model"));
  std::optional<Model> best;
  std::size_t length = 0;
  for (const std::string& name : known_models()) {
    const std::string known = letters_and_digits(name);
    if (known.size() <= length || wanted.find(known) == std::string::npos) continue;
    Model model = load_model(name);
    if (model.num_layers != runs.integer(row, "n_layers", 1, 10000) ||
        model.hidden_size != runs.integer(row, "hidden", 1, 1 << 30)) {
      continue;
    }
    best = std::move(model);
    length = known.size();
  }
  return best;
}

EngineSettings settings_of(const CsvTable& runs, std::size_t row) {
  EngineSettings settings;
  settings.block_size = runs.integer(row, "block_size", 1, 65536);
  settings.max_num_seqs = runs.integer(row, "max_num_seqs", 1, 1 << 20);
  settings.max_num_batched_tokens = runs.integer(row, "max_num_batched_tokens", 1, 1 << 30);
  settings.prefix_caching = runs.text(row, "prefix_caching") != "False";  // on by default
  settings.num_blocks = integer_or(runs, row, "num_gpu_blocks", 0);
  if (settings.num_blocks == 0) {
    const double ranks = runs.number(row, "tp", 1, 1024);
    const std::optional<Model> model = shipped_model(runs, row);
    const double weights = model ? static_cast<double>(model->weight_bytes()) : weight_bytes(runs, row);
    const MemoryAccount account{.total_bytes = runs.number(row, "gpu_mem_gb", 1, 1e6) * 1e9,
                                .weight_bytes = weights / ranks,
                                .activation_bytes = kOverheadBytes,
                                .kv_bytes_per_token = 2 * 2 * runs.number(row, "n_layers", 1, 1e6) *
                                                      runs.number(row, "head_dim", 1, 1e6) *
                                                      std::max(1.0, runs.number(row, "n_kv_heads", 1, 1e6) / ranks),
                                .block_size = settings.block_size};
    settings.num_blocks = account.num_blocks(integer_or(runs, row, "max_model_len", settings.block_size));
  }
  return settings;
}

ProfileTables tables_of(const std::string& folder, const CsvTable& runs, std::size_t row) {
  AllReduceCost all_reduce;
  if (runs.integer(row, "tp", 1, 1024) > 1) {
    all_reduce = {.latency = kPcieAllReduceLatency,
                  .bytes_per_second = kPcieAllReduceRate,
                  .bytes_per_token = kActivationBytes * runs.number(row, "hidden", 1, 1e9)};
  }
  return {fmt::format("{}/profiles/{}", folder, runs.text(row, "run")), runs.integer(row, "n_layers", 1, 10000),
          runs.integer(row, "max_num_seqs", 1, 1 << 20), all_reduce};
}

/// GPUs that PCIe joins are staged through the host unless the caller knows of peer access; NVLink stays as it is.
/// Where the run states its memory bandwidth (one name covers cards of different editions: an RTX PRO 6000 has 1792 GB/s, its server
/// edition 1597), that is the memory's.
gpu::GpuProfile profile_of(const std::string& name, const CsvTable& runs, std::size_t row,
                           const ReplayOptions& options) {
  gpu::GpuProfile profile = gpu::load_gpu_profile(name);
  if (!runs.text(row, "mem_bw_gb_s").empty()) {
    const double stated = runs.number(row, "mem_bw_gb_s", 1, 1e6) * 1e9;
    profile.data_rate *= stated / profile.bandwidth;
    profile.bandwidth = stated;
  }
  const bool is_pcie = profile.interconnect.kind == gpu::LinkKind::root_complex;
  const std::string wanted = !options.interconnect.empty() ? options.interconnect : is_pcie ? "pcie-staged" : "";
  if (!wanted.empty()) profile.interconnect = gpu::load_interconnect(wanted, profile.facts);
  return profile;
}

MachineStepTime::Options machine_options(const CsvTable& runs, std::size_t row) {
  const auto value = [&](const char* column) { return runs.integer(row, column, 1, 1 << 30); };
  MachineStepTime::Options options;
  options.iteration.shape = {.num_layers = value("n_layers"),
                             .hidden_size = value("hidden"),
                             .num_query_heads = value("n_q_heads"),
                             .num_kv_heads = value("n_kv_heads"),
                             .head_dim = value("head_dim"),
                             .intermediate_size = value("ffn"),
                             .vocab_size = value("vocab"),
                             .tensor_parallel = value("tp")};
  if (const std::optional<Model> model = shipped_model(runs, row); model && model->experts.num_experts > 0) {
    const Experts& experts = model->experts;
    options.iteration.shape.experts = {.num_experts = experts.num_experts,
                                       .num_active = experts.num_active,
                                       .intermediate_size = experts.intermediate_size,
                                       .shared_intermediate_size = experts.shared_intermediate_size,
                                       .first_layer = model->num_layers - experts.num_layers};
  }
  options.iteration.cache = {
      {.num_layers = value("n_layers"),
       .num_kv_heads = value("n_kv_heads"),
       .head_dim = value("head_dim"),
       .entry_bytes = static_cast<Bytes>(2 * kActivationBytes * runs.number(row, "head_dim", 1, 65536))}};
  options.iteration.page_size = value("block_size");
  options.largest_capture = largest_captured_batch(value("max_num_seqs"));
  return options;
}

/// Nothing where no request has the metric: one output token has no time between tokens.
void add_figures(ReplayedRun& replayed, const char* metric, const std::vector<double>& measured,
                 const std::vector<double>& predicted) {
  if (measured.empty() || predicted.empty()) return;
  const auto mean = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  replayed.figures.push_back({replayed.run, metric, "mean", mean(measured), mean(predicted)});
  for (const int percent : {50, 90, 95, 99}) {
    replayed.figures.push_back({replayed.run, metric, fmt::format("p{}", percent), quantile(measured, percent / 100.0),
                                quantile(predicted, percent / 100.0)});
  }
}

}  // namespace

std::string to_string(StepTimes value) {
  return value == StepTimes::machine ? "machine" : "tables";
}

std::vector<ReplayedRun> replay(const std::string& folder, const ReplayOptions& options) {
  const CsvTable runs = CsvTable::load(folder + "/runs.csv");
  std::vector<ReplayedRun> replayed;
  for (std::size_t row = 0; row < runs.num_rows(); ++row) {
    ReplayedRun result;
    result.run = runs.text(row, "run");
    const std::string requests_path = fmt::format("{}/{}.requests.csv", folder, result.run);
    const RequestTrace trace = load_requests(requests_path, "queued_s");
    const EngineSettings settings = settings_of(runs, row);
    if (options.step_times == StepTimes::tables) {
      ProfileTables tables = tables_of(folder, runs, row);
      result.outcome = serve(trace, settings, tables);
    } else {
      result.gpu = gpu_of_device(runs.text(row, "gpu"), runs.text(row, "device_name"));
      gpu::Gpu gpu(profile_of(result.gpu, runs, row, options), gpu::Fidelity::sampled);
      MachineStepTime machine(gpu, machine_options(runs, row));
      result.outcome = serve(trace, settings, machine);
    }

    const CsvTable measured = CsvTable::load(requests_path);
    std::vector<double> figures[3], predicted[3];
    for (std::size_t request = 0; request < measured.num_rows(); ++request) {
      figures[0].push_back(measured.number(request, "ttft_ms", 0, 1e12));
      if (measured.integer(request, "output_tokens", 1, 1 << 30) > 1) {
        figures[1].push_back(measured.number(request, "tpot_ms", 0, 1e12));
      }
      figures[2].push_back(measured.number(request, "latency_ms", 0, 1e12));
      result.measured_makespan = std::max(result.measured_makespan, measured.number(request, "last_token_s", 0, 1e9));
    }
    for (const RequestTimes& times : result.outcome.requests) {
      predicted[0].push_back(to_seconds(times.ttft()) * 1e3);
      if (times.output_tokens > 1) predicted[1].push_back(times.tpot_seconds() * 1e3);
      predicted[2].push_back(to_seconds(times.latency()) * 1e3);
    }
    int index = 0;
    for (const char* metric : {"ttft_ms", "tpot_ms", "latency_ms"}) {
      add_figures(result, metric, figures[index], predicted[index]);
      ++index;
    }
    replayed.push_back(std::move(result));
  }
  return replayed;
}

}  // namespace kvtide::serving
