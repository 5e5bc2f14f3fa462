#include "model/harmless_keys.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace kvtide {
namespace {

/// A key with one of these in its name may change the cache or the weights, unless it is listed below.
constexpr std::string_view kSuspicious[] = {
    "attention",   "attn",    "block",  "cache",   "channel",  "chunk",       "compress", "conv",   "dim",
    "expert",      "ffn",     "full_",  "group",   "head",     "hidden_size", "hybrid",   "index",  "intermediate",
    "kv",          "latent",  "layer",  "linear",  "lora",     "mamba",       "mlp",      "moe",    "mtp",
    "multi_query", "n_",      "num_",   "pattern", "position", "rank",        "rope",     "rotary", "share",
    "size",        "sliding", "sparse", "ssm",     "state",    "type",        "width",    "window"};

/// Read by the classes' code, without effect on bytes or weight counts (or on weights of classes that are not counted).
constexpr std::string_view kHarmless[] = {
    // attention arithmetic
    "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "attn_logit_softcapping", "attention_multiplier",
    "attention_value_scale", "attn_output_gate", "attention_output_gate", "attn_res_block_size",
    "attn_temperature_tuning", "attn_scale", "floor_scale", "query_pre_attn_scalar", "output_gate_type",
    "activation_situ_linear_beta", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn",
    "qk_layernorm", "qk_head_dim", "use_qk_norm", "qk_norm_type", "clip_qkv", "attn_implementation",
    "_attn_implementation", "_attn_implementation_autoset", "use_bidirectional_attention",
    "add_swa_attention_sink_bias", "add_full_attention_sink_bias", "mla_use_output_gate", "swa_num_attention_heads",
    "attention_bias", "attention_out_bias", "attention_k_eq_v", "add_cross_attention", "cross_attention_hidden_size",
    "output_attentions", "output_hidden_states", "pruned_heads", "is_encoder_decoder", "num_logits_to_keep",
    "use_cache", "apply_residual_connection_post_layernorm", "parallel_attn", "full_attn_mod", "lm_head_bias",
    "is_causal",
    // positions
    "rope_interleave", "rope_interleaved", "indexer_rope_interleave", "use_mrope", "initial_context_length",
    "model_max_length", "compress_rope_theta", "max_position_embeddings", "max_sequence_length", "n_ctx",
    "no_rope_layers", "no_rope_layer_interval", "max_window_layers", "original_max_position_embeddings",
    "mrope_section", "alibi_bias_max", "_sliding_window_pattern", "sliding_window_pattern", "full_attention_interval",
    // norms and activations
    "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "hidden_act", "hidden_activation",
    "activation_function", "mlp_hidden_act", "hidden_dropout", "hidden_dropout_prob", "summary_type",
    "rescale_prenorm_residual", "residual_in_fp32", "hidden_dropout_rate", "mup_width_multiplier",
    // routing
    "router_aux_loss_coef", "router_jitter_noise", "output_router_logits", "norm_topk_prob", "n_group", "topk_group",
    "num_expert_group", "use_grouped_topk", "routed_scaling_factor", "moe_router_dtype", "moe_renormalize",
    "moe_router_activation_func", "moe_router_scaling_factor", "use_moe_router_bias", "use_routing_bias",
    "moe_shared_expert_overlap", "latent_moe_use_norm", "expert_dtype", "num_hash_layers", "ep_size",
    "routed_expert_hidden_size", "moe_latent_size", "shared_moe_mode", "layernorm_full_attention_beta",
    "layernorm_full_attention_alpha", "layernorm_linear_attention_alpha", "layernorm_linear_attention_beta",
    "layernorm_mlp_alpha", "layernorm_mlp_beta", "num_reward_heads", "enable_moe_block", "expert_intermediate_size",
    "shared_intermediate_size", "moe_shared_expert_intermediate_size", "mlp_bias",
    // sparse selection: what is read, not what is stored
    "index_n_heads", "index_topk", "index_topk_freq", "index_topk_pattern", "index_skip_topk_offset",
    "index_share_for_mtp_iteration",
    // state-space layers: a constant state per sequence, not counted
    "chunk_size", "conv_kernel", "conv_bias", "conv_dim", "conv_dim_out", "conv_L_cache", "conv_use_xavier_init",
    "mamba_head_dim", "mamba_num_heads", "mamba_hidden_act", "mamba_proj_bias", "mamba_ssm_cache_dtype",
    "mamba_ssm_dtype", "mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_d_head",
    "mamba_d_ssm", "mamba_expand", "mamba_chunk_size", "mamba_conv_bias", "mamba_dt_rank", "mamba_norm_before_gate",
    "mamba_rms_norm", "n_groups", "ssm_state_size", "time_step_rank", "use_mamba_kernels", "ssm_multipliers",
    "ssm_in_multiplier", "ssm_out_multiplier", "linear_conv_kernel_dim", "linear_key_head_dim", "linear_num_key_heads",
    "linear_num_value_heads", "linear_value_head_dim", "time_step_limit", "use_conv_bias",
    // per-layer inputs, hyper-connections, low-rank outputs: weights of classes that are not counted
    "hidden_size_per_layer_input", "vocab_size_per_layer_input", "use_double_wide_mlp", "o_groups", "o_lora_rank",
    "altup_num_inputs", "laurel_rank", "activation_sparsity_pattern", "intermediate_size_mlp", "moe_layers",
    "dense_intermediate_size", "embedding_multiplier",
    // prediction layers
    "mtp_use_dedicated_embeddings", "mtp_hybrid_override_pattern", "mtp_layers_block_type", "mtp_transformer_layers",
    "use_mtp", "num_mtp_modules", "mtp_num_hidden_layers", "num_nextn_predict_layers",
    // training, generation, bookkeeping
    "auxiliary_loss_alpha", "num_beams", "num_beam_groups", "num_return_sequences", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "chunk_size_feed_forward", "length_penalty", "pretraining_tp", "slow_but_exact",
    "tokenizer_class", "torch_dtype", "dtype", "model_type", "problem_type", "task_specific_params",
    "transformers_version", "use_unified_vision_chunk", "unk_token_id", "type_vocab_size", "id2label", "label2id",
    "vision_config", "audio_config", "image_size", "initializer_range"};

bool is_suspicious(std::string_view key) {
  return std::ranges::any_of(kSuspicious, [key](std::string_view part) {
    // "n_" and "num_" start a count ("n_layer"); elsewhere they are chance ("en_").
    return part == "n_" || part == "num_" ? key.starts_with(part) : key.find(part) != std::string_view::npos;
  });
}

}  // namespace

void accept_harmless_keys(const config::Value& text) {
  for (const std::string& key : text.keys()) {
    const bool is_listed = std::ranges::find(kHarmless, key) != std::end(kHarmless);
    if (is_listed || !is_suspicious(key)) text.at(key).accept_all();
  }
}

}  // namespace kvtide
