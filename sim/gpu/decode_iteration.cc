#include "gpu/decode_iteration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

constexpr double kActivationBytes = 2;  // of an element
constexpr std::int64_t kMaxLayers = 100'000;
constexpr std::int64_t kMaxDimension = std::int64_t{1} << 31;

void check(const DecoderShape& shape, const DecodeStepWork& work) {
  const auto positive = [](std::int64_t value, std::int64_t max, const char* name) {
    if (value < 1 || value > max)
      throw InputError(fmt::format("decode step: {} must be in 1..{}, got {}", name, max, value));
  };
  positive(shape.num_layers, kMaxLayers, "num_layers");
  positive(shape.hidden_size, kMaxDimension, "hidden_size");
  positive(shape.num_query_heads, 1 << 20, "num_query_heads");
  positive(shape.num_kv_heads, 1 << 20, "num_kv_heads");
  positive(shape.head_dim, 65536, "head_dim");
  positive(shape.intermediate_size, kMaxDimension, "intermediate_size");
  positive(shape.vocab_size, kMaxDimension, "vocab_size");
  positive(work.batch, kMaxDimension, "batch");
  const auto fits = [&](std::size_t size, const char* name, bool may_be_empty) {
    const bool is_empty = size == 0;
    if (size != 1 && static_cast<std::int64_t>(size) != shape.num_layers && !(is_empty && may_be_empty)) {
      throw InputError(
          fmt::format("decode step: {} needs 1 entry or one a layer ({}), got {}", name, shape.num_layers, size));
    }
  };
  fits(work.attention.size(), "attention", false);
  fits(work.compression.size(), "compression", true);
}

/// Norms, RoPE, residual adds and the gate of one layer, as one launch; activations stay in L2.
/// Approximation: engines fuse these into two to four launches; each more adds one graph launch, about 1 us a layer.
KernelTime elementwise(const GpuProfile& profile, const DecoderShape& shape, std::int64_t batch) {
  const double rows = static_cast<double>(batch);
  const double hidden = static_cast<double>(shape.hidden_size);
  const double rotated = static_cast<double>((shape.num_query_heads + shape.num_kv_heads) * shape.head_dim);
  // Two norms with residual read and write 2 rows each; RoPE reads and writes; the gate reads 2 and writes 1.
  const double elements = 8 * hidden + 2 * rotated + 3 * static_cast<double>(shape.intermediate_size);
  KernelTime time;
  time.duration = from_seconds(profile.graph_launch_latency + profile.l2_latency +
                               rows * elements * kActivationBytes / profile.l2_bandwidth);
  time.limited_by = "launch";
  return time;
}

/// Times each distinct work once.
template <class Work>
class Memo {
 public:
  template <class Timer>
  const KernelTime& operator()(const Work& work, Timer&& timer) {
    for (const auto& [known, time] : times_) {
      if (*known == work) return time;
    }
    return times_.emplace_back(&work, timer(work)).second;
  }

 private:
  // The works outlive the memo: they lie in the caller's DecodeStepWork. Few are distinct: equal layers, or a handful.
  std::vector<std::pair<const Work*, KernelTime>> times_;
};

template <class Work>
const Work& of_layer(const std::vector<Work>& works, std::int64_t layer_index) {
  return works[works.size() == 1 ? 0 : static_cast<std::size_t>(layer_index)];
}

/// Appends kernels to the stream and keeps the sums by class.
class Stream {
 public:
  void launch(const std::string& kernel_class, const KernelTime& time) {
    const auto known = std::ranges::find(by_class_, kernel_class, &KernelClassTime::kernel_class);
    KernelClassTime& sums = known != by_class_.end() ? *known : by_class_.emplace_back(KernelClassTime{kernel_class});
    ++sums.num_kernels;
    sums.duration += time.duration;
    sums.hbm_bytes += time.hbm_bytes;
    last_ = {graph_.add(kernel_class, time.duration, last_)};
  }
  [[nodiscard]] KernelSchedule schedule() const { return graph_.schedule(); }
  [[nodiscard]] const std::vector<KernelClassTime>& by_class() const { return by_class_; }

 private:
  KernelGraph graph_;
  std::vector<KernelIndex> last_;  // kernels of one stream run in order
  std::vector<KernelClassTime> by_class_;
};

}  // namespace

DecodeIteration decode_iteration(Gpu& gpu, const DecoderShape& shape, const DecodeStepWork& work, L2State l2) {
  check(shape, work);
  const auto gemm = [&](std::int64_t n, std::int64_t k) {
    const OperandFormat format = shape.weight_bytes_per_element == 1 ? OperandFormat::fp8 : OperandFormat::bfloat16;
    return gpu.gemm({.m = work.batch, .n = n, .k = k, .format = format});
  };
  const std::int64_t query_size = shape.num_query_heads * shape.head_dim;
  const std::int64_t kv_size = shape.num_kv_heads * shape.head_dim;
  const KernelTime small = elementwise(gpu.profile(), shape, work.batch);
  const KernelTime qkv = gemm(query_size + 2 * kv_size, shape.hidden_size);
  const KernelTime o = gemm(shape.hidden_size, query_size);
  const KernelTime gate_up = gemm(2 * shape.intermediate_size, shape.hidden_size);
  const KernelTime down = gemm(shape.hidden_size, shape.intermediate_size);

  Stream stream;
  Memo<DecodeAttentionWork> attention;
  Memo<CompressBlocksWork> compression;
  DecodeIteration iteration;
  for (std::int64_t layer_index = 0; layer_index < shape.num_layers; ++layer_index) {
    stream.launch("elementwise", small);
    stream.launch("qkv_gemm", qkv);
    const KernelTime& attended = attention(of_layer(work.attention, layer_index), [&](const DecodeAttentionWork& each) {
      return gpu.decode_attention(each, l2);
    });
    if (layer_index == 0) iteration.attention_row_hit_rate = attended.row_hit_rate;
    stream.launch("attention", attended);
    if (!work.compression.empty()) {
      const KernelTime& compressed =
          compression(of_layer(work.compression, layer_index),
                      [&](const CompressBlocksWork& each) { return gpu.compress_blocks(each); });
      if (compressed.duration.count() > 0) {
        stream.launch("compress", compressed);
        iteration.compress_duration += compressed.duration;
      }
    }
    stream.launch("o_gemm", o);
    stream.launch("gate_up_gemm", gate_up);
    stream.launch("down_gemm", down);
  }
  stream.launch("lm_head", gemm(shape.vocab_size, shape.hidden_size));

  iteration.schedule = stream.schedule();
  iteration.duration = iteration.schedule.duration;
  iteration.by_class = stream.by_class();
  for (const KernelClassTime& sums : iteration.by_class) iteration.hbm_bytes += sums.hbm_bytes;
  return iteration;
}

}  // namespace kvtide::gpu
