"""What a real model answers when its cache is compressed: one prefill a prompt, then the answer under each setting.

Two figures a token of the answer: teacher-forced (every earlier token given) and free-running (the model goes on from its own token), so
that an estimate of how a first wrong token spreads can be held against both.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from .compressed_cache import WINDOW, Setting, compress
from .model_layers import LayerError, has_rope, layer_types, require_halved_pairs, require_within_window
from .prompts import Prompt, PromptError


@dataclasses.dataclass(frozen=True)
class Answer:
    logp: np.ndarray  # [answer token] teacher-forced
    is_best: np.ndarray  # [answer token] teacher-forced: no other token is more likely
    right_tokens: int  # free-running: tokens before the first wrong one
    free: tuple[int, ...]  # free-running tokens

    @property
    def is_exact(self) -> bool:
        return self.right_tokens == len(self.logp)


def _keep(cache, entries: int) -> None:
    """Removes what is behind the first `entries` of a cache; transformers 5 takes only a count to remove."""
    removed = cache.get_seq_length() - entries
    if removed > 0:
        cache.crop(-removed)


class ModelScan:
    """@param model  a Hugging Face causal LM loaded with attn_implementation="eager": block scores need attention weights."""

    def __init__(self, model):
        import torch

        self.model, self.torch = model, torch
        self.config = config = model.config.get_text_config()
        self.groups = config.num_attention_heads // config.num_key_value_heads
        self.kv_heads = config.num_key_value_heads
        self._ids = np.zeros(0, np.int64)
        self._cache = None
        self.prompt: Prompt | None = None

    def _new_cache(self, layers):
        from transformers import DynamicCache

        cache = DynamicCache()
        for index, (keys, values) in enumerate(layers):
            cache.update(keys, values, index)
        return cache

    def _forward(self, ids, cache, position: int, held: int, with_attention: bool = False):
        """@param position  of the first id in the text; @param held  entries of the cache"""
        torch = self.torch
        count = len(ids)
        with torch.no_grad():
            return self.model(input_ids=torch.from_numpy(np.asarray(ids, dtype=np.int64))[None], past_key_values=cache, use_cache=True,
                              position_ids=torch.arange(position, position + count)[None], cache_position=torch.arange(held, held + count),
                              output_attentions=with_attention)

    def require(self, prompt: Prompt) -> None:
        """@raise PromptError  where the prompt is too short for block scores or leaves the model's window"""
        context = len(prompt.context)
        require_within_window(self.config, context + len(prompt.question) + len(prompt.answer) - 1)
        if context < WINDOW + 1:
            raise PromptError(f"{prompt.name}: a context of {context} tokens; at least {WINDOW + 1} are needed")

    def require_setting(self, setting: Setting) -> None:
        """@raise PromptError  where keys cannot be turned back, which pooling before RoPE needs"""
        if setting.policy == "pool_prerope":
            require_halved_pairs(self.config)
            if not hasattr(self.model.get_decoder(), "rotary_emb"):
                raise LayerError("pool_prerope: the model has no rotary embedding that turns keys of all layers")

    def load(self, prompt: Prompt) -> None:
        """Prefills context and question but its last token; the part that equals the last prompt's is not run again."""
        self.require(prompt)
        context = len(prompt.context)
        ids = np.concatenate([prompt.context, prompt.question[:-1]]).astype(np.int64)
        first = context - WINDOW
        shared = 0
        if self._cache is not None:
            limit = min(len(self._ids), first)
            differ = np.nonzero(self._ids[:limit] != ids[:limit])[0]
            shared = int(differ[0]) if len(differ) else limit
        if shared:
            _keep(self._cache, shared)
        else:
            self._cache = self._new_cache([])
        for begin in range(shared, first, 512):
            end = min(first, begin + 512)
            self._forward(ids[begin:end], self._cache, begin, begin)
        seen = self._forward(ids[first:], self._cache, first, first, with_attention=True).attentions
        self._ids, self.prompt = ids, prompt
        self.layers = [(layer.keys, layer.values) for layer in self._cache.layers]
        # [layer][kv_head, token] by mode: the last 64 queries of what is compressed.
        self.mass = {}
        for mode, tokens in (("agnostic", context), ("aware", len(ids))):
            rows = slice(tokens - first - WINDOW, tokens - first)
            self.mass[mode] = [one[0, :, rows, :tokens].double().sum(1).reshape(self.kv_heads, self.groups, tokens).sum(1).numpy()
                               for one in seen]

    def _angles(self, kind: str, has: bool, positions: np.ndarray):
        """(cos, sin) [token, turned channel] of the model's own rotary embedding in layers of this type; no channel where there is no
        RoPE"""
        torch = self.torch
        if not has:
            return torch.ones(len(positions), 0), torch.zeros(len(positions), 0)
        rotary = self.model.get_decoder().rotary_emb
        by_type = {"layer_type": kind} if hasattr(rotary, f"{kind}_inv_freq") else {}
        cos, sin = rotary(torch.zeros(1, 1, 1), torch.from_numpy(positions.astype(np.float32))[None], **by_type)
        length = (cos[0] ** 2 + sin[0] ** 2).sqrt()  # yarn lengthens keys too, which turning back must not do again
        return cos[0] / length, sin[0] / length

    def _compressed(self, setting: Setting):
        """The cache under `setting`, its entries, the tokens it stands for, and the question's tokens that come after it."""
        prompt = self.prompt
        tokens = len(prompt.context) if setting.mode == "agnostic" else len(self._ids)
        kinds = layer_types(self.config)
        layers = [compress(keys[:, :, :tokens], values[:, :, :tokens], mass, setting, functools.partial(self._angles, kind, has))
                  for (keys, values), mass, kind, has in zip(self.layers, self.mass[setting.mode], kinds, has_rope(self.config))]
        return self._new_cache(layers), layers[0][0].shape[2], tokens, np.concatenate([prompt.context, prompt.question])[tokens:]

    def _go_on(self, cache, token: int, position: int, held: int, count: int) -> list[int]:
        """`count` tokens that follow `token`, each fed back."""
        tokens = []
        for step in range(count):
            token = int(self._forward([token], cache, position + step, held + step).logits[0, -1].argmax())
            tokens.append(token)
        return tokens

    def generate(self, setting: Setting, count: int) -> list[int]:
        """`count` tokens behind the question, each the likeliest."""
        cache, held, tokens, tail = self._compressed(setting)
        first = int(self._forward(tail, cache, tokens, held).logits[0, -1].argmax())
        return [first, *self._go_on(cache, first, tokens + len(tail), held + len(tail), count - 1)]

    def answer(self, setting: Setting) -> Answer:
        torch, wanted = self.torch, self.prompt.answer
        cache, held, tokens, tail = self._compressed(setting)
        logits = self._forward(np.concatenate([tail, wanted[:-1]]), cache, tokens, held).logits[0, len(tail) - 1:].double()
        logp = torch.log_softmax(logits, -1).numpy()
        best = logp.argmax(-1)
        is_best = best == wanted
        right = len(wanted) if is_best.all() else int(np.argmin(is_best))
        free = [int(token) for token in best[:right + 1]]  # equal to free-running up to and with the first wrong one
        if len(free) < len(wanted):
            _keep(cache, held + len(tail) + right)
            free += self._go_on(cache, free[-1], tokens + len(tail) + right, held + len(tail) + right, len(wanted) - len(free))
        return Answer(logp[np.arange(len(wanted)), wanted], is_best, right, tuple(free))


FULL = Setting(policy="none", mode="aware")
ROW_COLUMNS = ("probe_start", "context_len", "answer_start", "mode", "policy", "block", "ratio", "head_scope", "grid_offset", "kind",
               "logp_full",
               "logp_comp", "em_full", "em_comp", "right_tokens_full", "right_tokens", "forced_logp_full", "forced_logp", "forced_best",
               "free_ids")


def _joined(values) -> str:
    return " ".join(f"{value:.5f}" if isinstance(value, float) else str(int(value)) for value in np.asarray(values).tolist())


def row_of(prompt: Prompt, setting: Setting, full: Answer, answer: Answer) -> dict:
    """A row that `kvtide validate scan` reads, with what was answered token by token."""
    return {"probe_start": prompt.key, "context_len": len(prompt.context), "answer_start": prompt.answer_start, "mode": setting.mode,
            "policy": setting.policy, "block": setting.block, "ratio": f"{setting.ratio:g}", "head_scope": setting.heads,
            "grid_offset": setting.grid_offset, "kind": prompt.kind, "logp_full": f"{min(full.logp.sum(), 0):.5f}",
            "logp_comp": f"{min(answer.logp.sum(), 0):.5f}", "em_full": int(full.is_exact), "em_comp": int(answer.is_exact),
            "right_tokens_full": full.right_tokens, "right_tokens": answer.right_tokens, "forced_logp_full": _joined(full.logp),
            "forced_logp": _joined(answer.logp), "forced_best": _joined(answer.is_best), "free_ids": _joined(answer.free)}
