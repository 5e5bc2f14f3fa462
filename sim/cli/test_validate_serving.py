"""`kvtide validate serving`: published preemptions and quantized caches."""

import json

import pytest

from tested_program import SOURCE, kvtide

RUNS = SOURCE.parent / "shared/data/e2e"


@pytest.mark.skipif(not RUNS.exists(), reason="needs ../shared/data/e2e")
def test_every_published_row_is_there():
    figures = json.loads(kvtide("validate", "serving", RUNS, "--json").stdout)
    assert [row["watermark"] for row in figures["preemptions"]] == [0, 0.02, 0.05, 0.1, 0.15]
    assert len(figures["quantized"]) == 7
    for row in figures["quantized"]:
        assert ("recipe" in row) != ("not_predicted" in row)


def test_a_folder_without_figures_is_an_error(tmp_path):
    done = kvtide("validate", "serving", tmp_path)
    assert done.returncode == 2 and "preemption_watermark.csv" in done.stderr
