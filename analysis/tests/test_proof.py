"""The picture of the proof shows the rows it was given."""

import io

import pytest
from kvtide_analysis import proof, spread
from matplotlib import pyplot

HEADER = "scan,prompt,kind,mode,policy,block,ratio,head_scope,grid_offset,failing,loss,predicted_loss\n"


@pytest.fixture
def rows():
    lines = [f"prefix,{2 * n},,aware,evict,64,0.5,head,0,{int(n == 3)},{9.5 if n == 3 else 0.1},{8.0 if n == 3 else 0.0}\n" for n in (3, 1, 2)]
    lines.append("position,256,,agnostic,int2,64,0.875,all,0,1,5,3\n")
    return spread.read_rows(io.StringIO(HEADER + "".join(lines)))


def test_prefix_panel_is_in_order_and_stops_at_chance(rows):
    figure, axes = pyplot.subplots()
    proof.draw_prefix(axes, rows, "aware", 64, 0.5)
    predicted, measured = axes.get_lines()
    assert list(predicted.get_xdata()) == [2, 4, 6] and list(measured.get_ydata()) == [0.1, 0.1, 9.2]
    pyplot.close(figure)


def test_configurations_are_means_of_evictions_only(rows):
    figure, axes = pyplot.subplots()
    proof.draw_configurations(axes, rows)
    dots = axes.get_lines()[0]
    assert list(dots.get_xdata()) == [pytest.approx((0.1 + 0.1 + 9.2) / 3)] and list(dots.get_ydata()) == [pytest.approx(8 / 3)]
    pyplot.close(figure)
