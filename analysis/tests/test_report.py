"""The page stands alone, stays small, and survives hostile text."""

import json
import re

import h5py
import numpy as np
import pytest

from conftest import write_results
from kvtide_analysis import figures, open_results, report
from kvtide_analysis.machine_figures import MACHINE_FIGURES
from kvtide_analysis.report import render


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


def test_page_is_the_same_bytes_for_the_same_file(tmp_path):
    write_results(tmp_path / "small.h5", positions=256, blocks=(64,), policies=(("evict-50", 0.5, 0.35, True),))
    first, second = (render(open_results(tmp_path / "small.h5"), worst_max=0.2) for _ in range(2))
    assert first == second


def test_every_run_has_a_row_an_option_and_figures(page):
    assert page.count("<tr class=") == 22
    data = data_of(page)
    assert len(data["runs"]) == 22
    assert set(data["runs"]["5"]) == {*figures.RUN_FIGURES, *MACHINE_FIGURES}
    assert data["runs"][data["first"]]["phase"]["caption"].startswith("Period found")


def test_text_from_the_file_cannot_become_markup(page):
    # The stored YAML holds a closing script element.
    assert "</script><b>int4" not in page
    assert "&lt;/script&gt;&lt;b&gt;int4" in page


def test_hostile_labels_cannot_become_markup(tmp_path):
    path = tmp_path / "hostile.h5"
    write_results(path, blocks=(64,), policies=(('"><script>alert(1)</script>', 0.5, 0.3, True),))
    assert "<script>alert" not in render(open_results(path), worst_max=0.2)


def test_large_sweeps_keep_the_table_and_the_extremes(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MOST_DETAILED", 4)
    policies = tuple((f"evict-{number}", 0.5, 0.002 + number / 20, True) for number in range(9))
    write_results(tmp_path / "wide.h5", positions=160, blocks=(32,), policies=policies, full=False)
    page = report.render(open_results(tmp_path / "wide.h5"), worst_max=0.2)
    assert page.count("<tr class=") == 10
    # Losses rise with the run number: the two lowest and the two highest.
    assert {int(run) for run in data_of(page)["runs"]} == {0, 1, 8, 9}
    assert "Figures are kept for 4 of 10 runs" in page


def test_figures_that_do_not_fit_are_never_those_of_the_headline(tmp_path, monkeypatch):
    policies = tuple((f"evict-{number}", 0.5, 0.02 + (number * 7 % 9) / 12, True) for number in range(9))
    write_results(tmp_path / "wide.h5", positions=160, blocks=(32,), policies=policies, full=False)
    results = open_results(tmp_path / "wide.h5")
    largest, best = int(results.summary["loss_worst"].idxmax()), int(results.summary["loss_worst"][1:].idxmin())
    results.summary.loc[[2], ["loss_worst"]] = np.nan  # a failed run has no loss, and is not of the highest
    monkeypatch.setattr(report, "MOST_DETAIL_BYTES", 1)  # the first one fits, whatever it is
    assert list(data_of(report.render(results, worst_max=0.5))["runs"]) == [str(largest)]
    monkeypatch.undo()
    monkeypatch.setattr(report, "MOST_DETAILED", 9)
    kept = list(data_of(report.render(results, worst_max=0.5))["runs"])
    assert kept == [str(run) for run in range(10) if run != 2] and str(best) in kept


def test_subtitle_is_of_the_run_and_names_nothing_that_varies(demo_file):
    results = open_results(demo_file)
    for name, value in (("model_setting", "llama-3.2-1b"), ("batch_setting", 4.0), ("context_tokens_setting", 2048.0)):
        results.summary[name] = value
    results.summary["gpu_setting"] = ["a30", "l40s"] * 11
    subtitle = report._subtitle(results)
    assert subtitle.startswith("llama-3.2-1b, 2,048 tokens of context, batch 4: 22 settings.")
    assert "h100" not in subtitle and "a30" not in subtitle


def test_bound_of_the_attention_is_none_of_bits(demo_file):
    results = open_results(demo_file)
    assert 'id="within"' in render(results) and "up to 20.0 %" in render(results)
    results.summary["loss_metric"] = "bits_lost"
    page = render(results)
    assert 'id="within"' not in page and 'class="over"' not in page
    assert "Loss is bits lost per element (bits_lost)" in page
    assert "up to 3 bit" in render(results, worst_max=3.0)


def test_bound_is_of_one_metric(demo_file):
    results = open_results(demo_file)
    results.summary["loss_metric"] = ["bits_lost", "mass_loss"] * 11
    page = render(results, worst_max=0.2)
    assert 'id="within"' not in page and 'class="over"' not in page and 'class="within"' not in page
    assert "the losses are of several metrics (bits_lost, mass_loss)" in page


def test_file_of_no_runs_gives_a_page_with_a_bound_too(demo_file):
    results = open_results(demo_file)
    results.summary = results.summary[:0]
    assert "no run has both a saving and a loss" in render(results, worst_max=0.2)


def test_spread_between_texts_is_said_of_recorded_attention_only(demo_file):
    results = open_results(demo_file)
    assert "Losses here come from one text" in render(results)
    results.summary["loss_model"] = "synthetic needle"
    assert "come from one text" not in render(results)
    results.summary.loc[3, "loss_model"] = "smollm2-135m"
    assert "come from one text" in render(results)


def test_file_without_loss_or_groups_gives_a_page_that_says_so(tmp_path):
    path = tmp_path / "bare.h5"
    with h5py.File(path, "w") as file:
        file["summary/run"] = [0]
        file["summary/memory_saving"] = [0.5]
    page = render(open_results(path), worst_max=0.2)
    assert "No verdict" in page
    assert "no readable experiment" in page
    assert data_of(page)["runs"]["0"]["phase"] == {"missing": "the run has no loss profile (measure: loss gives it)"}
