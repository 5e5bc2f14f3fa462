"""Which prompts a scan of a model asks, under which settings."""

from __future__ import annotations

import argparse
import dataclasses
import itertools

from . import texts
from .compressed_cache import Setting
from .exit_codes import InputError
from .prompts import Prompt, Writer
from .scan_options import KEYS_A_TEXT, POLICIES, chosen, numbers


@dataclasses.dataclass(frozen=True)
class Place:
    """One prompt of a scan; on the grid scan the block grid is moved by `shift` instead of the text."""
    prompt: Prompt
    at: int  # position, prefix or shift in tokens
    characters: int  # the same in characters
    shifts: tuple[int, ...] = (0,)


def settings_of(options: argparse.Namespace) -> list[Setting]:
    policies = chosen(options.policy, POLICIES[1:], "policy")
    modes = chosen(options.mode, ("aware", "agnostic"), "mode")
    heads = chosen(options.heads, ("head", "shared"), "heads")
    blocks = numbers(options.block, "block", int, 1, 65536)
    ratios = numbers(options.ratio, "ratio", float, 0, 0.999)
    return [Setting(policy, block, ratio, mode, head) for policy, mode, block in itertools.product(policies, modes, blocks)
            for ratio, head in (itertools.product(ratios, heads) if policy == "evict" else [(0.0, "all")])]


def places(options: argparse.Namespace, tokenizer) -> list[Place]:
    start = options.start if options.start is not None else min(300, options.tokens // 4)
    along = [number * options.step for number in range(options.count)]
    if along[-1] >= KEYS_A_TEXT - options.tokens:
        raise InputError(f"--count {options.count} places in steps of {options.step} go beyond {KEYS_A_TEXT} tokens")
    result, number = [], 0
    for text in chosen(options.text, texts.KINDS, "text"):
        for kind in chosen(options.probe, texts.PROBES, "probe"):
            for seed in range(options.seeds):
                writer = Writer(tokenizer, text, texts.probe(kind, seed), seed)
                base, origin = number * KEYS_A_TEXT, 0
                number += 1
                if options.scan == "grid":
                    prompt = writer.prompt("grid", base + start, tokens=options.tokens, start=start)
                    result.append(Place(prompt, 0, 0, tuple(along)))
                    continue
                for extra in along:
                    moved = options.scan == "position"
                    prompt = writer.prompt(options.scan, base + (start + extra if moved else extra), tokens=options.tokens,
                                           start=start + extra if moved else start, prefix=0 if moved else extra)
                    origin = origin if moved or extra else prompt.characters
                    result.append(Place(prompt, prompt.answer_start if moved else extra, prompt.characters - origin))
    return result


def moved(setting: Setting, shift: int) -> Setting:
    """As if `shift` tokens stood in front of the text: the first block is shorter by them."""
    return dataclasses.replace(setting, grid_offset=shift % setting.block)
