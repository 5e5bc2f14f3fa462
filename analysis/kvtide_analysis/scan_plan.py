"""Which prompts a scan asks, and the files it leaves: rows for `kvtide validate scan`, one CSV a setting for `kvtide diagnose`."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import os

from . import texts
from .compressed_cache import POLICIES, Setting
from .prompts import Prompt, PromptError, Writer

KEYS_A_TEXT = 10_000  # place of a probe or length of a prefix stays below; the key of a prompt is number * this + place


@dataclasses.dataclass(frozen=True)
class Place:
    """One prompt of a scan; on the grid scan the block grid is moved by `shift` instead of the text."""
    prompt: Prompt
    at: int  # position, prefix or shift in tokens
    characters: int  # the same in characters
    shifts: tuple[int, ...] = (0,)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scan", choices=["position", "prefix", "grid"], default="prefix",
                        help="move the fact, put tokens in front of it, or move the block grid under a fixed text (default: prefix)")
    parser.add_argument("--text", default="report", metavar="KIND,...", help=f"{', '.join(texts.KINDS)}, or all (default: report)")
    parser.add_argument("--probe", default="factual", metavar="KIND,...", help=f"{', '.join(texts.PROBES)}, or all (default: factual)")
    parser.add_argument("--seeds", type=count, default=1, metavar="N", help="texts of each kind (default 1)")
    parser.add_argument("--tokens", type=count, default=768, metavar="N", help="of the text (default 768)")
    parser.add_argument("--start", type=int, default=None, metavar="N", help="first place of the fact in the text (default: 300, or a quarter in)")
    parser.add_argument("--step", type=count, default=4, metavar="N", help="tokens between two places (default 4)")
    parser.add_argument("--count", type=count, default=33, metavar="N", help="places (default 33)")


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", default="evict", metavar="NAME,...", help=f"{', '.join(POLICIES[1:])} (default: evict)")
    parser.add_argument("--block", default="64", metavar="N,...", help="tokens (default 64)")
    parser.add_argument("--ratio", default="0.5", metavar="X,...", help="share of blocks that is removed, evict only (default 0.5)")
    parser.add_argument("--mode", default="aware", metavar="NAME,...", help="aware, agnostic (default: aware)")
    parser.add_argument("--heads", default="head", metavar="NAME,...", help="head, shared (default: head)")


def count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1 << 20:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text}")
    return value


def retries(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"expected a number in 0..1000, got {text}")
    return value


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, at most 1e6, got {text}")
    return value


def chosen(text: str, known, what: str) -> list[str]:
    names = list(known) if text == "all" else text.split(",")
    for name in names:
        if name not in known:
            raise PromptError(f"--{what}: expected one of {', '.join(known)}, got {name}")
    return names


def _numbers(text: str, what: str, kind, low, high) -> list:
    try:
        values = [kind(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(low <= value <= high for value in values):
        raise PromptError(f"--{what}: expected numbers in {low}..{high}, got {text}")
    return values


def settings_of(options: argparse.Namespace) -> list[Setting]:
    policies = chosen(options.policy, POLICIES[1:], "policy")
    modes = chosen(options.mode, ("aware", "agnostic"), "mode")
    heads = chosen(options.heads, ("head", "shared"), "heads")
    blocks = _numbers(options.block, "block", int, 1, 65536)
    ratios = _numbers(options.ratio, "ratio", float, 0, 0.999)
    return [Setting(policy, block, ratio, mode, head) for policy, mode, block in itertools.product(policies, modes, blocks)
            for ratio, head in (itertools.product(ratios, heads) if policy == "evict" else [(0.0, "all")])]


def places(options: argparse.Namespace, tokenizer) -> list[Place]:
    start = options.start if options.start is not None else min(300, options.tokens // 4)
    along = [number * options.step for number in range(options.count)]
    if along[-1] >= KEYS_A_TEXT - options.tokens:
        raise PromptError(f"--count {options.count} places in steps of {options.step} go beyond {KEYS_A_TEXT} tokens")
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


class ScanFiles:
    """rows.csv, and scan-SETTING.csv with the columns of an outside scan; every row is on disk when it is known."""

    def __init__(self, folder: str, row_columns: tuple[str, ...], axis: str, measure: str):
        self.folder, self.axis, self.measure = folder, axis, measure
        os.makedirs(folder, exist_ok=True)
        self._rows = open(os.path.join(folder, "rows.csv"), "w", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._rows, row_columns, lineterminator="\n")
        self._writer.writeheader()
        self._scans: dict[str, tuple] = {}

    def scan_path(self, label: str) -> str:
        return os.path.join(self.folder, f"scan-{label}.csv")

    def add(self, label: str, at: int, row: dict, measured: float, baseline: float, kind: str, tokens: int) -> None:
        self._writer.writerow(row)
        self._rows.flush()
        if label not in self._scans:
            file = open(self.scan_path(label), "w", newline="", encoding="utf-8")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([self.axis, self.measure, "baseline", "probe_type", "tokens"])
            self._scans[label] = (file, writer)
        file, writer = self._scans[label]
        writer.writerow([at, f"{measured:.6g}", f"{baseline:.6g}", kind, tokens])
        file.flush()

    def close(self) -> list[str]:
        self._rows.close()
        for file, _ in self._scans.values():
            file.close()
        return [self._rows.name, *(file.name for file, _ in self._scans.values())]
