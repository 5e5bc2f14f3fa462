#include "experiment/columns.h"

#include <array>

namespace kvtide::experiment {
namespace {

constexpr ColumnType kNumber = ColumnType::number;
constexpr ColumnType kText = ColumnType::text;

// NaN in a number column: not measured, or the run failed.
constexpr std::array kColumns{
    Column{"kv_bytes_full", kNumber, "B", "KV cache of one sequence without compression, in whole pages"},
    Column{"kv_bytes", kNumber, "B", "KV cache of one sequence as compressed: metadata and page rounding included"},
    Column{"memory_saving", kNumber, "1", "1 - kv_bytes / kv_bytes_full"},
    Column{"bytes_per_token", kNumber, "B", "kv_bytes divided by the context's tokens"},
    Column{"peak_bytes", kNumber, "B",
           "Largest KV cache of one sequence at any moment, before and while it is compressed"},
    Column{"decode_bytes_mean", kNumber, "B",
           "compression.decode: KV cache of one sequence over the steps from one compression to the next, mean"},
    Column{"decode_step_us_full", kNumber, "us", "One decode step of the whole batch with the uncompressed cache"},
    Column{"decode_step_us", kNumber, "us", "One decode step of the whole batch with the compressed cache"},
    Column{"decode_speedup", kNumber, "1", "decode_step_us_full / decode_step_us"},
    Column{"collective_us", kNumber, "us",
           "Time of collectives between tensor- and expert-parallel GPUs in one decode step of the compressed cache, "
           "mean"},
    Column{"recall_us", kNumber, "us",
           "rest: host: time of a decode step in which pages come back from host memory, part of decode_step_us"},
    Column{"num_gpus", kNumber, "1", "GPUs that hold one copy of the model: tensor_parallel x pipeline_parallel"},
    Column{"weight_bytes_per_gpu", kNumber, "B", "Weights on one of these GPUs"},
    Column{"gpu_memory_bytes", kNumber, "B", "Memory of one GPU as its driver reports it"},
    Column{"kv_capacity_bytes", kNumber, "B",
           "Of it, what is left for the KV cache beside weights, activations and what an engine leaves free"},
    Column{"kv_batch_bytes", kNumber, "B", "KV cache of the whole batch on one GPU, compressed"},
    Column{"machine_fidelity", kText, "1", "Tier of the machine's memory: detailed, sampled or roofline"},
    Column{"compress_us_per_block", kNumber, "us",
           "GPU time to compress one block of one sequence, all layers, when it fills"},
    Column{"max_sequences_full", kNumber, "1", "Sequences of this context that fit at once without compression"},
    Column{"max_sequences", kNumber, "1", "Sequences of this context that fit at once, compressed"},
    Column{"max_context_tokens_full", kNumber, "token", "Longest context that fits at this batch without compression"},
    Column{"max_context_tokens", kNumber, "token", "Longest context that fits at this batch, compressed"},
    Column{"kv_bound", kNumber, "1", "1 when the KV cache is what limits concurrency or decode time, else 0"},
    Column{"loss_mean", kNumber, "1",
           "Attention-weighted mean of the chosen loss over positions; with heads: reader the share of attention lost"},
    Column{"loss_worst", kNumber, "1", "Largest mean loss of any span of loss.span positions, protected ones left out"},
    Column{"loss_worst_over_mean", kNumber, "1", "loss_worst / loss_mean"},
    Column{"loss_cvar05", kNumber, "1", "Mean loss of the worst 5 % of positions"},
    Column{"longest_lost_run", kNumber, "token", "Longest run of positions that each lost more than half"},
    Column{"output_error", kNumber, "1", "Mean relative error of the attention output, ||o - o'|| / ||o||"},
    Column{"bits_lost", kNumber, "bit", "Mean bits lost of one stored element of K and V against fp16"},
    Column{"position_stability", kNumber, "1",
           "Stability of success over positions: 1 flat, lower the more it depends on the position"},
    Column{"prefix_sensitivity", kNumber, "1",
           "Largest mean change of a position's loss when the block grid moves under the same text"},
    Column{"prefix_sensitivity_two", kNumber, "1", "Mean change of a position's loss when two tokens stand in front"},
    Column{"prefix_relative", kNumber, "1",
           "Largest mean change by a longer prefix, over 2 m (1 - m) with m the mean loss: 1 is as bad as drawing what "
           "goes "
           "anew"},
    Column{"prefix_worst", kNumber, "1", "Largest change of any position's loss by a longer prefix"},
    Column{"prefix_period", kNumber, "token",
           "Tokens of prefix after which the change repeats exactly, over four blocks; NaN when it does not"},
    Column{"padding_tokens", kNumber, "token", "Mean padding behind the text in front (partition prefix_pad)"},
    Column{"gain_to_sinks", kNumber, "1", "Share of the redistributed attention that the sinks gain"},
    Column{"answer_log_probability", kNumber, "1",
           "Estimated log-probability of the trace's answer, nats: sources kept are copied, lost ones guessed"},
    Column{"answer_right_tokens", kNumber, "1", "Answer tokens expected to be right before the first wrong one"},
    Column{"answer_is_trusted", kNumber, "1",
           "0 where a source is kept by a part of its readers, so that the estimate cannot be trusted"},
    Column{"probe_success", kNumber, "1", "Share of places at which the planted probe is answered"},
    Column{"probe_full_success", kNumber, "1",
           "Share of places at which the planted probe is answered with the full cache; below 1 it is too weak"},
    Column{"probe_control", kNumber, "1", "Share of probe tokens answered with the fact removed; chance is 1 / codes"},
    Column{"loss_mean_deviation", kNumber, "1", "Standard deviation of loss_mean between requests (loss.requests)"},
    Column{"overlap_share_full", kNumber, "1",
           "Bytes that overlap adds, as a share of the uncompressed cache (same blocks kept)"},
    Column{"overlap_share_compressed", kNumber, "1",
           "Bytes that overlap adds, as a share of the compressed cache without overlap"},
    Column{"overlap_share_gpu", kNumber, "1",
           "Bytes that overlap adds, as a share of all that the GPU holds: weights, overhead and the compressed cache"},
    Column{"anchor_share", kNumber, "1", "Share of positions that are anchors"},
    Column{"anchor_attention", kNumber, "1", "Share of the measured attention that anchors receive"},
    Column{"cut_rate", kNumber, "1", "Share of spans of loss.span positions that no block holds whole"},
    Column{"split_rate", kNumber, "1",
           "Share of spans of loss.span positions of which a part is lost (above 1/2) and a part is not"},
    Column{"output_error_rms", kNumber, "1", "Root of the mean squared relative output error; squares of stages add"},
    Column{"period", kNumber, "token",
           "Period found in the loss profile, from its own jumps or tests; NaN when there is none"},
    Column{"grid_offset", kNumber, "token",
           "Found offset of the block grid: the block of position p is (p + grid_offset) / period"},
    Column{"period_kind", kText, "1", "grid_locked, level, likely or none"},
    Column{"period_certainty", kText, "1", "How sure the period is, in words: what was counted or tested"},
    Column{"cycles", kNumber, "1", "Periods that the measured positions cover"},
    Column{"periodicity_index", kNumber, "1",
           "Share of the profile's variance that its phase explains, corrected for chance"},
    Column{"periodicity_ratio", kNumber, "1", "periodicity_index against the same at neighbouring periods"},
    Column{"periodicity_p", kNumber, "1",
           "Probability of such a phase profile by chance, corrected for the periods searched"},
    Column{"edge_index", kNumber, "1", "Concentration of the profile's jumps at one phase, 0..1"},
    Column{"edge_p", kNumber, "1", "Probability of such a concentration by chance"},
    Column{"free_blocks", kNumber, "1",
           "Blocks of one KV head that the policy may choose among; 0 means a floor, not a choice"},
    Column{"requests_per_s", kNumber, "1/s", "Requests finished a second, first arrival to last token"},
    Column{"output_tokens_per_s", kNumber, "token/s", "Tokens generated a second, over the same time"},
    Column{"goodput_per_s", kNumber, "1/s",
           "Requests a second that kept every objective of slo (all of them without one)"},
    Column{"ttft_mean_s", kNumber, "s", "Mean time to the first token over the requests; mean over seeds"},
    Column{"ttft_p50_s", kNumber, "s", "Median time to the first token over the requests; mean over seeds"},
    Column{"ttft_p95_s", kNumber, "s",
           "95th percentile of the time to the first token over the requests; mean over seeds"},
    Column{"ttft_p99_s", kNumber, "s",
           "99th percentile of the time to the first token over the requests; mean over seeds"},
    Column{"ttft_p95_half_width_s", kNumber, "s", "Half width of the 95 % interval of ttft_p95_s between seeds"},
    Column{"tpot_mean_s", kNumber, "s", "Mean time between tokens after the first over the requests; mean over seeds"},
    Column{"tpot_p50_s", kNumber, "s", "Median time between tokens after the first over the requests; mean over seeds"},
    Column{"tpot_p95_s", kNumber, "s",
           "95th percentile of the time between tokens after the first over the requests; mean over seeds"},
    Column{"tpot_p99_s", kNumber, "s",
           "99th percentile of the time between tokens after the first over the requests; mean over seeds"},
    Column{"tpot_p95_half_width_s", kNumber, "s", "Half width of the 95 % interval of tpot_p95_s between seeds"},
    Column{"latency_mean_s", kNumber, "s", "Mean time to the last token over the requests; mean over seeds"},
    Column{"latency_p50_s", kNumber, "s", "Median time to the last token over the requests; mean over seeds"},
    Column{"latency_p95_s", kNumber, "s",
           "95th percentile of the time to the last token over the requests; mean over seeds"},
    Column{"latency_p99_s", kNumber, "s",
           "99th percentile of the time to the last token over the requests; mean over seeds"},
    Column{"latency_p95_half_width_s", kNumber, "s", "Half width of the 95 % interval of latency_p95_s between seeds"},
    Column{"queue_mean_s", kNumber, "s", "Mean time to the first step over the requests; mean over seeds"},
    Column{"queue_p50_s", kNumber, "s", "Median time to the first step over the requests; mean over seeds"},
    Column{"queue_p95_s", kNumber, "s",
           "95th percentile of the time to the first step over the requests; mean over seeds"},
    Column{"queue_p99_s", kNumber, "s",
           "99th percentile of the time to the first step over the requests; mean over seeds"},
    Column{"queue_p95_half_width_s", kNumber, "s", "Half width of the 95 % interval of queue_p95_s between seeds"},
    Column{"preemptions", kNumber, "1", "Times a request lost its cache and was computed again; mean over seeds"},
    Column{"cache_hit_share", kNumber, "1", "Share of prompt tokens found in the prefix cache"},
    Column{"emptied_blocks", kNumber, "1",
           "Pages given back by compression while their request went on; mean over seeds"},
    Column{"most_running", kNumber, "1", "Most sequences in one batch"},
    Column{"most_used_pages_share", kNumber, "1", "Largest share of the KV pages that was taken"},
    Column{"serving_blocks", kNumber, "1", "Pages of the KV cache, the null page included"},
    Column{"serving_kv_tokens", kNumber, "token", "Entries that the KV cache holds"},
    Column{"serving_keep_ratio", kNumber, "1", "Share of compressed tokens that stay, at the workload's mean context"},
    Column{"serving_entry_share", kNumber, "1", "Bytes of a kept entry against 16 bits, metadata included"},
    Column{"requests_truncated", kNumber, "1", "Requests cut to the model's limit"},
    Column{"requests_dropped", kNumber, "1", "Requests left out because they are longer than the model's limit"},
    Column{"expected_loss_uniform", kNumber, "1", "Loss expected of a fact anywhere in the prompt"},
    Column{"expected_loss_start", kNumber, "1",
           "Loss expected where facts stand mostly at the start (weights fall linearly)"},
    Column{"expected_loss_end", kNumber, "1",
           "Loss expected where facts stand mostly at the end (weights rise linearly)"},
    Column{"loss_model", kText, "1", "Model whose recorded attention the loss was measured on"},
    Column{"loss_tokens", kNumber, "token", "Tokens of the trace the loss was measured on"},
    Column{"run_seed", kText, "1", "Seed of this run's random streams, hexadecimal, derived from its content"},
    Column{"compression_setting", kText, "1", "The resolved compression as one line of YAML"},
    Column{"baseline_run", kNumber, "1", "Index of the run that this one is compared with (baseline); NaN: none"},
    Column{"kv_bytes_ratio", kNumber, "1", "kv_bytes over that of the baseline run"},
    Column{"decode_step_ratio", kNumber, "1", "decode_step_us over that of the baseline run"},
    Column{"max_sequences_ratio", kNumber, "1", "max_sequences over that of the baseline run"},
    Column{"loss_mean_difference", kNumber, "1", "loss_mean minus that of the baseline run"},
    Column{"loss_worst_difference", kNumber, "1", "loss_worst minus that of the baseline run"},
    Column{"status", kText, "1", "ok or failed"},
    Column{"status_reason", kText, "1", "Why the run failed, else empty"},
    Column{"warnings", kText, "1", "What is legal and probably not meant, else empty"},
    Column{"extrapolates", kText, "1",
           "Where the run leaves what kvtide was compared with, else empty (docs/how-far-to-trust.md)"},
};

constexpr std::array kBaselineColumns{
    BaselineColumn{"kv_bytes_ratio", "kv_bytes"},
    BaselineColumn{"decode_step_ratio", "decode_step_us"},
    BaselineColumn{"max_sequences_ratio", "max_sequences"},
    BaselineColumn{"loss_mean_difference", "loss_mean", false},
    BaselineColumn{"loss_worst_difference", "loss_worst", false},
};

}  // namespace

std::span<const BaselineColumn> baseline_columns() {
  return kBaselineColumns;
}

std::span<const Column> columns() {
  return kColumns;
}

const Column* find_column(const std::string& name) {
  for (const Column& column : kColumns) {
    if (name == column.name) return &column;
  }
  return nullptr;
}

}  // namespace kvtide::experiment
