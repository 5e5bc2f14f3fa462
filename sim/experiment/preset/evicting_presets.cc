// Presets that drop positions or leave them unread.

#include <fmt/format.h>

#include "experiment/preset/preset.h"

namespace kvtide::experiment {
namespace {

/// One evict stage over single positions; nothing is protected but what the method protects itself.
Preset tokens(std::string name, std::vector<std::string> aliases, std::string summary, std::string paper,
              const std::string& stage, std::string differs = "", std::int64_t sinks = 0, std::int64_t window = 0) {
  return {std::move(name),
          std::move(aliases),
          "evict",
          std::move(summary),
          std::move(paper),
          std::move(differs),
          fmt::format("block_size: 1\nprotect: {{sinks: {}, window: {}}}\nstages:\n"
                      "  - evict: {{granularity: token, keep_ratio: 0.5, {}}}\n",
                      sinks, window, stage)};
}

/// One evict stage over single positions, chosen chunk by chunk; the last chunk counts as it is.
Preset chunks(std::string name, std::vector<std::string> aliases, std::string summary, std::string paper,
              std::int64_t chunk, const std::string& stage) {
  return {std::move(name),
          std::move(aliases),
          "evict",
          std::move(summary),
          std::move(paper),
          "",
          fmt::format("block_size: {}\nprotect: {{sinks: 0, window: 0, filling_block: false}}\nstages:\n"
                      "  - evict: {{granularity: token, keep_ratio: 0.5, {}}}\n",
                      chunk, stage)};
}

/// The same with kept keys turned to their ranks, so that positions are slots of the cache.
Preset in_slots(Preset preset) {
  preset.yaml += "positions: {kind: contiguous}\n";
  return preset;
}

/// One evict stage over blocks.
Preset blocks(std::string name, std::vector<std::string> aliases, std::string family, std::string summary,
              std::string paper, std::int64_t block_size, const std::string& stage, std::string differs = "",
              std::int64_t sinks = 0, std::int64_t window = 0) {
  return {std::move(name),
          std::move(aliases),
          std::move(family),
          std::move(summary),
          std::move(paper),
          std::move(differs),
          fmt::format("block_size: {}\nprotect: {{sinks: {}, window: {}}}\nstages:\n"
                      "  - evict: {{granularity: block, keep_ratio: 0.5, {}}}\n",
                      block_size, sinks, window, stage)};
}

const std::string kOneChoice = "one choice for the steps that follow, not one a step";
const std::string kFixedThreshold = "a fixed similarity, not a running mean of it; ";

Preset merged(Preset preset) {
  preset.family = "merge";
  return preset;
}

}  // namespace

std::vector<Preset> evicting_presets() {
  return {
      tokens("h2o", {"heavy-hitter"}, "H2O: the positions that received most attention, and the newest",
             "arXiv 2306.14048", "scorer: attention_sum", "attention of the last score_window queries, not of all", 0,
             64),
      tokens("observed-attention", {}, "kvpress ObservedAttention: attention per query that could see the position",
             "arXiv 2306.14048", "scorer: observed_attention"),
      tokens("streamingllm", {"streaming-llm", "sink"}, "StreamingLLM: four sinks and the newest positions",
             "arXiv 2309.17453", "scorer: streaming",
             "positions keep their numbers; streamingllm-slots counts cache slots"),
      tokens("snapkv", {}, "SnapKV: pooled attention of the last 64 queries", "arXiv 2404.14469", "scorer: snapkv"),
      tokens("tova", {}, "TOVA: attention of the last query", "arXiv 2401.06104", "scorer: tova"),
      tokens("adakv", {"ada-kv", "ada-snapkv"}, "Ada-KV: SnapKV scores, one budget for all heads of a layer",
             "arXiv 2407.11550", "scorer: snapkv, heads: adaptive"),
      tokens("knorm", {}, "Knorm: keys of small length stay", "arXiv 2406.11430", "scorer: knorm"),
      tokens("keydiff", {}, "KeyDiff: keys unlike the mean key stay", "arXiv 2504.15364", "scorer: keydiff"),
      tokens("expected-attention", {}, "Expected attention of queries to come", "arXiv 2510.00636",
             "scorer: expected_attention"),
      tokens("lagkv", {}, "LagKV: unlike what follows a lag later", "arXiv 2504.04704", "scorer: lagkv"),
      tokens("cur", {"curdkv"}, "CUR: leverage of keys and values", "arXiv 2509.15038", "scorer: cur"),
      tokens("capkv", {"cap"}, "CapKV: leverage of values, weighted by likeness to queries to come", "arXiv 2604.25975",
             "scorer: cap"),
      tokens("compactor", {}, "Compactor: leverage and non-causal attention", "arXiv 2507.08143", "scorer: compactor"),
      in_slots(tokens("streamingllm-slots", {"attention-sinks"},
                      "StreamingLLM with positions that are slots of the cache, as in its paper", "arXiv 2309.17453",
                      "scorer: streaming")),
      in_slots(tokens(
          "finch", {}, "FINCH: attention of the last 64 queries that can see a position; kept keys close ranks",
          "doi 10.1162/tacl_a_00716", "scorer: finch", "the window is the newest 64 positions, not the question")),
      tokens("leverage", {"leverage-score"}, "Leverage of keys before RoPE, by a random sketch", "arXiv 2507.08143",
             "scorer: leverage"),
      tokens("non-causal-attention", {"noncausalattn"}, "Attention within chunks of 256, both ways", "arXiv 2507.08143",
             "scorer: non_causal"),
      tokens("random", {}, "Random positions: what any method should beat", "", "scorer: random"),
      chunks("entropy-gated-chunkkv", {"entropy-gated"},
             "ChunkKV in chunks of 10, of which high ones of low entropy keep their best 4", "", 10,
             "scorer: snapkv, selection: entropy_gated, low_entropy_kept: 4"),
      chunks("blockpress", {"block-press"},
             "kvpress BlockPress: blocks of 128 join in turn, the best by KeyDiff survive", "arXiv 2504.15364", 128,
             "scorer: keydiff, selection: iterative"),
      {"snapkv-think",
       {"composed-snapkv-think"},
       "evict",
       "SnapKV, and of what stays 60 % of the key channels",
       "arXiv 2407.21018",
       "channels are chosen once",
       "block_size: 1\nprotect: {sinks: 0, window: 32}\nstages:\n"
       "  - evict: {scorer: snapkv, granularity: token, keep_ratio: 0.5}\n"
       "  - low_rank: {k_share: 0.6, v_share: 1, scope: sequence, channels: true}\n"},
      chunks("chunkpress", {}, "kvpress ChunkPress: the same share of every 1,024 positions", "", 1024,
             "scorer: snapkv, selection: quota"),
      blocks("chunkkv", {}, "evict", "ChunkKV: chunks of 20, one choice for all heads", "arXiv 2502.00299", 20,
             "scorer: snapkv, heads: shared, block_score: mean", "indices are not reused over layers"),
      blocks("pagedeviction", {"paged-eviction"}, "evict", "PagedEviction: whole pages by value over key length",
             "arXiv 2509.04377", 16, "scorer: paged_eviction"),
      blocks("quest", {}, "select", "Quest: pages of 16 are read by an upper bound of their attention, none is freed",
             "arXiv 2406.10774", 16, "scorer: quest, rest: unread", kOneChoice),
      blocks("arkvale", {}, "select", "ArkVale: pages of 32 by a bound of their attention, the others in host memory",
             "NeurIPS 2024", 32, "scorer: arkvale, rest: host",
             kOneChoice + "; recall is timed where `recall` says how much comes back"),
      blocks("infllm", {}, "select", "InfLLM: blocks of 128 by representative tokens, the others in host memory",
             "arXiv 2402.04617", 128, "scorer: infllm, rest: host",
             kOneChoice + "; recall is timed where `recall` says how much comes back", 128, 512),
      tokens("pyramidkv", {"pyramid-kv"}, "PyramidKV: SnapKV scores, budgets that fall from layer to layer",
             "arXiv 2406.02069", "scorer: snapkv, budget: pyramid"),
      tokens("simlayerkv", {"sim-layer-kv"}, "SimLayerKV: lazy layers keep sinks and newest positions, others all",
             "arXiv 2410.13846", "scorer: streaming, budget: lazy"),
      tokens("criticalkv", {"critical-snapkv"},
             "CriticalKV: half by SnapKV score, half by score times the length of W_o v", "arXiv 2502.03805",
             "scorer: snapkv, critical: true"),
      tokens("criticaladakv", {"critical-adakv"}, "CriticalKV with one budget for all heads of a layer",
             "arXiv 2502.03805", "scorer: snapkv, critical: true, heads: adaptive"),
      {"duoattention",
       {"duo-attention"},
       "heads",
       "DuoAttention: retrieval heads keep everything, the others 64 sinks and the newest 256",
       "arXiv 2410.10819",
       "without `heads_file` retrieval heads are those that look far back in the trace, not those of a learned pattern",
       "block_size: 1\nprotect: {sinks: 64, window: 256}\nstages:\n"
       "  - evict: {scorer: retrieval_heads, granularity: token, threshold: 0.5}\n"},
      {"headkv",
       {"headkv-r2"},
       "heads",
       "HeadKV: budgets of a layer's heads by how far they look back, positions by SnapKV",
       "arXiv 2410.19258",
       "without `heads_file` importance from the trace, and heads of one layer share a budget, not those of all; "
       "average, "
       "not maximum pooling",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\nstages:\n"
       "  - evict: {scorer: headkv, granularity: token, keep_ratio: 0.5, heads: adaptive, safeguard: 0.2}\n"},
      {"razorattention",
       {"razor-attention"},
       "heads",
       "RazorAttention: as DuoAttention, and one entry for all that a head dropped",
       "arXiv 2407.15891",
       "without `heads_file` retrieval heads are those that look far back in the trace, not echo and induction heads",
       "block_size: 1\nprotect: {sinks: 4, window: 256}\nstages:\n"
       "  - evict: {scorer: retrieval_heads, sinks: 4, granularity: token, threshold: 0.5, rest: compensated}\n"},
      merged(tokens("d2o", {}, "D2O: heavy hitters, the others averaged into the most similar kept position",
                    "arXiv 2406.13035", "scorer: attention_sum, rest: weighted, similarity: 0.5",
                    kFixedThreshold + "layer budgets are equal", 0, 64)),
      merged(tokens("keepkv", {}, "KeepKV: merged entries weigh as many positions as they hold", "arXiv 2504.09936",
                    "scorer: attention_sum, rest: votes, similarity: 0.5",
                    kFixedThreshold + "keys are plain means, not chosen to leave the current output unchanged", 0, 64)),
      merged(tokens("kvmerger", {"kv-merger"}, "KVMerger: runs of alike keys become one entry with Gaussian weights",
                    "arXiv 2407.08454", "scorer: attention_sum, rest: neighbours, similarity: 0.75",
                    "runs form around what the budget keeps; a position alike to none is dropped, not kept", 0, 64)),
      merged(tokens("cam", {}, "CaM: values of dropped positions spread over the kept ones that follow",
                    "openreview.net/forum?id=LCTmppB165", "scorer: attention_sum, rest: following, spread: 32",
                    "the mean of the random draws", 0, 64)),
      merged(tokens("merging-knorm", {"merging"},
                    "kvpress MergingPress: values folded into the kept position of the most similar key", "",
                    "scorer: knorm, rest: values")),
  };
}

}  // namespace kvtide::experiment
