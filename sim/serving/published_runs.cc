#include "serving/published_runs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "config/csv_table.h"
#include "gpu/gpu.h"
#include "serving/captured_batch.h"
#include "serving/device_name.h"
#include "serving/machine_step_time.h"
#include "serving/serving_run.h"
#include "serving/workload.h"

namespace kvtide::serving {
namespace {

using config::CsvTable;

constexpr double kActivationBytes = 2;

/// Dense decoders of the published rows; figures of their public config.json.
struct KnownModel {
  const char* name;
  gpu::DecoderShape shape;
};
const KnownModel kModels[] = {{"Qwen2.5-7B-Instruct",
                               {.num_layers = 28,
                                .hidden_size = 3584,
                                .num_query_heads = 28,
                                .num_kv_heads = 4,
                                .head_dim = 128,
                                .intermediate_size = 18944,
                                .vocab_size = 152064}},
                              {"Qwen3-4B",
                               {.num_layers = 36,
                                .hidden_size = 2560,
                                .num_query_heads = 32,
                                .num_kv_heads = 8,
                                .head_dim = 128,
                                .intermediate_size = 9728,
                                .vocab_size = 151936}},
                              {"Qwen3-0.6B",
                               {.num_layers = 28,
                                .hidden_size = 1024,
                                .num_query_heads = 16,
                                .num_kv_heads = 8,
                                .head_dim = 128,
                                .intermediate_size = 3072,
                                .vocab_size = 151936}}};

const gpu::DecoderShape* shape_of(const std::string& model) {
  for (const KnownModel& known : kModels) {
    if (model == known.name) return &known.shape;
  }
  return nullptr;
}

/// How a published method stores an entry and what its kernels do.
struct Method {
  double entry_bytes = 0;              ///< K and V of one head
  std::int64_t layers_in_16_bits = 0;  ///< first and last ones that the method leaves alone
  std::string recipe{};
  bool has_conversion_kernel = false;  ///< the whole cache back to 16 bits before attention
  double conversion_flops = 0;         ///< of an entry (one head), in the conversion kernel or in attention
  double store_flops = 0;              ///< of an entry, when it is quantized
};

/// 16-bit K and V of one head.
double plain_entry(const gpu::DecoderShape& shape) {
  return 2 * kActivationBytes * static_cast<double>(shape.head_dim);
}

std::optional<Method> method_of(const std::string& text, const std::string& source, const gpu::DecoderShape& shape) {
  const auto dim = static_cast<double>(shape.head_dim);
  const std::int64_t queries_per_head = shape.num_query_heads / shape.num_kv_heads;
  if (text.rfind("fp8", 0) == 0) {
    return Method{.entry_bytes = plain_entry(shape) / 2,
                  .recipe = "attention reads fp8; a cast of the new tokens in a kernel of its own",
                  .store_flops = 2 * 2 * dim};
  }
  if (text == "turboquant 3-bit") {
    // K: 3 bits and a 16-bit norm; V: 3 bits, 16-bit scale and zero; rounded up to 8 B. Two layers at either end stay in 16 bits.
    Method method{.entry_bytes = std::ceil((2 * dim * 3 / 8 + 6) / 8) * 8, .layers_in_16_bits = 4};
    const double rotation = 2 * 2 * dim * dim;  // K and V each times a dim x dim matrix
    method.store_flops = rotation + 16 * 2 * dim;
    if (source.find("before") != std::string::npos) {
      method.recipe = "the whole cache is looked up, rotated back and written in 16 bits before every attention";
      method.has_conversion_kernel = true;
      method.conversion_flops = rotation + 16 * 2 * dim;
    } else {
      // Shift and mask across bytes, table look-up, scale, the dot product itself on CUDA cores: 16 a value.
      method.recipe =
          "attention converts inside, once for every query head of a group, on CUDA cores; queries are rotated instead "
          "of keys";
      method.conversion_flops = static_cast<double>(queries_per_head) * 16 * 2 * dim;
    }
    return method;
  }
  return std::nullopt;
}

MachineStepTime::Options step_options(const gpu::DecoderShape& shape, const Method* method) {
  const auto heads = static_cast<double>(shape.num_kv_heads);
  const auto plain = static_cast<Bytes>(plain_entry(shape));
  MachineStepTime::Options options;
  options.iteration.shape = shape;
  options.iteration.page_size = 16;
  const auto layer = [&](std::int64_t count, Bytes entry_bytes) {
    options.iteration.cache.push_back({.num_layers = count,
                                       .num_kv_heads = shape.num_kv_heads,
                                       .head_dim = shape.head_dim,
                                       .entry_bytes = entry_bytes});
  };
  if (method == nullptr) {
    layer(shape.num_layers, plain);
    return options;
  }
  const auto stored = static_cast<Bytes>(method->entry_bytes);
  const std::int64_t compressed = shape.num_layers - method->layers_in_16_bits;
  if (method->layers_in_16_bits > 0) layer(method->layers_in_16_bits, plain);
  layer(compressed, method->has_conversion_kernel ? plain : stored);
  const double share = static_cast<double>(compressed) / static_cast<double>(shape.num_layers);
  options.compression = {.read_bytes = share * heads * plain_entry(shape),
                         .write_bytes = share * heads * method->entry_bytes,
                         .flops = share * heads * method->store_flops,
                         .is_every_token = true};
  if (method->conversion_flops > 0) {
    options.conversion = {.read_bytes = method->has_conversion_kernel ? share * heads * method->entry_bytes : 1e-3,
                          .write_bytes = method->has_conversion_kernel ? share * heads * plain_entry(shape) : 0,
                          .flops = share * heads * method->conversion_flops};
  }
  return options;
}

double requests_per_second(gpu::Gpu& gpu, const gpu::DecoderShape& shape, const Method* method,
                           const SyntheticWorkload& workload, std::int64_t kv_tokens) {
  MachineStepTime step_time(gpu, step_options(shape, method));
  const auto source = draw_requests(workload, 16, 1);
  const EngineSettings engine{.num_blocks = std::max<std::int64_t>(2, kv_tokens / 16 + 1),
                              .max_num_batched_tokens = 8192,
                              .prefix_caching = false};
  const ServingOutcome outcome = serve(*source, engine, step_time);
  return static_cast<double>(outcome.num_requests) / to_seconds(outcome.makespan);
}

}  // namespace

std::vector<PreemptionRow> predict_preemptions(const std::string& path, std::int64_t seeds) {
  const CsvTable table = CsvTable::load(path);
  std::vector<PreemptionRow> rows;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto count = [&](const char* column) { return table.integer(row, column, 1, 1 << 30); };
    const gpu::DecoderShape* shape = shape_of(table.text(row, "model"));
    if (shape == nullptr) throw InputError(path + ": model " + table.text(row, "model") + " is not described");
    gpu::Gpu gpu(gpu::load_gpu_profile(gpu_of_device(table.text(row, "gpu"), "")), gpu::Fidelity::roofline);
    MachineStepTime step_time(gpu, step_options(*shape, nullptr));
    const double spread = table.number(row, "range_ratio", 0, 1);
    const auto lengths = [&](const char* column) {
      const double mean = table.number(row, column, 1, 1e7);
      return LengthDistribution{.kind = LengthDistribution::Kind::uniform,
                                .low = std::round(mean * (1 - spread)),
                                .high = std::round(mean * (1 + spread))};
    };
    const SyntheticWorkload workload{.arrivals = ArrivalKind::closed_loop,
                                     .users = count("client_concurrency"),
                                     .input = lengths("input_mean"),
                                     .output = lengths("output_mean"),
                                     .num_requests = count("requests")};
    const EngineSettings engine{.num_blocks = count("kv_tokens") / count("block_size") + 1,
                                .block_size = count("block_size"),
                                .max_num_seqs = count("max_num_seqs"),
                                .max_num_batched_tokens = 8192,
                                .prefix_caching = false,
                                .watermark = table.number(row, "watermark", 0, 0.99)};
    PreemptionRow predicted{.watermark = engine.watermark, .measured = table.number(row, "preemptions", 0, 1e9)};
    for (std::int64_t seed = 1; seed <= seeds; ++seed) {
      const auto source = draw_requests(workload, engine.block_size, static_cast<std::uint64_t>(seed));
      const auto preemptions = static_cast<double>(serve(*source, engine, step_time).counters.preemptions);
      predicted.mean += preemptions / static_cast<double>(seeds);
      predicted.low = seed == 1 ? preemptions : std::min(predicted.low, preemptions);
      predicted.high = std::max(predicted.high, preemptions);
    }
    rows.push_back(predicted);
  }
  return rows;
}

std::vector<QuantizedRow> predict_quantized(const std::string& path) {
  const CsvTable table = CsvTable::load(path);
  const auto number_or_zero = [&](std::size_t row, const char* column) {
    return table.text(row, column).empty() ? 0.0 : table.number(row, column, -1e12, 1e12);
  };
  std::vector<QuantizedRow> rows;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    QuantizedRow result{.source = table.text(row, "source"),
                        .model = table.text(row, "model"),
                        .gpu = table.text(row, "gpu"),
                        .method = table.text(row, "method")};
    result.input_tokens = std::llround(number_or_zero(row, "input_tokens"));
    result.concurrency = std::llround(number_or_zero(row, "concurrency"));
    result.capacity_measured = number_or_zero(row, "capacity_ratio");
    result.throughput_measured = number_or_zero(row, "throughput_ratio");
    const gpu::DecoderShape* shape = shape_of(result.model);
    const std::optional<Method> method =
        shape == nullptr ? std::nullopt : method_of(result.method, result.source, *shape);
    if (!method || result.concurrency == 0) {
      result.not_predicted = shape == nullptr ? "the model is not stated or not described"
                             : !method        ? "the method is not described"
                                              : "no concurrency is stated";
      rows.push_back(std::move(result));
      continue;
    }
    result.recipe = method->recipe;
    // The same bytes hold more blocks, rounded down.
    const double layers = static_cast<double>(shape->num_layers), kept = static_cast<double>(method->layers_in_16_bits);
    const double plain_token = layers * plain_entry(*shape);
    const double token = kept * plain_entry(*shape) + (layers - kept) * method->entry_bytes;
    const auto baseline = std::llround(number_or_zero(row, "baseline_kv_tokens"));
    const std::int64_t plain_blocks = baseline / 16;
    const double blocks = std::floor(static_cast<double>(plain_blocks) * plain_token / token);
    result.capacity_predicted = blocks * 16 / static_cast<double>(baseline);
    SyntheticWorkload workload{
        .arrivals = ArrivalKind::closed_loop, .users = result.concurrency, .num_requests = 10 * result.concurrency};
    workload.input.mean = static_cast<double>(result.input_tokens);
    // Where the output is not stated, a quarter of the input.
    const double output = number_or_zero(row, "output_tokens");
    workload.output.mean = output > 0 ? output : workload.input.mean / 4;
    gpu::Gpu gpu(gpu::load_gpu_profile(gpu_of_device(result.gpu, result.gpu)), gpu::Fidelity::roofline);
    const double plain = requests_per_second(gpu, *shape, nullptr, workload, baseline);
    const double quantized =
        requests_per_second(gpu, *shape, &*method, workload, static_cast<std::int64_t>(blocks) * 16);
    result.throughput_predicted = quantized / plain;
    rows.push_back(std::move(result));
  }
  return rows;
}

}  // namespace kvtide::serving
