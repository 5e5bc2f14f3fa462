#include "serving/machine_step_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "serving/captured_batch.h"

namespace kvtide::serving {
namespace {

constexpr std::int64_t kKnotsPerOctave = 8;
constexpr std::int64_t kFirstKnot = 64;  // tokens; equal steps of 8 below
constexpr std::size_t kMixedKept = 1 << 18;
constexpr std::uint64_t kChunkParts = 8, kDecodeParts = 4;  // of an octave: what is rounded in mixed steps

/// Lengths at which decode attention is priced: 8, 16, ... 64, 72, 80, ... 128, 144, ...
std::int64_t knot_length(std::size_t index) {
  const auto i = static_cast<std::int64_t>(index) + 1;
  if (i < kKnotsPerOctave) return i * kFirstKnot / kKnotsPerOctave;
  const std::int64_t octave = (i - kKnotsPerOctave) / kKnotsPerOctave;
  return (kFirstKnot << octave) / kKnotsPerOctave * (kKnotsPerOctave + i % kKnotsPerOctave);
}

/// Index of the last knot at or below the length, 0 below the first.
std::size_t knot_below(double length) {
  if (length < kFirstKnot) {
    return static_cast<std::size_t>(std::max(1.0, std::floor(length * kKnotsPerOctave / kFirstKnot)) - 1);
  }
  const auto whole = static_cast<std::uint64_t>(length);
  const int octave = std::bit_width(whole / kFirstKnot) - 1;
  const std::uint64_t step = (static_cast<std::uint64_t>(kFirstKnot) << octave) / kKnotsPerOctave;
  return static_cast<std::size_t>(kKnotsPerOctave) * static_cast<std::size_t>(octave) +
         static_cast<std::size_t>(whole / step) - 1;
}

double class_seconds(const gpu::Iteration& iteration, const char* kernel_class) {
  for (const gpu::KernelClassTime& sums : iteration.by_class) {
    if (sums.kernel_class == kernel_class) return to_seconds(sums.duration);
  }
  return 0;
}

double& slot(std::vector<double>& values, std::size_t index) {
  if (values.size() <= index) values.resize(index + 1, std::numeric_limits<double>::quiet_NaN());
  return values[index];
}

/// To that part of an octave beyond 4 times as many.
std::int64_t rounded(std::int64_t tokens, std::uint64_t parts) {
  const auto value = static_cast<std::uint64_t>(tokens);
  if (value <= 4 * parts) return tokens;
  const std::uint64_t step = std::bit_floor(value) / parts;
  return static_cast<std::int64_t>((value + step / 2) / step * step);
}

}  // namespace

MachineStepTime::MachineStepTime(gpu::Gpu& gpu, Options options)
    : gpu_(gpu), model_(gpu, options.iteration), options_(std::move(options)) {}

/// GEMMs work in tiles of 64 or 128 rows, so beyond 256 tokens a multiple of 16 or 32 above costs the same.
double MachineStepTime::dense(std::int64_t num_tokens) {
  if (num_tokens > 256) num_tokens = ceil_div(num_tokens, num_tokens > 512 ? 32 : 16) * (num_tokens > 512 ? 32 : 16);
  double& known = slot(dense_, static_cast<std::size_t>(num_tokens));
  if (!std::isnan(known)) return known;
  const gpu::Iteration iteration = model_.iteration({.decode_lengths = {}, .chunks = {{num_tokens, 0}}});
  known = to_seconds(iteration.duration) - class_seconds(iteration, "prefill_attention") -
          class_seconds(iteration, "lm_head") - class_seconds(iteration, "gather_logits");
  return known;
}

double MachineStepTime::head(std::int64_t num_rows) {
  double& known = slot(head_, static_cast<std::size_t>(num_rows));
  if (!std::isnan(known)) return known;
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(num_rows), 1);
  const gpu::Iteration iteration = model_.iteration({.decode_lengths = lengths, .chunks = {}});
  known = class_seconds(iteration, "lm_head") + class_seconds(iteration, "gather_logits");
  return known;
}

/// Decode attention at a knot, priced on first use.
double MachineStepTime::knot(std::int64_t num_decodes, std::size_t index) {
  if (decode_.size() <= static_cast<std::size_t>(num_decodes))
    decode_.resize(static_cast<std::size_t>(num_decodes) + 1);
  double& known = slot(decode_[static_cast<std::size_t>(num_decodes)], index);
  if (!std::isnan(known)) return known;
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(num_decodes), knot_length(index));
  known = to_seconds(model_.attention({.decode_lengths = lengths, .chunks = {}})) +
          convert(static_cast<double>(num_decodes * knot_length(index)));
  return known;
}

double MachineStepTime::decode(std::int64_t num_decodes, double mean_length) {
  const std::size_t below = knot_below(mean_length);
  const auto low = static_cast<double>(knot_length(below)), high = static_cast<double>(knot_length(below + 1));
  const double weight = std::max(0.0, (mean_length - low) / (high - low));
  return (1 - weight) * knot(num_decodes, below) + weight * knot(num_decodes, below + 1);
}

/// Chunks and decodes together: engines run them in one call.
double MachineStepTime::mixed(const StepShape& shape) {
  gpu::BatchShape batch;
  // Their number first: a second chunk of 32 tokens behind 1,024 is not 32 decodes of that length.
  std::uint64_t key = mix64(shape.prefills.size());
  for (const PrefillChunk& chunk : shape.prefills) {
    batch.chunks.push_back({rounded(chunk.tokens, kChunkParts), rounded(chunk.kv_before, kChunkParts)});
  }
  std::ranges::sort(batch.chunks);
  for (const gpu::PromptChunk& chunk : batch.chunks) {
    key = mix64(key + static_cast<std::uint64_t>(chunk.num_new));
    key = mix64(key + static_cast<std::uint64_t>(chunk.num_cached));
  }
  std::int64_t length = 0, count = 0;
  if (shape.num_decodes > 0) {
    count = rounded(shape.num_decodes, kDecodeParts);
    length = rounded(shape.decode_kv_tokens / shape.num_decodes, kDecodeParts);
    key = mix64(mix64(key + static_cast<std::uint64_t>(count)) + static_cast<std::uint64_t>(length));
  }
  const auto known = mixed_.find(key);
  if (known != mixed_.end()) return known->second;
  batch.decode_lengths.assign(static_cast<std::size_t>(count), length);
  const double seconds = to_seconds(model_.attention(batch)) + convert(static_cast<double>(count * length));
  if (mixed_.size() >= kMixedKept) mixed_.clear();
  return mixed_.emplace(key, seconds).first->second;
}

double MachineStepTime::compress(std::int64_t num_tokens) {
  const Options::Compression& work = options_.compression;
  if (num_tokens == 0 || (work.read_bytes <= 0 && work.flops <= 0)) return 0;
  const auto known = compress_.find(num_tokens);
  if (known != compress_.end()) return known->second;
  const auto tokens = static_cast<double>(num_tokens);
  const std::int64_t num_layers = work.num_layers > 0 ? work.num_layers : options_.iteration.shape.num_layers;
  const gpu::KernelTime time = gpu_.stream({.num_blocks = std::llround(std::ceil(tokens * work.thread_blocks)),
                                            .read_bytes = static_cast<Bytes>(tokens * work.read_bytes),
                                            .write_bytes = static_cast<Bytes>(tokens * work.write_bytes),
                                            .chunk_bytes = work.chunk_bytes,
                                            .flops = tokens * work.flops,
                                            .input = work.is_every_token ? gpu::L2State::warm : gpu::L2State::cold});
  const double seconds = to_seconds(time.duration) * static_cast<double>(num_layers);
  if (compress_.size() >= kMixedKept) compress_.clear();
  return compress_.emplace(num_tokens, seconds).first->second;
}

/// Page by page and layer by layer, by the copy engine.
double MachineStepTime::swap(std::int64_t num_tokens) const {
  if (num_tokens == 0 || options_.swap_bytes <= 0) return 0;
  const std::int64_t pages = ceil_div(num_tokens, options_.iteration.page_size);
  const gpu::KernelTime time =
      gpu_.host_transfer({.bytes = static_cast<Bytes>(static_cast<double>(num_tokens) * options_.swap_bytes),
                          .num_pieces = pages * options_.iteration.shape.num_layers});
  return to_seconds(time.duration);
}

double MachineStepTime::convert(double num_tokens) {
  const Options::Conversion& work = options_.conversion;
  if (work.read_bytes <= 0 || num_tokens <= 0) return 0;
  const gpu::KernelTime time = gpu_.stream({.num_blocks = std::max<std::int64_t>(1, std::llround(num_tokens / 16)),
                                            .read_bytes = static_cast<Bytes>(num_tokens * work.read_bytes),
                                            .write_bytes = static_cast<Bytes>(num_tokens * work.write_bytes),
                                            .chunk_bytes = 4096,
                                            .flops = num_tokens * work.flops});
  return to_seconds(time.duration) * static_cast<double>(options_.iteration.shape.num_layers);
}

double MachineStepTime::fixed_decode_part(std::int64_t num_decodes) {
  return dense(padded_batch(num_decodes, options_.largest_capture)) + head(num_decodes) +
         (options_.compression.is_every_token ? compress(num_decodes) : 0) + to_seconds(options_.between_steps);
}

Picoseconds MachineStepTime::duration(const StepShape& shape) {
  const bool is_every_token = options_.compression.is_every_token;
  if (shape.prefills.empty()) {
    return decode_run(shape.num_decodes, shape.decode_kv_tokens, 1) +
           from_seconds((is_every_token ? 0 : compress(shape.compressed_tokens)) + swap(shape.swapped_tokens));
  }
  return from_seconds(dense(shape.num_tokens()) + head(shape.num_rows) + mixed(shape) +
                      compress(is_every_token ? shape.num_tokens() : shape.compressed_tokens) +
                      swap(shape.swapped_tokens) + to_seconds(options_.between_steps));
}

/// Every step lengthens the mean by one token, so between two knots the times are an arithmetic series.
Picoseconds MachineStepTime::decode_run(std::int64_t num_decodes, std::int64_t kv_tokens, std::int64_t steps) {
  double length = static_cast<double>(kv_tokens) / static_cast<double>(num_decodes);
  double seconds = static_cast<double>(steps) * fixed_decode_part(num_decodes);
  while (steps > 0) {
    const auto above = static_cast<double>(knot_length(knot_below(length) + 1));
    const std::int64_t here = std::min(steps, static_cast<std::int64_t>(std::ceil(above - length)));
    const double first = decode(num_decodes, length);
    const double last = here == 1 ? first : decode(num_decodes, length + static_cast<double>(here - 1));
    seconds += static_cast<double>(here) * (first + last) / 2;
    length += static_cast<double>(here);
    steps -= here;
  }
  return from_seconds(seconds);
}

std::size_t MachineStepTime::num_priced() const {
  std::size_t num = dense_.size() + head_.size() + mixed_.size();
  for (const std::vector<double>& knots : decode_) num += knots.size();
  return num;
}

}  // namespace kvtide::serving
