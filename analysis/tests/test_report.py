"""The page stands alone, stays small, survives hostile text, and draws in a real browser without an error."""

import json
import re
import shutil
import subprocess

import h5py
import pytest

from conftest import write_results
from kvtide_analysis import figures, open_results
from kvtide_analysis.report import MOST_DETAILED, render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def page(demo_file):
    pytest.importorskip("plotly")
    return render(open_results(demo_file), worst_max=0.2)


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))


def test_page_is_one_small_file_that_loads_nothing(page):
    assert len(page.encode()) < 6_000_000
    outside = page.replace(re.search(r'id="bundle">(.*?)</script>', page, re.S).group(1), "")
    assert not re.findall(r'(?:src|href)="(?!data:)', outside)
    assert "default-src 'none'" in outside
    assert page.count('id="bundle"') == 1


def test_page_is_the_same_bytes_for_the_same_file(page, demo_file):
    assert render(open_results(demo_file), worst_max=0.2) == page


def test_every_run_has_a_row_an_option_and_figures(page):
    assert page.count("<tr class=") == 22
    data = data_of(page)
    assert len(data["runs"]) == 22
    assert set(data["runs"]["5"]) == set(figures.RUN_FIGURES)
    assert data["runs"][data["first"]]["phase"]["caption"].startswith("Period found")


def test_text_from_the_file_cannot_become_markup(page):
    # The stored YAML holds a closing script element.
    assert "</script><b>int4" not in page
    assert "&lt;/script&gt;&lt;b&gt;int4" in page


def test_hostile_labels_cannot_become_markup(tmp_path):
    path = tmp_path / "hostile.h5"
    write_results(path, blocks=(64,), policies=(('"><script>alert(1)</script>', 0.5, 0.3, True),))
    assert "<script>alert" not in render(open_results(path), worst_max=0.2)


def test_large_sweeps_keep_the_table_and_the_extremes(tmp_path):
    path = tmp_path / "wide.h5"
    policies = tuple((f"evict-{number}", 0.5, 0.002 + number / 100, True) for number in range(64))
    write_results(path, positions=256, blocks=(64,), policies=policies, full=False)
    page = render(open_results(path), worst_max=0.2)
    assert page.count("<tr class=") == 65
    kept = {int(run) for run in data_of(page)["runs"]}
    assert len(kept) == MOST_DETAILED and {0, 1, 64} <= kept
    assert f"Figures are kept for {MOST_DETAILED} of 65 runs" in page


def test_file_without_loss_or_groups_gives_a_page_that_says_so(tmp_path):
    path = tmp_path / "bare.h5"
    with h5py.File(path, "w") as file:
        file["summary/run"] = [0]
        file["summary/memory_saving"] = [0.5]
    page = render(open_results(path), worst_max=0.2)
    assert "No verdict" in page
    assert "no readable experiment" in page
    assert data_of(page)["runs"]["0"]["phase"] == {"missing": "the run has no loss profile (measure: loss gives it)"}


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium found: the page was not drawn in a browser")
@pytest.mark.parametrize("width", [400, 1600])
def test_browser_draws_every_figure_without_console_errors_or_sideways_scrolling(page, tmp_path, width):
    # Headless windows cannot be narrower than 500 px, so the page sits in a frame of the wanted width.
    probe = """<script>addEventListener("load", () => { const timer = setInterval(() => {
      if (!document.documentElement.dataset.ready) return;
      clearInterval(timer);
      parent.postMessage({drawn: document.querySelectorAll(".js-plotly-plot .main-svg:first-child").length,
        wide: document.documentElement.scrollWidth, inner: innerWidth}, "*"); }, 50); });</script></body>"""
    (tmp_path / "page.html").write_text(page.replace("</body>", probe), encoding="utf-8")
    (tmp_path / "frame.html").write_text(
        f'<!doctype html><pre id="told"></pre><iframe src="page.html" style="width:{width}px;height:3000px;border:0"></iframe>'
        '<script>addEventListener("message", (event) => { told.textContent = JSON.stringify(event.data); });</script>')
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=20000",
         f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={max(width, 500) + 40},3200", "--dump-dom",
         f"file://{tmp_path / 'frame.html'}"], capture_output=True, text=True, timeout=120, check=True)
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    told = json.loads(re.search(r'<pre id="told">(.*?)</pre>', done.stdout).group(1))
    # Seven figures: savings, position, zoom, phase, spectrum, steps, prefix.
    assert told["drawn"] == 7
    assert told["wide"] <= told["inner"]
