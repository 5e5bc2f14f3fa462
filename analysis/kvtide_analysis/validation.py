"""Pictures of `kvtide validate ... -o FILE.h5`: the model beside outside measurements."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from . import palette
from .results import ResultsError


LINE_INCHES = 0.12  # a group's name and its two bars


def read_columns(path: str, group: str) -> dict[str, np.ndarray]:
    """Every array of a group of a file of kvtide validate."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            if group not in file:
                raise ResultsError(f"{path}: no /{group}: not a file of kvtide validate")
            return {name: data.asstr()[...] if h5py.check_string_dtype(data.dtype) else data[...] for name, data in file[group].items()}
    except (OSError, RuntimeError) as error:
        raise ResultsError(f"{path}: {error}") from error


def draw(path: str, axes: list[Axes]) -> None:
    """Left: each row's prediction over its reference. Right: the errors of the groups, or of the row-hit rate."""
    rows = read_columns(path, "rows")
    if "measured_us" in rows:
        _draw_measured(rows, read_columns(path, "groups"), axes)
    elif "achieved_fraction" in rows:
        _draw_dram(rows, axes)
    else:
        raise ResultsError(f"{path}: /rows holds neither measured_us nor achieved_fraction")


def _draw_measured(rows: dict[str, np.ndarray], groups: dict[str, np.ndarray], axes: list[Axes]) -> None:
    # Differences of two measurements may be near zero: a percentage says nothing of them.
    operations = sorted(operation for operation in set(rows["operation"]) if not operation.endswith(" difference"))
    good = (rows["measured_us"] > 0) & np.isfinite(rows["predicted_us"]) & (rows["bytes"] > 0)
    for number, operation in enumerate(operations):
        chosen = good & (rows["operation"] == operation)
        axes[0].plot(rows["bytes"][chosen], rows["predicted_us"][chosen] / rows["measured_us"][chosen], ".", markersize=2, alpha=0.35,
                     color=palette.colour(number), label=f"{operation} ({chosen.sum():,})", rasterized=True)
    axes[0].axhline(1, color=palette.GREY, linewidth=0.8)
    axes[0].set_xscale("log")
    axes[0].set_yscale("log")
    axes[0].set_ylim(0.25, 4)
    axes[0].set_yticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    axes[0].minorticks_off()
    axes[0].set_xlabel("bytes of the row (B)")
    axes[0].set_ylabel("predicted / measured time")
    axes[0].legend(fontsize="x-small", markerscale=4)
    shown = [index for index in range(len(groups["size_class"])) if groups["size_class"][index] in ("all", "big")
             and groups["rows"][index] > 0 and groups["operation"][index] in operations]
    names = [f"{groups['gpu'][index]} {groups['framework'][index]} {groups['operation'][index]}" for index in shown]
    labels = list(dict.fromkeys(names))
    for size, colour, shift in (("all", palette.COLOURS[0], -0.2), ("big", palette.COLOURS[1], 0.2)):
        chosen = [(labels.index(name), groups["ape_median"][index]) for name,
                  index in zip(names, shown) if groups["size_class"][index] == size]
        axes[1].barh([place + shift for place, _ in chosen], [value for _, value in chosen], height=0.38, color=colour,
                     label="all rows" if size == "all" else "bytes of 4 x L2 and more")
    width, height = axes[1].figure.get_size_inches()
    axes[1].figure.set_size_inches(width, max(height, 1 + LINE_INCHES * len(labels)))
    axes[1].set_yticks(range(len(labels)), labels, fontsize=6 if len(labels) > 20 else "x-small")
    axes[1].set_ylim(-0.6, len(labels) - 0.4)
    axes[1].invert_yaxis()
    axes[1].set_xlabel("median absolute error (%)")
    axes[1].legend(fontsize="x-small")


def _draw_dram(rows: dict[str, np.ndarray], axes: list[Axes]) -> None:
    pairs = (("achieved_fraction", "predicted_fraction", "share of the peak bandwidth"),
             ("row_hit_rate", "predicted_row_hit_rate", "row-hit rate"))
    for panel, (reference, predicted, title) in zip(axes, pairs):
        for number, simulator in enumerate(sorted(set(rows["simulator"]))):
            chosen = (rows["simulator"] == simulator) & np.isfinite(rows[predicted])
            panel.plot(rows[reference][chosen], rows[predicted][chosen], "o", markersize=3, alpha=0.6, color=palette.colour(number),
                       label=simulator)
        panel.plot([0, 1], [0, 1], color=palette.GREY, linewidth=0.8)
        panel.set_xlabel(f"reference: {title}")
        panel.set_ylabel("kvtide")
    axes[0].legend(fontsize="x-small")
