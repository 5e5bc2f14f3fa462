"""What a report needs to know of the experiment: read from the stored YAML and the swept columns of the summary."""

from __future__ import annotations

from typing import Any

import pandas as pd
import yaml

from .columns import COMPUTED
from .results import Results

# Defaults of the experiment file, for keys that it does not give.
DEFAULT_BLOCK_SIZE = 128
DEFAULT_METRIC = "mass_loss"


def experiment(results: Results) -> dict[str, Any]:
    """The experiment as a mapping; empty where the file stores none or it cannot be read."""
    try:
        document = yaml.safe_load(str(results.attrs.get("experiment_yaml", "")))
    except yaml.YAMLError:
        return {}
    return document if isinstance(document, dict) else {}


def lookup(document: dict[str, Any], dotted: str, default: Any = None) -> Any:
    """Value at a dotted key ("loss.metric"), or the default."""
    value: Any = document
    for key in dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value


def swept_columns(results: Results) -> list[str]:
    """Columns that say what was varied: those that are no computed quantity."""
    return [name for name in results.summary.columns if name not in COMPUTED]


def block_size(results: Results, run: int) -> int:
    """block_size of a run in tokens: from its swept column, else the experiment, else the default; 0 where unreadable."""
    for name in swept_columns(results):
        if name.rsplit(".", 1)[-1] == "block_size":
            return _positive(results.summary.at[run, name])
    document = experiment(results)
    return _positive(lookup(document, "compression.block_size", DEFAULT_BLOCK_SIZE))


def loss_metric(results: Results) -> str:
    """The profile that loss_mean, loss_worst and the period are taken from."""
    return str(lookup(experiment(results), "loss.metric", DEFAULT_METRIC))


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
    served, recorded = str(document.get("model", "")), str(results.attrs.get("loss_model", ""))
    if recorded and served and recorded != served:
        found.append(f"Loss was measured on the attention of {recorded} ({results.attrs.get('loss_tokens', '?')} tokens), "
                     f"bytes and times on {served}: score-driven choices are carried over, losses are those of {recorded}.")
    context = document.get("context_tokens")
    if context is not None and results.attrs.get("loss_tokens") not in (None, context):
        found.append(f"Context lengths differ: {results.attrs['loss_tokens']} tokens for loss, {context} for the machine.")
    if "status" in results.summary:
        failed = results.summary[~results.summary["status"].isin(["done", "ok", "complete"])]
        for run, row in failed.iterrows():
            found.append(f"Run {run} ({run_label(results, run)}) has no result: {row.get('status_reason') or row['status']}.")
    if not document:
        found.append("The file stores no readable experiment: defaults are assumed for block_size and the loss metric.")
    return found


def _positive(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return max(number, 0)
