"""The picture of `kvtide validate scan --rows`: what a real model lost beside what one full-cache pass predicted."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from . import palette
from .results import ResultsError
from .spread import CHANCE, SETTING

SHOWN = (("aware", 64, 0.5), ("aware", 64, 0.75), ("agnostic", 128, 0.25))  # of the prefix scan: mode, block, ratio


def draw_prefix(axes: Axes, rows: pd.DataFrame, mode: str, block: int, ratio: float) -> None:
    """Loss by length of the prefix; measured as dots, predicted as a line."""
    chosen = rows[(rows["scan"] == "prefix") & (rows["policy"] == "evict") & (rows["mode"] == mode) & (rows["block"] == block) &
                  (rows["ratio"] == ratio)].sort_values("prompt")
    axes.plot(chosen["prompt"], chosen["predicted_loss"], color=palette.COLOURS[1], linewidth=1.2, label="predicted")
    axes.plot(chosen["prompt"], chosen["loss"], ".", color=palette.COLOURS[0], markersize=4, label="measured")
    axes.set_ylim(-0.4, CHANCE + 0.6)
    axes.set_ylabel("loss (nats)")
    axes.set_title(f"question-{mode} eviction, blocks of {block}, {ratio:.0%} removed", fontsize="small")


def draw_configurations(axes: Axes, rows: pd.DataFrame) -> None:
    """A dot a setting and scan: mean loss predicted against measured."""
    evicted = rows[rows["policy"] == "evict"]
    means = evicted.groupby(["scan", *SETTING], sort=True)[["loss", "predicted_loss"]].mean().reset_index()
    for number, (scan, group) in enumerate(means.groupby("scan", sort=True)):
        axes.plot(group["loss"], group["predicted_loss"], "o", markersize=5, alpha=0.8, color=palette.colour(number), label=scan.replace("_", " "))
    axes.plot([0, CHANCE], [0, CHANCE], color=palette.GREY, linewidth=0.8)
    axes.set_xlabel("mean loss measured (nats)")
    axes.set_ylabel("predicted (nats)")
    axes.legend(fontsize="x-small")
    axes.set_title("every configuration", fontsize="small")


def figure_of(rows: pd.DataFrame):
    """The settings of SHOWN along the prefix, and every configuration's mean; a matplotlib figure."""
    from matplotlib import pyplot

    if "scan" not in rows:
        raise ResultsError("the rows have no column scan: not those of kvtide validate scan --rows")
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 6.4), layout="constrained")
    for panel, setting in zip(axes.flat, SHOWN):
        draw_prefix(panel, rows, *setting)
        panel.set_xlabel("tokens in front")
    axes.flat[0].legend(fontsize="x-small")
    draw_configurations(axes.flat[3], rows)
    return figure
