"""Prompts as token ids: a text with a probe at a chosen token, and where in it the answer stands.

`Writer` needs a tokenizer that tells character offsets (every fast Hugging Face tokenizer). The chat template, where the tokenizer has one,
is split around the user's words: context = its head, the text; question = the question, its tail, the words the answer begins with.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os

import h5py
import numpy as np

from . import texts
from .exit_codes import InputError

SYSTEM = "You are a helpful assistant."
MARK = "KVTIDE-MARK"


class PromptError(InputError):
    """Wrong input: a prompt file, a length, a place outside the text."""


@dataclasses.dataclass(frozen=True)
class Prompt:
    scan: str
    key: int
    context: np.ndarray
    question: np.ndarray
    answer: np.ndarray
    answer_start: int  # token of the context where the answer begins
    kind: str = ""
    characters: int = 0  # of what stands before the fact; 0: not known
    fact: tuple[int, int] | None = None  # first token and tokens of the fact; None: of the answer, nothing more is known

    @property
    def name(self) -> str:
        return f"{self.scan}:{self.key}"

    @property
    def digest(self) -> str:
        """Of the tokens: two prompts of one name may ask about two texts."""
        parts = (np.asarray(ids, np.int64).tobytes() for ids in (self.context, self.question, self.answer))
        return hashlib.sha256(b"|".join(parts)).hexdigest()[:12]


def find(context: np.ndarray, wanted: np.ndarray, what: str) -> int:
    for start in range(len(context) - len(wanted) + 1):
        if np.array_equal(context[start:start + len(wanted)], wanted):
            return start
    raise PromptError(f"{what}: the context does not hold the answer's tokens")


def read_prompts(path: str) -> dict[str, Prompt]:
    """Every prompt of a file, by "scan:key" (key: probe_start, prefix_len or the row).

    A group holds contexts (context_ids, padded with -1) or a base with a growing filler (base_context_ids, filler_ids, n_system,
    prefix_len).
    question_ids and answer_ids lie in the group or at the root: one for all, or a row a prompt padded with -1. Where the fact stands:
    fact_start and fact_length of the group, or probe_ids at the root (a fact with the root's answer; the others are built alike).

    Raises PromptError for a file that is missing, damaged or something else.
    """
    try:
        return _read_prompts(path)
    except (OSError, KeyError, ValueError, TypeError, IndexError) as error:
        told = "no such file" if not os.path.exists(path) else f"not a file of prompts ({error})"
        raise PromptError(f"{path}: {told}") from error


def _read_prompts(path: str) -> dict[str, Prompt]:
    prompts: dict[str, Prompt] = {}
    with h5py.File(path) as file:
        probe = file["probe_ids"][:] if "probe_ids" in file else None
        inner = find(probe, file["answer_ids"][:], f"{path}: probe_ids") if probe is not None else 0
        for scan, group in file.items():
            if not isinstance(group, h5py.Group):
                continue
            if "context_ids" in group:
                keys, contexts = group["probe_start"][:], [row[row >= 0] for row in group["context_ids"][:]]
            elif "base_context_ids" in group:
                base, filler, system = group["base_context_ids"][:], group["filler_ids"][:], int(group["n_system"][()])
                keys = group["prefix_len"][:]
                contexts = [np.concatenate([base[:system], filler[:n], base[system:]]) for n in keys]
            else:
                raise PromptError(f"{path}: /{scan} holds neither context_ids nor base_context_ids")
            each = {}
            for what in ("question_ids", "answer_ids"):
                ids = (group if what in group else file)[what][:]
                each[what] = [row[row >= 0] for row in ids] if ids.ndim == 2 else [ids] * len(keys)
            starts = group["answer_start"][:] if "answer_start" in group else None
            kinds = group["kind"].asstr()[:] if "kind" in group else [""] * len(keys)
            for row, (key, context) in enumerate(zip(keys, contexts)):
                answer = each["answer_ids"][row]
                start = int(starts[row]) if starts is not None else find(context, answer, f"{path}: {scan}:{key}")
                fact = (start - inner, len(probe)) if probe is not None else None
                if "fact_start" in group:
                    fact = (int(group["fact_start"][row]), int(group["fact_length"][row]))
                prompt = Prompt(scan, int(key), context, each["question_ids"][row], answer, start, str(kinds[row]), fact=fact)
                prompts[prompt.name] = prompt
    return prompts


def write_prompts(path: str, prompts: list[Prompt], model: str) -> None:
    """The layout that read_prompts() takes; one group a scan, shorter contexts padded with -1."""
    def padded(rows: list[np.ndarray]) -> np.ndarray:
        table = np.full((len(rows), max(map(len, rows))), -1, np.int32)
        for row, ids in zip(table, rows):
            row[:len(ids)] = ids
        return table

    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.scan, []).append(prompt)
    with h5py.File(path, "w") as file:
        file.attrs["model"] = model
        for scan, members in groups.items():
            group = file.create_group(scan)
            group["probe_start"] = np.array([prompt.key for prompt in members])
            group["answer_start"] = np.array([prompt.answer_start for prompt in members])
            group["kind"] = [prompt.kind for prompt in members]
            facts = np.array([prompt.fact or (prompt.answer_start, len(prompt.answer)) for prompt in members])
            group["fact_start"], group["fact_length"] = facts.T
            for what, rows in (("context_ids", [prompt.context for prompt in members]),
                               ("question_ids", [prompt.question for prompt in members]),
                               ("answer_ids", [prompt.answer for prompt in members])):
                group.create_dataset(what, data=padded(rows), compression="gzip", shuffle=True)


def chat_frame(tokenizer) -> tuple[str, str]:
    """What the chat template puts before and behind the user's words; no frame for a tokenizer without one."""
    if getattr(tokenizer, "chat_template", None) is None:
        return "", "\n"
    turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": MARK}]
    for messages in (turns, turns[1:]):
        try:
            whole = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception:  # a template may refuse system turns with any error of its own
            continue
        if whole.count(MARK) == 1:
            head, tail = whole.split(MARK)
            return head, tail
    return "", "\n"


class Writer:
    """Places one probe in one text."""

    def __init__(self, tokenizer, text: str, probe: texts.Probe, seed: int):
        if not getattr(tokenizer, "is_fast", False):
            raise PromptError(f"{type(tokenizer).__name__} does not tell character offsets: a fast tokenizer is needed")
        self.tokenizer, self.probe, self.kind = tokenizer, probe, f"{text}/{probe.kind}"
        self.head_text, self.tail_text = chat_frame(tokenizer)
        self._pieces, self._filler = texts.pieces(text, seed), texts.pieces(text, seed + 1_000_000)
        # A tokenizer that begins every text with a token of its own (<bos>) was trained to see one.
        start = getattr(tokenizer, "bos_token_id", None)
        first = [token for token in tokenizer("")["input_ids"] if token == start] if start is not None else []
        self.head, self.body, self.filler = self._ids(self.head_text), [], []
        if first and self.head[:1] != first:
            self.head = first + self.head

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    @staticmethod
    def _grow(kept: list[int], count: int, more, ids) -> list[int]:
        while len(kept) < count:
            kept.extend(ids(next(more)))
        return kept[:count]

    def _fact(self, control: bool) -> tuple[list[int], int, list[int], str]:
        """Tokens of the first fact, the token at which the answer begins, its tokens, and the lead that ends where they begin."""
        probe = self.probe
        if control:
            return self._ids(probe.control), 0, [], probe.lead
        coded = self.tokenizer(probe.facts[0], add_special_tokens=False, return_offsets_mapping=True)
        at = probe.answer_at()
        inside = [index for index, (begin, end) in enumerate(coded["offset_mapping"]) if end > at and begin < at + len(probe.answer)]
        begin = coded["offset_mapping"][inside[0]][0]
        # A token may take the space before the answer with it: the lead then ends earlier.
        lead = probe.lead if begin >= at else probe.lead[:len(probe.lead) - (at - begin)]
        return coded["input_ids"], inside[0], [coded["input_ids"][index] for index in inside], lead

    def prompt(self, scan: str, key: int, *, tokens: int, start: int, prefix: int = 0, control: bool = False) -> Prompt:
        """`tokens` of text and facts behind the frame's head and `prefix` tokens of filler; the first fact begins at `start` of them."""
        fact, inner, answer, lead = self._fact(control)
        if control:  # what is asked stays
            _, _, answer, lead = self._fact(False)
        others = [self._ids(piece) for piece in self.probe.facts[1:]]
        free = tokens - len(fact) - sum(map(len, others))
        if start < 0 or free < 0 or start > free:
            raise PromptError(f"the fact cannot begin at {start} of {tokens} tokens: {len(fact)} are its own, {sum(map(len, others))} its "
                              "companions'")
        text = self._grow(self.body, free, self._pieces, self._ids)
        filler = self._grow(self.filler, prefix, self._filler, self._ids)
        behind, rest = [], text[start:]
        # Companions stand at equal distances behind the fact, so that one in front of it never moves it.
        for number, other in enumerate(others):
            share = len(rest) // (len(others) - number + 1)
            behind += rest[:share] + other
            rest = rest[share:]
        before = self.head + filler + text[:start]
        context = np.array(before + fact + behind + rest, dtype=np.int64)
        question = self._ids(f"\n\n{self.probe.question}{self.tail_text}{lead}")
        return Prompt(scan, key, context, np.array(question, dtype=np.int64), np.array(answer, dtype=np.int64),
                      -1 if control else len(before) + inner, self.kind, len(self.tokenizer.decode(before)), (len(before), len(fact)))
