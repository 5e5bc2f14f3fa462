"""Scorers, selections and choices of other programs, from the experiment file to the results."""

import h5py
import numpy as np
import pytest

from test_command_line import run
from tested_program import kvtide

CONTEXT = 2021  # tokens of the shipped trace that are compressed when queries are agnostic
# What the shipped trace cannot feed: it has the queries of the last 260 positions and no output projection.
NEEDS_ALL_QUERIES = {"cap", "compactor", "expected_attention", "infllm", "non_causal", "observed_attention"}


def scorers():
    lines = kvtide("show", "scorers").stdout.splitlines()
    return [line.split()[0] for line in lines if line and line.split()[0].replace("_", "").isalnum()][1:]


def compression(block_size=1, **evict):
    return {"block_size": block_size, "protect": {"sinks": 4, "window": 16},
            "stages": [{"evict": {"granularity": "token", **evict}}]}


def test_a_scorer_is_shown_with_its_parameters():
    shown = kvtide("show", "scorers", "snapkv").stdout
    assert "arXiv 2404.14469" in shown and "kernel" in shown and "1..65536" in shown
    assert kvtide("show", "scorers", "snapvk").returncode == 2


def test_every_scorer_runs_or_says_what_the_trace_lacks(tmp_path):
    names = [name for name in scorers() if name != "file"]
    assert len(names) >= 20
    stages = [{"label": name, "value": [{"evict": {"scorer": name, "keep_ratio": 0.5}}]} for name in names]
    text = "sweep:\n  compression.stages: " + str(stages).replace("'", '"') + "\n"
    done, out = run(tmp_path, text, compression={"block_size": 64}, measure=["memory", "time", "loss"])
    assert done.returncode == 1, done.stderr  # some runs cannot be evaluated on this trace
    with h5py.File(out) as file:
        labels = file["summary/compression.stages"].asstr()[:]
        status = file["summary/status"].asstr()[:]
        reason = file["summary/status_reason"].asstr()[:]
        saving = file["summary/memory_saving"][:]
    for label, ok, why, saved in zip(labels, status, reason, saving):
        if label in NEEDS_ALL_QUERIES:
            assert ok == "failed" and "needs the queries" in why, label
        else:
            assert ok == "ok", why
            assert saved == pytest.approx(0.5, abs=0.01), label  # 256 of 512 blocks, protected ones inside the budget


def test_choices_of_another_program_are_kept_exactly(tmp_path):
    """Head 0 keeps every third position, head 1 the first 300, head 2 one: sinks and window are protected besides."""
    kept = np.zeros((2, 1, 3, 2048), np.uint8)
    kept[:, 0, 0, ::3] = 1
    kept[:, 0, 1, :300] = 1
    kept[:, 0, 2, 1000] = 1
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.attrs["layers"], file.attrs["ratios"] = [9, 18], [0.5]
        file["Mine/kept"] = kept
    done, out = run(tmp_path, compression=compression(scorer="file", kept="mine.h5", threshold=0.5),
                    measure=["memory", "loss", "detail"])
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        stored = file["runs/00000/kept"][:]
    expected = kept[:, 0, :, :CONTEXT].copy()
    expected[..., :4] = 1
    expected[..., CONTEXT - 16:] = 1
    np.testing.assert_array_equal(stored, expected)


def test_a_file_without_the_methods_ratio_is_refused_before_the_run(tmp_path):
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.attrs["layers"], file.attrs["ratios"] = [9, 18], [0.75]
        file["Mine/kept"] = np.ones((2, 1, 3, 2048), np.uint8)
    done, out = run(tmp_path, compression=compression(scorer="file", kept="mine.h5", keep_ratio=0.5))
    assert done.returncode == 2
    assert "no choice at keep_ratio 0.5" in done.stderr
    assert not out.exists()


def test_a_budget_that_falls_with_depth_keeps_what_its_table_says(tmp_path):
    """Recorded layers 9 and 18 of 30: the first half keeps all, the second a quarter (ceil of 2,021 / 4 = 506)."""
    done, out = run(tmp_path, compression=compression(scorer="knorm", budget={"layers": [1.0, 0.25]}),
                    measure=["loss", "detail", "memory"])
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        kept = file["runs/00000/kept"][:].sum(axis=-1)
        saving = file["summary/memory_saving"][0]
    assert (kept[0] == CONTEXT).all() and (kept[1] == 506).all()
    assert saving == pytest.approx(0.375, abs=0.01)  # half of the served layers save three quarters


def test_validate_kept_wants_a_trace_and_a_reference():
    done = kvtide("validate", "kept", "only-one.h5")
    assert done.returncode == 2
    assert "TRACE.h5 [COMPANION.h5] REFERENCE.h5" in done.stderr
