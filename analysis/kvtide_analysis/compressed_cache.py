"""A Hugging Face cache under a compression setting: what a real model then answers is the truth that predictions are held against.

Keys and values lie as the model left them, after RoPE. Per layer: k, v [1, kv_head, token, channel]; block scores from attention mass
[kv_head, token] that the last 64 queries paid, summed over the queries and over the heads of a group.

evict         blocks of `block` tokens (token t lies in block (t + grid_offset) // block) ranked by their summed mass; the block of token 0
              and every block that touches the last 64 tokens stay; blocks kept = max(n - floor(n * ratio), those). Evicted keys
              leave the cache.
pool_postrope, pool_prerope   each group of `block` tokens replaced in place by its mean (keys after RoPE, or before it and turned to the
              group's centre); the first 4, rounded up to a group, and the last 64 stay exact.
int2, int4    asymmetric min/max: keys by block and channel, values by token; nothing stays exact.

Example: 200 tokens in blocks of 64 make 4 blocks, ratio 0.5 keeps 2; blocks 0, 2 (it touches token 136) and 3 must stay, so 3 do.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np

WINDOW = 64
SINKS = 4


@dataclasses.dataclass(frozen=True)
class Setting:
    policy: str = "evict"
    block: int = 64
    ratio: float = 0.5  # removed
    mode: str = "aware"  # aware: the question but its last token is compressed too; agnostic: the context only
    heads: str = "head"  # head: each KV head chooses its own blocks; shared: a layer chooses once
    grid_offset: int = 0

    @property
    def label(self) -> str:
        words = [self.mode, self.policy] + ([] if self.policy == "none" else [str(self.block)])
        return "-".join(words + ([f"{self.ratio:g}", self.heads] if self.policy == "evict" else []))


def kept_tokens(mass: np.ndarray, setting: Setting) -> np.ndarray:
    """[kv_head, kept token] ascending; equally many in every head, since only the last block is short and it always stays."""
    heads, tokens = mass.shape
    block_of = (np.arange(tokens) + setting.grid_offset) // setting.block
    blocks = int(block_of[-1]) + 1
    scores = np.zeros((heads, blocks))
    np.add.at(scores, (slice(None), block_of), mass)
    if setting.heads == "shared":
        scores[:] = scores.sum(0)
    forced = sorted({0} | set(range(int(block_of[max(0, tokens - WINDOW)]), blocks)))
    removed = int(Fraction(str(setting.ratio)) * blocks)
    count = max(blocks - removed, len(forced))
    scores[:, forced] = np.inf
    chosen = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    kept = []
    for row in chosen:
        is_kept = np.zeros(blocks, bool)
        is_kept[row] = True
        kept.append(np.nonzero(is_kept[block_of])[0])
    # Where the first block is short and no head may drop it, counts agree as well.
    return np.stack(kept)


def quantized(values, levels: int, axis: int):
    """Asymmetric min/max over `axis`, back in floats."""
    low, high = values.amin(axis, keepdim=True), values.amax(axis, keepdim=True)
    step = ((high - low) / (levels - 1)).clamp_min(1e-12)
    return ((values - low) / step).round() * step + low


def turned(keys, angles, sign: float):
    """Rotate-half RoPE of the first channels by `angles` [token, turned channel] (cos, sin); sign -1 undoes it."""
    import torch

    cos, sin = angles
    count, half = cos.shape[-1], cos.shape[-1] // 2
    part = keys[..., :count]
    part = part * cos + torch.cat([-part[..., half:], part[..., :half]], -1) * (sign * sin)
    return torch.cat([part, keys[..., count:]], -1)


def compress(keys, values, mass: np.ndarray, setting: Setting, angles_at):
    """One layer. @param angles_at  positions [token] (may be fractional) -> (cos, sin), for pooling before RoPE."""
    import torch

    tokens = keys.shape[2]
    if setting.policy == "none":
        return keys, values
    if setting.policy == "evict":
        index = torch.from_numpy(kept_tokens(mass, setting))[None, :, :, None].expand(-1, -1, -1, keys.shape[-1])
        return keys.gather(2, index), values.gather(2, index)
    keys, values = keys.clone(), values.clone()
    edges = [0, *range(setting.block - setting.grid_offset % setting.block, tokens, setting.block), tokens]
    groups = list(zip(edges, edges[1:]))
    if setting.policy in ("int2", "int4"):
        levels = 2 ** int(setting.policy[3:])
        for begin, end in groups:
            keys[:, :, begin:end] = quantized(keys[:, :, begin:end], levels, 2)
        return keys, quantized(values, levels, 3)
    for begin, end in groups:
        if begin < SINKS or end > tokens - WINDOW:
            continue
        group = keys[:, :, begin:end]
        if setting.policy == "pool_postrope":
            keys[:, :, begin:end] = group.mean(2, keepdim=True)
        else:
            plain = turned(group, angles_at(np.arange(begin, end)), -1).mean(2, keepdim=True)
            keys[:, :, begin:end] = turned(plain, angles_at(np.array([(begin + end - 1) / 2])), 1)
        values[:, :, begin:end] = values[:, :, begin:end].mean(2, keepdim=True)
    return keys, values
