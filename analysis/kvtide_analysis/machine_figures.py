"""Interactive figures of the machine and the engine, from the same views as the matplotlib plots: memory account, where the time
goes, layer by head, an engine over time. As in `figures.py`, each carries its caption, and a missing one is {"missing": reason}."""

from __future__ import annotations

import numpy as np

from . import figures, machine_views, palette, views
from .columns import write
from .machine_views import GIB
from .results import Results

WITHOUT, WITH = "without compression", "this setting"


def memory(results: Results, run: int, arrays) -> figures.Figure:
    """One GPU's memory with the batch on it, without and with compression."""
    view = machine_views.memory_account(results, run)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    caches = np.array([view.kv_full, view.kv])
    fits = np.minimum(caches, view.capacity)
    parts = (("weights", np.full(2, view.weights), palette.COLOURS[0], ""),
             ("activations and reserve", np.full(2, view.reserved), palette.GRID, ""),
             ("KV cache of the batch", fits, palette.COLOURS[4], ""),
             ("free for KV", view.capacity - fits, "#ffffff", ""),
             ("does not fit", np.maximum(caches - view.capacity, 0), palette.COLOURS[1], "/"))
    traces = [{"type": "bar", "orientation": "h", "name": name, "y": [WITHOUT, WITH], "x": figures.numbers(values / GIB),
               "hovertemplate": f"{name}: %{{x:.2f}} GiB<extra></extra>", "meta": "stacked",
               "marker": {"color": colour, "pattern": {"shape": pattern}, "line": {"color": "#1b1b1b", "width": 0.6}}}
              for name, values, colour, pattern in parts if values.any() or name == "free for KV"]
    said = (f"A batch's cache takes {view.kv / GIB:.2f} GiB instead of {view.kv_full / GIB:.2f} of the {view.capacity / GIB:.2f} GiB that "
            f"are left for it; {write(view.sequences, 'integer')} sequences of this context fit instead of "
            f"{write(view.sequences_full, 'integer')}.")
    figure = figures.figure_of(traces, "memory of one GPU (GiB)", "", said, note="Line: the GPU's memory as its driver reports it.")
    figure["layout"].update(barmode="stack", yaxis={"autorange": "reversed", "automargin": True},
                            shapes=[{"type": "line", "xref": "x", "yref": "paper", "x0": view.total / GIB, "x1": view.total / GIB, "y0": 0,
                                     "y1": 1,
                                     "line": {"color": "#1b1b1b", "width": 1.2, "dash": "dash"}}])
    return figure


def timeline(results: Results, run: int, arrays) -> figures.Figure:
    """Each decode step along the simulated time, by what it is spent on."""
    view = machine_views.step_parts(arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    parts = (("weights and the rest", view.rest, palette.GRID, ""), ("attention", view.attention, palette.COLOURS[0], ""),
             ("compression", view.compress, palette.COLOURS[1], ""))
    traces = [{"type": "scatter", "mode": "lines", "name": name, "x": figures.coordinates(view.start), "y": figures.numbers(values),
               "stackgroup": "step", "line": {"width": 0, "shape": "hv"}, "fillcolor": colour, "meta": "part",
               "hovertemplate": f"{name}: %{{y:.3f}} ms<extra></extra>"} for name, values, colour, _ in parts]
    total = sum(float(values.sum()) for _, values, _, _ in parts)
    said = ""
    if total > 0:
        shares = ", ".join(f"{name} {write(float(values.sum()) / total, 'percent')}" for name, values, _, _ in parts)
        said = f"Of {total:.4g} ms: {shares}."
    figure = figures.figure_of(traces, "simulated time (ms)", "time of the step (ms)", said)
    figure["layout"]["hovermode"] = "x unified"
    return figure


def heads(results: Results, run: int, arrays) -> figures.Figure:
    """Layer by KV head: the share of its attention on the context that each loses."""
    view = views.heads(results, run, arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    layer, head = np.unravel_index(int(np.nanargmax(view.loss)), view.loss.shape)
    trace = {"type": "heatmap", "z": [figures.numbers(row) for row in view.loss], "x": [f"head {number}" for number in view.kv_head],
             "y": [f"layer {number}" for number in view.layer], "zmin": 0, "zmax": 1, "colorscale": "Cividis", "meta": "map",
             "colorbar": {"tickformat": ".0%", "thickness": 14},
             "hovertemplate": "%{y}, KV %{x}: %{z:.1%} lost<extra></extra>"}
    said = (f"KV head {view.kv_head[head]} of layer {view.layer[layer]} loses most: {write(float(view.loss[layer, head]), 'percent')} of "
            f"its attention on the context; the mean of all is {write(float(np.nanmean(view.loss)), 'percent')}.")
    figure = figures.figure_of([trace], "KV head", "recorded layer", said)
    figure["layout"]["xaxis"]["type"] = figure["layout"]["yaxis"]["type"] = "category"
    return figure


def queue(results: Results, run: int, arrays) -> figures.Figure:
    """Requests in the batch and in line, over time."""
    view = views.serving(arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    said = (f"At most {np.nanmax(view.running):.4g} requests in the batch and {np.nanmax(view.waiting):.4g} in line "
            "(means of intervals).")
    return figures.figure_of(_over_time(view.time, {"in the batch": view.running, "in line": view.waiting}), "time (s)", "requests", said)


def occupancy(results: Results, run: int, arrays) -> figures.Figure:
    """Share of the KV pages taken and of the time the engine computes: which of the two is the limit."""
    view = views.serving(arrays)
    if isinstance(view, views.Missing):
        return {"missing": view.reason}
    said = (f"KV pages taken: at most {write(float(np.nanmax(view.used_pages_share)), 'percent')}; the engine computes "
            f"{write(float(np.nanmean(view.busy_share)), 'percent')} of the time.")
    traces = _over_time(view.time, {"KV pages taken": view.used_pages_share, "engine busy": view.busy_share})
    return figures.figure_of(traces, "time (s)", "share", said, style="percent", highest=1.0)


def _over_time(time: np.ndarray, curves: dict[str, np.ndarray]) -> list[figures.Figure]:
    """A step curve each; the first may be compared with another run's."""
    return [figures.line(time, values, name, palette.colour(number), dash="solid" if number == 0 else "dash", shape="hv",
                         compared=number == 0) for number, (name, values) in enumerate(curves.items())]


# key -> (title, function), behind those of figures.py on the page.
MACHINE_FIGURES = {
    "memory": ("Memory of a GPU", memory),
    "timeline": ("Where the time goes", timeline),
    "heads": ("Loss by layer and head", heads),
    "queue": ("Requests over time", queue),
    "occupancy": ("Cache and engine over time", occupancy),
}
