"""The spectrum of a loss profile and the level that noise of the same colour would stay under.

Periodogram: I(f) = |sum_j w_j (x_j - trend) e^(-2 pi i f j)|^2 / sum_j (w_j (x_j - trend))^2 with a Hann taper w, which keeps the
strong long periods of red noise from leaking into short ones; its mean over f is 1.
Null hypothesis: red noise, a first-order autoregression with lag-1 correlation a. Its expected level is
(1 - a^2) / (1 + a^2 - 2 a cos 2 pi f), and I_k over that level follows chi^2 with 2 degrees of freedom / 2
(Torrence and Compo, Bull. Amer. Meteor. Soc. 79, 1998, equations 16 and 17): exceeded with probability q at -ln q times
the level. Losses of neighbouring positions are alike, so a white-noise limit would call almost anything periodic.
a and the level are fitted to the median-smoothed periodogram (Mann and Lees, Climatic Change 33, 1996), which narrow peaks
cannot bend; where the whole variance, peaks included, gives a higher level that one holds: the limit errs on the strict side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.fft
import scipy.ndimage
import scipy.signal

OVERSAMPLING = 4  # zero padding, so that a period between two Fourier periods is drawn where it is
LEAST_CYCLES = 6  # a period seen fewer times is drawn but not judged
MEDIAN_BINS = 40
MOST_DRAWN = 1500  # points of the drawn curve; each is the highest of its bin, at its own period


@dataclass(frozen=True)
class Spectrum:
    """Power against period, shortest period (2) first; all arrays [period].

    power, limit_95, limit_99 are in units of the white-noise level. `limit_95` holds for one period fixed beforehand;
    `limit_99` for the highest of all: red noise exceeds it anywhere in at most about 1 of 100 profiles.
    Periods above `longest_judged` (tokens) are seen fewer than LEAST_CYCLES times.
    """

    period: np.ndarray
    power: np.ndarray
    limit_95: np.ndarray
    limit_99: np.ndarray
    lag1: float
    longest_judged: float

    @property
    def peak(self) -> tuple[float, float, bool]:
        """(period, power, above the 99 % limit): the fundamental of what exceeds the limit most, or else what comes nearest to it.

        Power itself says little: that of red noise is highest at its longest periods. Narrow spikes once a block have harmonics as
        strong as the fundamental: of what exceeds the limit by at least half of the largest factor, the longest period is it.
        """
        judged = self.period <= self.longest_judged
        excess = judged * self.power / self.limit_99
        if not (excess > 1).any():
            nearest = int(np.argmax(excess))
            return float(self.period[nearest]), float(self.power[nearest]), False
        best = int(np.flatnonzero((excess > 1) & (excess >= excess.max() / 2))[-1])
        while best > 0 and self.power[best - 1] > self.power[best]:
            best -= 1  # from the long flank of the peak to its top
        return float(self.period[best]), float(self.power[best]), True


def red_level(frequency: np.ndarray, lag1: float) -> np.ndarray:
    """Expected I_k of red noise with variance 1; frequency in cycles a position (0..0.5), -1 < lag1 < 1. 1 for lag1 = 0."""
    return (1 - lag1**2) / (1 + lag1**2 - 2 * lag1 * np.cos(2 * np.pi * frequency))


def fit_red_noise(frequency: np.ndarray, power: np.ndarray) -> tuple[float, float]:
    """(lag-1 correlation 0..0.999, level) of the red noise nearest to the medians of power [frequency] in MEDIAN_BINS bins.

    Nearest in mean square of the logs. A peak narrower than half a bin does not move a median. The median of chi^2 with 2 degrees of
    freedom / 2 is ln 2 of its mean.
    """
    edges = np.unique(np.linspace(0, len(power), MEDIAN_BINS + 1).astype(int))
    starts, sizes = edges[:-1], np.diff(edges)
    medians = np.log(np.array([np.median(part) for part in np.split(power, starts[1:])]) / math.log(2) + 1e-12)
    # Equal steps of -log(1 - a) resolve the strongly red end, where the shape changes fastest.
    candidates = 1 - np.logspace(0, -3, 121)
    excess = [medians - np.add.reduceat(np.log(red_level(frequency, lag1)), starts) / sizes for lag1 in candidates]
    best = int(np.argmin([np.var(values) for values in excess]))
    return float(candidates[best]), float(np.exp(np.mean(excess[best])))


def spectrum(values: np.ndarray) -> Spectrum | None:
    """Spectrum of a profile [position]; None where it is constant or has fewer than 16 finite values.

    The straight-line trend is removed; values inside that are not finite (protected positions) take the mean.
    """
    seen = np.flatnonzero(np.isfinite(values))
    if len(seen) < 16:
        return None
    profile = np.asarray(values[seen[0]:seen[-1] + 1], dtype=float)
    profile = scipy.signal.detrend(np.where(np.isfinite(profile), profile, np.nanmean(profile)))
    variance = float(np.mean(profile**2))
    if variance < 1e-24:
        return None
    count = len(profile)

    tapered = profile * scipy.signal.windows.hann(count, sym=False)
    scale = float(np.sum(tapered**2))
    padded = scipy.fft.next_fast_len(OVERSAMPLING * count, real=True)
    power = np.abs(scipy.fft.rfft(tapered, padded)) ** 2 / scale
    frequency = np.arange(len(power)) / padded
    drawn = (frequency >= 1 / count) & (frequency <= 0.5)
    frequency, power = frequency[drawn], power[drawn]

    lag1, fitted = fit_red_noise(frequency, power)
    kept = _highest_per_bin(frequency, power)
    level = max(fitted, 1.0) * red_level(frequency[kept], lag1)
    # Bonferroni over every ordinate searched: each exceeds the limit with probability 0.01 / their number.
    searched = int(np.count_nonzero(frequency >= LEAST_CYCLES / count))
    return Spectrum(1 / frequency[kept], power[kept], -math.log(0.05) * level, -math.log(0.01 / searched) * level, lag1,
                    count / LEAST_CYCLES)


def _highest_per_bin(frequency: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Indices, shortest period first, of the highest power in each of MOST_DRAWN bins of log period: no peak is lost or moved."""
    edge = np.log(frequency / frequency[0]) / np.log(frequency[-1] / frequency[0])
    bins = np.minimum((edge * MOST_DRAWN).astype(int), MOST_DRAWN - 1)
    order = np.lexsort((-power, bins))
    first = np.unique(bins[order], return_index=True)[1]
    return order[first][::-1]
