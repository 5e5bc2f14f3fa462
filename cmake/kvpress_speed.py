"""Processor seconds that kvpress needs to score, select and gather 30 layers of 2,048 tokens, one thread.

    python kvpress_speed.py TRACE.h5 COMPANION.h5 [--repeats N] [--press NAME ...]

Prints {"kvpress": version, "seconds": {press: CPU seconds}}. Keys, values and queries are the recorded ones (four layers
in turn, to make 30); the hidden states are the queries themselves and q_proj is the identity, so that a press's own
projection costs what it costs. Needs kvpress 0.5.5, torch and transformers (a virtual environment of its own).
"""

import argparse
import json
import time
from importlib import metadata

import h5py
import numpy as np
import torch
import kvpress
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

LAYERS = 30
RATIO = 0.5


def presses():
    """By the names of the reference file."""
    snapkv = lambda: kvpress.SnapKVPress(RATIO)  # noqa: E731
    knorm = lambda: kvpress.KnormPress(RATIO)  # noqa: E731
    keydiff = lambda: kvpress.KeyDiffPress(RATIO)  # noqa: E731
    made = {
        "Random_seed0": lambda: kvpress.RandomPress(RATIO, seed=0),
        "Knorm": knorm,
        "SnapKV": snapkv,
        "StreamingLLM": lambda: kvpress.StreamingLLMPress(RATIO),
        "TOVA": lambda: kvpress.TOVAPress(RATIO),
        "KeyDiff": keydiff,
        "PyramidKV": lambda: kvpress.PyramidKVPress(RATIO),
        "NonCausalAttn": lambda: named("NonCausalAttnPress")(RATIO),
        "LeverageScore": lambda: named("LeverageScorePress")(RATIO),
        "Compactor": lambda: kvpress.CompactorPress(RATIO),
        "Cap": lambda: named("CapPress")(RATIO),
        "CriticalKV_SnapKV": lambda: kvpress.CriticalKVPress(snapkv()),
        "AdaKV_SnapKV": lambda: kvpress.AdaKVPress(snapkv()),
        "AdaKV_Knorm": lambda: kvpress.AdaKVPress(knorm()),
        "CriticalAdaKV_SnapKV": lambda: kvpress.CriticalAdaKVPress(snapkv()),
        "ChunkKV20_SnapKV": lambda: kvpress.ChunkKVPress(snapkv(), chunk_length=20),
        "ChunkKV20_Knorm": lambda: kvpress.ChunkKVPress(knorm(), chunk_length=20),
        "ChunkKV64_SnapKV": lambda: kvpress.ChunkKVPress(snapkv(), chunk_length=64),
        "ChunkKV128_SnapKV": lambda: kvpress.ChunkKVPress(snapkv(), chunk_length=128),
        "EntropyGatedChunkKV10_SnapKV": lambda: named("EntropyGatedChunkKVPress")(snapkv()),
        "Chunk256_Knorm": lambda: kvpress.ChunkPress(knorm(), chunk_length=256),
        "Block128_KeyDiff": lambda: kvpress.BlockPress(keydiff(), block_size=128),
        "Block64_Knorm": lambda: kvpress.BlockPress(knorm(), block_size=64),
        "Block64_KeyDiff": lambda: kvpress.BlockPress(keydiff(), block_size=64),
        "SimLayerKV": lambda: kvpress.SimLayerKVPress(lazy_threshold=RATIO),
        "LagKV": lambda: kvpress.LagKVPress(RATIO),
        "CUR": lambda: named("CURPress")(RATIO),
        "ExpectedAttention": lambda: kvpress.ExpectedAttentionPress(RATIO),
    }
    return made


def named(name):
    """A press that not every version exports at the top."""
    if hasattr(kvpress, name):
        return getattr(kvpress, name)
    import importlib
    import pkgutil
    for module in pkgutil.iter_modules(kvpress.presses.__path__):
        found = importlib.import_module(f"kvpress.presses.{module.name}")
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(name)


def load(trace_path, companion_path):
    """The recorded layers, each as (attention module, hidden states, keys after RoPE, values, cos, sin)."""
    trace, companion = h5py.File(trace_path), h5py.File(companion_path)
    attributes = trace.attrs
    heads, kv_heads, head_dim = (int(attributes[name]) for name in ("n_q_heads", "n_kv_heads", "head_dim"))
    config = LlamaConfig(hidden_size=heads * head_dim, num_attention_heads=heads, num_key_value_heads=kv_heads,
                         head_dim=head_dim, num_hidden_layers=LAYERS, max_position_embeddings=8192,
                         rope_theta=float(attributes["rope_theta"]), attn_implementation="sdpa")
    layers = []
    for number in trace["layers"][:]:
        group = f"layer_{number:02d}"
        source = trace if "q_pre_all" in trace[group] else companion
        tensor = lambda array: torch.from_numpy(array[:].astype(np.float32))  # noqa: E731
        queries = tensor(source[group]["q_pre_all"])
        module = LlamaAttention(config, layer_idx=int(number))
        module.rotary_emb = LlamaRotaryEmbedding(config)
        module.q_proj.weight.data = torch.eye(heads * head_dim)
        module.o_proj.weight.data = tensor(companion[group]["w_o"])
        hidden = queries.transpose(0, 1).reshape(1, queries.shape[1], -1).contiguous()
        cos, sin = module.rotary_emb(hidden, torch.arange(hidden.shape[1])[None])
        keys = tensor(trace[group]["k_pre"])[None]
        half = torch.cat((-keys[..., head_dim // 2:], keys[..., :head_dim // 2]), dim=-1)
        layers.append((module, hidden, keys * cos[:, None] + half * sin[:, None], tensor(trace[group]["v"])[None], cos, sin))
    return layers


def seconds(press, layers):
    began = time.process_time()
    for index in range(LAYERS):
        module, hidden, keys, values, cos, sin = layers[index % len(layers)]
        press.compress(module, hidden, keys, values, None,
                       {"hidden_states": hidden, "position_embeddings": (cos, sin)})
    return time.process_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("companion")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--press", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = load(arguments.trace, arguments.companion)
    result, failed = {}, {}
    with torch.no_grad():
        for name, make in presses().items():
            if arguments.press and name not in arguments.press:
                continue
            try:
                result[name] = min(seconds(make(), layers) for _ in range(arguments.repeats))
            except Exception as error:  # one press that does not run must not hide the others
                failed[name] = f"{type(error).__name__}: {error}"
    print(json.dumps({"kvpress": metadata.version("kvpress"), "torch": torch.__version__, "seconds": result,
                      "failed": failed}, indent=1))


if __name__ == "__main__":
    main()
