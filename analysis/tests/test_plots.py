"""Every matplotlib plot draws from the same views, and the command line writes it."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot

from conftest import write_results
from kvtide_analysis import cli, open_results, plots


@pytest.fixture()
def axes():
    figure, drawn = pyplot.subplots()
    yield drawn
    pyplot.close(figure)


@pytest.mark.parametrize("what", list(plots.PLOTS))
def test_plot_names_both_axes(demo_file, axes, what):
    drawn = 0
    for panel in plots.PLOTS[what]:
        axes.clear()
        panel(axes, open_results(demo_file), 5)
        if axes.texts and axes.texts[0].get_text().startswith("No data:"):
            continue
        drawn += 1
        assert axes.get_xlabel() and axes.get_ylabel()
        assert axes.has_data()
    assert drawn  # the second panel of the remedies asks for a prefix scan, which the demo has not


@pytest.mark.parametrize("what", ["spectrum", "prefix", "steps", "heads", "serving"])
def test_plot_without_data_says_why(tmp_path, axes, what):
    from conftest import write_results

    write_results(tmp_path / "thin.h5", full=False)
    plots.PLOTS[what][0](axes, open_results(tmp_path / "thin.h5"), 0)
    assert axes.texts[0].get_text().startswith("No data:")


def test_phase_plot_of_a_long_profile_has_64_on_its_axis(long_file, axes):
    plots.plot_phase(axes, open_results(long_file), 1)
    assert axes.get_xlim()[1] == 63.5
    assert "mod 64" in axes.get_xlabel()
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), np.arange(64))


def test_phase_plot_has_a_second_panel_with_one_bar_at_the_first_position_of_a_block(demo_file, axes):
    plots.PLOTS["phase"][1](axes, open_results(demo_file), 5)  # evict-50, B 128 (run 0 is the identity)
    heights = [bar.get_height() for bar in axes.patches]
    assert len(heights) == 128 and heights[0] == 1 and not any(heights[1:])


def test_heads_are_layer_by_head_with_their_mean_loss(demo_file, axes):
    plots.plot_heads(axes, open_results(demo_file), 5)
    np.testing.assert_allclose(axes.images[0].get_array(), [[0, 0.25, 0.5], [0.25, 0.5, 0.75]])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["9", "17"]
    assert sorted({text.get_text() for text in axes.texts}) == ["0 %", "25 %", "50 %", "75 %"]


def test_command_line_offers_exactly_the_plots_there_are():
    assert set(cli.PLOT_NAMES) == set(plots.PLOTS)


def test_command_line_writes_a_png(demo_file, tmp_path, capsys):
    output = tmp_path / "phase.png"
    assert cli.main(["plot", str(demo_file), "--what", "phase", "--run", "5", "-o", str(output)]) == 0
    assert output.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip() == str(output)


@pytest.mark.parametrize(("arguments", "code", "text"), [
    (["report", "absent.h5"], 2, "no such file"),
    (["plot", "{demo}", "--what", "phase", "--run", "99"], 2, "no run 99"),
    (["plot", "{demo}", "--what", "phase", "-o", "{tmp}/x.banana"], 2, "banana"),
    (["report", "{demo}", "-o", "{tmp}/no/folder/x.html"], 3, "No such file or directory"),
])
def test_wrong_input_and_unwritable_output_are_one_line_and_a_code(demo_file, tmp_path, capsys, arguments, code, text):
    filled = [argument.format(demo=demo_file, tmp=tmp_path) for argument in arguments]
    assert cli.main(filled) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ") and text in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_more_settings_than_colours_leave_the_fronts_names(tmp_path):
    write_results(tmp_path / "many.h5", positions=160, blocks=(32,), full=False,
                  policies=tuple((f"policy-{number}", 1 - number / 100, 0.01 + number / 200 if number % 3 else 0.9, True)
                                 for number in range(1, 31)))
    figure, axes = pyplot.subplots()
    plots.plot_pareto(axes, open_results(tmp_path / "many.h5"))
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    named = [label for label in labels if label.startswith("policy") or label == "identity"]
    assert len(named) == 7 and "24 others: --what catalogue" in labels  # identity and 30 policies
    assert not {f"policy-{number}" for number in range(3, 31, 3)} & set(named)  # none of the front
    assert len(labels) < 12
    pyplot.close(figure)
