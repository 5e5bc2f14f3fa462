"""The headline in words: what to use, what to avoid, what period was found and how surely."""

from __future__ import annotations

import numpy as np
import pandas as pd

from . import settings
from .columns import loss_style, write
from .results import Results


def verdict(results: Results, worst_max: float) -> list[str]:
    """Sentences, most important first. worst_max: largest acceptable `loss_worst`, in the metric's own unit."""
    summary = results.summary
    if not {"memory_saving", "loss_worst"} <= set(summary.columns):
        return ["No verdict: the summary holds no memory_saving and loss_worst."]
    rows = summary[np.isfinite(summary["memory_saving"]) & np.isfinite(summary["loss_worst"])]
    if rows.empty:
        return ["No verdict: no run has both a saving and a loss."]
    style = loss_style(settings.loss_metric(results))
    sentences = [_best(results, rows, worst_max, style), *_offenders(results, rows, worst_max, style),
                 *_periods(results, rows, worst_max, style), *_bound(rows)]
    return [sentence for sentence in sentences if sentence]


def _best(results: Results, rows: pd.DataFrame, worst_max: float, style: str) -> str:
    saving = rows[(rows["memory_saving"] > 0) & (rows["loss_worst"] <= worst_max)]
    bound = write(worst_max, style)
    if saving.empty:
        return f"No setting that saves memory keeps its worst span at or under {bound} loss."
    run = saving.sort_values(["memory_saving", "loss_worst"], ascending=[False, True]).index[0]
    row = rows.loc[run]
    text = (f"{settings.run_label(results, run)} saves most with a worst span at or under {bound}: "
            f"{write(row['memory_saving'], 'percent')} of the cache, worst {write(row['loss_worst'], style)}")
    if _has(row, "loss_mean"):
        text += f", mean {write(row['loss_mean'], style)}"
    if _has(row, "decode_speedup"):
        text += f"; decode steps {write(row['decode_speedup'], 'factor')} as fast"
    if _has(row, "max_sequences") and _has(row, "max_sequences_full"):
        text += (f"; {write(row['max_sequences'], 'integer')} concurrent sequences instead of "
                 f"{write(row['max_sequences_full'], 'integer')}")
    return text + "."


def _offenders(results: Results, rows: pd.DataFrame, worst_max: float, style: str) -> list[str]:
    over = rows[rows["loss_worst"] > worst_max].sort_values("loss_worst", ascending=False)
    if over.empty:
        return [f"No setting loses more than {write(worst_max, style)} anywhere."]
    named = [f"{settings.run_label(results, run)} ({write(row['loss_worst'], style)})" for run, row in over.head(3).iterrows()]
    text = f"{len(over)} of {len(rows)} settings lose more than that somewhere; worst: {'; '.join(named)}."
    if "loss_mean" not in over:
        return [text]
    hidden = over[over["loss_mean"] <= worst_max]
    return [text] + ([f"In {len(hidden)} of them the mean hides it: mean loss is within the bound, the worst span is not."]
                     if len(hidden) else [])


def _periods(results: Results, rows: pd.DataFrame, worst_max: float, style: str) -> list[str]:
    if "period_kind" not in rows or "period" not in rows:
        return []
    lossy = rows[rows["loss_worst"] > 0]
    kinds = lossy["period_kind"].where(np.isfinite(lossy["period"]), "none")
    counts = kinds.value_counts()
    texts = {"grid_locked": "lose on a grid (the jumps of their loss lie on it)",
             "level": "repeat at a fixed period beyond chance", "likely": "probably repeat, seen over too few cycles to prove",
             "none": "show no period"}
    parts = [f"{counts[kind]} {text}" for kind, text in texts.items() if kind in counts]
    if not parts:
        return []
    sentence = f"Of the {len(lossy)} settings that lose anything, {', '.join(parts)}."
    periodic = lossy[kinds != "none"]
    if len(periodic):
        multiples = {}
        for run, period in periodic["period"].items():
            block = settings.block_size(results, run)
            times = round(period / block, 3) if block else 0
            multiples[times] = multiples.get(times, 0) + 1
        said = [f"{'block_size' if times == 1 else f'{times:g} x block_size'} in {count}"
                for times, count in sorted(multiples.items())]
        sentence += f" The period found equals {', '.join(said)} of {len(periodic)}."
    return [sentence]


def _bound(rows: pd.DataFrame) -> list[str]:
    if "kv_bound" in rows and len(rows) and not rows["kv_bound"].astype(bool).any():
        return ["The cache is not what limits this machine: a smaller cache buys no more sequences here."]
    return []


def _has(row: pd.Series, name: str) -> bool:
    return name in row and isinstance(row[name], (int, float, np.number)) and np.isfinite(row[name])
