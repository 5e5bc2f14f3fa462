"""The page in a real browser: every figure is drawn, nothing is logged, nothing scrolls sideways, the keyboard is enough."""

import os

import pytest

import browser
from conftest import write_results
from kvtide_analysis import open_results
from kvtide_analysis.report import render

pytestmark = pytest.mark.skipif(browser.PROGRAM is None, reason="no chromium found: the page was not drawn in a browser")
ALL = os.environ.get("KVTIDE_TEST_SCOPE") == "all"
READY = "document.documentElement?.dataset.ready === '1'"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pytest.importorskip("plotly")
    folder = tmp_path_factory.mktemp("page")
    write_results(folder / "small.h5", blocks=(64,))  # identity and seven settings
    (folder / "page.html").write_text(render(open_results(folder / "small.h5"), worst_max=0.2), encoding="utf-8")
    return folder / "page.html"


@pytest.mark.parametrize("width", [400, pytest.param(1600, marks=pytest.mark.skipif(not ALL, reason="KVTIDE_TEST_SCOPE=all adds 1600 px"))])
def test_every_figure_is_drawn_without_console_errors_or_sideways_scrolling(page, tmp_path, width):
    with browser.Browser(str(tmp_path / "profile"), width) as driven:
        driven.open(page, READY)
        # Thirteen figures: savings, position, zoom, phase, jumps, spectrum, prefix, steps, memory, timeline, heads, queue, occupancy.
        assert driven.run("document.querySelectorAll('.js-plotly-plot .main-svg:first-child').length") == 13
        assert driven.run("innerWidth") == width
        assert driven.run("document.documentElement.scrollWidth") <= width
        assert driven.console == []


def test_keyboard_alone_sorts_filters_and_chooses(page, tmp_path):
    with browser.Browser(str(tmp_path / "profile"), 1200) as driven:
        driven.open(page, READY)

        def tab_to(condition: str) -> None:
            for _ in range(40):
                driven.press("Tab")
                if driven.run(f"(() => {{ const at = document.activeElement; return {condition}; }})()"):
                    return
            pytest.fail(f"40 tabs do not reach: {condition}")

        def savings() -> list[float]:
            return driven.run("[...document.querySelectorAll('#runs tbody tr')].map((row) => Number(row.cells[1].dataset.value))")

        # In the order of the page: the filter's check box, the table's header, its first row.
        tab_to("at.id === 'within'")
        driven.press(" ")
        assert driven.run("[...document.querySelectorAll('#runs tbody tr:not([hidden])')].every((row) => row.className.includes('within'))")
        driven.press(" ")
        tab_to("at.matches('th button') && at.textContent === 'Saving'")
        assert driven.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        driven.press("Enter")
        assert savings() == sorted(savings())
        assert driven.run("document.activeElement.parentNode.getAttribute('aria-sort')") == "ascending"
        driven.press("Enter")
        assert savings() == sorted(savings(), reverse=True)
        tab_to("at.matches('td button')")
        driven.press("Enter")
        first_row = driven.run("document.querySelector('#runs tbody tr').dataset.run")
        assert driven.run("document.getElementById('run').value") == first_row
        assert driven.console == []


@pytest.mark.skipif(not ALL, reason="KVTIDE_TEST_SCOPE=all adds the comparison of several settings")
def test_ticks_in_the_table_draw_up_to_three_runs_beside_the_one_shown(page, tmp_path):
    with browser.Browser(str(tmp_path / "profile"), 1200) as driven:
        driven.open(page, READY)
        ticked = "[...document.querySelectorAll('input.compare:checked')].map((tick) => tick.closest('tr').dataset.run)"
        curves = "document.getElementById('plot-position').data.map((trace) => trace.line.dash)"
        before = driven.run(f"({curves}).length")
        driven.run("document.querySelector('tr[data-run=\"0\"] td button').click()")  # none of those ticked
        for run in (1, 2, 3, 4):
            driven.run(f"document.querySelector('tr[data-run=\"{run}\"] input.compare').click()")
        assert driven.run(ticked) == ["2", "3", "4"]  # the first asked for went
        while driven.run(f"({curves}).length") != before + 3:
            pass
        assert driven.run(curves)[-3:] == ["dash", "dot", "dashdot"]
        driven.run("document.querySelectorAll('input.compare:checked').forEach((tick) => tick.click())")
        assert driven.run(ticked) == []
        assert driven.console == []


@pytest.mark.skipif(not ALL, reason="KVTIDE_TEST_SCOPE=all adds the comparison of two settings")
def test_comparison_draws_the_other_run_in_every_figure_of_a_curve(page, tmp_path):
    with browser.Browser(str(tmp_path / "profile"), 1200) as driven:
        driven.open(page, READY)
        count = "['position', 'phase', 'jumps', 'spectrum', 'steps'].map((key) => document.getElementById('plot-' + key).data.length)"
        before = driven.run(count)
        driven.run("(() => { const other = document.getElementById('other'); other.value = '2'; "
                   "other.dispatchEvent(new Event('change')); })()")
        while "Compared" not in driven.run("document.getElementById('caption-steps').textContent"):
            pass  # figures are drawn in turn
        assert driven.run(count) == [number + 1 for number in before]
        assert "Compared, evict-50, B 64: 100.0 % of the jumps" in driven.run("document.getElementById('caption-jumps').textContent")
        assert driven.console == []
