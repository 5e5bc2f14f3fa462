"""The headline in words: what to use, what to avoid, what period was found and how surely."""

from __future__ import annotations

import numpy as np
import pandas as pd

from . import settings
from .columns import loss_style, metric_title, write
from .results import Results
from .worst import describe, worst


def verdict(results: Results, worst_max: float | None) -> list[str]:
    """Sentences, most important first. worst_max: largest acceptable `loss_worst`, in the metric's own unit; None: no loss is too large."""
    if not {"memory_saving", "loss_worst"} <= set(results.summary.columns):
        return ["No verdict: the summary holds no memory_saving and loss_worst."]
    rows = _complete(results)
    if rows.empty:
        return ["No verdict: no run has both a saving and a loss."]
    metrics = settings.metrics(results)
    if len(metrics) > 1:
        return [f"No verdict: the losses are of several metrics ({', '.join(metrics)}), which cannot be compared."]
    style = loss_style(metrics[0])
    if worst_max is None:
        return [f"No bound is set for {metric_title(metrics[0])} (--worst-max), so that no setting is within it.",
                *_largest(results, rows, style), *_periods(results, rows), *_bound(rows)]
    sentences = [_best(results, rows, worst_max, style), *_offenders(results, rows, worst_max, style),
                 *_periods(results, rows), *_bound(rows)]
    return [sentence for sentence in sentences if sentence]


def named_runs(results: Results, worst_max: float | None) -> list[int]:
    """The runs that the verdict names: of the largest loss, of the largest saving within the bound."""
    rows = _complete(results)
    if rows.empty or len(settings.metrics(results)) > 1:
        return []
    return [int(run) for run in [*_worst_first(rows).index[:1], *_best_first(rows, worst_max).index[:1]]]


def _complete(results: Results) -> pd.DataFrame:
    """Runs with a saving and a loss."""
    summary = results.summary
    if not {"memory_saving", "loss_worst"} <= set(summary.columns):
        return summary[:0]
    return summary[np.isfinite(summary["memory_saving"]) & np.isfinite(summary["loss_worst"])]


def _best_first(rows: pd.DataFrame, worst_max: float | None) -> pd.DataFrame:
    """Runs that save memory within the bound, the largest saving first."""
    if worst_max is None or rows.empty:
        return rows[:0]
    within = rows[(rows["memory_saving"] > 0) & (rows["loss_worst"] <= worst_max)]
    return within.sort_values(["memory_saving", "loss_worst"], ascending=[False, True])


def _worst_first(rows: pd.DataFrame) -> pd.DataFrame:
    """By falling worst loss; ties, as they are written, by falling mean."""
    by = ["loss_worst", "loss_mean"] if "loss_mean" in rows else ["loss_worst"]
    return rows.loc[rows[by].round(3).sort_values(by, ascending=False, kind="stable").index]


def _best(results: Results, rows: pd.DataFrame, worst_max: float, style: str) -> str:
    saving = _best_first(rows, worst_max)
    bound = write(worst_max, style)
    if saving.empty:
        return f"No setting that saves memory keeps every {_span(results)} at or under {bound} loss."
    run = saving.index[0]
    row = rows.loc[run]
    text = (f"{settings.run_label(results, run)} saves most with no {_span(results)} losing more than {bound}: "
            f"{write(row['memory_saving'], 'percent')} of the KV cache, at {write(row['loss_worst'], style)} loss in the worst span")
    if _has(row, "loss_mean"):
        text += f" and {write(row['loss_mean'], style)} in the mean"
        if row["loss_mean"] > row["loss_worst"]:
            text += " (which is weighted by attention, a span is not)"
    if _has(row, "decode_speedup"):
        text += f"; a decode step is {write(row['decode_speedup'], 'factor')} as fast"
    if _has(row, "max_sequences") and _has(row, "max_sequences_full"):
        text += (f"; {write(row['max_sequences'], 'integer')} concurrent sequences instead of "
                 f"{write(row['max_sequences_full'], 'integer')}")
        if _has(row, "max_sequences_step_us") and _has(row, "max_sequences_step_us_full"):
            text += (f", a token of each every {write(row['max_sequences_step_us'], 'milliseconds')} ms instead of "
                     f"{write(row['max_sequences_step_us_full'], 'milliseconds')}")
    return text + "."


def _span(results: Results) -> str:
    spans = {settings.span(results, run) for run in results.summary.index}
    return f"span of {spans.pop() if len(spans) == 1 else 'loss.span'} tokens"


def _offenders(results: Results, rows: pd.DataFrame, worst_max: float, style: str) -> list[str]:
    over = rows[rows["loss_worst"] > worst_max]
    if over.empty:
        return [f"No setting loses more than {write(worst_max, style)} anywhere."]
    sentences = [f"{len(over)} of {len(rows)} settings lose more than {write(worst_max, style)} of some {_span(results)}"]
    hidden = over[over["loss_mean"] <= worst_max] if "loss_mean" in over else over[:0]
    if len(hidden):
        sentences[0] += f"; in {len(hidden)} of them the mean hides it (at or under {write(worst_max, style)})"
    sentences[0] += "."
    return [*sentences, *_largest(results, over, style)]


def _largest(results: Results, rows: pd.DataFrame, style: str) -> list[str]:
    """The setting of `rows` with the largest worst loss, and where it loses that."""
    over = _worst_first(rows)
    run = over.index[0]
    label, found = settings.run_label(results, run), worst(results, run, results.run(run))
    tied = int((over["loss_worst"].round(3) == over["loss_worst"].round(3).iloc[0]).sum())
    text = f"Largest: {write(over['loss_worst'].iloc[0], style)}, in "
    text += f"{tied} settings; of these {label} has the largest mean." if tied > 1 and "loss_mean" in over else f"{label}."
    return [text + (f" {describe(found)}" if found else "")]


def _periods(results: Results, rows: pd.DataFrame) -> list[str]:
    if "period_kind" not in rows or "period" not in rows:
        return []
    lossy = rows[rows["loss_worst"] > 0]
    kinds = lossy["period_kind"].where(np.isfinite(lossy["period"]), "none")
    counts = kinds.value_counts()
    texts = {"grid_locked": "lose whole blocks on a grid (every jump of their loss lies on it)",
             "level": "repeat at a fixed period beyond chance", "likely": "probably repeat, too few cycles or jumps to prove",
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
        sentence += (f" The period found in the loss is {said[0].split(' in ')[0]} in every one of these." if len(said) == 1 else
                     f" The period found in the loss is {', '.join(said)} of these {len(periodic)}.")
    return [sentence]


def _bound(rows: pd.DataFrame) -> list[str]:
    if "kv_bound" in rows and len(rows) and not rows["kv_bound"].astype(bool).any():
        return ["At this batch the cache is not the limit: twice as many sequences fit without compression, and attention takes at most "
                "half of a decode step."]
    return []


def _has(row: pd.Series, name: str) -> bool:
    return name in row and isinstance(row[name], (int, float, np.number)) and np.isfinite(row[name])
