#include "experiment/import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "experiment/experiment.h"
#include "experiment/import/stack_text.h"

namespace kvtide::experiment {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kTrace = "{synthetic: {kind: uniform, tokens: 256}}";

Imported imported(const std::string& text) {
  return import_text(text, {});
}

/// What `kvtide run` makes of the imported file.
Setting setting_of(const std::string& text) {
  const ImportHints hints;
  std::string yaml = experiment_yaml(import_text(text, hints), hints);
  yaml.replace(yaml.find("trace: ''"), 9, std::string("trace: ") + kTrace);
  return parse_experiment(yaml, "imported.yaml", "", {}).runs.at(0).setting;
}

std::string error_of(const std::string& text) {
  try {
    (void)imported(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(ShellWords, QuotesAndContinuedLines) {
  EXPECT_THAT(shell_words("a 'b c' \"d e\"f \\\n g\\ h"), ElementsAre("a", "b c", "d ef", "g h"));
}

TEST(StackText, OneOptionInFourSpellings) {
  for (const char* text : {"vllm serve M --kv-cache-dtype=fp8", "vllm serve M --kv-cache-dtype fp8",
                           "LLM(model=\"M\", kv_cache_dtype=\"fp8\")", "{\"kv_cache_dtype\": \"fp8\"}",
                           "INFO non-default args: {'model': 'M', 'kv_cache_dtype': 'fp8'}"}) {
    EXPECT_EQ(StackText(text).value({"kv_cache_dtype"}), "fp8") << text;
  }
}

TEST(ImportVllm, BlockSizeIsAPageAndLosesNothing) {
  const Imported result =
      imported("vllm serve meta-llama/Llama-3.1-8B-Instruct --block-size 32 --enable-prefix-caching");
  EXPECT_EQ(result.page_size, 32);
  EXPECT_EQ(result.compression, "none");
  EXPECT_THAT(result.loses, IsEmpty());
  EXPECT_THAT(result.keeps, Contains(HasSubstr("block_size 32")));
  EXPECT_THAT(result.keeps, Contains(HasSubstr("prefix caching")));
}

TEST(ImportVllm, CacheDtypeIsTheCompression) {
  const Setting setting = setting_of(
      "vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8_e5m2 --max-model-len 16384 "
      "--max-num-seqs 4");
  EXPECT_EQ(std::get<kv::Quantize>(setting.compression.stages.at(0)).k_format, "fp8_e5m2");
  EXPECT_EQ(setting.context_tokens, 16384);
  EXPECT_EQ(setting.batch, 4);
  EXPECT_EQ(setting.page_size, 16);
}

TEST(ImportVllm, UnknownDtypeIsRefusedWithTheKnown) {
  EXPECT_THAT(error_of("vllm serve M --kv-cache-dtype fp7"), HasSubstr("fp8_e4m3"));
}

// Field case C6 on import: 8 KV heads over 4 ranks are 2 each, over 16 ranks 1 on two ranks each; 3 ranks divide nothing.
TEST(ImportVllm, RanksAndHeadsMustDivideOneAnother) {
  EXPECT_EQ(setting_of("vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 4").tensor_parallel, 4);
  EXPECT_THAT(imported("vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 16").keeps,
              Contains(HasSubstr("2 ranks repeat each")));
  EXPECT_THAT(error_of("vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 3"), HasSubstr("3"));
  EXPECT_THAT(error_of("vllm serve M --pipeline-parallel-size 0"), HasSubstr("at least 1"));
}

// Two stages of two ranks; Mixtral's 8 experts are divided among 2 ranks, a dense model has none.
TEST(ImportVllm, StagesAndExpertsAreKeysOfTheExperiment) {
  const Setting setting =
      setting_of("vllm serve mistralai/Mixtral-8x7B-Instruct-v0.1 -tp 2 -pp 2 --enable-expert-parallel");
  EXPECT_EQ(setting.tensor_parallel, 2);
  EXPECT_EQ(setting.pipeline_parallel, 2);
  EXPECT_EQ(setting.expert_parallel, 2);
  const Imported dense = imported("vllm serve meta-llama/Llama-3.1-8B -tp 2 --enable-expert-parallel");
  EXPECT_FALSE(dense.has_expert_parallel);
  EXPECT_THAT(dense.left_out, Contains(HasSubstr("0 experts")));
}

// Qwen2.5-32B on two H100 of 79.65 GiB: 64 layers of 8 heads of 128 in 16 bits are 256 KiB a token, 8 GiB a sequence of
// 32,768. 32.76e9 weights of 2 B are 30.51 GiB a rank: 2 (0.9 * 79.65 - 30.51 - 4.89) = 72.6 GiB hold 9 sequences.
TEST(ImportVllm, ALimitOfSequencesIsABatchAsFarAsItFits) {
  const std::string serve = "vllm serve Qwen/Qwen2.5-32B-Instruct -tp 2 --max-model-len 32768 --max-num-seqs ";
  const Imported many = imported(serve + "64");
  EXPECT_EQ(many.batch, 9);
  EXPECT_THAT(many.batch_reason, HasSubstr("of at most 64"));
  EXPECT_EQ(imported(serve + "4").batch, 4);
  // One H100 holds 61 GiB of weights and 5.8 GiB of cache: not one sequence, and a batch has one at least.
  const Imported none = imported("vllm serve Qwen/Qwen2.5-32B-Instruct --max-model-len 32768 --max-num-seqs 64");
  EXPECT_EQ(none.batch, 1);
  EXPECT_THAT(none.batch_reason, HasSubstr("not one of 32768"));
  EXPECT_FALSE(imported("vllm serve nobody/unknown-1b --max-num-seqs 64").batch);
}

// Llama-3.1-8B on an H100 of 79.65 GiB: 25,600 tokens of 128 KiB are 3.125 GiB, weights 14.96. Without an engine 0.9 of the
// memory less 4.89 holds 16. An engine of 64 sequences takes 64 x 128,256 x 38.2 + 8,192 x 4,096 x 2.6 B = 0.37 GiB and
// 0.13: half of the memory leaves 24.36 GiB, 7.8 sequences, 0.52 of it 25.95 GiB, 8.3.
TEST(ImportVllm, WithTrafficTheEnginesMemoryTellsTheBatch) {
  const std::string serve =
      "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 25600 --max-num-seqs 64 --gpu-memory-utilization ";
  ImportHints traffic;
  traffic.requests = "q.csv";
  EXPECT_EQ(imported(serve + "0.5").batch, 16);
  EXPECT_EQ(import_text(serve + "0.5", traffic).batch, 7);
  EXPECT_EQ(import_text(serve + "0.52", traffic).batch, 8);
}

// Llama-3.1-8B has 32 layers.
TEST(ImportVllm, WhatFitsIsUnknownForItsOwnReason) {
  const std::string serve = "vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 8 --pipeline-parallel-size ";
  EXPECT_EQ(imported(serve + "32").batch, 8);
  const Imported many = imported(serve + "33");
  EXPECT_FALSE(many.batch);
  EXPECT_THAT(many.left_out, Contains(HasSubstr("33 pipeline stages: the model has 32 layers")));
  EXPECT_THAT(imported("vllm serve nobody/unknown-1b --max-num-seqs 8").left_out,
              Contains(HasSubstr("not known without the model")));
}

// 100,000 / 16,384 = 6.1.
TEST(ImportVllm, TheLoggedPoolTellsTheBatch) {
  const Imported result = imported(
      "vllm non-default args: {'model': 'M', 'max_model_len': 16384, 'max_num_seqs': 64}\n"
      "INFO GPU KV cache size: 100,000 tokens\n");
  EXPECT_EQ(result.batch, 6);
  EXPECT_THAT(result.batch_reason, HasSubstr("pool"));
}

std::string engine_line(const std::string& text) {
  const std::string yaml = experiment_yaml(imported(text), {});
  const std::size_t at = yaml.find("engine: {");
  return at == std::string::npos ? "" : yaml.substr(at, yaml.find('\n', at) - at);
}

TEST(ImportEngine, SwitchesHaveTheirKeys) {
  EXPECT_EQ(engine_line("vllm serve M --gpu-memory-utilization 0.92 --max-model-len 4096 --max-num-seqs 64 "
                        "--max-num-batched-tokens 2048 -dp 2 --no-enable-prefix-caching --scheduling-policy priority"),
            "engine: {kind: vllm, gpu_memory_utilization: 0.92, max_model_len: 4096, max_num_seqs: 64, "
            "max_num_batched_tokens: 2048, data_parallel: 2, prefix_caching: false, scheduling_policy: priority}");
  EXPECT_EQ(engine_line("sglang --mem-fraction-static 0.8 --chunked-prefill-size -1 --max-running-requests 8"),
            "engine: {kind: sglang, gpu_memory_utilization: 0.8, max_num_seqs: 8}");
  // 31,984 tokens are 1,999 blocks of 16, beside the null block.
  EXPECT_EQ(
      engine_line("sglang --page-size 16 --max-total-tokens 31984 --enable-priority-scheduling "
                  "--schedule-low-priority-values-first"),
      "engine: {kind: sglang, num_blocks: 2000, max_num_seqs: 2048, scheduling_policy: priority}  # limits not given: "
      "sglang's own on this GPU");
  EXPECT_EQ(engine_line("# it's --page-size 8\nsglang --max-running-requests 8 --disable-radix-cache\n# comment\n"),
            "engine: {kind: sglang, max_num_seqs: 8, prefix_caching: false}");
  EXPECT_EQ(engine_line("kv_cache_config:\n  tokens_per_block: 16\n  max_tokens: 31984\n"),
            "engine: {kind: trtllm, num_blocks: 2000}");
  EXPECT_THAT(imported("sglang --enable-priority-scheduling").left_out, Contains(HasSubstr("higher values first")));
  EXPECT_EQ(engine_line("trtllm-serve M --free_gpu_memory_fraction 0.7 --max_num_tokens 512 "
                        "--capacity_scheduler_policy MAX_UTILIZATION"),
            "engine: {kind: trtllm, gpu_memory_utilization: 0.7, max_num_batched_tokens: 512, "
            "capacity_policy: max_utilization}");
  EXPECT_EQ(engine_line("llama-server -m llama-3.1-8b.gguf"), "");
  EXPECT_THAT(error_of("vllm serve M --gpu-memory-utilization most"), HasSubstr("gpu_memory_utilization"));
}

// By the sources of vLLM 0.19 and SGLang 0.5. GiB as their drivers report them: RTX 4090 23.5, RTX 5090 31.4, L40S 45.0, A100 79.3,
// H100 79.7, B200 179. What is the key's own default, 256 sequences and 8,192 tokens, is not written.
TEST(ImportEngine, LimitsThatAreNotGivenAreTheStacksOwnOnThatGpu) {
  const auto limits = [](const char* text, const char* gpu) {
    const std::string yaml = experiment_yaml(imported(text), {.gpu = gpu});
    const std::size_t at = yaml.find("engine: {");
    return yaml.substr(at, yaml.find('}', at) - at);
  };
  EXPECT_EQ(limits("vllm serve M", "h100-sxm"), "engine: {kind: vllm, max_num_seqs: 1024");
  for (const char* gpu : {"a100-sxm-80gb", "l40s", "rtx-4090"}) {
    EXPECT_EQ(limits("vllm serve M", gpu), "engine: {kind: vllm, max_num_batched_tokens: 2048") << gpu;
  }
  EXPECT_EQ(limits("vllm serve M --max-num-seqs 8 --max-num-batched-tokens 4096", "l4"),
            "engine: {kind: vllm, max_num_seqs: 8, max_num_batched_tokens: 4096");
  for (const auto& [gpu, chunk] : {std::pair("rtx-5090", 2048), {"l40s", 4096}, {"b200-sxm", 16384}}) {
    EXPECT_EQ(limits("sglang", gpu),
              "engine: {kind: sglang, max_num_seqs: 2048, max_num_batched_tokens: " + std::to_string(chunk));
  }
  EXPECT_EQ(limits("sglang", "h100-sxm"), "engine: {kind: sglang, max_num_seqs: 2048");
  EXPECT_EQ(limits("trtllm-serve M", "l40s"), "engine: {kind: trtllm");
}

// Without traffic nothing is served; with it the line is a key, no comment.
TEST(ImportEngine, IsSimulatedWithTheServersTraffic) {
  const Imported result = imported("vllm serve M");
  EXPECT_THAT(experiment_yaml(result, {}), HasSubstr("\n# engine: {"));
  EXPECT_THAT(experiment_yaml(result, {.requests = "mine.csv"}),
              HasSubstr("\nworkload: {requests: mine.csv}\nengine: {"));
}

TEST(ImportWeights, FormatIsThatOfTheOptionElseOfTheName) {
  const auto weights = [](const std::string& text) {
    const Imported result = imported(text);
    EXPECT_THAT(result.left_out, IsEmpty()) << text;
    return result.weights;
  };
  EXPECT_EQ(weights("vllm serve M --quantization awq_marlin"), WeightFormat::w4a16);
  EXPECT_EQ(weights("vllm serve org/M-AWQ"), WeightFormat::w4a16);
  EXPECT_EQ(weights("vllm serve org/M-GPTQ-Int8"), WeightFormat::w8a16);
  EXPECT_EQ(weights("vllm serve org/M-GPTQ-Int8 --quantization gptq_marlin"), WeightFormat::w8a16);
  EXPECT_EQ(weights("vllm serve org/M-GPTQ --quantization gptq_marlin"), WeightFormat::w4a16);
  EXPECT_EQ(weights("vllm serve org/M-FP8-dynamic --quantization compressed-tensors"), WeightFormat::fp8);
  EXPECT_EQ(weights("vllm serve nvidia/M-FP4"), WeightFormat::nvfp4);
  EXPECT_EQ(weights("vllm serve /models/fp8/M"), std::nullopt);
  EXPECT_EQ(weights("vllm serve org/M-AWQ --quantization fp8"), WeightFormat::fp8);
  EXPECT_EQ(weights("sglang --model-path M --quantization w8a8_int8"), WeightFormat::w8a8);
  EXPECT_EQ(weights("vllm serve meta-llama/Llama-3.1-8B --quantization None"), std::nullopt);
}

TEST(ImportWeights, FormatsThatAreNotKnownAreTold) {
  for (const char* text : {"llama-server -m m-Q4_K_M.gguf", "vllm serve M --quantization bitsandbytes",
                           "vllm serve M-W4A8", "vllm serve org/M-MXFP8"}) {
    EXPECT_THAT(imported(text).left_out, Contains(HasSubstr("weights in"))) << text;
    EXPECT_EQ(imported(text).weights, std::nullopt) << text;
  }
}

// Llama-3.1-8B in AWQ leaves room for more sequences; DeepSeek-V3 is published in fp8, whatever a log calls it.
TEST(ImportWeights, ExperimentHasWhatTheModelIsNotPublishedIn) {
  const auto yaml = [](const std::string& text) {
    const ImportHints hints{.gpu = "h200-sxm"};
    return experiment_yaml(import_text(text, hints), hints);
  };
  EXPECT_THAT(yaml("vllm serve meta-llama/Llama-3.1-8B-Instruct-AWQ"), HasSubstr("\nweights: w4a16\n"));
  EXPECT_THAT(yaml("vllm serve deepseek-ai/DeepSeek-V3 --quantization fp8 -tp 8"), Not(HasSubstr("weights:")));
  EXPECT_THAT(yaml("vllm serve deepseek-ai/DeepSeek-V3-AWQ --quantization awq_marlin -tp 8"),
              HasSubstr("\nweights: w4a16\n"));
  EXPECT_THAT(yaml("vllm serve unsloth/gpt-oss-120b-BF16"), HasSubstr("\nweights: bf16\n"));
  EXPECT_THAT(yaml("vllm serve openai/gpt-oss-120b --quantization mxfp4"), Not(HasSubstr("weights:")));
  EXPECT_THAT(yaml("vllm serve meta-llama/Llama-3.1-8B"), Not(HasSubstr("weights:")));
}

// Of what is given to the stack, in each way of giving it. Hosts, ports and whatever stands elsewhere are no such thing.
TEST(ImportUnread, OptionsThatNobodyReadAreListed) {
  EXPECT_THAT(imported("vllm serve M --port 80 --typo-flag 3 --max-num-seqs=4 --other=5").not_understood,
              ElementsAre("--typo-flag", "--other"));
  EXPECT_THAT(imported("vllm serve M --typo 3 --other --typo 4").not_understood, ElementsAre("--typo", "--other"));
  EXPECT_THAT(imported("sglang -> --typo ----").not_understood, ElementsAre("--typo"));
  EXPECT_THAT(imported("llama-server -m m.gguf --typo").not_understood, ElementsAre("--typo"));
  EXPECT_THAT(imported("x = 3\nLLM(model=\"M\", gpu_memory_utilization=0.5, typo=f(a))\ny(b=4)").not_understood,
              ElementsAre("typo"));
  EXPECT_THAT(imported("vllm non-default args: {'model': 'M', 'typo': 3}\n'other': 4").not_understood,
              ElementsAre("typo"));
  EXPECT_THAT(imported("kv_cache_config:\n  dtype: fp8\n  typo: 3\n").not_understood,
              ElementsAre("kv_cache_config.typo"));
  EXPECT_THAT(imported("chunk_size: 256\nlocal_cpu: true\ntypo: 1\n").not_understood, ElementsAre("typo"));
}

// Field case C1: 2,198,512 tokens of pool at concurrency 178.68 are 12,304 tokens a request (769 pages of 16), not 16,384.
TEST(ImportLog, PoolThatHoldsMoreRequestsThanTokensShowsAWindow) {
  const Imported result = imported(
      "INFO vllm engine: non-default args: {'model': 'M'}\nINFO GPU KV cache size: 2,198,512 tokens\n"
      "INFO Maximum concurrency for 16,384 tokens per request: 178.68x\n");
  EXPECT_THAT(result.loses, Contains(HasSubstr("at most 12304 tokens of KV for a request of 16384")));
  EXPECT_EQ(result.context_tokens, 16384);
  // 1,024 pages a request: concurrency 134.19, no window.
  const Imported plain = imported(
      "INFO vllm engine: non-default args: {'model': 'M'}\nINFO GPU KV cache size: 2,198,512 tokens\n"
      "INFO Maximum concurrency for 16,384 tokens per request: 134.19x\n");
  EXPECT_THAT(plain.loses, IsEmpty());
}

// Field case C2: 779,760 tokens are 48,735 pages of 16.
TEST(ImportLog, PoolIsToldInPages) {
  EXPECT_THAT(imported("vllm INFO GPU KV cache size: 779,760 tokens").keeps, Contains(HasSubstr("48735 pages of 16")));
}

TEST(ImportLog, AttendedShorterThanTheSequenceIsCompression) {
  const Imported result =
      imported("vllm serve M --kv-cache-dtype auto\nreq 1 seq_len=1000 kv_len=1000\nreq 2 seq_len=8000 kv_len=2000\n");
  EXPECT_THAT(result.loses, Contains(HasSubstr("1 of 2 logged requests")));
  EXPECT_THAT(result.loses, Contains(HasSubstr("25.0 %")));
  EXPECT_THAT(result.compression, HasSubstr("keep_ratio: 0.25"));
}

TEST(ImportLog, TheTokenAtHandMayBeMissing) {
  const Imported result = imported("vllm: seq_len=1000 kv_len=999\nseq_len=1000 kv_len=1000\n");
  EXPECT_THAT(result.loses, IsEmpty());
  EXPECT_THAT(imported("vllm: seq_len=1000 kv_len=998\n").loses, Not(IsEmpty()));
}

TEST(ImportSglang, PagesOfOneToken) {
  const Setting setting = setting_of(
      "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8_e4m3 "
      "--context-length 8192");
  EXPECT_EQ(setting.page_size, 1);
  EXPECT_EQ(std::get<kv::Quantize>(setting.compression.stages.at(0)).v_format, "fp8_e4m3");
}

// Field case Q7's rule through max_attention_window: sinks and the newest positions, whatever the context.
TEST(ImportTensorRt, AttentionWindowDropsTheMiddle) {
  const Setting setting = setting_of(
      "backend: tensorrt-llm\nmodel: meta-llama/Llama-3.1-8B\nmax_seq_len: 32768\nkv_cache_config:\n  dtype: auto\n"
      "  tokens_per_block: 64\n  max_attention_window: [4096]\n  sink_token_length: 4\n");
  EXPECT_EQ(setting.page_size, 64);
  EXPECT_EQ(setting.compression.sinks, 4);
  EXPECT_EQ(setting.compression.window, 4092);
  EXPECT_EQ(setting.compression.block_size, 1);
  const Imported short_context = imported("trtllm-serve M --max_seq_len 2048 --max_attention_window 4096");
  EXPECT_EQ(short_context.compression, "none");
}

TEST(ImportLlamaCpp, KAndVHaveTheirOwnTypes) {
  const Setting setting = setting_of("llama-server -m llama-3.1-8b.gguf -c 4096 -ctk q8_0 -ctv q5_1");
  const auto& stage = std::get<kv::Quantize>(setting.compression.stages.at(0));
  EXPECT_EQ(stage.k_format, "q8_0");
  EXPECT_EQ(stage.v_format, "q5_1");
  EXPECT_EQ(setting.context_tokens, 4096);
  EXPECT_THAT(error_of("llama-server -ctk q3_0"), HasSubstr("iq4_nl"));
}

// n_ctx_slot = n_ctx / n_parallel: 32,768 / 4 = 8,192 for each of four.
TEST(ImportLlamaCpp, SlotsShareTheContext) {
  const Setting four = setting_of("llama-server -m Meta-Llama-3.1-8B-Q4.gguf -c 32768 -np 4 -ctk q8_0 -ctv q8_0");
  EXPECT_EQ(four.context_tokens, 8192);
  EXPECT_EQ(four.batch, 4);
  EXPECT_EQ(imported("llama-server -m M -c 32768 -np 1").context_tokens, 32768);
  EXPECT_EQ(imported("llama-server -m M -c 32768 -np -1").context_tokens, 32768);
  EXPECT_FALSE(imported("llama-server -m M -c 0").context_tokens.has_value());  // the model's own
  EXPECT_THAT(imported("llama-server -m M -c 32768 -np 4 --kv-unified").keeps, Contains(HasSubstr("one pool")));
}

TEST(ImportLlamaCpp, StartUpLogTellsTheTypes) {
  const Imported result = imported(
      "llama_context: n_ctx = 2048\nllama_kv_cache: size = 104.00 MiB ( 2048 cells, 32 layers), K (q8_0): 68.00 MiB, "
      "V (q4_0): 36.00 MiB\n");
  EXPECT_THAT(result.compression, HasSubstr("k_format: q8_0, v_format: q4_0"));
}

TEST(ImportHuggingFace, QuantizedCacheCountsItsResidualFromThePrompt) {
  const Setting setting = setting_of("past_key_values = QuantizedCache(backend='hqq', nbits=2, q_group_size=32)");
  const auto& stage = std::get<kv::Quantize>(setting.compression.stages.at(0));
  EXPECT_EQ(stage.k_format, "int2");
  EXPECT_EQ(stage.group, 32);
  EXPECT_EQ(stage.residual, 128);
  EXPECT_EQ(stage.residual_start, kv::kFromPrompt);
}

// quanto takes axis 0 (channels of a token) and -1 (tokens of a channel), HQQ 1 (channels of a token) and 0.
TEST(ImportHuggingFace, AxisIsTheBackendsOwn) {
  const auto axes = [](const std::string& arguments) {
    const Setting setting = setting_of("past_key_values = QuantizedCache(nbits=4, q_group_size=32, " + arguments + ")");
    const auto& stage = std::get<kv::Quantize>(setting.compression.stages.at(0));
    return std::pair(stage.k_axis, stage.v_axis);
  };
  constexpr auto kToken = kv::GroupAxis::token;
  constexpr auto kChannel = kv::GroupAxis::channel;
  EXPECT_EQ(axes("backend='quanto', axis_key=0, axis_value=0"), std::pair(kToken, kToken));
  EXPECT_EQ(axes("backend='quanto', axis_key=-1, axis_value=0"), std::pair(kChannel, kToken));
  EXPECT_EQ(axes("axis_key=-1, axis_value=-1"), std::pair(kChannel, kChannel));
  EXPECT_EQ(axes("backend='hqq', axis_key=1, axis_value=1"), std::pair(kToken, kToken));
  EXPECT_EQ(axes("backend='hqq', axis_key=0, axis_value=1"), std::pair(kChannel, kToken));
  EXPECT_EQ(axes("axis_key=1, axis_value=1"), std::pair(kToken, kToken));
  EXPECT_THAT(error_of("QuantizedCache(backend='quanto', axis_key=1)"), HasSubstr("0 or -1 for quanto"));
  EXPECT_THAT(error_of("QuantizedCache(backend='hqq', axis_key=-1)"), HasSubstr("0 or 1 for HQQ"));
}

TEST(ImportLmcache, ChunksLoseNothing) {
  const Imported result = imported("chunk_size: 256\nlocal_cpu: true\nmax_local_cpu_size: 5\n");
  EXPECT_THAT(result.loses, IsEmpty());
  EXPECT_THAT(imported("chunk_size: 256\nremote_url: x\nremote_serde: cachegen\n").loses,
              Contains(HasSubstr("entropy coded")));
}

// Field case Q1: removing 50 % twice keeps 25 %; 30 % then 40 % keeps 42 %.
TEST(ImportKvpress, RatiosRemovedBecomeRatiosKept) {
  EXPECT_THAT(imported("kvpress: KnormPress(compression_ratio=0.3)").loses, Contains(HasSubstr("keep_ratio 0.7")));
  EXPECT_THAT(imported("from kvpress import *\nComposedPress([KnormPress(compression_ratio=0.5), "
                       "SnapKVPress(compression_ratio=0.5)])")
                  .compression,
              HasSubstr("keep_ratio: 0.25"));
  EXPECT_THAT(imported("from kvpress import *\nComposedPress([KnormPress(compression_ratio=0.3), "
                       "SnapKVPress(compression_ratio=0.4)])")
                  .compression,
              HasSubstr("keep_ratio: 0.42"));
  EXPECT_THAT(error_of("kvpress: KnormPress(compression_ratio=1.0)"), HasSubstr("[0, 1)"));
}

// kvpress 0.5.5: ChunkKVPress(press, chunk_length=20), ChunkPress(press, chunk_length=1024), BlockPress(press, block_size=128) and
// AdaKVPress(press) hold the press that scores; compression_ratio is the first argument of a press with scores.
TEST(ImportKvpress, APressAroundAnotherIsKept) {
  const auto compression = [](const std::string& press) {
    return imported("from kvpress import *\npress = " + press).compression;
  };
  EXPECT_EQ(compression("ChunkKVPress(press=SnapKVPress(compression_ratio=0.5), chunk_length=32)"),
            "{preset: chunkkv, block_size: 32, keep_ratio: 0.5}");
  EXPECT_EQ(compression("ChunkKVPress(\n    SnapKVPress(0.25),\n)"), "{preset: chunkkv, keep_ratio: 0.75}");
  EXPECT_EQ(compression("BlockPress(KeyDiffPress(0.5), block_size=64)"),
            "{preset: blockpress, block_size: 64, keep_ratio: 0.5}");
  EXPECT_EQ(compression("AdaKVPress(SnapKVPress(0.5))"), "{preset: adakv, keep_ratio: 0.5}");
  EXPECT_EQ(compression("KeyRerotationPress(press=KnormPress(0.5))"),
            "{preset: knorm, positions: {kind: contiguous}, keep_ratio: 0.5}");
  EXPECT_EQ(compression("SnapKVPress(0.5)"), "{preset: snapkv, keep_ratio: 0.5}");

  const Setting chunks = setting_of("kvpress ChunkKVPress(press=KnormPress(compression_ratio=0.3), chunk_length=16)");
  const auto* evict = std::get_if<kv::Evict>(&chunks.compression.stages.at(0));
  ASSERT_NE(evict, nullptr);
  EXPECT_EQ(chunks.compression.block_size, 16);
  EXPECT_EQ(evict->scorer, "knorm");
  EXPECT_EQ(evict->granularity, kv::Granularity::block);
  EXPECT_EQ(evict->keep, 700000);
}

TEST(ImportKvpress, NamesOfItsEvaluationHoldAPress) {
  EXPECT_EQ(imported("press_name: adakv_expected_attention\ncompression_ratio: 0.5\n").compression,
            imported("kvpress AdaKVPress(ExpectedAttentionPress(0.5))").compression);
  EXPECT_EQ(imported("press_name: block_keydiff\ncompression_ratio: 0.25\n").compression,
            "{preset: blockpress, keep_ratio: 0.75}");
}

TEST(ImportKvpress, WhatHasNoCounterpartIsNamed) {
  EXPECT_THAT(imported("kvpress StreamingLLMPress(0.5, n_sink=8)").left_out, Contains(HasSubstr("n_sink=8")));
  EXPECT_THAT(imported("kvpress DecodingPress(KnormPress(0.5))").left_out, Contains(HasSubstr("\"decoding\"")));
  EXPECT_THAT(imported("kvpress DMSPress(threshold=-3)").left_out, Contains(HasSubstr("no preset is press \"dms\"")));
}

// Field case Q2: kvpress keeps int(n (1 - 0.9)) = 0 of 10; here 10 % of 10 is 1.
TEST(ImportKvpress, NinetyPercentRemovedKeepsOneOfTen) {
  const Setting setting = setting_of("kvpress model='llama-3.1-8b' KnormPress(compression_ratio=0.9)");
  const auto* evict = std::get_if<kv::Evict>(&setting.compression.stages.at(0));
  ASSERT_NE(evict, nullptr);
  EXPECT_EQ(evict->keep, 100000);
}

TEST(Import, NothingRecognisedListsTheStacks) {
  EXPECT_THAT(error_of("make -j8 all"), HasSubstr("llama.cpp"));
}

// What this command writes, or a plan, is no serving stack's, whatever names stand in it.
TEST(Import, OwnFilesAreRefused) {
  const Imported result = imported("vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8");
  EXPECT_THAT(error_of(experiment_yaml(result, {})), HasSubstr("already"));
  EXPECT_THAT(error_of("model: m\nengine: {kind: vllm}\nplan: {gpus: [l4]}\n"), HasSubstr("already"));
}

TEST(Import, HostileTextEndsInAMessageOrAResult) {
  for (const std::string& text :
       {std::string("vllm '"), std::string("vllm {'a': '"), std::string("vllm \\"), std::string("vllm --block-size"),
        std::string("{{{{ vllm"), "kvpress " + repeated("APress(", 20000), "vllm " + std::string(100000, '['),
        std::string("vllm a=\"")}) {
    try {
      (void)imported(text);
    } catch (const Error&) {
    }
  }
  EXPECT_THAT(error_of("vllm --block-size 99999999999999999999"), HasSubstr("block_size"));
}

TEST(Import, TypesOfTheModelAndUsualSwitchesAreRead) {
  for (const char* stack : {"vllm serve M --dtype ", "sglang -> --dtype "}) {
    EXPECT_THAT(imported(std::string(stack) + "bfloat16").not_understood, IsEmpty()) << stack;
    EXPECT_THAT(imported(std::string(stack) + "bfloat16").left_out, IsEmpty()) << stack;
    EXPECT_THAT(imported(std::string(stack) + "float32").left_out, Contains(HasSubstr("twice the bytes"))) << stack;
  }
  const Imported llama = imported("llama-server -m m.gguf -c 4096 -fa -ngl 99");
  EXPECT_THAT(llama.not_understood, IsEmpty());
  EXPECT_THAT(llama.left_out, Contains(HasSubstr("layers on the GPU")));
}

// vllm's human_readable_int(): '1k' -> 1,000, '1K' -> 1,024, '25.6k' -> 25,600. 2^50 = 1024^5 is the most: 1,024 T.
TEST(WholeNumber, TakesCommasAndOneUnit) {
  EXPECT_EQ(whole_number("131,072"), 131072);
  EXPECT_EQ(whole_number("8k"), 8000);
  EXPECT_EQ(whole_number("8K"), 8192);
  EXPECT_EQ(whole_number("25.6k"), 25600);
  EXPECT_EQ(whole_number("0.0015k"), 1);  // int(1.5)
  EXPECT_EQ(whole_number("1m"), 1000000);
  EXPECT_EQ(whole_number("2M"), 2097152);
  EXPECT_EQ(whole_number("8g"), 8000000000);
  EXPECT_EQ(whole_number("1t"), 1000000000000);
  EXPECT_EQ(whole_number("1024T"), std::int64_t{1} << 50);
  for (const char* wrong : {"", "k", "8kk", "8km", "8p", ",8", ".5k", "5.k", "1.5.5k", "25.6K", "25.6", "1025T"})
    EXPECT_FALSE(whole_number(wrong)) << wrong;
}

TEST(ImportVllm, SuffixesOfTheContext) {
  EXPECT_EQ(imported("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 32k").context_tokens, 32000);
  EXPECT_EQ(imported("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 32K").context_tokens, 32768);
}

}  // namespace
}  // namespace kvtide::experiment
