"""What a Hugging Face config says about its layers, one by one: the base that RoPE turns them by, and how far back they see."""

from __future__ import annotations


from .prompts import PromptError


class LayerError(PromptError):
    """Layers that a trace or a compressed cache cannot stand for."""


def layer_types(config) -> list[str]:
    return list(getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers)


def rope_bases(config) -> list[float]:
    """[layer] theta. Newer configs hold rope_parameters, flat or one for each type of layer; older ones rope_theta and rope_scaling."""
    parameters = getattr(config, "rope_parameters", None) or {}
    common = float(getattr(config, "rope_theta", None) or 10000.0)
    scaling = getattr(config, "rope_scaling", None) or {}
    bases = []
    for kind in layer_types(config):
        own = parameters.get(kind, parameters) or {}
        way = own.get("rope_type") or scaling.get("rope_type") or scaling.get("type") or "default"
        if way != "default":
            raise LayerError(f"rope_type {way}: a trace holds keys turned by position * theta^(-2i/d) and nothing else")
        if float(own.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None) or 1) != 1:
            raise LayerError("partial_rotary_factor: a trace holds keys of which every channel is turned")
        bases.append(float(own.get("rope_theta") or common))
    return bases


def require_within_window(config, tokens: int) -> None:
    """@raise LayerError  where a sliding-window layer no longer sees the first of `tokens` tokens: it is gone there, not compressed"""
    if any("full" not in kind for kind in layer_types(config)):
        window = int(getattr(config, "sliding_window", None) or 0)
        if tokens > window:
            raise LayerError(f"{tokens} tokens: the model has layers that see the last {window} only, and what leaves them is gone, not compressed")
