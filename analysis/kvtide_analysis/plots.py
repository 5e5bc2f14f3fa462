"""One matplotlib function per figure, each drawing on an Axes: for papers, notebooks and the README."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.text import Annotation
from matplotlib.ticker import LogLocator, PercentFormatter
from matplotlib.transforms import Bbox

from . import palette, settings, views
from .captions import phase_title
from .columns import loss_style, metric_title
from .machine_plots import missing, plot_memory, plot_timeline
from .remedies import plot_losses, plot_sensitivity
from .results import Results
from .spectrum import Spectrum

MOST_CELLS_WRITTEN = 64  # more numbers than this in a heat map cannot be read


def plot_pareto(axes: Axes, results: Results) -> None:
    """Memory saving against worst-span loss, one point a run, with a stem down to its mean loss; the line joins the runs that none
    beats in both."""
    view = views.pareto(results)
    if missing(axes, view):
        return
    policies, blocks = sorted(set(view.policy)), sorted(set(view.block_size))
    others = len(policies) - len(palette.COLOURS)
    if others > 0:  # more than can be told apart: the front's, by rising saving, have a colour
        policies = list(dict.fromkeys(view.policy[index] for index in view.front))[:len(palette.COLOURS)]
        others = len(set(view.policy)) - len(policies)
    named_blocks = blocks if len(blocks) <= len(palette.SYMBOLS) else []
    for index in range(len(view.run)):
        is_named = view.policy[index] in policies
        axes.plot(100 * view.saving[index], view.worst[index], linestyle="none",
                  alpha=0.9 if is_named else 0.4, zorder=2 if is_named else 1,
                  marker=palette.symbol(blocks.index(view.block_size[index]))[1] if named_blocks else "o",
                  color=palette.colour(policies.index(view.policy[index])) if is_named else palette.GREY)
    axes.plot(100 * view.saving[view.front], view.worst[view.front], color=palette.GREY, linewidth=1, linestyle=":", zorder=0)
    axes.vlines(100 * view.saving, view.mean, view.worst, color=palette.GRID, linewidth=0.8, zorder=0)
    axes.plot(100 * view.saving, view.mean, marker="_", linestyle="none", color=palette.GREY, zorder=0,
              label="mean loss (by attention)" if (view.mean > view.worst).any() else "mean loss")
    for number, policy in enumerate(policies):
        axes.plot([], [], color=palette.colour(number), marker="o", linestyle="none", label=policy)
    if others > 0:
        axes.plot([], [], color=palette.GREY, marker="o", alpha=0.4, linestyle="none", label=f"{others} others: --what catalogue")
    for number, block in enumerate(named_blocks):
        axes.plot([], [], color=palette.GREY, marker=palette.symbol(number)[1], linestyle="none", label=f"B {block}")
    axes.set_xlabel("KV-cache memory saved (%)")
    _loss_axis(axes, view.metric, f"{metric_title(view.metric)} in the worst span")
    axes.set_ylim(bottom=-0.03 * view.worst.max())  # a point at 0 is drawn whole
    axes.legend(fontsize="x-small", ncols=1, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def plot_catalogue(axes: Axes, results: Results) -> None:
    """Memory saving against worst-span loss, a named point a run, coloured by the time of a decode step; the line joins the runs that
    none beats in both."""
    view = views.pareto(results)
    if missing(axes, view):
        return
    summary = results.summary.loc[view.run]
    time = summary["decode_step_us"].to_numpy(float) / 1000 if "decode_step_us" in summary else np.full(len(view.run), np.nan)
    points = axes.scatter(100 * view.saving, view.worst, c=time, cmap="viridis", norm=LogNorm(), s=26, zorder=2)
    axes.plot(100 * view.saving[view.front], view.worst[view.front], color=palette.GREY, linewidth=1, linestyle=":", zorder=1)
    # One label where many points would write over one another; the front's names first.
    labelled: list[tuple[float, float, list[str]]] = []
    for index in sorted(range(len(view.policy)), key=lambda index: index not in view.front):
        x, y = 100 * view.saving[index], float(view.worst[index])
        near = next((names for at_x, at_y, names in labelled
                     if abs(at_x - x) < 1.5 and abs(at_y - y) < 0.015 * float(view.worst.max())), None)
        if near is None:
            labelled.append((x, y, [view.policy[index]]))
        else:
            near.append(view.policy[index])
    front = {view.policy[index] for index in view.front}
    labels = []
    for x, y, names in labelled:
        pair = ", ".join(names)
        text = pair if len(names) <= 2 and len(pair) <= 44 else settings.shortened(names[0])
        text += f" and {len(names) - 1} more" if len(names) > 1 and text != pair else ""
        labels.append(axes.annotate(text, (x, y), xytext=(3, 2), textcoords="offset points", fontsize=5.5,
                                    color="black" if names[0] in front else palette.GREY))
    if np.isfinite(time).any():
        bar = axes.figure.colorbar(points, ax=axes, label="decode step (ms)", ticks=LogLocator(subs=(1, 2, 5)), format="%g")
        bar.ax.minorticks_off()
    axes.set_xlabel("KV-cache memory saved (%)")
    _loss_axis(axes, view.metric, f"{metric_title(view.metric)} in the worst span")
    axes.set_ylim(bottom=-0.03 * view.worst.max())
    _keep_apart(labels)


def _keep_apart(labels: list[Annotation]) -> None:
    """Moves each label to the side of its point where no earlier one lies; one that finds no room is left out, its point stays."""
    placed: list[Bbox] = []
    for label in labels:
        for x, y, side in ((3, 2, "left"), (3, -6, "left"), (-3, 2, "right"), (-3, -6, "right"), (0, 5, "center"), (0, -9, "center")):
            label.set(position=(x, y), horizontalalignment=side)
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in placed):
                placed.append(box)
                break
        else:
            label.set_visible(False)


def plot_position(axes: Axes, results: Results, run: int, zoom: bool = False) -> None:
    """Loss by position with block boundaries; with `zoom`, four blocks around the worst place."""
    view = views.position(results, run, results.run(run))
    if missing(axes, view):
        return
    for boundary in view.zoom_boundaries if zoom else view.boundaries:
        axes.axvline(boundary - 0.5, color=palette.GRID, linewidth=0.6, zorder=0)
    if zoom:
        axes.step(view.zoom_x, view.zoom_y, where="mid", color=palette.COLOURS[0], linewidth=1.2)
    elif view.whole.width == 1:
        axes.plot(view.whole.x, view.whole.high, color=palette.COLOURS[0], linewidth=0.8)
    else:
        axes.fill_between(view.whole.x, view.whole.low, view.whole.high, step="post", color=palette.COLOURS[0], alpha=0.35,
                          linewidth=0, label=f"smallest to largest of {view.whole.width} positions")
        axes.step(view.whole.x, view.whole.mean, where="post", color=palette.COLOURS[0], linewidth=0.8, label="mean")
        axes.legend(fontsize="x-small")
    axes.set_xlabel("position (tokens)")
    _loss_axis(axes, view.metric)


def plot_phase(axes: Axes, results: Results, run: int) -> None:
    """Loss folded on the period: mean, and the range over the cycles."""
    view = views.phase(results, run, results.run(run))
    if missing(axes, view):
        return
    axes.fill_between(view.fold.phase, view.fold.low, view.fold.high, step="mid", color=palette.COLOURS[0], alpha=0.2,
                      linewidth=0, label="smallest to largest")
    axes.step(view.fold.phase, view.fold.mean, where="mid", color=palette.COLOURS[0], label="mean")
    axes.set_xlim(*_phase_range(view.period))
    axes.set_xlabel(phase_title(view.period, view.offset))
    _loss_axis(axes, view.metric)
    axes.legend(fontsize="x-small")


def plot_jumps(axes: Axes, results: Results, run: int) -> None:
    """Share of the loss jumps at each phase: whole blocks make one bar at phase 0, anything else an even spread."""
    view = views.jumps(results, run, results.run(run))
    if missing(axes, view):
        return
    axes.bar(view.phase, view.share, width=1.0, color=palette.COLOURS[0])
    axes.plot(view.outstanding, view.share[view.outstanding], marker="D", linestyle="none", color=palette.COLOURS[1], markersize=5,
              label=f"over {views.LEAST_OUTSTANDING} × even")
    axes.axhline(1 / view.period, color=palette.GREY, linestyle=":", linewidth=1, label="spread evenly")
    axes.set_xlim(*_phase_range(view.period))
    axes.set_ylim(0, 1.08 * np.nanmax(view.share))
    axes.set_xlabel(phase_title(view.period, view.offset))
    axes.set_ylabel("share of the jumps")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(fontsize="x-small")


def plot_spectrum(axes: Axes, results: Results, run: int) -> None:
    """Power against period, with the level that red noise stays under in 95 % (one period) and 99 % (all periods) of cases."""
    view = views.loss_spectrum(results, run, results.run(run))
    if missing(axes, view):
        return
    assert isinstance(view, Spectrum)
    axes.plot(view.period, view.power, color=palette.COLOURS[0], linewidth=0.9, label="loss profile")
    axes.plot(view.period, view.limit_95, color=palette.GREY, linestyle=":", label="95 %, one period")
    axes.plot(view.period, view.limit_99, color=palette.COLOURS[1], linestyle="--", label="99 %, all periods")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(max(views.settings.block_size(results, run), 1), color=palette.GRID, linewidth=0.8, label="block_size")
    axes.set_xlabel("period (tokens)")
    axes.set_ylabel("power (white noise = 1)")
    axes.legend(fontsize="x-small")


def plot_steps(axes: Axes, results: Results, run: int) -> None:
    """Decode step time over steps; the spikes come where a block fills up and is compressed."""
    view = views.steps(results, run, results.run(run))
    if missing(axes, view):
        return
    if view.curve.width > 1:
        axes.fill_between(view.curve.x, view.curve.low, view.curve.high, step="post", color=palette.COLOURS[0], alpha=0.35,
                          linewidth=0, label=f"smallest to largest of {view.curve.width} steps")
        axes.legend(fontsize="x-small")
    axes.step(view.curve.x, view.curve.mean, where="mid", color=palette.COLOURS[0], linewidth=0.8)
    axes.set_ylim(view.low, view.high)
    axes.set_xlabel("context length at the decode step (tokens)")
    axes.set_ylabel("step time (ms; the axis does not begin at 0)")


def plot_prefix(axes: Axes, results: Results, run: int) -> None:
    """Mean change of the loss against the number of tokens put in front of the content."""
    view = views.prefix(results, run, results.run(run))
    if missing(axes, view):
        return
    axes.plot(view.shift, view.sensitivity, color=palette.COLOURS[0], marker="." if len(view.shift) < 200 else None)
    for boundary in view.boundaries:
        axes.axvline(boundary, color=palette.GRID, linewidth=0.6, zorder=0)
    axes.set_xlabel("tokens put in front")
    _loss_axis(axes, views.settings.loss_metric(results, run), "mean |change of loss|")


def plot_heads(axes: Axes, results: Results, run: int) -> None:
    """Layer by KV head: the share of its attention that each head loses. Few heads read a fact; those are the ones to spare."""
    view = views.heads(results, run, results.run(run))
    if missing(axes, view):
        return
    image = axes.imshow(view.loss, aspect="auto", cmap="cividis", vmin=0, vmax=1, interpolation="nearest", origin="lower")
    for (layer, head), loss in np.ndenumerate(view.loss) if view.loss.size <= MOST_CELLS_WRITTEN else ():
        axes.text(head, layer, f"{100 * loss:.0f} %", ha="center", va="center", fontsize="x-small",
                  color="black" if loss > 0.5 else "white")
    axes.set_xticks(range(len(view.kv_head)), [str(head) for head in view.kv_head])
    step = -(-len(view.layer) // 24)
    axes.set_yticks(range(0, len(view.layer), step), [str(layer) for layer in view.layer[::step]])
    axes.set_xlabel("KV head")
    axes.set_ylabel("layer")
    axes.figure.colorbar(image, ax=axes, label="attention on the context that is lost", format=PercentFormatter(1.0))


def plot_queue(axes: Axes, results: Results, run: int) -> None:
    """Requests in the batch and in line, over time."""
    view = views.serving(results.run(run))
    if missing(axes, view):
        return
    _over_time(axes, view.time, {"in the batch": view.running, "in line": view.waiting}, "requests")
    axes.set_ylim(bottom=0)


def plot_occupancy(axes: Axes, results: Results, run: int) -> None:
    """Share of the KV pages taken and of the time the engine computes, over time: which of the two is the limit."""
    view = views.serving(results.run(run))
    if missing(axes, view):
        return
    _over_time(axes, view.time, {"KV pages taken": view.used_pages_share, "engine busy": view.busy_share}, "share")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


# What `plot --what` offers: the panels of each, side by side. The run is ignored by pareto and catalogue.
PLOTS = {
    "pareto": (lambda axes, results, run: plot_pareto(axes, results),),
    "catalogue": (lambda axes, results, run: plot_catalogue(axes, results),),
    "remedies": (lambda axes, results, run: plot_losses(axes, results), lambda axes, results, run: plot_sensitivity(axes, results)),
    "position": (plot_position,),
    "phase": (plot_phase, plot_jumps),
    "spectrum": (plot_spectrum,),
    "steps": (plot_steps,),
    "prefix": (plot_prefix,),
    "heads": (plot_heads,),
    "serving": (plot_queue, plot_occupancy),
    "memory": (plot_memory,),
    "timeline": (plot_timeline,),
}


def _loss_axis(axes: Axes, metric: str, title: str = "") -> None:
    axes.set_ylabel(title or metric_title(metric))
    axes.set_ylim(bottom=0)
    if loss_style(metric) == "percent":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _over_time(axes: Axes, time: np.ndarray, curves: dict[str, np.ndarray], title: str) -> None:
    """Values that hold from one time to the next, a named step curve each."""
    for number, (name, values) in enumerate(curves.items()):
        axes.step(time, values, where="post", color=palette.colour(number), linewidth=0.9, label=name)
    axes.set_xlabel("time (s)")
    axes.set_ylabel(title)
    axes.legend(fontsize="x-small")


def _phase_range(period: int) -> tuple[float, float]:
    """Room on the left, so that a bar at phase 0 stands clear of the axis."""
    return -0.02 * period - 0.5, period - 0.5
