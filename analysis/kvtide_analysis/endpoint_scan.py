"""The scan of a live server: which prompts are asked, and the CSV for `kvtide diagnose`."""

from __future__ import annotations

import csv
import math
import time

from . import texts
from .endpoint import Endpoint, score, written
from .prompts import PromptError
from .scan_plan import chosen


def _measure(server: Endpoint, prompt: str, probe: texts.Probe, measure: str) -> tuple[float, int | None]:
    if measure == "logprob":
        lead = probe.lead if probe.lead.endswith(" ") or probe.answer.startswith(" ") else probe.lead + " "
        value = server.logprob(prompt + lead, probe.answer)
        if value is None:
            raise PromptError(f"{server.url} does not repeat the prompt with log-probabilities (echo): use --measure score or correct")
        return min(value, 0.0), None
    text, tokens = server.ask(prompt, probe.lead, max(16, 2 * len(probe.answer)))
    value = score(text, probe.answer)
    return (value if measure == "score" else float(value == 1)), tokens


def scan_endpoint(server: Endpoint, uncompressed: Endpoint | None, options) -> int:
    """Rows written; every row is on disk when its answer is known."""
    if options.chat and options.measure == "logprob":
        raise PromptError("--measure logprob needs /v1/completions: leave out --chat")
    axis = "position" if options.scan == "position" else "prefix_chars"
    columns = [axis, options.measure, "repeat", "probe_type", "tokens", "latency_ms"]
    columns += ["baseline"] if uncompressed else []
    columns += ["control"] if options.control else []
    rows = 0
    with open(options.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for text in chosen(options.text, texts.KINDS, "text"):
            for kind in chosen(options.probe, texts.PROBES, "probe"):
                probe = texts.probe(kind, options.seed)
                room = options.characters - sum(map(len, probe.facts))
                for step in range(options.count):
                    before, prefix = (options.start + step * options.step, 0) if axis == "position" else (options.start, step * options.step)
                    if not 0 <= before <= room:
                        raise PromptError(f"the fact cannot begin at character {before} of {options.characters}: at most {room}")
                    prompt = written(probe, text, options.seed, options.characters, before, prefix)
                    for repeat in range(options.repeat):
                        began = time.monotonic()
                        value, tokens = _measure(server, prompt, probe, options.measure)
                        row = {options.measure: f"{value:.6g}", "repeat": repeat, "probe_type": f"{text}/{kind}",
                               "latency_ms": f"{1000 * (time.monotonic() - began):.3f}", "tokens": "" if tokens is None else tokens}
                        row[axis] = prefix if axis != "position" else _position(before, prompt, tokens, options.characters_per_token)
                        if uncompressed:
                            row["baseline"] = f"{_measure(uncompressed, prompt, probe, options.measure)[0]:.6g}"
                        if options.control:
                            bare = written(probe, text, options.seed, options.characters, before, prefix, control=True)
                            row["control"] = f"{_measure(server, bare, probe, options.measure)[0]:.6g}"
                        writer.writerow(row)
                        file.flush()
                        rows += 1
    return rows


def _position(before: int, prompt: str, tokens: int | None, characters_per_token: float | None) -> int:
    """Characters in tokens of this prompt's own density."""
    if characters_per_token:
        if not math.isfinite(characters_per_token) or characters_per_token <= 0:
            raise PromptError("--characters-per-token: expected a number above 0")
        return round(before / characters_per_token)
    if not tokens:
        raise PromptError("the server does not tell the prompt's length in tokens: give --characters-per-token")
    return round(before * tokens / len(prompt))
