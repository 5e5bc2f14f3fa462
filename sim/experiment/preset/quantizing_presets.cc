// Presets that store every position in fewer bits.

#include <fmt/format.h>

#include "experiment/preset/preset.h"

namespace kvtide::experiment {
namespace {

/// A format whose scales belong to one token: blocks of one position, so that nothing waits in fp16.
Preset per_token(std::string name, std::vector<std::string> aliases, std::string summary, std::string paper,
                 const std::string& formats, std::string differs = "") {
  return {std::move(name),
          std::move(aliases),
          "quantize",
          std::move(summary),
          std::move(paper),
          std::move(differs),
          fmt::format("block_size: 1\nprotect: {{sinks: 0, window: 0}}\nstages:\n  - quantize: {{{}}}\n", formats)};
}

Preset ggml(const std::string& format, const std::string& bits) {
  return per_token(format, {}, fmt::format("llama.cpp --cache-type-k/-v {}: {} bits", format, bits), "",
                   fmt::format("format: {}", format));
}

Preset kivi(const std::string& name, std::vector<std::string> aliases, const std::string& format) {
  return {name,
          std::move(aliases),
          "quantize",
          fmt::format("KIVI: {}, keys by channel, values by token, groups of 32, the newest 128 in fp16", format),
          "arXiv 2402.02750",
          "",
          fmt::format("block_size: 32\nprotect: {{sinks: 0, window: 0}}\nstages:\n"
                      "  - quantize: {{format: {}, group: 32, k_axis: channel, v_axis: token, residual: 128}}\n",
                      format)};
}

Preset hugging_face(const std::string& name, std::vector<std::string> aliases, const std::string& format) {
  return {
      name,
      std::move(aliases),
      "quantize",
      fmt::format(
          "transformers QuantizedCache: {}, groups of 64 channels, the whole prompt at once, then 128 at a time",
          format),
      "",
      "the backends' own search for better scales (hqq) is not here",
      fmt::format("block_size: 64\nprotect: {{sinks: 0, window: 0}}\nstages:\n  - quantize: {{format: {}, group: 64, "
                  "k_axis: token, v_axis: token, residual: 128, residual_from: prompt}}\n",
                  format)};
}

Preset blockwise(std::string name, std::vector<std::string> aliases, std::string summary, std::string paper,
                 std::string differs, std::int64_t block_size, std::int64_t sinks, std::int64_t window,
                 const std::string& stage) {
  return {std::move(name),
          std::move(aliases),
          "quantize",
          std::move(summary),
          std::move(paper),
          std::move(differs),
          fmt::format("block_size: {}\nprotect: {{sinks: {}, window: {}}}\nstages:\n  - quantize: {{{}}}\n", block_size,
                      sinks, window, stage)};
}

const std::string kSkippedLayers =
    "vLLM leaves the first and last two layers in 16 bits; here every layer is quantized";

}  // namespace

std::vector<Preset> quantizing_presets() {
  return {
      per_token("bf16", {"bfloat16"}, "16 bits with 8 significant ones, of a model that was recorded with more", "",
                "format: bf16"),
      per_token("fp8", {"fp8-e4m3", "fp8_e4m3"}, "vLLM, SGLang --kv-cache-dtype fp8: E4M3 with scale 1",
                "arXiv 2209.05433", "format: fp8_e4m3"),
      per_token("fp8-e5m2", {"fp8_e5m2"}, "--kv-cache-dtype fp8_e5m2: E5M2, no scale", "arXiv 2209.05433",
                "format: fp8_e5m2"),
      per_token("fp8-per-token-head", {}, "vLLM fp8_per_token_head: E4M3, an FP32 scale a token and head", "",
                "format: fp8_per_token_head"),
      per_token("int8", {"int8-per-token-head"}, "vLLM int8_per_token_head: an FP32 scale a token and head", "",
                "format: int8_per_token_head"),
      per_token("int4", {"int4-per-token-head"}, "vLLM int4_per_token_head: an FP32 scale a token and head", "",
                "format: int4_per_token_head"),
      per_token("qserve-kv4", {"qserve", "kv4"}, "QServe KV4: asymmetric int4, scale and zero point in the page",
                "arXiv 2405.04532", "format: qserve_kv4", "SmoothAttention scales the keys' channels before; not here"),
      per_token("qserve-kv8", {"kv8"}, "QServe KV8: asymmetric int8, scale and zero point in the page",
                "arXiv 2405.04532", "format: qserve_kv8"),
      ggml("q8_0", "8.5"),
      ggml("q5_1", "6"),
      ggml("q5_0", "5.5"),
      ggml("q4_1", "5"),
      ggml("q4_0", "4.5"),
      ggml("iq4_nl", "4.5"),
      per_token("nvfp4", {"fp4"}, "NVFP4: E2M1 in blocks of 16 channels with E4M3 scales", "arXiv 2509.25149",
                "format: nvfp4"),
      per_token("mxfp4", {}, "MXFP4: E2M1 in blocks of 32 channels with power-of-two scales", "arXiv 2310.10537",
                "format: mxfp4"),
      per_token("mxfp8", {}, "MXFP8: E4M3 in blocks of 32 channels with power-of-two scales", "arXiv 2310.10537",
                "format: mxfp8"),
      kivi("kivi-int2", {"kivi", "kivi-2", "kivi2"}, "int2"),
      kivi("kivi-int4", {"kivi-4", "kivi4"}, "int4"),
      hugging_face("hf-quantized-int4", {"quantizedcache", "hf-quantized"}, "int4"),
      hugging_face("hf-quantized-int2", {}, "int2"),
      per_token("turboquant-4", {"turboquant", "turboquant-4bit-nc"}, "TurboQuant: 4-bit keys and values",
                "arXiv 2504.19874", "format: turboquant4", kSkippedLayers),
      per_token("turboquant-3", {"turboquant-3bit-nc"}, "TurboQuant: 3-bit keys and values", "arXiv 2504.19874",
                "format: turboquant3", kSkippedLayers),
      per_token("turboquant-k8v4", {}, "TurboQuant in vLLM: E4M3 keys, 4-bit values", "arXiv 2504.19874",
                "k_format: fp8_e4m3, v_format: turboquant4", kSkippedLayers),
      per_token("turboquant-k3v4", {"turboquant-k3v4-nc"}, "TurboQuant in vLLM: 3-bit keys, 4-bit values",
                "arXiv 2504.19874", "k_format: turboquant3, v_format: turboquant4", kSkippedLayers),
      per_token("polarquant", {}, "PolarQuant: random rotation, angles and a radius for 16 channels",
                "arXiv 2502.02617", "format: polarquant"),
      blockwise("kvquant", {"kvquant-nuq3", "kvquant-3"}, "KVQuant nuq3-1%: keys before RoPE, uneven levels, outliers",
                "arXiv 2401.18079", "levels weigh all errors alike, not by Fisher information", 64, 1, 0,
                "format: kvquant3"),
      blockwise("kvquant-nuq4", {"kvquant-4"}, "KVQuant nuq4-1%", "arXiv 2401.18079",
                "levels weigh all errors alike, not by Fisher information", 64, 1, 0, "format: kvquant4"),
      blockwise("kvquant-nuq2", {"kvquant-2"}, "KVQuant nuq2-1%", "arXiv 2401.18079",
                "levels weigh all errors alike, not by Fisher information", 64, 1, 0, "format: kvquant2"),
      blockwise("gear", {"gear-4"}, "GEAR: int4, a rank-4 correction, 2 % outliers", "arXiv 2403.05527",
                "the streaming buffer is the newest block of 64", 64, 0, 0,
                "format: gear4, group: 64, k_axis: channel, v_axis: token"),
      blockwise("gear-2", {}, "GEAR: int2, a rank-4 correction, 2 % outliers", "arXiv 2403.05527",
                "the streaming buffer is the newest block of 64", 64, 0, 0,
                "format: gear2, group: 64, k_axis: channel, v_axis: token"),
      blockwise("zipcache", {}, "ZipCache: salient tokens at 4 bits, others at 2", "arXiv 2405.14256",
                "saliency from the newest queries alone, not a random sample besides", 100, 0, 0,
                "format: zipcache4_2"),
      per_token("cq-8c8b", {"coupled-quantization", "cq"}, "Coupled quantization: 8 channels share an 8-bit index",
                "arXiv 2405.03917", "format: cq8c8b"),
      blockwise("skvq", {"skvq-k2v1.5"}, "SKVQ: 2-bit keys, three-level values, 5 sinks and 128 newest in fp16",
                "arXiv 2405.06219", "one clip share a head", 1, 5, 128, "k_format: skvq2, v_format: skvq1.5"),
      blockwise("skvq-k2v2", {}, "SKVQ: 2-bit keys and values, 5 sinks and 128 newest in fp16", "arXiv 2405.06219",
                "one clip share a head", 1, 5, 128, "format: skvq2"),
      blockwise("qjl", {}, "QJL: keys as signs of projections, values int2, the newest 128 in fp16", "arXiv 2406.03482",
                "", 32, 0, 0, "k_format: qjl, v_format: int2, group: 32, v_axis: token, residual: 128"),
  };
}

}  // namespace kvtide::experiment
