"""All runs of one file beside each other, the best first: what each setting loses, and what tokens in front of the text change."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from . import palette, settings
from .columns import loss_style, metric_title
from .machine_plots import missing
from .results import Results
from .settings import run_label
from .views import Missing


MOST_RUNS = 30  # lines of text that a picture has room for


def order(results: Results) -> list[int]:
    """Runs by rising mean loss, the first MOST_RUNS; runs without one are left out."""
    loss = results.summary.get("loss_mean")
    return [] if loss is None else [int(run) for run in loss.dropna().sort_values(kind="stable").index[:MOST_RUNS]]


def period_text(row) -> str:
    """What stands behind a bar: the period that is left."""
    period = row.get("period", np.nan)
    return settings.digits(period) if np.isfinite(period) else "none"


def plot_losses(axes: Axes, results: Results) -> None:
    """Mean loss, a line a run."""
    _draw(axes, results, (("loss_mean", "mean over positions"),), "")
    axes.set_yticks(range(len(order(results))), [run_label(results, run) for run in order(results)], fontsize="x-small")


def plot_sensitivity(axes: Axes, results: Results) -> None:
    """What a longer prefix changes: largest mean change of the loss, and that of two more tokens; the period left behind it."""
    runs = order(results)
    _draw(axes, results, (("prefix_sensitivity_two", "two tokens more"), ("prefix_sensitivity", "the worst prefix")), "change of the loss")
    axes.set_yticks(range(len(runs)), [])
    edge = axes.get_xlim()[1]
    for line, run in enumerate(runs):
        axes.text(edge, line, f"  {period_text(results.summary.loc[run])}", va="center", fontsize="x-small", color=palette.GREY)
    axes.set_title("period left", loc="right", fontsize="x-small", color=palette.GREY)


def _draw(axes: Axes, results: Results, columns, title: str) -> None:
    runs = order(results)
    held = [(name, label) for name, label in columns if name in results.summary and results.summary[name].notna().any()]
    if not runs or not held:
        missing(axes, Missing("no run has this loss: measure: [loss, prefix_scan]"))
        return
    metrics = settings.metrics(results)
    if len(metrics) > 1:
        missing(axes, Missing(f"the losses are of several metrics ({', '.join(metrics)})"))
        return
    values = np.array([[float(results.summary.at[run, name]) for run in runs] for name, _ in held])
    axes.hlines(range(len(runs)), 0 if len(held) == 1 else np.nanmin(values, axis=0), np.nanmax(values, axis=0), color=palette.GRID,
                linewidth=1, zorder=1)
    for index, (one, (_, label)) in enumerate(zip(values, held)):
        axes.plot(one, range(len(runs)), palette.symbol(index)[1], color=palette.colour(index), markersize=5, label=label, clip_on=False)
    axes.set_xlim(left=0)
    axes.set_ylim(len(runs) - 0.5, -0.5)
    if loss_style(metrics[0]) == "percent":
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    unit = metric_title(metrics[0])
    axes.set_xlabel(unit if not title else title if metrics[0] == "mass_loss" else f"{title} ({unit})")
    measured = int(results.summary["loss_mean"].notna().sum())
    axes.set_ylabel("setting" if measured <= MOST_RUNS else f"setting (the best {MOST_RUNS} of {measured})")
    axes.legend(fontsize="x-small", loc="lower left", bbox_to_anchor=(0, 1), ncols=len(held), frameon=False)
