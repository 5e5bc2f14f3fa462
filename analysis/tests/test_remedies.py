"""Runs beside each other: the best first, nothing drawn for what was not measured."""

import types

import numpy as np
import pandas as pd
import pytest
from kvtide_analysis import remedies


def results(**columns):
    return types.SimpleNamespace(attrs={"swept_keys": "compression"}, summary=pd.DataFrame(columns))


def test_runs_rise_in_loss_and_those_without_one_are_left_out():
    assert remedies.order(results(loss_mean=[0.3, np.nan, 0.1, 0.3])) == [2, 0, 3]
    assert remedies.order(results(kv_bytes=[1, 2])) == []


def test_of_many_runs_the_best_are_drawn_and_the_axis_says_so():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    many = results(loss_mean=np.linspace(0.5, 0.1, 200), compression=[str(run) for run in range(200)], loss_metric=["mass_loss"] * 200)
    assert remedies.order(many) == list(range(199, 199 - remedies.MOST_RUNS, -1))
    _, axes = pyplot.subplots()
    remedies.plot_losses(axes, many)
    assert axes.get_ylabel() == f"setting (the best {remedies.MOST_RUNS} of 200)"


def test_no_period_is_said_and_not_a_number():
    assert remedies.period_text({"period": 128.0}) == "128"
    assert remedies.period_text({"period": np.nan}) == remedies.period_text({}) == "none"


def test_lines_carry_the_settings_and_points_their_values():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    both = results(compression=["plain", "padded"], loss_mean=[0.2, 0.1], prefix_sensitivity=[0.3, 0.0], prefix_sensitivity_two=[0.1, 0.0],
                   period=[64.0, np.nan])
    figure, (left, right) = pyplot.subplots(1, 2)
    remedies.plot_losses(left, both)
    remedies.plot_sensitivity(right, both)
    assert [label.get_text() for label in left.get_yticklabels()] == ["padded", "plain"]
    assert list(left.lines[0].get_xdata()) == [0.1, 0.2]
    assert [list(line.get_xdata()) for line in right.lines] == [[0.0, 0.1], [0.0, 0.3]]
    assert [text.get_text().strip() for text in right.texts] == ["none", "64"]
    in_bits = results(compression=["int4"], loss_mean=[2.155], prefix_sensitivity=[0.1], prefix_sensitivity_two=[0.05],
                      loss_metric=["bits_lost"])
    figure, (left, right) = pyplot.subplots(1, 2)
    remedies.plot_losses(left, in_bits)
    remedies.plot_sensitivity(right, in_bits)
    assert left.get_xlabel() == "bits lost per element" and right.get_xlabel() == "change of the loss (bits lost per element)"
    assert not any("%" in left.xaxis.get_major_formatter()(value, 0) for value in (1.0, 2.0))
    remedies.plot_sensitivity(left, results(compression=["plain"], loss_mean=[0.2]))
    assert any("no run has this loss" in text.get_text() for text in left.texts)
    pyplot.close("all")
