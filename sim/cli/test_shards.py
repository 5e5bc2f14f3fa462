"""Shards of one experiment, joined again; the summary as CSV; the installation's check-up."""

import csv
import io
import json
import os
import subprocess

import h5py
import pytest

from test_command_line import experiment
from tested_program import PROGRAM, kvtide

SWEEP = """
sweep:
  compression.block_size: [32, 64, 128]
  compression.stages:
    - {label: "half, of \\"blocks\\"", value: [{evict: {scorer: attention_sum, granularity: block, keep_ratio: 0.5}}]}
    - {label: int4, value: [{quantize: {format: int4, group: 32}}]}
"""
FIXED = {**os.environ, "SOURCE_DATE_EPOCH": "946684800"}


def plain(environment=None, **changes):
    """The environment without a scheduler's variables."""
    names = ("SLURM_", "JOB_COMPLETION_INDEX", "KVTIDE_SHARDS")
    return {**{k: v for k, v in (environment or FIXED).items() if not k.startswith(names)}, **changes}


def test_shards_of_three_schedulers_merge_to_the_bytes_of_one_process(tmp_path):
    path = experiment(tmp_path, SWEEP)
    whole = tmp_path / "whole.h5"
    assert kvtide("run", path, "-o", whole, "--quiet", env=plain()).returncode == 0
    parts = [tmp_path / f"part{index}.h5" for index in range(3)]
    environments = [
        plain(SLURM_ARRAY_TASK_ID="7", SLURM_ARRAY_TASK_MIN="7", SLURM_ARRAY_TASK_COUNT="3"),  # task 7 of 7..9 is shard 0
        plain(JOB_COMPLETION_INDEX="1", KVTIDE_SHARDS="3"),
    ]
    for part, environment in zip(parts, environments):
        assert kvtide("run", path, "-o", part, "--quiet", env=environment).returncode == 0
    assert kvtide("run", path, "-o", parts[2], "--quiet", "--shard", "2/3", env=plain()).returncode == 0
    merged = tmp_path / "merged.h5"
    done = kvtide("merge", merged, *parts, env=plain())
    assert done.returncode == 0 and done.stdout.startswith("6 runs of 3 files")
    assert merged.read_bytes() == whole.read_bytes()

    short = kvtide("merge", tmp_path / "short.h5", *parts[:2], env=plain())
    assert short.returncode == 2 and "4 of 6 runs are in these files; missing: 00002, 00005" in short.stderr
    assert not (tmp_path / "short.h5").exists()


def test_a_shard_is_named_after_its_part(tmp_path):
    done = subprocess.run([PROGRAM, "run", experiment(tmp_path, SWEEP), "--quiet", "--shard", "1/12"], cwd=tmp_path,
                          env=plain(), capture_output=True, text=True)
    assert done.returncode == 0
    assert (tmp_path / "results/t.shard-01-of-12.h5").exists()


def test_a_shard_shows_the_numbers_of_the_whole_sweep(tmp_path):
    done = kvtide("run", experiment(tmp_path, SWEEP), "-o", tmp_path / "t.h5", "--shard", "1/2", env=plain())
    assert done.returncode == 0 and "warning" not in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:5]] == ["1", "3", "5"], done.stdout  # every second of six
    shown = kvtide("run", tmp_path / "t.yaml", "-o", tmp_path / "t.h5", "--shard", "1/2", "--json", env=plain())
    assert [run["run"] for run in json.loads(shown.stdout)["runs"]] == [1, 3, 5]


def test_a_shard_that_nobody_asked_for_is_named(tmp_path):
    done = kvtide("run", experiment(tmp_path, SWEEP), "-o", tmp_path / "t.h5", "--quiet",
                  env=plain(SLURM_ARRAY_TASK_ID="1", SLURM_ARRAY_TASK_COUNT="2"))  # fmt: skip
    assert done.returncode == 0
    assert "only the runs of shard 1/2" in done.stderr and "--shard 0/1" in done.stderr


def test_export_reads_back_as_the_same_table(tmp_path):
    out = tmp_path / "t.h5"
    assert kvtide("run", experiment(tmp_path, SWEEP), "-o", out, "--quiet", env=plain()).returncode == 0
    text = kvtide("export", out).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["run"] for row in rows] == ["0", "1", "2", "3", "4", "5"]
    assert [row["compression.block_size"] for row in rows] == ["32", "32", "64", "64", "128", "128"]
    assert rows[0]["compression.stages"] == 'half, of "blocks"'
    assert rows[1]["period"] == ""  # quantized in place: no period, so no value
    assert float(rows[0]["period"]) == 32
    few = tmp_path / "few.csv"
    assert kvtide("export", out, "--columns", "loss_mean,status", "-o", few).returncode == 0
    assert few.read_text().splitlines()[0] == "run,loss_mean,status"
    wrong = kvtide("export", out, "--columns", "loss_meen")
    assert wrong.returncode == 2 and 'no column "loss_meen"' in wrong.stderr


@pytest.mark.parametrize(
    "arguments, variables, words",
    [
        (["--shard", "3/3"], {}, ["0 <= I < N", "3/3"]),
        (["--shard", "-1/3"], {}, ["0 <= I < N"]),
        (["--shard", "1"], {}, ["expected I/N or auto", '"1"']),
        (["--shard", "auto"], {}, ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"]),
        ([], {"SLURM_ARRAY_TASK_ID": "x"}, ["SLURM_ARRAY_TASK_ID", "expected an integer"]),
    ],
)
def test_a_shard_that_cannot_be_is_refused(tmp_path, arguments, variables, words):
    done = kvtide("run", experiment(tmp_path, SWEEP), "-o", tmp_path / "t.h5", *arguments, env=plain(**variables))
    assert done.returncode == 2
    assert all(word in done.stderr for word in words)


def test_a_damaged_shard_is_named(tmp_path):
    part = tmp_path / "part.h5"
    assert kvtide("run", experiment(tmp_path, SWEEP), "-o", part, "--quiet", "--shard", "0/3", env=plain()).returncode == 0
    content = bytearray(part.read_bytes())
    part.write_bytes(content[: len(content) // 2])
    done = kvtide("merge", tmp_path / "m.h5", part)
    assert done.returncode == 2 and "part.h5" in done.stderr


# Mutated bytes had given an array of five values two dimensions: merging ended in "a mistake in kvtide".
@pytest.mark.parametrize("change", [lambda names: names.replace("(", "(loss/position,", 1), lambda names: names.replace("position)", "nowhere)", 1)])
def test_an_array_that_does_not_fit_its_dimensions_is_named(tmp_path, change):
    part = tmp_path / "part.h5"
    assert kvtide("run", experiment(tmp_path, SWEEP), "-o", part, "--quiet", env=plain()).returncode == 0
    with h5py.File(part, "r+") as file:
        run = next(iter(file["runs"].values()))
        names = run.attrs["array_paths"]
        assert change(names) != names
        run.attrs["array_paths"] = change(names)
    done = kvtide("merge", tmp_path / "m.h5", part)
    assert done.returncode == 2 and "part.h5" in done.stderr and "mistake" not in done.stderr
    assert "values for dimensions" in done.stderr or "no dimension" in done.stderr


def test_doctor_lists_what_it_found():
    done = kvtide("doctor")
    assert done.returncode in (0, 3)
    assert "data folder" in done.stdout and "HDF5" in done.stdout
