"""matplotlib figures of the machine: a GPU's memory, and where the simulated time goes. One function an Axes, as in `plots.py`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from . import machine_views, palette
from .machine_views import GIB
from .results import Results
from .views import Missing


def plot_memory(axes: Axes, results: Results, run: int) -> None:
    """One GPU's memory without and with compression: weights, what an engine reserves, the batch's cache, what stays free; hatched:
    what does not fit."""
    view = machine_views.memory_account(results, run)
    if missing(axes, view):
        return
    bars = (("without\ncompression", view.kv_full, view.sequences_full), ("this\nsetting", view.kv, view.sequences))
    for place, (_, cache, sequences) in enumerate(bars):
        fits, beyond = min(cache, view.capacity), max(cache - view.capacity, 0.0)
        left = 0.0
        for value, colour, hatch in ((view.weights, palette.COLOURS[0], ""), (view.reserved, palette.GRID, ""),
                                     (fits, palette.COLOURS[4], ""), (view.capacity - fits, "white", ""),
                                     (beyond, palette.COLOURS[1], "////")):
            axes.barh(place, value / GIB, left=left / GIB, color=colour, hatch=hatch, edgecolor="black", linewidth=0.6, height=0.62)
            left += value
        axes.annotate(f"{sequences:,.0f} sequence{'s' if sequences != 1 else ''} of this context fit", (0, place - 0.36),
                      fontsize="x-small",
                      color=palette.GREY, xytext=(2, 2), textcoords="offset points")
    axes.axvline(view.total / GIB, color="black", linestyle="--", linewidth=1)
    for name, colour, hatch in (("weights", palette.COLOURS[0], ""), ("activations and reserve", palette.GRID, ""),
                                ("KV cache of the batch", palette.COLOURS[4], ""), ("free for KV", "white", ""),
                                *([("does not fit", palette.COLOURS[1], "////")] if max(view.kv, view.kv_full) > view.capacity else [])):
        axes.bar(np.nan, np.nan, color=colour, hatch=hatch, edgecolor="black", linewidth=0.6, label=name)
    axes.plot([], [], color="black", linestyle="--", linewidth=1, label="the GPU's memory")
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, 1.03 * max(view.total, view.weights + view.reserved + max(view.kv_full, view.kv)) / GIB)
    axes.set_xlabel("memory of one GPU (GiB)")
    axes.set_ylabel("cache")
    axes.legend(fontsize="x-small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def plot_timeline(axes: Axes, results: Results, run: int) -> None:
    """Each decode step along the simulated time, by what it is spent on."""
    view = machine_views.step_parts(results.run(run))
    if missing(axes, view):
        return
    axes.stackplot(view.start, view.rest, view.attention, view.compress, step="post", baseline="zero", linewidth=0,
                   colors=(palette.GRID, palette.COLOURS[0], palette.COLOURS[1]),
                   labels=("weights and the rest", "attention", "compression"))
    axes.set_xlim(view.start[0], view.start[-1])
    axes.set_xlabel("simulated time (ms)")
    axes.set_ylabel("time of the step (ms)")
    axes.margins(y=0.05)
    axes.legend(fontsize="x-small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def missing(axes: Axes, view: object) -> bool:
    """Writes why there is nothing to draw."""
    if not isinstance(view, Missing):
        return False
    axes.text(0.5, 0.5, f"No data:\n{view.reason}", ha="center", va="center", wrap=True, transform=axes.transAxes)
    axes.set_axis_off()
    return True
