"""What figures show: the true period and no other, on both drawing paths; and missing data is said, not fatal."""

import json

import numpy as np
import pytest

from kvtide_analysis import figures, open_results, settings, views

ALIAS = 2730.67  # s / |s/B - round(s/B)| for s = 131.072, B = 64: what 1,000 samples of 131,072 positions would show


def strongest_period(x, y) -> float:
    """Period, in units of x, of the largest Fourier component of an evenly spaced curve; inf when it is flat."""
    y = np.asarray(y, float) - np.mean(y)
    power = np.abs(np.fft.rfft(y)) ** 2
    if np.allclose(y, 0):
        return np.inf
    return len(y) * (x[1] - x[0]) / (1 + int(np.argmax(power[1:])))


@pytest.fixture(scope="module")
def long_run(long_file):
    results = open_results(long_file)
    return results, results.run(1)


def test_phase_figure_of_a_long_profile_shows_period_64(long_run):
    results, arrays = long_run
    figure = figures.phase(results, 1, arrays)
    mean = figure["data"][-1]
    assert mean["x"] == list(range(64))
    assert "Period found: 64 tokens" in figure["caption"]
    # Spikes at phases 0..6 only (how the file was made): 1.5 against 0.3 of the level.
    assert min(mean["y"][:7]) > 3 * max(mean["y"][7:])


def test_no_drawn_curve_has_the_aliased_period(long_run):
    results, arrays = long_run
    for key in ("position", "zoom"):
        for trace in figures.RUN_FIGURES[key][1](results, 1, arrays)["data"]:
            y = [0 if value is None else value for value in trace["y"]]
            assert strongest_period(trace["x"], y) == pytest.approx(64, rel=0.01), (key, trace["name"])


def test_plain_down_sampling_would_have_shown_the_aliased_period(long_run):
    # The trap itself, so that the test above is known to see it.
    values = long_run[1]["loss"]["mass_loss"].to_numpy()
    sampled = values[np.round(np.arange(1000) * 131.072).astype(int)]
    assert strongest_period(np.array([0, 131.072]), sampled) == pytest.approx(ALIAS, rel=0.03)


def test_spectrum_figure_of_a_long_profile_peaks_at_64(long_run):
    curve = figures.loss_spectrum(*long_run[:1], 1, long_run[1])["data"][0]
    assert curve["x"][int(np.argmax(curve["y"]))] == pytest.approx(64, abs=0.1)


@pytest.mark.parametrize(("found", "confirmed"), [(128.0, True), (64.0, False), (100.0, False), (np.nan, False)])
def test_spectrum_caption_confirms_a_peak_only_at_the_period_found(demo_file, found, confirmed):
    results = open_results(demo_file)
    results.summary.loc[2, "period"] = found  # the profile of run 2 has period 128; 128 is no harmonic of 64
    caption = figures.loss_spectrum(results, 2, results.run(2))["caption"]
    assert "Farthest above the 99 % limit" in caption
    assert ("do not confirm" not in caption) == confirmed


def test_jump_figure_of_whole_blocks_is_one_bar_at_phase_0(demo_file):
    results = open_results(demo_file)
    figure = figures.jumps(results, 2, results.run(2))  # evict-75, B 128
    assert figure["data"][0]["y"] == [1] + [0] * 127
    assert figure["data"][1]["x"] == [0]  # the mark
    # 1 / 128 = 0.78 %
    assert "fall on phase 0, the first position of a block" in figure["caption"] and "0.8 % (dotted)" in figure["caption"]


def test_jump_figure_of_a_codec_names_no_phase(demo_file):
    results = open_results(demo_file)
    figure = figures.jumps(results, 15, results.run(15))  # int8, B 256
    assert figure["data"][1]["x"] == []
    assert "no particular place" in figure["caption"]


def test_jump_figure_of_pooling_names_the_finer_grid(demo_file):
    results = open_results(demo_file)
    arrays = results.run(13)  # B 64
    share = arrays["phase"]["jump_share"].to_numpy()
    share[:] = 0.0075
    share[::4] = 0.04  # 2.56 times the even share, as pooling by 4 would
    assert "favour every 4 tokens (phases 0, 4, ...: 2.6 times the even share)" in figures.jumps(results, 13, arrays)["caption"]


def test_jump_figure_of_eviction_and_a_codec_tells_both(demo_file):
    results = open_results(demo_file)
    arrays = results.run(2)  # B 128
    share = arrays["phase"]["jump_share"].to_numpy()
    share[:] = 0.8 / 127
    share[0] = 0.2
    caption = figures.jumps(results, 2, arrays)["caption"]
    assert caption.startswith("20.0 % of the jumps") and "the others are spread over the block" in caption


def test_jumps_on_the_grid_without_a_period_found_are_said_to_rest_on_the_setting(demo_file):
    results = open_results(demo_file)
    results.summary.loc[2, "period"] = np.nan
    assert "which the setting told; from the loss alone no period was proven" in figures.jumps(results, 2, results.run(2))["caption"]


def test_step_time_axis_shows_the_spikes_and_says_that_it_leaves_0_out(demo_file):
    results = open_results(demo_file)
    figure = figures.steps(results, 2, results.run(2))
    low, high = figure["layout"]["yaxis"]["range"]
    # evict-75 keeps 0.75: 21 ms * (0.4 + 0.6 * 0.75) = 17.85 ms; spikes of 0.8 ms: margins of 5 and 10 % of that.
    assert (low, high) == pytest.approx((17.81, 18.73))
    # 1,024 steps hold 8 blocks of 128; 0.8 of 17.85 is 4.48 %.
    assert "8 of 1024 steps compress blocks that filled up, 128 tokens apart: up to 0.8 ms more (4.5 % of a step)" in figure["caption"]
    assert "does not begin at 0" in figure["note"]


def test_block_grid_follows_the_setting_where_no_grid_was_found(demo_file):
    results = open_results(demo_file)
    arrays = results.run(13)  # int8, B 64: no period
    arrays.attrs["grid_offset_setting"] = 17
    assert list(views.position(results, 13, arrays).boundaries[:2]) == [47, 111]


def test_step_time_figure_spikes_once_a_block(demo_file):
    results = open_results(demo_file)
    run = 2  # evict-75, B 128
    curve = figures.steps(results, run, results.run(run))["data"][-1]
    spikes = np.array(curve["x"])[np.array(curve["y"]) > np.median(curve["y"])]
    assert set(np.diff(spikes)) == {128}


def test_block_grid_is_drawn_at_the_boundaries_found(demo_file):
    results = open_results(demo_file)
    # grid_offset 17 is added before division: position p is in block (p + 17) / 64, so blocks begin at 47, 111, ...
    results.summary.loc[1, "grid_offset"] = 17
    view = views.position(results, 1, results.run(1))
    assert list(view.boundaries[:2]) == [47, 111]


def test_too_many_boundaries_are_left_to_the_zoom(long_run):
    results, arrays = long_run
    view = views.position(results, 1, arrays)
    assert len(view.boundaries) == 0  # 2,048 of them
    assert list(np.unique(np.diff(view.zoom_boundaries))) == [64]
    assert len(view.zoom_x) == 4 * 64


def test_pareto_front_holds_what_none_beats_in_both():
    # (.5, .1) and (.7, .3) stay; (.5, .2) is worse at equal saving, (.6, .4) is beaten by (.7, .3).
    assert views.pareto_front(np.array([0.5, 0.5, 0.7, 0.6]), np.array([0.1, 0.2, 0.3, 0.4])) == [0, 2]


def test_pareto_leaves_its_plot_room_beside_long_names(demo_file):
    assert settings.shortened("evict 25 %") == "evict 25 %"
    name = settings.shortened("{block_size: 64, stages: [{evict: {scorer: attention_sum, keep_ratio: 0.5}}]}, h100-sxm")
    assert len(name) == 44 and name.startswith("{block_size: 64") and name.endswith("}, h100-sxm")
    figure = figures.pareto(open_results(demo_file))
    assert figure["layout"]["height"] >= 420 + 22 * (len(figure["data"]) // 3 - 2)


def test_identity_says_that_there_is_no_spectrum(demo_file):
    results = open_results(demo_file)
    assert "same at every position" in figures.loss_spectrum(results, 0, results.run(0))["missing"]


def test_figures_without_data_say_what_to_measure(tmp_path):
    from conftest import write_results

    write_results(tmp_path / "thin.h5", full=False)
    results = open_results(tmp_path / "thin.h5")
    arrays = results.run(3)
    assert "measure: time" in figures.steps(results, 3, arrays)["missing"]
    assert "measure: prefix_scan" in figures.prefix(results, 3, arrays)["missing"]


def test_figures_are_valid_for_the_installed_plotly(demo_file):
    graph_objects = pytest.importorskip("plotly.graph_objects")
    results = open_results(demo_file)
    for figure in [figures.pareto(results)] + [function(results, 5, results.run(5)) for _, function in figures.RUN_FIGURES.values()]:
        json.dumps(figure, allow_nan=False)
        graph_objects.Figure(data=figure["data"], layout=figure["layout"])  # raises on an unknown key
