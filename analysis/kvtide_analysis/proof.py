"""The picture of `kvtide validate scan --rows`: what a real model lost beside what one full-cache pass predicted."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from . import palette
from .results import ResultsError
from .scan_options import KEYS_A_TEXT
from .spread import CHANCE, SETTING

# Prefix scans drawn where they are there.
FIRST = (("aware", "evict", 64, 0.5), ("aware", "evict", 64, 0.75), ("agnostic", "evict", 128, 0.25))
MOST_PANELS = 3
AXES = {"prefix": "tokens in front", "grid": "offset of the block grid (tokens)"}


def panels(rows: pd.DataFrame) -> list[tuple]:
    """(scan, *SETTING) of the scans to draw: those of FIRST, then those of other settings with the most places."""
    found = []
    for key, group in rows.groupby(["scan", *SETTING], sort=True):
        places = len(np.unique(_places(key[0], group)))
        is_first = key[0] == "prefix" and key[1:5] in FIRST
        if places > 1:
            found.append(((not is_first, FIRST.index(key[1:5]) if is_first else -places), key))
    return [key for _, key in sorted(found)[:MOST_PANELS]]


def _places(scan: str, rows: pd.DataFrame) -> np.ndarray:
    """Where along the scan each row stands. The number of a made-up text (which has a kind) is in front of the place."""
    if scan == "grid":
        return rows["grid_offset"].to_numpy()
    is_made_up = rows["kind"].fillna("") != ""
    return np.where(is_made_up, rows["prompt"] % KEYS_A_TEXT, rows["prompt"])


def draw_scan(axes: Axes, rows: pd.DataFrame, panel: tuple) -> None:
    """Loss along a scan, a curve a text; measured as dots, predicted as a line."""
    scan, mode, policy, block, ratio, heads = panel
    chosen = rows[(rows[["scan", *SETTING]] == list(panel)).all(axis=1)]
    x = pd.Series(_places(scan, chosen), index=chosen.index)
    text = chosen["prompt"] if scan == "grid" else chosen["prompt"] - x
    for number, (_, one) in enumerate(chosen.groupby([text, chosen["kind"].fillna("")], sort=True)):
        one = one.loc[x[one.index].sort_values(kind="stable").index]
        axes.plot(x[one.index], one["predicted_loss"], color=palette.COLOURS[1], linewidth=1.2, label=None if number else "predicted")
        axes.plot(x[one.index], one["loss"], ".", color=palette.COLOURS[0], markersize=4, label=None if number else "measured")
    axes.set_ylim(-0.4, CHANCE + 0.6)
    axes.set_xlabel(AXES.get(scan, "place of the fact (tokens)"))
    axes.set_ylabel("loss (nats)")
    what = f"{'' if heads in ('head', 'all') else f'{heads} '}eviction" if policy == "evict" else policy
    axes.set_title(f"question-{mode} {what}, blocks of {block}{f', {ratio:.0%} removed' if policy == 'evict' else ''}", fontsize="small")


def draw_configurations(axes: Axes, rows: pd.DataFrame) -> None:
    """A dot a setting and scan: mean loss predicted against measured; of evictions only where there are any."""
    evicted = rows[rows["policy"] == "evict"]
    means = (evicted if len(evicted) else rows).groupby(["scan", *SETTING], sort=True)[["loss", "predicted_loss"]].mean().reset_index()
    for number, (scan, group) in enumerate(means.groupby("scan", sort=True)):
        axes.plot(group["loss"], group["predicted_loss"], "o", markersize=5, alpha=0.8, color=palette.colour(number),
                  label=scan.replace("_", " "))
    axes.plot([0, CHANCE], [0, CHANCE], color=palette.GREY, linewidth=0.8)
    axes.set_xlabel("mean loss measured (nats)")
    axes.set_ylabel("predicted (nats)")
    axes.legend(fontsize="x-small")
    axes.set_title("every configuration", fontsize="small")


def figure_of(rows: pd.DataFrame):
    """Up to MOST_PANELS scans, and every configuration's mean; a matplotlib figure."""
    from matplotlib import pyplot

    if "scan" not in rows:
        raise ResultsError("the rows have no column scan: not those of kvtide validate scan --rows")
    drawn = panels(rows)
    shape = (2, 2) if len(drawn) > 1 else (1, 1 + len(drawn))
    figure, axes = pyplot.subplots(*shape, figsize=(5.5 * shape[1], 3.2 * shape[0]), layout="constrained", squeeze=False)
    for axis, panel in zip(axes.flat, drawn):
        draw_scan(axis, rows, panel)
    if drawn:
        axes.flat[0].legend(fontsize="x-small")
    draw_configurations(axes.flat[len(drawn)], rows)
    for unused in axes.flat[len(drawn) + 1:]:
        unused.set_visible(False)
    return figure
