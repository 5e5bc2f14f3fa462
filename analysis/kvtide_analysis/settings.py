"""What a report needs to know of the experiment: read from the stored YAML and the swept columns of the summary."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd
import yaml

from .columns import COMPUTED
from .results import SUPPORTED_SCHEMA, Results

# Defaults of the experiment file, for keys that it does not give.
DEFAULT_BLOCK_SIZE = 128
DEFAULT_METRIC = "mass_loss"
DEFAULT_SPAN = 8
MOST_NAMED = 3  # settings that one warning names


def experiment(results: Results) -> dict[str, Any]:
    """The experiment as a mapping; empty where the file stores none or it cannot be read."""
    return _mapping(str(results.attrs.get("experiment_yaml", "")))


def lookup(document: dict[str, Any], dotted: str, default: Any = None) -> Any:
    """Value at a dotted key ("loss.metric"), or the default."""
    value: Any = document
    for key in dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value


def swept_columns(results: Results) -> list[str]:
    """Columns that say what was varied: the file's own list, in older files those that are no computed quantity."""
    if "swept_keys" in results.attrs:
        keys = str(results.attrs["swept_keys"]).split("\n")
        return [name for name in results.summary.columns if name in keys]
    return [name for name in results.summary.columns if name not in COMPUTED]


def block_size(results: Results, run: int) -> int:
    """block_size of a run in tokens; 0 where unreadable.

    From its swept column, else the resolved setting of the run (which knows --set and presets), else the experiment, else the default.
    """
    for name in swept_columns(results):
        if name.rsplit(".", 1)[-1] == "block_size":
            return _positive(results.summary.at[run, name])
    if "compression_setting" in results.summary:
        resolved = _mapping(str(results.summary.at[run, "compression_setting"]))
        if "block_size" in resolved:
            return _positive(resolved["block_size"])
    return _positive(lookup(experiment(results), "compression.block_size", DEFAULT_BLOCK_SIZE))


def loss_metric(results: Results) -> str:
    """The profile that loss_mean, loss_worst and the period are taken from."""
    return str(lookup(experiment(results), "loss.metric", DEFAULT_METRIC))


def span(results: Results) -> int:
    """Positions in a span of `loss_worst`."""
    return _positive(lookup(experiment(results), "loss.span", DEFAULT_SPAN)) or DEFAULT_SPAN


def short_model(name: str) -> str:
    """A model's name without how it was stored: "SmolLM2-135M (GGUF Q4_1, dequantised)" -> "SmolLM2-135M"."""
    return name.split(" (", 1)[0].strip() or name


def run_label(results: Results, run: int) -> str:
    """Short name of a run from what was varied: "evict-half, B 64"; "run 3" where nothing was."""
    parts = []
    for name in sorted(swept_columns(results), key=lambda column: isinstance(results.summary.at[run, column], str),
                       reverse=True):
        value, key = results.summary.at[run, name], name.rsplit(".", 1)[-1]
        if isinstance(value, str):
            parts.append(value)
        elif pd.notna(value):
            parts.append(f"{'B' if key == 'block_size' else key} {value:g}")
    return ", ".join(parts) or f"run {run}"


def warnings(results: Results) -> list[str]:
    """What a reader must know before trusting the figures; empty when there is nothing."""
    found = []
    document = experiment(results)
    served, recorded = str(document.get("model", "")), short_model(str(results.attrs.get("loss_model", "")))
    context, measured = document.get("context_tokens"), results.attrs.get("loss_tokens")
    if recorded and served and recorded != served:
        found.append(f"Loss and machine are of two models: loss was measured on the attention of {recorded}{_tokens(measured)}; bytes and "
                     f"times are those of {served}{_tokens(context)}. Score-driven choices are carried over; losses are {recorded}'s.")
    elif context is not None and measured not in (None, context):
        found.append(f"Context lengths differ: loss was measured{_tokens(measured)}, bytes and times{_tokens(context)}.")
    found += str(results.attrs.get("warnings", "") or "").splitlines()
    said: dict[str, list[int]] = {}
    for run, row in results.summary.iterrows():
        if row.get("status") == "failed":
            said.setdefault(f" has no result: {row.get('status_reason') or 'no reason stored'}.", []).append(run)
        elif row.get("warnings"):
            said.setdefault(f": {row['warnings']}", []).append(run)
    for text, runs in said.items():
        named = "; ".join(run_label(results, run) for run in runs[:MOST_NAMED])
        found.append(f"{named}{f' and {len(runs) - MOST_NAMED} more' if len(runs) > MOST_NAMED else ''}{text}")
    schema = results.attrs.get("schema_version", SUPPORTED_SCHEMA)
    if schema != SUPPORTED_SCHEMA:
        found.append(f"The file has schema_version {schema}; this program knows {SUPPORTED_SCHEMA}: figures may be missing.")
    if not document:
        found.append("The file stores no readable experiment: defaults are assumed for block_size and the loss metric.")
    return found


def extrapolations(results: Results) -> list[str]:
    """Where runs leave what kvtide was compared with, each sentence once, with how many settings it concerns."""
    counts: dict[str, int] = {}
    for text in results.summary.get("extrapolates", pd.Series(dtype=str)):
        for sentence in filter(None, str(text).split("; ")):
            counts[sentence] = counts.get(sentence, 0) + 1
    return [f"{sentence} ({count} of {len(results)} settings)" for sentence, count in counts.items()]


def _tokens(count: Any) -> str:
    return f" over {count:,} tokens" if isinstance(count, int) else ""


@functools.lru_cache(maxsize=1024)
def _mapping(text: str) -> dict[str, Any]:
    """The YAML mapping in `text`, parsed once; shared, so never changed by a caller."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _positive(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return max(number, 0)
