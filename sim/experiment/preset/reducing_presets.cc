// Presets that store fewer entries or fewer channels for the same positions.

#include "experiment/preset/preset.h"

namespace kvtide::experiment {

std::vector<Preset> reducing_presets() {
  return {
      {"pool-4",
       {"mean-pool"},
       "merge",
       "every 4 positions of a block become their mean, before RoPE, with the weight of 4",
       "",
       "",
       "block_size: 64\nprotect: {sinks: 4, window: 64}\nstages:\n"
       "  - pool: {width: 4, rope: pre, mass_correct: true}\n"},
      {"pool-128",
       {"native-pool-128"},
       "merge",
       "every 128 positions become one entry, the newest 512 are exact: the compressed branch of a model that pools "
       "natively",
       "",
       "a model trained so loses less than one that was not; its block selection is apart",
       "block_size: 128\nprotect: {sinks: 4, window: 512}\nstages:\n"
       "  - pool: {width: 128, rope: pre, mass_correct: true}\n"},
      {"pool-4-select",
       {"native-pool-4"},
       "merge",
       "blocks of 128 are chosen by attention, what stays is pooled by 4, the newest 512 are exact",
       "",
       "a model trained so loses less than one that was not; blocks not chosen are freed, not left unread",
       "block_size: 128\nprotect: {sinks: 4, window: 512}\nstages:\n"
       "  - evict: {scorer: attention_sum, granularity: block, keep_ratio: 0.5}\n"
       "  - pool: {width: 4, rope: pre, mass_correct: true}\n"},
      {"weighted-pool-4",
       {"look-m"},
       "merge",
       "every 4 positions become one entry, weighed by how like the mean key they are",
       "arXiv 2406.18139",
       "neighbours are merged, not evicted positions into kept ones",
       "block_size: 64\nprotect: {sinks: 4, window: 64}\nstages:\n"
       "  - pool: {width: 4, rope: pre, mass_correct: true, weight: cosine}\n"},
      {"block-svd",
       {"svd"},
       "low rank",
       "each block of 128 becomes its rank-32 approximation",
       "",
       "",
       "block_size: 128\nprotect: {sinks: 4, window: 64}\nstages:\n  - low_rank: {rank: 32}\n"},
      {"palu",
       {"palu-50"},
       "low rank",
       "Palu: half of the channels of each group of 4 heads, keys before RoPE, bases part of the weights",
       "arXiv 2407.21118",
       "ranks are equal, not weighed by Fisher information; bases come from the stored rows, which flatters them",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\nstages:\n"
       "  - low_rank: {k_share: 0.5, v_share: 0.5, scope: model, heads: 4, k_rope: pre}\n"},
      {"palu-int4",
       {},
       "low rank",
       "Palu with its coefficients in int4",
       "arXiv 2407.21118",
       "3 bits and a Hadamard rotation in the original",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\nstages:\n"
       "  - low_rank: {k_share: 0.5, v_share: 0.5, scope: model, heads: 4, k_rope: pre}\n"
       "  - quantize: {format: qserve_kv4}\n"},
      {"asvd",
       {},
       "low rank",
       "ASVD: half of the rank of all heads' projections together, keys before RoPE, bases part of the weights",
       "arXiv 2312.05821",
       "directions are weighed by the stored rows themselves, not by a calibration set's activations; one rank for all "
       "layers",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\nstages:\n"
       "  - low_rank: {k_share: 0.5, v_share: 0.5, scope: model, heads: 8, k_rope: pre}\n"},
      {"eigenattention",
       {"eigen-attention"},
       "low rank",
       "EigenAttention: 60 % of the channels of every head, found once",
       "arXiv 2408.05646",
       "bases come from the stored rows, not from calibration with queries; ranks are equal, and keys are rebuilt as "
       "they are "
       "read",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\nstages:\n"
       "  - low_rank: {k_share: 0.6, v_share: 0.6, scope: model, heads: 1, k_rope: pre}\n"},
      {"xkv",
       {},
       "low rank",
       "xKV: four layers share coefficients, keys of rank 512 and values of rank 768 together",
       "arXiv 2503.18893",
       "the loss is that of each layer with its own basis and a quarter of the rank, at least as large as the method's",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\nstages:\n"
       "  - low_rank: {k_share: 0.125, v_share: 0.1875, scope: sequence, heads: 8, layers: 4, k_rope: pre}\n"},
      {"shadowkv",
       {"shadow-kv"},
       "low rank",
       "ShadowKV: keys of rank 160 over all heads, before RoPE, the basis stored with the sequence",
       "arXiv 2410.21465",
       "values stay on the GPU, not in host memory; every chunk is read, not a chosen few",
       "block_size: 1\nprotect: {sinks: 0, window: 32}\nstages:\n"
       "  - low_rank: {k_share: 0.15625, v_share: 1, scope: sequence, heads: 8, k_rope: pre}\n"},
      {"think",
       {},
       "low rank",
       "ThinK: 60 % of the key channels, those that the last 32 queries and the keys use most",
       "arXiv 2407.21018",
       "channels are chosen once",
       "block_size: 1\nprotect: {sinks: 0, window: 32}\nstages:\n"
       "  - low_rank: {k_share: 0.6, v_share: 1, scope: sequence, channels: true}\n"},
      {"cla-2",
       {"cla", "cla2", "cross-layer-attention"},
       "layers",
       "Cross-layer attention: two neighbouring layers share one cache, which both read",
       "arXiv 2405.12981",
       "the model must be trained so: no loss is measured; the second layer's K and V projections stay among the "
       "weights",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\nshare_layers: {group: 2}\nstages: []\n"},
      {"yoco",
       {"you-only-cache-once"},
       "layers",
       "YOCO: the upper half of the layers reads one cache, the lower half keeps windows of 1,024",
       "arXiv 2405.05254",
       "the model must be trained so: no loss is measured; prefill still visits every layer; windows, not gated "
       "retention",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\nshare_layers: {group: 0, from: 0.5, window: 1024}\n"
       "stages: []\n"},
      {"minicache",
       {"mini-cache"},
       "layers",
       "MiniCache: from the middle on, two layers are stored as one direction and two lengths, 5 % as they are",
       "arXiv 2405.14366",
       "halfway between the two directions; retained positions are a fixed share; not quantized as in the paper; its "
       "loss "
       "needs a trace with neighbouring layers",
       "block_size: 1\nprotect: {sinks: 0, window: 0}\n"
       "share_layers: {group: 2, from: 0.5, merges: true, retained: 0.05}\nstages: []\n"},
  };
}

}  // namespace kvtide::experiment
