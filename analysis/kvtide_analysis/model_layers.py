"""What a Hugging Face config says about its layers, one by one: the base that RoPE turns them by, and how far back they see."""

from __future__ import annotations


from .prompts import PromptError


class LayerError(PromptError):
    """Layers that a trace or a compressed cache cannot stand for."""


# RoPE turns channels 2i and 2i + 1 together; a trace has i and i + d/2 as a pair.
INTERLEAVED = ("cohere", "ernie4_5", "glm", "helium", "llama4")  # how model_type begins


def layer_types(config) -> list[str]:
    """[layer] Configs from before layer_types have sliding_window for all layers (Mistral 7B 0.1), Qwen2 use_sliding_window beside it."""
    types = getattr(config, "layer_types", None)
    slides = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return list(types or ["sliding_attention" if slides else "full_attention"] * config.num_hidden_layers)


def require_plain_scores(config) -> None:
    """@raise LayerError  where scores are more than scaled products of queries and keys"""
    cap = getattr(config, "attn_logit_softcapping", None)
    if cap:
        raise LayerError(f"attn_logit_softcapping {cap:g}: a trace holds queries and keys whose scaled products are the scores")


def require_halved_pairs(config) -> None:
    """@raise LayerError  where RoPE turns neighbouring channels together"""
    model_type = getattr(config, "model_type", "")
    if model_type.startswith(INTERLEAVED):
        raise LayerError(f"{model_type} turns channels 2i and 2i + 1 together, where pairs i and i + d/2 are needed")


def has_rope(config) -> list[bool]:
    """[layer] SmolLM3's no_rope_layers is 0 where a layer has no RoPE, EXAONE 4's full layers have none beside sliding ones."""
    by_layer = getattr(config, "no_rope_layers", None) or [1] * config.num_hidden_layers
    full_has_none = getattr(config, "model_type", "") == "exaone4" and getattr(config, "sliding_window", None)
    return [bool(has) and not (full_has_none and "full" in kind) for has, kind in zip(by_layer, layer_types(config))]


def rope_bases(config) -> list[float]:
    """[layer] theta, 0 where keys are not turned. Newer configs hold rope_parameters, flat or one for each type of layer; older ones
    rope_theta and rope_scaling."""
    require_halved_pairs(config)
    parameters = getattr(config, "rope_parameters", None) or {}
    common = getattr(config, "rope_theta", None)
    scaling = getattr(config, "rope_scaling", None) or {}
    bases = []
    for has, kind in zip(has_rope(config), layer_types(config)):
        if not has:
            bases.append(0.0)
            continue
        own = parameters.get(kind, parameters) or {}
        way = own.get("rope_type") or scaling.get("rope_type") or scaling.get("type") or "default"
        if way != "default":
            raise LayerError(f"rope_type {way}: a trace holds keys turned by position * theta^(-2i/d) and nothing else")
        if float(own.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None) or 1) != 1:
            raise LayerError("partial_rotary_factor: a trace holds keys of which every channel is turned")
        theta = own.get("rope_theta") or common
        if not theta:
            raise LayerError("no rope_theta: a trace holds keys that RoPE turns, and no positions coded in another way")
        bases.append(float(theta))
    return bases


def require_within_window(config, tokens: int) -> None:
    """@raise LayerError  where a sliding-window layer no longer sees the first of `tokens` tokens: it is gone there, not compressed"""
    if any("full" not in kind for kind in layer_types(config)):
        window = int(getattr(config, "sliding_window", None) or 0)
        if tokens > window:
            raise LayerError(f"{tokens} tokens: the model has layers that see the last {window} only, and what leaves them is gone, not "
                             "compressed")
