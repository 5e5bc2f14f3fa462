"""Reductions of long periodic profiles that cannot invent a period.

Drawing every s-th value of a profile with period B shows a false period s / |s/B - round(s/B)|: 131,072 positions of
B = 64 on 1,000 samples (s = 131.072) show 2,731 positions. So nothing here skips values: a profile is drawn whole, or as
the minimum and maximum of equal bins whose width divides the period or is a multiple of it, or folded, or cut out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DRAWN_WHOLE = 4096  # values up to which a profile is drawn as it is: about 3 per pixel of a wide screen


@dataclass(frozen=True)
class Envelope:
    """A profile ready to draw.

    x    [bin] first coordinate of each bin      low, high  [bin] smallest and largest value in it (equal when width is 1)
    mean [bin] mean of the finite values         width      values in a bin; the last bin may hold fewer
    """

    x: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    width: int


def bin_width(count: int, period: int, most: int = DRAWN_WHOLE) -> int:
    """The smallest width that leaves at most `most` bins and cannot beat with `period`.

    A width below the period must divide it (so a cycle is a whole number of bins); one above must be a multiple (so every
    bin sees the whole cycle). 131,072 values: period 64 -> 32 (2 bins a cycle); period 97 (prime) -> 97.
    count values, period in values (0: unknown, then any width).
    """
    if count <= most:
        return 1
    needed = -(-count // most)
    if period <= 0:
        return needed
    divisors = [width for width in range(needed, period) if period % width == 0]
    return divisors[0] if divisors else period * -(-needed // period)


def envelope(x: np.ndarray, values: np.ndarray, period: int, most: int = DRAWN_WHOLE) -> Envelope:
    """Minimum, maximum and mean per bin; x and values [position]. A bin without a finite value is NaN."""
    width = bin_width(len(values), period, most)
    if width == 1:
        return Envelope(x, values, values, values, 1)
    starts = np.arange(0, len(values), width)
    finite = np.isfinite(values)
    counts = np.add.reduceat(finite, starts)
    low = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
    mean = np.add.reduceat(np.where(finite, values, 0.0), starts) / np.maximum(counts, 1)
    seen = counts > 0
    return Envelope(x[starts], np.where(seen, low, np.nan), np.where(seen, high, np.nan), np.where(seen, mean, np.nan), width)


@dataclass(frozen=True)
class Fold:
    """A profile folded on its period: all arrays [phase], phase = (position - offset) mod period; NaN where unseen."""

    phase: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    count: np.ndarray


def fold(positions: np.ndarray, values: np.ndarray, period: int, offset: int = 0) -> Fold:
    """Mean, smallest and largest value at each phase.

    Example: values 0 1 0 3 at positions 0..3, period 2 -> means 0 and 2, largest 0 and 3.
    positions, values [position]; period >= 1; values that are not finite (protected positions) do not count.
    """
    seen = np.isfinite(values)
    phase = np.mod(positions[seen].astype(np.int64) - offset, period)
    count = np.bincount(phase, minlength=period)
    total = np.bincount(phase, weights=values[seen], minlength=period)
    low, high = np.full(period, np.inf), np.full(period, -np.inf)
    np.minimum.at(low, phase, values[seen])
    np.maximum.at(high, phase, values[seen])
    met = count > 0
    return Fold(np.arange(period), np.where(met, total / np.maximum(count, 1), np.nan), np.where(met, low, np.nan),
                np.where(met, high, np.nan), count)


def finer_grid(share: np.ndarray, least: float = 1.3, repeats: int = 8) -> tuple[int, int, float] | None:
    """(step, first phase, times the even share) of the step at whose multiples a fold stands out `least` times; None where none does.

    A step divides the period and repeats `repeats` times or more; its height is the median of its repeats, which a single phase does
    not move. Multiples of the true step stand out as much, so the smallest of the nearly highest (80 %) is it. share [phase].
    Example: 0.04 at phases 0, 4, ..., 60 of 64 and 0.0075 at the others (sum 1, even 1/64): step 4, phase 0, 0.04 * 64 = 2.56 times.
    """
    period, even = len(share), float(np.mean(share))
    found = []
    for step in (step for step in range(2, period // repeats + 1) if period % step == 0):
        heights = np.median(share.reshape(-1, step), axis=0)
        first = int(np.argmax(heights))
        if even > 0 and heights[first] >= least * even:
            found.append((step, first, float(heights[first] / even)))
    highest = max((times for _, _, times in found), default=0.0)
    return next((each for each in found if each[2] >= 0.8 * highest), None)


def worst_window(values: np.ndarray, width: int) -> slice:
    """Where a zoom of `width` values shows the worst place: centred on the largest value, kept inside the profile."""
    if len(values) <= width or not np.isfinite(values).any():
        return slice(0, len(values))
    centre = int(np.nanargmax(values))
    start = min(max(centre - width // 2, 0), len(values) - width)
    return slice(start, start + width)
