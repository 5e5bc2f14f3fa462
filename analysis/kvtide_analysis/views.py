"""What each figure shows of a run, computed once for both the report (plotly) and the papers' plots (matplotlib).

A view that cannot be made is a `Missing` with the reason, which the figure prints instead of failing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import series, settings
from .results import Results, RunArrays
from .spectrum import Spectrum, spectrum

MOST_GRID_LINES = 80  # more block boundaries than this are a grey wall, so the figure draws none and says so
ZOOM_BLOCKS = 4
LEAST_OUTSTANDING = 4  # times the even share, for a phase to be marked


@dataclass(frozen=True)
class Missing:
    """A figure without data, and why."""

    reason: str


@dataclass(frozen=True)
class Pareto:
    """Savings against worst loss; all arrays [run with a result], `front` the indices of the Pareto front, by rising saving."""

    run: np.ndarray
    label: list[str]
    saving: np.ndarray
    worst: np.ndarray
    mean: np.ndarray
    policy: list[str]
    block_size: list[int]
    front: list[int]
    metric: str


@dataclass(frozen=True)
class Position:
    """Loss by position: the whole profile, and four blocks around its worst place, value by value.

    boundaries       [block] first position of each block, none when there are more than MOST_GRID_LINES
    zoom_x, zoom_y   [position]; zoom_boundaries [block inside the zoom]
    """

    metric: str
    units: str
    whole: series.Envelope
    boundaries: np.ndarray
    zoom_x: np.ndarray
    zoom_y: np.ndarray
    zoom_boundaries: np.ndarray
    block_size: int
    offset: int


@dataclass(frozen=True)
class Phase:
    """Loss folded on the period found, or on block_size where none was; `fold` arrays are [phase].

    without_protected  the mean is the file's own, which leaves protected positions out; the range never does
    """

    metric: str
    units: str
    fold: series.Fold
    period: int
    offset: int
    period_found: bool
    block_size: int
    without_protected: bool


@dataclass(frozen=True)
class Jumps:
    """Share of the heads' loss jumps at each phase, summing to 1; both arrays [phase].

    A policy that drops whole blocks jumps at their boundaries only (all at phase 0), even where the mean profile folds flat.
    outstanding  phases with more than LEAST_OUTSTANDING times the even share 1 / period
    """

    phase: np.ndarray
    share: np.ndarray
    period: int
    offset: int
    period_found: bool
    outstanding: np.ndarray


@dataclass(frozen=True)
class Steps:
    """Step time in milliseconds against the context length at each decode step (the file's `decode_step`, tokens).

    compress_ms  [step] share of it spent compressing; None where the file does not tell
    full_ms      one step with the uncompressed cache; NaN where unknown
    low, high    range of the step-time axis: it leaves 0 out, or spikes of a few per cent would not be seen
    """

    curve: series.Envelope
    context: np.ndarray
    compress_ms: np.ndarray | None
    full_ms: float
    low: float
    high: float
    block_size: int


@dataclass(frozen=True)
class Heads:
    """Share of its attention on the context that each recorded layer's KV head loses; `loss` is [layer, kv_head], 0..1."""

    layer: np.ndarray
    kv_head: np.ndarray
    loss: np.ndarray


@dataclass(frozen=True)
class Serving:
    """An engine over time; all arrays [interval]. time in s, running and waiting in requests, the shares 0..1."""

    time: np.ndarray
    running: np.ndarray
    waiting: np.ndarray
    used_pages_share: np.ndarray
    busy_share: np.ndarray


@dataclass(frozen=True)
class Prefix:
    """Prefix sensitivity against the number of tokens put in front; both arrays [shift]."""

    shift: np.ndarray
    sensitivity: np.ndarray
    boundaries: np.ndarray  # [block] multiples of block_size, none when there are more than MOST_GRID_LINES


def pareto(results: Results) -> Pareto | Missing:
    """Every run with a finite saving and worst loss."""
    summary = results.summary
    if not {"memory_saving", "loss_worst"} <= set(summary.columns):
        return Missing("the summary has no memory_saving and loss_worst (measure: memory and loss give them)")
    rows = summary[np.isfinite(summary["memory_saving"]) & np.isfinite(summary["loss_worst"])]
    if rows.empty:
        return Missing("no run has both a saving and a loss")
    metrics = settings.metrics(results)
    if len(metrics) > 1:
        return Missing(f"the losses are of several metrics ({', '.join(metrics)})")
    saving, worst = rows["memory_saving"].to_numpy(float), rows["loss_worst"].to_numpy(float)
    names = [name for name in settings.swept_columns(results) if summary[name].map(lambda value: isinstance(value, str)).all()]
    policy = [", ".join(str(rows.at[run, name]) for name in names) or "all runs" for run in rows.index]
    mean = rows["loss_mean"].to_numpy(float) if "loss_mean" in rows else np.full(len(rows), np.nan)
    return Pareto(rows.index.to_numpy(), [settings.run_label(results, run) for run in rows.index], saving, worst, mean, policy,
                  [settings.block_size(results, run) for run in rows.index], pareto_front(saving, worst), metrics[0])


def pareto_front(saving: np.ndarray, worst: np.ndarray) -> list[int]:
    """Indices that no other run beats in both: by rising saving. Example: (.5,.1) (.5,.2) (.7,.3) (.6,.4) -> 0 and 2."""
    front, least = [], math.inf
    for index in sorted(range(len(saving)), key=lambda i: (-saving[i], worst[i])):
        if worst[index] < least:
            front.append(index)
            least = worst[index]
    return front[::-1]


def position(results: Results, run: int, arrays: RunArrays) -> Position | Missing:
    """Loss of the experiment's metric by position, with the block grid."""
    profile = _profile(results, run, arrays)
    if isinstance(profile, Missing):
        return profile
    metric, units, x, values = profile
    block = settings.block_size(results, run)
    offset = _offset(results, run, block, arrays)
    starts = _boundaries(x, block, offset)
    zoom = series.worst_window(values, min(ZOOM_BLOCKS * block or 512, series.DRAWN_WHOLE))
    zoom_starts = _boundaries(x[zoom], block, offset)
    return Position(metric, units, series.envelope(x, values, _cycle(results, run)),
                    starts, x[zoom], values[zoom],
                    zoom_starts, block, offset)


def phase(results: Results, run: int, arrays: RunArrays) -> Phase | Missing:
    """The phase-folded profile; the file's own fold where it has the same period, else folded here."""
    found = _found_period(results, run)
    block = settings.block_size(results, run)
    period = found or block
    offset = _offset(results, run, period, arrays)
    profile = _profile(results, run, arrays)
    stored, counts = arrays.array("phase", "loss"), arrays.array("phase", "count")
    if isinstance(profile, Missing):
        if stored is None:
            return profile
        mean = stored.to_numpy().astype(float)
        count = counts.to_numpy() if counts is not None else np.full(len(mean), 0)
        nothing = np.full(len(mean), np.nan)
        return Phase(settings.loss_metric(results, run), "1", series.Fold(np.arange(len(mean)), mean, nothing, nothing, count),
                     len(mean), _offset(results, run, len(mean), arrays), found == len(mean), block, True)
    metric, units, x, values = profile
    if period < 1:
        return Missing("no period was found and block_size is unknown")
    folded = series.fold(x, values, period, offset)
    without_protected = stored is not None and len(stored) == period
    if without_protected:
        folded = series.Fold(folded.phase, stored.to_numpy().astype(float), folded.low, folded.high, folded.count)
    return Phase(metric, units, folded, period, offset, found > 0, block, without_protected)


def jumps(results: Results, run: int, arrays: RunArrays) -> Jumps | Missing:
    """The file's fold of the loss jumps (it needs every head, so it cannot be made from the stored mean profile)."""
    stored = arrays.array("phase", "jump_share")
    if stored is None or stored.ndim != 1 or not len(stored):
        return Missing("the file holds no fold of the loss jumps (phase/jump_share)")
    share = stored.to_numpy().astype(float)
    if not np.nansum(share) > 0:
        return Missing("the loss of no head jumps anywhere")
    period = len(share)
    return Jumps(np.arange(period), share, period, _offset(results, run, period, arrays), _found_period(results, run) == period,
                 np.flatnonzero(share > LEAST_OUTSTANDING / period))


def loss_spectrum(results: Results, run: int, arrays: RunArrays) -> Spectrum | Missing:
    """Spectrum of the experiment's loss profile."""
    profile = _profile(results, run, arrays)
    if isinstance(profile, Missing):
        return profile
    return spectrum(profile[3]) or Missing("the loss is the same at every position: there is nothing to decompose")


def steps(results: Results, run: int, arrays: RunArrays) -> Steps | Missing:
    """Step time over decode steps; spikes where a block fills and is compressed."""
    for name in ("step_us", "decode_step_us", "step_time_us"):
        values = arrays.array("machine", name)
        if values is not None and values.ndim == 1 and len(values):
            x, milliseconds = _coordinate(values), values.to_numpy().astype(float) / 1000
            compress = arrays.array("machine", "compress_us")
            compress_ms = compress.to_numpy() / 1000 if compress is not None and compress.shape == values.shape else None
            full = results.summary.at[run, "decode_step_us_full"] if "decode_step_us_full" in results.summary else math.nan
            block = settings.block_size(results, run)
            low, high = _range_around(milliseconds)
            return Steps(series.envelope(x, milliseconds, block), x, compress_ms, float(full) / 1000, low, high, block)
    return Missing("the run has no step times (measure: time gives them)")


def _range_around(values: np.ndarray) -> tuple[float, float]:
    """Axis from a little below the smallest to a little above the largest value; at least 1 % of it high, so that nothing is no noise.

    Example: 11.53 to 12.14 -> 11.50 to 12.20 (a margin of 5 and 10 % of the difference).
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    spread = max(high - low, 0.01 * abs(high), 1e-9)
    return max(low - 0.05 * spread, 0.0), high + 0.1 * spread


def prefix(results: Results, run: int, arrays: RunArrays) -> Prefix | Missing:
    """How much the loss changes when an unrelated prefix of `shift` tokens moves the content against the grid."""
    values = arrays.array("prefix", "sensitivity")
    if values is None or values.ndim != 1 or not len(values):
        return Missing("the run has no prefix scan (measure: prefix_scan gives it)")
    shift = arrays.array("prefix", "shift")
    x = shift.to_numpy() if shift is not None and len(shift) == len(values) else np.arange(len(values))
    boundaries = _boundaries(x, settings.block_size(results, run), 0)
    return Prefix(x, values.to_numpy().astype(float), boundaries[boundaries > 0])


def serving(arrays: RunArrays) -> Serving | Missing:
    """An engine over time; intervals as the file has them."""
    values = {name: arrays.array("serving", name) for name in ("running", "waiting", "used_pages_share", "busy_share")}
    if any(value is None for value in values.values()):
        return Missing("the experiment has no workload")
    series_of = {name: np.asarray(value, float) for name, value in values.items()}
    return Serving(time=np.asarray(values["running"]["time_s"], float), **series_of)


def heads(results: Results, run: int, arrays: RunArrays) -> Heads | Missing:
    loss = arrays.array("loss_by_head", "mass_loss")
    if loss is None:
        return Missing("the heads' loss was not stored; add `detail` to `measure:`")
    weight = arrays.array("loss_by_head", "attention")
    weights = np.ones(loss.shape) if weight is None else np.asarray(weight, float)
    lost = np.nansum(weights * np.asarray(loss, float), axis=2) / weights.sum(axis=2)
    return Heads(layer=np.asarray(loss["layer"]), kv_head=np.asarray(loss["kv_head"]), loss=lost)


def _profile(results: Results, run: int, arrays: RunArrays) -> tuple[str, str, np.ndarray, np.ndarray] | Missing:
    """(metric, unit, position, loss) of the experiment's metric; another stored loss where that one is missing."""
    loss = arrays.get("loss")
    if loss is None:
        return Missing("the run has no loss profile (measure: loss gives it)")
    wanted = settings.loss_metric(results, run)
    for metric in (wanted, "mass_loss", "output_loss", "bits_lost", "lost_mass"):
        if metric in loss and loss[metric].ndim == 1 and loss[metric].size:
            array = loss[metric]
            return metric, str(array.attrs.get("units", "1")), _coordinate(array), array.to_numpy().astype(float)
    return Missing(f"the run stores no {wanted} by position")


def _coordinate(array) -> np.ndarray:
    """Values of a one-dimensional array's dimension; 0, 1, ... where the scale holds none."""
    name = array.dims[0]
    values = array[name].to_numpy() if name in array.coords else np.arange(array.size)
    return values if array.size < 2 or np.all(np.diff(values) > 0) else np.arange(array.size)


def _offset(results: Results, run: int, period: int, arrays: RunArrays) -> int:
    """First block boundary at or after position 0, given blocks of `period`: as found, else as the run's setting has it.

    The file's grid_offset is added before division (position p is in block (p + grid_offset) / period): 17 of 64 -> boundary 47.
    """
    value = results.summary.at[run, "grid_offset"] if "grid_offset" in results.summary else 0
    known = isinstance(value, (int, float, np.number)) and np.isfinite(value)
    if not known:
        value = arrays.attrs.get("grid_offset_setting")
        known = isinstance(value, int)
    return int(-round(value)) % period if known and period > 0 else 0


def _found_period(results: Results, run: int) -> int:
    """Period found in the loss, tokens; 0 where none was."""
    value = results.summary.at[run, "period"] if "period" in results.summary else math.nan
    return int(round(value)) if pd.notna(value) and 1 <= value <= settings.MOST_PERIOD else 0


def _cycle(results: Results, run: int) -> int:
    """Bins must not beat with the grid nor with a period that is a multiple of it."""
    found, block = _found_period(results, run), settings.block_size(results, run)
    return block if not found or found % max(block, 1) == 0 and block else found


def _boundaries(x: np.ndarray, block: int, offset: int) -> np.ndarray:
    """First position of every block inside x; also the phase-0 lines of the fold. None where they are too many to draw."""
    if block < 1 or not len(x):
        return np.empty(0)
    first = x[0] + (offset - x[0]) % block
    return np.arange(first, x[-1] + 1, block) if (x[-1] - first) // block < MOST_GRID_LINES else np.empty(0)
