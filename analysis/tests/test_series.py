"""Reductions keep what they reduce and invent no period."""

import numpy as np
import pytest

from kvtide_analysis import series


@pytest.mark.parametrize(("count", "period", "most", "width"), [
    (4096, 64, 4096, 1),       # fits: drawn whole
    (4097, 64, 4096, 2),       # one too many: the smallest divisor of 64 that is enough
    (131072, 64, 4096, 32),    # 131,072 / 4,096 = 32, which divides 64
    (131072, 97, 4096, 97),    # 97 is prime: only the whole cycle does
    (131072, 64, 1000, 192),   # at least 132 a bin: next multiple of 64
    (131072, 0, 1000, 132),    # period unknown
])
def test_bin_width_divides_the_period_or_is_a_multiple(count, period, most, width):
    assert series.bin_width(count, period, most) == width


def test_envelope_gives_smallest_largest_and_mean_of_each_bin():
    # Bins of 2: {1, 5}, {2, 2}, {7}; the last is short.
    curve = series.envelope(np.arange(5), np.array([1.0, 5, 2, 2, 7]), period=2, most=3)
    assert curve.width == 2
    assert list(curve.x) == [0, 2, 4]
    assert list(curve.low) == [1, 2, 7]
    assert list(curve.high) == [5, 2, 7]
    assert list(curve.mean) == [3, 2, 7]


def test_envelope_bin_without_a_finite_value_is_nan():
    curve = series.envelope(np.arange(4), np.array([np.nan, np.nan, 1, np.nan]), period=2, most=2)
    assert np.isnan(curve.low[0]) and np.isnan(curve.mean[0])
    assert curve.low[1] == curve.high[1] == curve.mean[1] == 1


def test_fold_with_period_2_gives_the_means_of_even_and_odd_positions():
    folded = series.fold(np.arange(4), np.array([0.0, 1, 0, 3]), 2)
    assert list(folded.mean) == [0, 2]
    assert list(folded.high) == [0, 3]
    assert list(folded.count) == [2, 2]


def test_fold_starts_phases_at_the_first_block_boundary():
    # Boundary at 1, period 3: position 1 has phase 0, position 0 has phase 2; phase 1 is position 2.
    folded = series.fold(np.arange(3), np.array([7.0, 8, 9]), 3, offset=1)
    assert list(folded.mean) == [8, 9, 7]


def test_fold_leaves_protected_positions_out():
    folded = series.fold(np.arange(4), np.array([np.nan, 1.0, 2, 3]), 2)
    assert list(folded.mean) == [2, 2]
    assert list(folded.count) == [1, 2]


def test_worst_window_surrounds_the_largest_value_and_stays_inside():
    values = np.zeros(100)
    values[50] = 1
    assert series.worst_window(values, 10) == slice(45, 55)
    values[99] = 2
    assert series.worst_window(values, 10) == slice(90, 100)
    assert series.worst_window(values, 100) == slice(0, 100)
    assert series.worst_window(np.full(100, np.nan), 10) == slice(0, 100)


@pytest.mark.parametrize("moved", [0, 3])
def test_finer_grid_is_the_true_step_and_none_of_its_multiples_or_divisors(moved):
    share = np.full(64, 0.0075)
    share[::4] = 0.04  # 16 * 0.04 + 48 * 0.0075 = 1; even share 1 / 64, so 0.04 * 64 = 2.56 times
    # Step 8 stands out as much; step 2 sees medians between the two, (0.04 + 0.0075) / 2 * 64 = 1.52: under 80 % of 2.56.
    assert series.finer_grid(np.roll(share, moved)) == (4, moved, pytest.approx(2.56))


def test_single_phases_even_shares_and_prime_periods_make_no_finer_grid():
    single = np.full(64, 0.5 / 63)
    single[10] = 0.5
    assert series.finer_grid(single) is None
    assert series.finer_grid(np.full(64, 1 / 64)) is None
    assert series.finer_grid(np.where(np.arange(61) % 4, 0.01, 0.03)) is None  # 61 is prime
    assert series.finer_grid(np.zeros(64)) is None
