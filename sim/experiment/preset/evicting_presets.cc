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

const std::string kStillStored = "the pages that are not read stay stored in the original; here they are freed";

}  // namespace

std::vector<Preset> evicting_presets() {
  return {
      tokens("h2o", {"heavy-hitter"}, "H2O: the positions that received most attention, and the newest",
             "arXiv 2306.14048", "scorer: attention_sum", "attention of the last score_window queries, not of all", 0,
             64),
      tokens("observed-attention", {}, "kvpress ObservedAttention: attention per query that could see the position",
             "arXiv 2306.14048", "scorer: observed_attention"),
      tokens("streamingllm", {"streaming-llm", "sink"}, "StreamingLLM: four sinks and the newest positions",
             "arXiv 2309.17453", "scorer: streaming", "positions keep their numbers; the original counts cache slots"),
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
      tokens("compactor", {}, "Compactor: leverage and non-causal attention", "arXiv 2507.08143", "scorer: compactor"),
      tokens("chunkpress", {}, "kvpress ChunkPress: the same share of every 1,024 positions", "",
             "scorer: snapkv, selection: quota"),
      blocks("chunkkv", {}, "evict", "ChunkKV: chunks of 20, one choice for all heads", "arXiv 2502.00299", 20,
             "scorer: snapkv, heads: shared, block_score: mean", "indices are not reused over layers"),
      blocks("pagedeviction", {"paged-eviction"}, "evict", "PagedEviction: whole pages by value over key length",
             "arXiv 2509.04377", 16, "scorer: paged_eviction"),
      blocks("quest", {}, "select", "Quest: pages of 16 by an upper bound of their attention", "arXiv 2406.10774", 16,
             "scorer: quest", kStillStored),
      blocks("arkvale", {}, "select", "ArkVale: pages of 32 by a bound of their attention, the others in host memory",
             "", 32, "scorer: arkvale", "no recall of pages"),
      blocks("infllm", {}, "select", "InfLLM: blocks of 128 by representative tokens, 128 sinks", "arXiv 2402.04617",
             128, "scorer: infllm", "no recall of blocks", 128, 512),
  };
}

}  // namespace kvtide::experiment
