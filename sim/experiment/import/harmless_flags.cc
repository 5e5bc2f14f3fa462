#include "experiment/import/harmless_flags.h"

#include <algorithm>

namespace kvtide::experiment {
namespace {

constexpr std::string_view kHarmless[] = {
    // where it listens, who may ask
    "host", "port", "uds", "api_key", "api_key_file", "api_server_count", "root_path", "allowed_origins",
    "allowed_methods", "allowed_headers", "allow_credentials", "ssl_keyfile", "ssl_certfile", "ssl_key_file",
    "ssl_cert_file", "ssl_ca_certs", "middleware", "fastapi_root_path", "timeout_keep_alive", "timeout", "nccl_port",
    "dist_init_addr", "master_addr", "master_port", "no_webui", "metrics", "slots", "props",
    // names and files of the checkpoint
    "served_model_name", "alias", "a", "trust_remote_code", "revision", "code_revision", "tokenizer_revision",
    "tokenizer", "tokenizer_path", "tokenizer_mode", "skip_tokenizer_init", "hf_token", "hf_file", "hff",
    "hf_config_path", "download_dir", "load_format", "safetensors_load_strategy", "config_format", "generation_config",
    // text in and out
    "chat_template", "chat_template_content_format", "response_role", "enable_auto_tool_choice", "tool_call_parser",
    "reasoning_parser", "enable_reasoning", "jinja", "reasoning_format", "max_logprobs", "return_tokens_as_token_ids",
    "override_generation_config", "temp", "temperature", "top_k", "top_p", "min_p", "repeat_penalty", "prompt", "p",
    "n_predict", "n", "seed", "s", "random_seed", "stream_interval",
    // logs
    "log_level", "log_level_http", "log_file", "uvicorn_log_level", "disable_log_requests", "disable_log_stats",
    "enable_log_requests", "no_enable_log_requests", "max_log_len", "log_requests", "enable_metrics", "show_time_cost",
    "disable_uvicorn_access_log", "disable_fastapi_docs", "otlp_traces_endpoint", "collect_detailed_traces",
    "enable_server_load_tracking", "log_verbosity", "lv", "verbose", "v", "verbose_prompt", "no_perf",
    "enable_cache_report", "decode_log_interval", "collect_tokens_histogram", "enable_prompt_tokens_details",
    // how processes start
    "m", "distributed_executor_backend", "worker_use_ray", "watchdog_timeout", "disable_frontend_multiprocessing",
    "backend", "no_warmup", "no_mmap", "mlock", "gpus", "rm", "it", "i", "t", "d", "e", "env", "name", "network", "ipc",
    "shm_size", "volume", "runtime", "restart", "ulimit", "entrypoint", "privileged", "pull", "env_file", "u", "f",
    "since", "no_pager"};

}  // namespace

bool is_harmless_flag(std::string_view key) {
  return std::ranges::find(kHarmless, key) != std::end(kHarmless);
}

}  // namespace kvtide::experiment
