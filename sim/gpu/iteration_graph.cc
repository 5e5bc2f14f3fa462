#include "gpu/iteration_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "gpu/collective.h"

namespace kvtide::gpu {
namespace {

constexpr double kActivationBytes = 2;     // of an element
constexpr double kElementwiseKernels = 4;  // of a layer: two norms, RoPE, gate
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 31;

void check(const DecoderShape& shape, const IterationWork& work) {
  check(shape);
  if (work.batch < 1 || work.batch > kMaxBatch || work.num_logits < 0 || work.num_logits > work.batch) {
    throw InputError(fmt::format("model step: batch must be in 1..{} and num_logits in 0..batch, got {} and {}",
                                 kMaxBatch, work.batch, work.num_logits));
  }
  const auto fits = [&](std::size_t size, const char* name, bool may_be_empty) {
    const bool is_empty = size == 0;
    if (size != 1 && static_cast<std::int64_t>(size) != shape.num_layers && !(is_empty && may_be_empty)) {
      throw InputError(
          fmt::format("model step: {} needs 1 entry or one a layer ({}), got {}", name, shape.num_layers, size));
    }
  };
  fits(work.attention.size(), "attention", false);
  fits(work.compression.size(), "compression", true);
  fits(work.prefill.size(), "prefill", true);
  fits(work.selection.size(), "selection", true);
}

template <class Work>
const Work& of_layer(const std::vector<Work>& works, std::int64_t layer_index) {
  return works[works.size() == 1 ? 0 : static_cast<std::size_t>(layer_index)];
}

double read_bytes(const DecodeAttentionWork& work) {
  double bytes = 0;
  for (const AttentionTask& task : work.tasks) {
    for (const PageStream& stream : task.streams)
      bytes += static_cast<double>(stream.bytes) * static_cast<double>(task.count);
  }
  return bytes;
}

/// Times each distinct work once. Few are distinct: equal layers, or a handful.
template <class Work>
class Memo {
 public:
  template <class Timer>
  const KernelTime& operator()(const Work& work, Timer&& timer) {
    for (const auto& [known, time] : times_) {
      if (known == work) return time;
    }
    return times_.emplace_back(work, timer(work)).second;
  }

 private:
  std::vector<std::pair<Work, KernelTime>> times_;
};

/// Places kernels on streams and keeps the sums by class. Kernels of one stream run in order.
class Launcher {
 public:
  /// @param wait_for  beside the stream's last kernel
  void launch(const std::string& kernel_class, const KernelTime& time, std::int64_t stream = 0,
              std::vector<KernelIndex> wait_for = {}) {
    if (time.duration.count() == 0) return;
    auto known = std::ranges::find(by_class_, kernel_class, &KernelClassTime::kernel_class);
    if (known == by_class_.end()) known = by_class_.insert(known, KernelClassTime{.kernel_class = kernel_class});
    KernelClassTime& sums = *known;
    ++sums.num_kernels;
    sums.duration += time.duration;
    sums.hbm_bytes += time.hbm_bytes;
    const auto lane = std::pair{stage_, stream};
    if (const auto last = last_.find(lane); last != last_.end()) wait_for.push_back(last->second);
    last_[lane] = graph_.add(kernel_class, time.duration, wait_for, stage_, stream);
  }
  /// The last kernel of a stream of the present stage, where it has one.
  [[nodiscard]] std::vector<KernelIndex> last(std::int64_t stream) const {
    const auto found = last_.find({stage_, stream});
    return found == last_.end() ? std::vector<KernelIndex>{} : std::vector{found->second};
  }
  /// What follows runs on the next stage's GPUs, after `time` for handing the activations on.
  void next_stage(const KernelTime& time) {
    launch("send", time);
    const KernelIndex sent = last_.at({stage_, 0});
    ++stage_;
    last_[{stage_, 0}] = sent;
  }

  [[nodiscard]] KernelSchedule schedule() const { return graph_.schedule(); }
  [[nodiscard]] std::vector<KernelClassTime> sums(const KernelSchedule& schedule) const {
    std::vector<KernelClassTime> sums = by_class_;
    for (const ScheduledKernel& kernel : schedule.kernels) {
      if (kernel.slack.count() == 0)
        std::ranges::find(sums, kernel.kernel_class, &KernelClassTime::kernel_class)->critical_duration +=
            kernel.duration;
    }
    return sums;
  }

 private:
  KernelGraph graph_;
  std::int64_t stage_ = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, KernelIndex> last_;  // by stage and stream
  std::vector<KernelClassTime> by_class_;
};

constexpr std::int64_t kMainStream = 0;
constexpr std::int64_t kCompressionStream = 1;
constexpr std::int64_t kSharedExpertStream = 2;

/// Builds one step.
class StepBuilder {
 public:
  StepBuilder(Gpu& gpu, const DecoderShape& shape, const IterationWork& work, L2State l2)
      : gpu_(gpu), shape_(shape), work_(work), l2_(l2), ranks_(shape.tensor_parallel) {}

  Iteration build() {
    // Each rank looks up its part of the vocabulary, and has that part of the logits.
    launch_all_reduce("embedding_all_reduce");
    for (std::int64_t layer_index = 0; layer_index < shape_.num_layers; ++layer_index) {
      if (layer_index > 0 && stage_of(layer_index) != stage_of(layer_index - 1))
        launcher_.next_stage(time_send(gpu_.profile(), activation_bytes() / static_cast<Bytes>(ranks_)));
      mix_tokens(layer_index);
      if (shape_.has_experts(layer_index)) {
        run_experts();
      } else {
        run_mlp("gate_up_gemm", "down_gemm", shape_.intermediate_size, kMainStream);
      }
      if (shape_.has_experts(layer_index) && has_whole_experts()) {
        launch_collective("all_gather", CollectiveKind::all_gather, activation_bytes());
      } else {
        launch_all_reduce();
      }
    }
    const std::int64_t rows = work_.num_logits > 0 ? work_.num_logits : work_.batch;
    launcher_.launch("lm_head", linear(rows, share(shape_.vocab_size), shape_.hidden_size));
    gather_logits(rows);

    iteration_.schedule = launcher_.schedule();
    iteration_.duration = iteration_.schedule.duration;
    iteration_.by_class = launcher_.sums(iteration_.schedule);
    for (const KernelClassTime& sums : iteration_.by_class) iteration_.hbm_bytes += sums.hbm_bytes;
    return std::move(iteration_);
  }

 private:
  /// A rank's part of a dimension that the ranks divide.
  [[nodiscard]] std::int64_t share(std::int64_t dimension) const {
    return std::max<std::int64_t>(1, dimension / ranks_);
  }
  [[nodiscard]] std::int64_t stage_of(std::int64_t layer_index) const {
    return layer_index * shape_.pipeline_parallel / shape_.num_layers;
  }
  [[nodiscard]] Bytes activation_bytes() const {
    return static_cast<Bytes>(work_.batch) * static_cast<Bytes>(shape_.hidden_size) *
           static_cast<Bytes>(kActivationBytes);
  }

  KernelTime linear(std::int64_t m, std::int64_t n, std::int64_t k, OperandFormat format = OperandFormat::bfloat16,
                    std::int64_t num_groups = 1) {
    const GemmWork work{
        .m = m, .n = n, .k = k, .format = executed_format(gpu_.profile(), format), .num_groups = num_groups};
    return linear_(work, [&](const GemmWork& each) { return gpu_.gemm(each); });
  }

  /// Norms with their residual adds, RoPE and the gate of one layer: four kernels, counted as one; activations stay in L2.
  [[nodiscard]] KernelTime elementwise(const AttentionLayer& layer, bool has_experts) const {
    const GpuProfile& profile = gpu_.profile();
    const auto rows = static_cast<double>(work_.batch);
    const auto hidden = static_cast<double>(shape_.hidden_size);
    const auto rotated = static_cast<double>(share((shape_.num_query_heads + layer.num_kv_heads) * layer.head_dim));
    const ExpertShape& experts = shape_.experts;
    const std::int64_t gated = has_experts
                                   ? experts.num_active * experts.intermediate_size + experts.shared_intermediate_size
                                   : shape_.intermediate_size;
    // Two norms with residual read and write 2 rows each; RoPE reads and writes; the gate reads 2 and writes 1.
    const double elements = 8 * hidden + 2 * rotated + 3 * static_cast<double>(share(gated));
    KernelTime time;
    time.duration = from_seconds(kElementwiseKernels * (profile.graph_launch_latency + profile.l2_latency) +
                                 rows * elements * kActivationBytes / profile.l2_bandwidth);
    time.limited_by = "launch";
    return time;
  }

  void mix_tokens(std::int64_t layer_index) {
    const AttentionLayer layer = shape_.layer(layer_index);
    const std::int64_t batch = work_.batch;
    launcher_.launch("elementwise", elementwise(layer, shape_.has_experts(layer_index)));
    if (shape_.is_latent()) {
      project_to_latent();
    } else {
      const std::int64_t kv_channels = 2 * std::max<std::int64_t>(1, layer.num_kv_heads / ranks_) * layer.head_dim;
      launcher_.launch("qkv_gemm", linear(batch, share(shape_.num_query_heads * layer.head_dim) + kv_channels,
                                          shape_.hidden_size, shape_.attention_format));
    }
    if (layer.state_bytes > 0) {
      update_state(layer);
    } else {
      attend(layer, layer_index);
    }
    const LatentShape& latent = shape_.latent;
    std::int64_t width = shape_.num_query_heads * layer.head_dim;
    if (shape_.is_latent()) {
      width = shape_.num_query_heads * latent.value_dim;
      launcher_.launch("expand_value", linear(batch, share(width), latent.kv_rank));
    }
    launcher_.launch("o_gemm", linear(batch, shape_.hidden_size, share(width), shape_.attention_format));
    launch_all_reduce();
  }

  /// The absorbed form: queries meet the latent directly, so W_uk and W_uv are applied to queries and outputs. One head's
  /// product reads its own weights: all heads together are one matrix of that width. Engines bring those two to 16 bits.
  void project_to_latent() {
    const LatentShape& latent = shape_.latent;
    const std::int64_t cached = latent.kv_rank + latent.rope_dim;
    const std::int64_t queries = share(shape_.num_query_heads * (latent.nope_dim + latent.rope_dim));
    if (latent.query_rank > 0) {
      launcher_.launch("query_down_gemm",
                       linear(work_.batch, latent.query_rank + cached, shape_.hidden_size, shape_.attention_format));
      launcher_.launch("qkv_gemm", linear(work_.batch, queries, latent.query_rank, shape_.attention_format));
    } else {
      launcher_.launch("qkv_gemm", linear(work_.batch, queries + cached, shape_.hidden_size, shape_.attention_format));
    }
    launcher_.launch("absorb_query",
                     linear(work_.batch, share(shape_.num_query_heads * latent.nope_dim), latent.kv_rank));
  }

  const KernelTime& time_share(const StreamWork& work, const AttentionLayer& layer) {
    return streams_(share_of_rank(work, layer.num_kv_heads, shape_.is_latent(), ranks_),
                    [&](const StreamWork& each) { return gpu_.stream(each); });
  }

  void attend(const AttentionLayer& layer, std::int64_t layer_index) {
    const DecodeAttentionWork own =
        share_of_rank(of_layer(work_.attention, layer_index), layer.num_kv_heads, shape_.is_latent(), ranks_);
    if (!work_.selection.empty()) {
      for (const StreamWork& kernel : of_layer(work_.selection, layer_index))
        launcher_.launch("select", time_share(kernel, layer));
    }
    if (!own.tasks.empty()) {
      const KernelTime& attended =
          attention_(own, [&](const DecodeAttentionWork& each) { return gpu_.decode_attention(each, l2_); });
      if (!has_attended_) iteration_.attention_row_hit_rate = attended.row_hit_rate;
      has_attended_ = true;
      launcher_.launch("attention", attended);
    }
    if (!work_.prefill.empty()) {
      const PrefillAttentionWork prompts = share_of_rank(of_layer(work_.prefill, layer_index), ranks_);
      launcher_.launch("prefill_attention", prefill_(prompts, [&](const PrefillAttentionWork& each) {
                         return gpu_.prefill_attention(each, l2_);
                       }));
    }
    if (work_.compression.empty()) return;
    const KernelTime& compressed = time_share(of_layer(work_.compression, layer_index), layer);
    iteration_.compress_duration += compressed.duration;
    if (work_.has_side_streams) {
      launcher_.launch("compress", compressed, kCompressionStream, launcher_.last(kMainStream));
    } else {
      launcher_.launch("compress", compressed);
    }
  }

  /// A state of constant size, read, updated and written for every sequence, whatever the context.
  void update_state(const AttentionLayer& layer) {
    const std::int64_t heads = share(std::max<std::int64_t>(layer.num_kv_heads, shape_.num_query_heads));
    const Bytes bytes = static_cast<Bytes>(share(layer.state_bytes)) * static_cast<Bytes>(work_.batch);
    launcher_.launch("linear_attention", gpu_.compress_blocks({.num_blocks = work_.batch * heads,
                                                               .read_bytes = bytes,
                                                               .write_bytes = bytes,
                                                               .chunk_bytes = 4096,
                                                               .flops = 2 * static_cast<double>(bytes)}));
  }

  void run_mlp(const std::string& up, const std::string& down, std::int64_t intermediate_size, std::int64_t stream,
               const std::vector<KernelIndex>& wait_for = {}) {
    run_mlp(up, down, work_.batch, share(intermediate_size), stream, wait_for);
  }
  /// @param rows, width  of this rank
  void run_mlp(const std::string& up, const std::string& down, std::int64_t rows, std::int64_t width,
               std::int64_t stream, const std::vector<KernelIndex>& wait_for) {
    const std::int64_t matrices = shape_.has_gated_mlp ? 2 : 1;
    launcher_.launch(up, linear(rows, matrices * width, shape_.hidden_size, shape_.mlp_format), stream, wait_for);
    launcher_.launch(down, linear(rows, shape_.hidden_size, width, shape_.mlp_format), stream);
  }

  [[nodiscard]] bool has_whole_experts() const { return shape_.expert_parallel > 1; }

  /// Whole experts: each rank routes its part of the tokens, sends every row to the rank of its expert and gets it back.
  /// Shared experts are then whole on every rank. Rows and experts are those of the mean rank.
  void run_experts() {
    const ExpertShape& experts = shape_.experts;
    const bool is_whole = has_whole_experts();
    const std::int64_t own_tokens = is_whole ? ceil_div(work_.batch, ranks_) : work_.batch;
    const auto all_visited =
        std::max<std::int64_t>(1, std::llround(expected_experts(experts.num_experts, experts.num_active, work_.batch)));
    const std::int64_t visited = is_whole ? ceil_div(all_visited, ranks_) : all_visited;
    const std::int64_t rows = ceil_div(work_.batch * experts.num_active, all_visited);
    const std::int64_t own = is_whole ? experts.intermediate_size : share(experts.intermediate_size);
    const std::int64_t shared_width =
        is_whole ? experts.shared_intermediate_size : share(experts.shared_intermediate_size);
    const bool has_shared = experts.shared_intermediate_size > 0;
    const bool is_beside = has_shared && work_.has_side_streams;
    if (is_beside) {
      run_mlp("shared_gate_up", "shared_down", own_tokens, shared_width, kSharedExpertStream,
              launcher_.last(kMainStream));
    }
    launcher_.launch("router", linear(own_tokens, experts.num_experts, shape_.hidden_size));
    const Bytes routed_bytes = static_cast<Bytes>(own_tokens) * static_cast<Bytes>(experts.num_active) *
                               static_cast<Bytes>(shape_.hidden_size) * static_cast<Bytes>(kActivationBytes);
    if (is_whole) launch_collective("dispatch", CollectiveKind::all_to_all, routed_bytes);
    const std::int64_t matrices = shape_.has_gated_mlp ? 2 : 1;
    launcher_.launch("expert_gate_up", linear(rows, matrices * own, shape_.hidden_size, shape_.mlp_format, visited));
    if (has_shared && !is_beside) run_mlp("shared_gate_up", "shared_down", own_tokens, shared_width, kMainStream, {});
    launcher_.launch("expert_down", linear(rows, shape_.hidden_size, own, shape_.mlp_format, visited), kMainStream,
                     is_beside ? launcher_.last(kSharedExpertStream) : std::vector<KernelIndex>{});
    if (is_whole) launch_collective("combine", CollectiveKind::all_to_all, routed_bytes);
  }

  void gather_logits(std::int64_t rows) {
    if (ranks_ == 1) return;
    const Bytes bytes = static_cast<Bytes>(rows) * static_cast<Bytes>(shape_.vocab_size) * 2;
    launch_collective("gather_logits", CollectiveKind::all_gather, bytes);
  }

  void launch_collective(const std::string& kernel_class, CollectiveKind kind, Bytes bytes) {
    const KernelTime time =
        time_collective(gpu_.profile(), {.kind = kind, .num_ranks = ranks_, .bytes = bytes, .library = "nccl"});
    iteration_.collective_duration += time.duration;
    launcher_.launch(kernel_class, time);
  }

  /// Sums the ranks' parts of one layer's output.
  void launch_all_reduce(const std::string& kernel_class = "all_reduce") {
    if (ranks_ == 1) return;
    if (all_reduce_.duration.count() == 0)
      all_reduce_ = time_collective(gpu_.profile(), {.num_ranks = ranks_, .bytes = activation_bytes()});
    iteration_.collective_duration += all_reduce_.duration;
    launcher_.launch(kernel_class, all_reduce_);
  }

  Gpu& gpu_;
  const DecoderShape& shape_;
  const IterationWork& work_;
  L2State l2_;
  std::int64_t ranks_;
  Launcher launcher_;
  Iteration iteration_;
  Memo<GemmWork> linear_;
  Memo<DecodeAttentionWork> attention_;
  Memo<PrefillAttentionWork> prefill_;
  Memo<StreamWork> streams_;
  KernelTime all_reduce_;
  bool has_attended_ = false;
};

}  // namespace

DecodeAttentionWork part_of_rank(const DecodeAttentionWork& work, std::int64_t num_kv_heads, bool is_latent,
                                 std::int64_t num_ranks, std::int64_t rank) {
  if (num_ranks == 1) return work;
  DecodeAttentionWork own = work;
  const std::int64_t division = is_latent ? 1 : std::min(num_ranks, num_kv_heads);
  const HeadRange heads = heads_of_rank(num_kv_heads, rank, num_ranks);
  own.query_heads_per_task = std::max<std::int64_t>(1, work.query_heads_per_task * division / num_ranks);
  // Of tasks that are of all heads the rank takes every division-th of the list.
  std::int64_t passed = 0;
  for (AttentionTask& task : own.tasks) {
    if (!is_latent && !task.kv_heads.empty()) {
      const auto num_heads = static_cast<std::int64_t>(task.kv_heads.size());
      task.count = task.count / num_heads *
                   std::ranges::count_if(task.kv_heads, [&](std::int64_t head) { return heads.contains(head); });
    } else {
      const std::int64_t before = passed / division;
      passed += task.count;
      task.count = passed / division - before;
    }
    task.kv_heads.clear();
  }
  std::erase_if(own.tasks, [](const AttentionTask& task) { return task.count == 0; });
  own.interleaves_groups = work.interleaves_groups && num_kv_heads > division;
  return own;
}

DecodeAttentionWork share_of_rank(const DecodeAttentionWork& work, std::int64_t num_kv_heads, bool is_latent,
                                  std::int64_t num_ranks) {
  DecodeAttentionWork most = part_of_rank(work, num_kv_heads, is_latent, num_ranks, 0);
  const bool is_ragged =
      std::ranges::any_of(work.tasks, [](const AttentionTask& task) { return !task.kv_heads.empty(); });
  for (std::int64_t rank = 1; is_ragged && rank < num_ranks; ++rank) {
    DecodeAttentionWork part = part_of_rank(work, num_kv_heads, is_latent, num_ranks, rank);
    if (read_bytes(part) > read_bytes(most)) most = std::move(part);
  }
  return most;
}

StreamWork share_of_rank(const StreamWork& work, std::int64_t num_kv_heads, bool is_latent, std::int64_t num_ranks) {
  if (num_ranks == 1) return work;
  const std::int64_t division = is_latent ? 1 : std::min(num_ranks, num_kv_heads);
  const auto ranks = static_cast<double>(num_ranks);
  StreamWork own = work;
  own.num_blocks = ceil_div(work.num_blocks, division);
  own.read_bytes /= static_cast<Bytes>(division);
  own.write_bytes /= static_cast<Bytes>(division);
  own.query_flops /= ranks;
  own.flops = (work.flops - work.query_flops) / static_cast<double>(division) + own.query_flops;
  own.tensor_flops /= ranks;
  return own;
}

PrefillAttentionWork share_of_rank(const PrefillAttentionWork& work, std::int64_t num_ranks) {
  PrefillAttentionWork own = work;
  own.heads = std::max<std::int64_t>(1, work.heads / num_ranks);
  own.kv_heads = std::max<std::int64_t>(1, work.kv_heads / num_ranks);
  return own;
}

Iteration time_iteration(Gpu& gpu, const DecoderShape& shape, const IterationWork& work, L2State l2) {
  check(shape, work);
  return StepBuilder(gpu, shape, work, l2).build();
}

}  // namespace kvtide::gpu
