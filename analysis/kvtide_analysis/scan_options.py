"""Options that scans share and the values they take; needs nothing but Python."""

from __future__ import annotations

import argparse

from . import texts
from .exit_codes import InputError

POLICIES = ("none", "evict", "pool_postrope", "pool_prerope", "int2", "int4")
KEYS_A_TEXT = 10_000  # place of a probe or length of a prefix stays below; the key of a prompt is number * this + place


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scan", choices=["position", "prefix", "grid"], default="prefix",
                        help="move the fact, put tokens in front of it, or move the block grid under a fixed text (default: prefix)")
    parser.add_argument("--text", default="report", metavar="KIND,...", help=f"{', '.join(texts.KINDS)}, or all (default: report)")
    parser.add_argument("--probe", default="factual", metavar="KIND,...", help=f"{', '.join(texts.PROBES)}, or all (default: factual)")
    parser.add_argument("--seeds", type=count, default=1, metavar="N", help="texts of each kind (default 1)")
    parser.add_argument("--tokens", type=count, default=768, metavar="N", help="of the text (default 768)")
    parser.add_argument("--start", type=int, default=None, metavar="N",
                        help="first place of the fact in the text (default: 300, or a quarter in)")
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


def per_token(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"expected characters above 0, got {text}")
    return value


def chosen(text: str, known, what: str) -> list[str]:
    """Each once, in the order given."""
    names = list(known) if text == "all" else list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise InputError(f"--{what}: expected one of {', '.join(known)}, got {name}")
    return names


def numbers(text: str, what: str, kind, low, high) -> list:
    """Each once, in the order given."""
    try:
        values = list(dict.fromkeys(kind(word) for word in text.split(",")))
    except ValueError:
        values = []
    if not values or not all(low <= value <= high for value in values):
        raise InputError(f"--{what}: expected numbers in {low}..{high}, got {text}")
    return values
