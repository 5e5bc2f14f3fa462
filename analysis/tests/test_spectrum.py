"""The spectrum finds a hidden period and its limit holds for noise without one."""

import numpy as np
import pytest
import scipy.signal

from kvtide_analysis.spectrum import Spectrum, fit_red_noise, red_level, spectrum


def test_red_noise_level_at_both_ends_of_the_band():
    # a = 0.5: (1 - 0.25) / (1.25 - 1) = 3 at frequency 0, 0.75 / (1.25 + 1) = 1/3 at frequency 0.5; white noise is 1 everywhere.
    np.testing.assert_allclose(red_level(np.array([0.0, 0.5]), 0.5), [3, 1 / 3])
    np.testing.assert_allclose(red_level(np.array([0.0, 0.2, 0.5]), 0.0), 1)


def test_fit_recovers_an_exact_red_spectrum():
    frequency = np.linspace(0.001, 0.5, 4000)
    # Medians of power are ln 2 of its mean.
    lag1, level = fit_red_noise(frequency, 2.5 * np.log(2) * red_level(frequency, 0.9))
    assert lag1 == pytest.approx(0.9, abs=0.01)
    assert level == pytest.approx(2.5, rel=0.03)


@pytest.mark.parametrize("period", [48, 64, 96, 100])
def test_sine_of_any_period_is_found_where_it_is(period):
    found = spectrum(np.sin(2 * np.pi * np.arange(2021) / period) + np.random.default_rng(3).normal(0, 1, 2021))
    best, _, above = found.peak
    assert above
    # Resolution at N = 2,021: the step between Fourier periods is P^2 / N, drawn four times finer.
    assert best == pytest.approx(period, abs=period**2 / 2021 / 2)


def test_comb_of_narrow_spikes_gives_its_fundamental_not_a_harmonic():
    comb = (np.arange(64 * 32) % 64 < 2) + np.random.default_rng(4).normal(0, 0.05, 64 * 32)
    best, _, above = spectrum(comb).peak
    assert above and best == pytest.approx(64, abs=1)


def by_hand(period, power, limit, longest_judged=1000.0):
    return Spectrum(*(np.array(values, float) for values in (period, power, limit, limit)), lag1=0.9, longest_judged=longest_judged)


def test_peak_is_what_exceeds_the_limit_most_not_what_is_strongest():
    # 10 / 0.1 = 100 times the limit at period 4, 400 / 390 at 139.4; the wave of 139.4 is no multiple of 4.
    assert by_hand([2, 4, 64, 139.4, 500], [0.05, 10, 1, 400, 300], [0.1, 0.1, 100, 390, 1000]).peak == (4.0, 10.0, True)


def test_harmonics_beyond_the_fundamental_are_not_the_peak():
    # 30 times the limit at 32, 15 times at 64, half of it; one in a hundred less, and it is a peak of its own.
    period, limit = [16, 32, 48, 64, 100], [1, 1, 1, 2, 2]
    assert by_hand(period, [10, 30, 1, 30, 1], limit).peak == (64.0, 30.0, True)
    assert by_hand(period, [10, 30, 1, 29.7, 1], limit).peak == (32.0, 30.0, True)


def test_period_that_is_not_judged_is_no_peak():
    assert by_hand([2, 4, 64], [0.5, 0.9, 50], [1, 1, 1], longest_judged=32.0).peak == (4.0, 0.9, False)


@pytest.mark.parametrize("lag1", [0.0, 0.9, 0.95])
def test_limit_is_rarely_exceeded_by_noise_without_a_period(lag1):
    # At 1 % a profile, more than 3 alarms in 40 profiles have probability below 1e-3.
    generator = np.random.default_rng(5)
    alarms = sum(spectrum(scipy.signal.lfilter([1], [1, -lag1], generator.normal(size=2500))[500:]).peak[2] for _ in range(40))
    assert alarms <= 3


def test_constant_short_and_empty_profiles_have_no_spectrum():
    assert spectrum(np.zeros(2021)) is None
    assert spectrum(np.full(100, np.nan)) is None
    assert spectrum(np.arange(15.0) % 2) is None
    assert spectrum(np.arange(16.0) % 2) is not None
