"""The kernels of a run's decode steps, as `kvtide run --timeline FILE.json` writes them (Chrome's trace event format)."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from . import palette
from .results import ResultsError


@dataclass(frozen=True)
class KernelTimeline:
    """Every kernel as a row: name, lane ("GPU, stream"), start and duration in us, step, is_critical (nothing waits for less)."""

    kernels: pd.DataFrame


def read_timeline(path: str) -> KernelTimeline:
    """Raises ResultsError where the file is no timeline."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        events = document["traceEvents"] if isinstance(document, dict) else document
        names = {(event["ph"], event["name"], event["pid"], event.get("tid")): event["args"]["name"] for event in events
                 if event["ph"] == "M"}
        rows = [{"name": event["name"], "start": float(event["ts"]), "duration": float(event["dur"]),
                 "lane": _lane(names, event["pid"], event["tid"]), "step": int(event["args"]["step"]),
                 "is_critical": event["cat"] == "critical"} for event in events if event["ph"] == "X"]
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{path}: not a file of kvtide run --timeline: {type(error).__name__}: {error}") from error
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from error
    if not rows:
        raise ResultsError(f"{path}: holds no kernel")
    return KernelTimeline(pd.DataFrame(rows))


def figure_of(timeline: KernelTimeline, step: int | None = None):
    """plot_kernels() alone on a page."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(11, 3.2), layout="constrained")
    plot_kernels(axes, timeline, step)
    return figure


def plot_kernels(axes: Axes, timeline: KernelTimeline, step: int | None = None) -> None:
    """The kernels of one decode step, a lane a stream; step: by default the longest, in which a block is compressed."""
    every = timeline.kernels
    if step is None:
        ends = every.assign(end=every.start + every.duration).groupby("step")
        step = int((ends.end.max() - ends.start.min()).idxmax())
    chosen = every[every.step == step]
    if chosen.empty:
        raise ResultsError(f"the timeline has no step {step}; it has {every.step.min()} to {every.step.max()}")
    origin, lanes = chosen.start.min(), list(dict.fromkeys(sorted(chosen.lane)))
    by_time = chosen.groupby("name").duration.sum().sort_values(ascending=False)
    for number, name in enumerate(by_time.index):
        rows = chosen[chosen["name"] == name]
        for lane, of_lane in rows.groupby("lane"):
            axes.broken_barh(list(zip(of_lane.start - origin, of_lane.duration)), (lanes.index(lane) - 0.4, 0.8),
                             facecolors=palette.colour(number), hatch=palette.hatch(number), edgecolor="white", linewidth=0)
        axes.bar(0, 0, color=palette.colour(number), hatch=palette.hatch(number), edgecolor="white",
                 label=f"{name}, {by_time[name]:,.0f} us")
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_xlim(0, (chosen.start + chosen.duration).max() - origin)
    axes.set_xlabel(f"time within decode step {step} (us)")
    axes.set_ylabel("stream")
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def _lane(names: dict, process: int, thread: int) -> str:
    gpu = names.get(("M", "process_name", process, 0), f"GPU {process}")
    return f"{gpu}\n{names.get(('M', 'thread_name', process, thread), f'stream {thread}')}"
