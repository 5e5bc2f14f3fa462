"""The picture of the proof shows the rows it was given."""

import io

import pytest
from kvtide_analysis import proof, spread
from matplotlib import pyplot

HEADER = "scan,prompt,kind,mode,policy,block,ratio,head_scope,grid_offset,failing,loss,predicted_loss\n"


@pytest.fixture
def rows():
    lines = [f"prefix,{2 * n},,aware,evict,64,0.5,head,0,{int(n == 3)},{9.5 if n == 3 else 0.1},{8.0 if n == 3 else 0.0}\n"
             for n in (3, 1, 2)]
    lines.append("position,256,,agnostic,int2,64,0.875,all,0,1,5,3\n")
    return spread.read_rows(io.StringIO(HEADER + "".join(lines)))


def test_prefix_panel_is_in_order_and_stops_at_chance(rows):
    figure, axes = pyplot.subplots()
    proof.draw_scan(axes, rows, ("prefix", "aware", "evict", 64, 0.5, "head"))
    predicted, measured = axes.get_lines()
    assert list(predicted.get_xdata()) == [2, 4, 6] and list(measured.get_ydata()) == [0.1, 0.1, 9.2]
    pyplot.close(figure)


def scan_of(*lines):
    return spread.read_rows(io.StringIO(HEADER + "".join(f"{line}\n" for line in lines)))


def test_places_are_those_within_each_text():
    # Keys of made-up texts: number * 10,000 + tokens in front; a curve a text.
    rows = scan_of(*(f"prefix,{10000 * text + n},report/factual,aware,evict,64,0.5,head,0,0,{text},{text}" for text in (0, 1)
                     for n in (4, 0, 2)))
    figure, axes = pyplot.subplots()
    proof.draw_scan(axes, rows, proof.panels(rows)[0])
    assert [list(line.get_xdata()) for line in axes.get_lines()] == [[0, 2, 4]] * 4
    assert [set(line.get_ydata()) for line in axes.get_lines()] == [{0}, {0}, {1}, {1}]
    assert len(axes.get_legend_handles_labels()[1]) == 2
    # Without a kind the prompts are recorded ones, whose key is the place itself.
    recorded = scan_of(*(f"prefix,{n},,aware,evict,64,0.5,head,0,0,1,1" for n in (9998, 10002)))
    pyplot.close(figure)
    figure, axes = pyplot.subplots()
    proof.draw_scan(axes, recorded, proof.panels(recorded)[0])
    assert list(axes.get_lines()[0].get_xdata()) == [9998, 10002]
    pyplot.close(figure)


def test_settings_of_ones_own_are_drawn_and_no_panel_is_blank():
    # Columns: scan, prompt, kind, mode, policy, block, ratio, head_scope, grid_offset, failing, loss, predicted_loss.
    rows = scan_of(*(f"{scan},{n},log/keyword,aware,{setting},{n},0,1,1" for scan in ("grid", "position")
                     for setting in ("int2,32,0.5,all", "evict,32,0.5,head") for n in (0, 8)))
    figure = proof.figure_of(rows)
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert len(shown) == 4 and all(axis.get_lines() for axis in shown)
    assert {axis.get_xlabel() for axis in shown[:3]} == {"offset of the block grid (tokens)", "place of the fact (tokens)"}
    pyplot.close(figure)
    one = proof.figure_of(scan_of("position,256,,agnostic,int2,64,0.875,all,0,1,5,3"))
    assert len(one.axes) == 1 and len(one.axes[0].get_lines()[0].get_xdata()) == 1
    pyplot.close(one)


def test_configurations_are_means_of_evictions_only(rows):
    figure, axes = pyplot.subplots()
    proof.draw_configurations(axes, rows)
    dots = axes.get_lines()[0]
    assert list(dots.get_xdata()) == [pytest.approx((0.1 + 0.1 + 9.2) / 3)] and list(dots.get_ydata()) == [pytest.approx(8 / 3)]
    pyplot.close(figure)
