"""`kvtide validate e2e`: the contract's JSON, and folders that are not what they should be."""

import json

import pytest

from tested_program import SOURCE, kvtide

RUNS = SOURCE.parent / "shared/data/e2e"


@pytest.mark.skipif(not RUNS.exists(), reason="needs ../shared/data/e2e")
def test_the_figures_have_the_contracts_names():
    figures = json.loads(kvtide("validate", "e2e", RUNS, "--json").stdout)["runs"]
    assert {figure["step_times"] for figure in figures} == {"machine", "tables"}
    assert {figure["metric"] for figure in figures} == {"ttft_ms", "tpot_ms", "latency_ms"}
    for figure in figures:
        assert set(figure) == {"run", "metric", "statistic", "measured", "predicted", "error_percent", "step_times"}
        assert figure["error_percent"] == pytest.approx(100 * (figure["predicted"] / figure["measured"] - 1))


def test_a_folder_without_runs_is_an_error(tmp_path):
    done = kvtide("validate", "e2e", tmp_path)
    assert done.returncode == 2 and "runs.csv" in done.stderr
