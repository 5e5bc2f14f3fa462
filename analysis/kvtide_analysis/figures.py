"""Plotly figures as plain JSON mappings, one function per figure, from the same views as the matplotlib plots.

Only keys that mean the same in plotly.js 2 and 3 are used. Each figure carries its own caption: the main numbers in words, so that
it can be read without seeing it. A missing figure is `{"missing": reason}`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import palette, settings, views
from .captions import jumps_in_words, phase_title, steps_in_words
from .columns import loss_style, metric_title, write
from .results import Results
from .spectrum import Spectrum
from .worst import describe, worst

Figure = dict[str, Any]


def pareto(results: Results) -> Figure:
    """Savings against worst loss; `customdata` of each point is its run number. A stem leads down to the mean loss."""
    view = views.pareto(results)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    style = loss_style(view.metric)
    policies, blocks = sorted(set(view.policy)), sorted(set(view.block_size))
    saving = 100 * view.saving
    traces: list[Figure] = [
        {"type": "scatter", "mode": "lines", "name": "front", "hoverinfo": "skip",
         "line": {"color": palette.GREY, "width": 1, "dash": "dot"}, "x": numbers(saving[view.front]),
         "y": numbers(view.worst[view.front])},
        {"type": "scatter", "mode": "lines+markers", "name": "mean loss", "hoverinfo": "skip",
         "line": {"color": palette.GRID, "width": 1},
         "marker": {"symbol": "line-ew", "size": 8, "line": {"color": palette.GREY, "width": 1.5}},
         "x": [x for value in numbers(saving) for x in (value, value, None)],
         "y": [y for pair in zip(numbers(view.worst), numbers(view.mean)) for y in (*pair, None)]}]
    for number, policy in enumerate(policies):
        chosen = [index for index in range(len(view.run)) if view.policy[index] == policy]
        traces.append({
            "type": "scatter", "mode": "markers", "name": settings.shortened(policy),
            "customdata": [int(view.run[index]) for index in chosen],
            "x": numbers(saving[chosen]), "y": numbers(view.worst[chosen]),
            "text": [f"{view.label[index]}<br>saves {write(view.saving[index], 'percent')}, worst "
                     f"{write(view.worst[index], style)}, mean {write(view.mean[index], style)}" for index in chosen],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {"size": 11, "color": palette.colour(number), "opacity": 0.85, "line": {"color": "#fff", "width": 1},
                       "symbol": [palette.symbol(blocks.index(view.block_size[index]))[0] for index in chosen]}})
    traces += [{"type": "scatter", "mode": "markers", "name": f"B {block}", "x": [None], "y": [None], "hoverinfo": "skip",
                "marker": {"size": 9, "color": palette.GREY, "symbol": palette.symbol(number)[0]}}
               for number, block in enumerate(blocks)]
    front = "; ".join(view.label[index] for index in view.front)
    highest = _highest(view.worst)
    figure = figure_of(traces, "KV-cache memory saved (%)", f"{metric_title(view.metric)} in the worst span",
                     f"Lower right is better; a point's stem ends at its mean loss{_why_above(view)}. Dotted: the front, settings that "
                     f"none beats in both saving and worst loss: {front}.", style=style, highest=highest)
    if highest > 0:
        figure["layout"]["yaxis"]["range"] = [-0.03 * highest, 1.06 * highest]  # a point at 0 is drawn whole
    # The legend above takes its rows, of about three names, from the plot's height.
    figure["layout"]["height"] = min(900, 420 + 22 * max(0, len(traces) // 3 - 2))
    return figure


def position(results: Results, run: int, arrays) -> Figure:
    """The whole profile: as it is up to 4,096 positions, else the range and mean of equal bins."""
    view = views.position(results, run, arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    if view.whole.width == 1:
        traces = [line(view.whole.x, view.whole.high, "loss")]
        drawn = "every position is drawn"
    else:
        traces = _band(view.whole.x, view.whole.low, view.whole.high) + [line(view.whole.x, view.whole.mean, "mean", shape="hv")]
        drawn = f"band: smallest to largest of {view.whole.width} positions"
    grid = (f"lines: the block grid (B {view.block_size}, first boundary at {view.offset})" if len(view.boundaries)
            else "the block grid is too fine to draw here: see the zoom")
    found = worst(results, run, arrays)
    style, highest = loss_style(view.metric), _highest(view.whole.high)
    said = describe(found) if found else f"Largest {write(highest, style)}."
    return figure_of(traces, "position (tokens)", metric_title(view.metric),
                   said, view.boundaries - 0.5, style=style, highest=highest, note=f"{drawn[0].upper()}{drawn[1:]}; {grid}.")


def _why_above(view: views.Pareto) -> str:
    """Why a mean can be larger than the worst span; empty where none is."""
    above = (view.mean > view.worst).any()
    return " (above it where what is lost received much attention: the mean is weighted by attention, a span is not)" if above else ""


def zoom(results: Results, run: int, arrays) -> Figure:
    """Four blocks around the worst place, position by position."""
    view = views.position(results, run, arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    caption = f"Positions {view.zoom_x[0]} to {view.zoom_x[-1]}, around the largest loss; lines: block boundaries."
    return figure_of([line(view.zoom_x, view.zoom_y, "loss", shape="hvh")], "position (tokens)",
                   metric_title(view.metric), caption, view.zoom_boundaries - 0.5, style=loss_style(view.metric),
                   highest=_highest(view.zoom_y))


def phase(results: Results, run: int, arrays) -> Figure:
    """Mean loss by phase, and its range over the cycles."""
    view = views.phase(results, run, arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    traces = _band(view.fold.phase, view.fold.low, view.fold.high) + [line(view.fold.phase, view.fold.mean, "mean", shape="hvh")]
    why = (f"period found: {view.period} tokens" if view.period_found
           else f"no period was found; folded on block_size {view.block_size} to show that")
    style = loss_style(view.metric)
    finite = np.isfinite(view.fold.mean)
    means = view.fold.mean[finite]
    numbers_said = (f" Mean {write(means.mean(), style)}, worst phase {view.fold.phase[finite][np.argmax(means)]} with "
                    f"{write(means.max(), style)}." if len(means) else "")
    left_out = " (protected positions count here, not in the mean)" if view.without_protected else ""
    inner = np.arange(view.block_size, view.period, view.block_size) if view.block_size else np.empty(0)
    figure = figure_of(traces, phase_title(view.period, view.offset), metric_title(view.metric),
                     f"{why[0].upper()}{why[1:]}.{numbers_said}", inner if len(inner) <= views.MOST_GRID_LINES else (), style=style,
                     note=f"Band: smallest to largest over the cycles{left_out}.",
                     highest=_highest(np.append(view.fold.high, view.fold.mean)))
    figure["layout"]["xaxis"]["range"] = [-0.02 * view.period - 0.5, view.period - 0.5]
    return figure


def jumps(results: Results, run: int, arrays) -> Figure:
    """Where within the period the loss jumps: one bar at phase 0 for whole blocks, an even spread for anything else."""
    view = views.jumps(results, run, arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    marked = view.outstanding
    traces = [{"type": "bar", "name": "share of the jumps", "x": coordinates(view.phase), "y": numbers(view.share), "width": 1,
               "marker": {"color": palette.COLOURS[0], "line": {"width": 0}}, "meta": "compared"},
              {"type": "scatter", "mode": "markers", "name": f"over {views.LEAST_OUTSTANDING} × even", "x": coordinates(marked),
               "y": numbers(view.share[marked]), "marker": {"color": palette.COLOURS[1], "size": 9, "symbol": "diamond"}, "meta": "mark"},
              line(np.array([-0.5, view.period - 0.5]), np.full(2, 1 / view.period), "spread evenly", palette.GREY, "dot",
                    compared=False)]
    figure = figure_of(traces, phase_title(view.period, view.offset), "share of the jumps", jumps_in_words(view), style="percent",
                     highest=_highest(view.share))
    figure["layout"]["xaxis"]["range"] = [-0.02 * view.period - 0.5, view.period - 0.5]
    figure["layout"]["barmode"] = "overlay"
    return figure


def loss_spectrum(results: Results, run: int, arrays) -> Figure:
    """Power against period with its confidence limits."""
    view = views.loss_spectrum(results, run, arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    assert isinstance(view, Spectrum)
    few = np.unique(np.linspace(0, len(view.period) - 1, 80).astype(int))  # the limits are smooth
    traces = [line(view.period, view.power, "loss"),
              line(view.period[few], view.limit_95[few], "95 %, one period", palette.GREY, "dot", compared=False),
              line(view.period[few], view.limit_99[few], "99 %, all periods", palette.COLOURS[1], "dash", compared=False)]
    period, power, above = view.peak
    block = views.settings.block_size(results, run)
    said = (f"Farthest above the 99 % limit: period {period:.4g} tokens, power {power:.3g}." if above
            else f"No period up to {view.longest_judged:.4g} tokens reaches the 99 % limit.")
    if above and not _confirmed(results, run, period, arrays["loss"].sizes.get("position", 1)):
        why = ("a few whole blocks lost side by side make such a peak too" if period > block > 0
               else "1 in 100 profiles of plain red noise comes this far")
        said += f" The tests behind the table do not confirm it as the period: {why}."
    note = (f"Limits: red noise, lag-1 correlation {view.lag1:.3f} fitted to the medians of the spectrum; 95 % for a period "
            f"fixed beforehand, 99 % for the highest of all. Periods above {view.longest_judged:.4g} tokens are seen fewer than "
            "6 times and are not judged. Line: block_size. Whole blocks that a score chooses jump on the grid without a level period: "
            "the table's certainty decides, not this curve.")
    figure = figure_of(traces, "period (tokens)", "power (white noise = 1)", said, (block,) if block > 1 else (), x_type="log",
                     highest=_highest(np.append(view.power, view.limit_99)), note=note)
    for shape in figure["layout"]["shapes"]:  # above the grid line of a power of two
        shape.update(layer="above", line={"color": palette.GREY, "width": 1.2})
    figure["layout"]["xaxis"].update(tickvals=[2**power for power in range(1, 24) if 2**power <= view.period[-1]], tickmode="array")
    return figure


def _confirmed(results: Results, run: int, peak: float, positions: int) -> bool:
    """Whether a peak lies at the period found or at one of its harmonics, within the resolution period^2 / positions."""
    found = results.summary.at[run, "period"] if "period" in results.summary else np.nan
    if not found >= 1:
        return False
    harmonic = found / max(round(found / peak), 1)
    return bool(abs(peak - harmonic) <= harmonic**2 / positions)


def steps(results: Results, run: int, arrays) -> Figure:
    """Step time by decode step, on an axis that leaves 0 out, so that the spikes of compression can be seen."""
    view = views.steps(results, run, arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    curve = view.curve
    traces = [] if curve.width == 1 else _band(curve.x, curve.low, curve.high)
    traces.append(line(curve.x, curve.mean, "step time" if curve.width == 1 else "mean", shape="hvh"))
    drawn = "every step is drawn" if curve.width == 1 else f"band: smallest to largest of {curve.width} steps"
    figure = figure_of(traces, "context length at the step (tokens)", "step time (ms)", steps_in_words(view),
                     note=f"The axis does not begin at 0, so that the spikes can be seen; {drawn}.")
    figure["layout"]["yaxis"].update(range=[view.low, view.high], rangemode="normal")
    figure["layout"]["xaxis"]["tickformat"] = ",d"
    return figure


def prefix(results: Results, run: int, arrays) -> Figure:
    """Prefix sensitivity against prefix length."""
    view = views.prefix(results, run, arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    finite = np.isfinite(view.sensitivity)
    highest = int(np.argmax(np.where(finite, view.sensitivity, -np.inf)))
    style = loss_style(views.settings.loss_metric(results, run))
    caption = f"Largest {write(view.sensitivity[highest], style)} at {view.shift[highest]} tokens."
    note = ("How much the loss of the same text changes, on average, when unrelated tokens are put in front of it and so move it "
            "against the block grid; 0 where the grid falls on itself again. Lines: multiples of block_size.")
    return figure_of([line(view.shift, view.sensitivity, "sensitivity")], "tokens put in front", "mean |change of loss|", caption,
                   view.boundaries, style=style, highest=_highest(view.sensitivity), note=note)


# Figures of one run, in the order of the page: key -> (title, function).
RUN_FIGURES = {
    "position": ("Loss by position", position),
    "zoom": ("Four blocks around the worst place", zoom),
    "phase": ("Loss by phase: the profile folded", phase),
    "jumps": ("Jumps of the loss by phase", jumps),
    "spectrum": ("Spectrum of the loss", loss_spectrum),
    "prefix": ("Sensitivity to a prefix", prefix),
    "steps": ("Step time while decoding", steps),
}


def numbers(values: np.ndarray) -> list[float | int | None]:
    """JSON numbers with five significant digits (less than a pixel); null where not finite."""
    if values.dtype.kind in "iu":
        return [int(value) for value in values]
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]


def coordinates(values: np.ndarray) -> list[float | int]:
    """As `numbers`, with every digit that tells neighbours apart."""
    return numbers(values) if values.dtype.kind in "iu" else [float(f"{value:.7g}") for value in values]


def line(x: np.ndarray, y: np.ndarray, name: str, colour: str = palette.COLOURS[0], dash: str = "solid", shape: str = "linear",
          compared: bool = True) -> Figure:
    """`meta` tells the page which curves a second run adds to the figure."""
    return {"type": "scatter", "mode": "lines", "name": name, "x": coordinates(x), "y": numbers(y), "connectgaps": False,
            "line": {"color": colour, "width": 1.4, "dash": dash, "shape": shape}, "meta": "compared" if compared else "limit"}


def _band(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[Figure]:
    """Two invisible curves with the range between them filled; none where there is no range."""
    if not np.isfinite(low).any():
        return []
    edge = {"type": "scatter", "mode": "lines", "x": coordinates(x), "line": {"width": 0, "shape": "hv"}, "hoverinfo": "skip",
            "meta": "band"}
    return [{**edge, "y": numbers(low), "name": "smallest", "showlegend": False},
            {**edge, "y": numbers(high), "name": "smallest to largest", "fill": "tonexty", "fillcolor": "rgba(0,114,178,0.22)"}]


def figure_of(traces: list[Figure], x_title: str, y_title: str, caption: str, lines=(), x_type: str = "linear", style: str = "number",
            highest: float = 0.0, note: str = "") -> Figure:
    """caption: what was found; note: how to read it, the same for a compared run.

    lines: x of vertical lines (block boundaries); style "percent": y is a share; highest: largest y, 0 for plotly's own range.
    """
    shapes = [{"type": "line", "xref": "x", "yref": "paper", "x0": float(x), "x1": float(x), "y0": 0, "y1": 1, "layer": "below",
               "line": {"color": palette.GRID, "width": 0.7}} for x in lines]
    y_axis: Figure = {"title": {"text": y_title}, "rangemode": "tozero", "automargin": True}
    if style == "percent":
        y_axis["tickformat"] = ".1~%"  # 0.125 -> 12.5%, 0.5 -> 50%
    if highest > 0:
        y_axis["range"] = [0, 1.06 * highest]
    return {"data": traces, "caption": caption, "note": note, "layout": {
        "xaxis": {"title": {"text": x_title}, "type": x_type, "automargin": True}, "yaxis": y_axis, "shapes": shapes}}


def _highest(values: np.ndarray) -> float:
    """Largest finite value; 0 where there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else 0.0
