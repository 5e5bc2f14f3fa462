"""A sweep on the ranks of an mpirun: the same bytes, and what a killed rank leaves."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from test_command_line import experiment
from tested_program import PROGRAM, kvtide

MPIRUN = shutil.which("mpirun")
FIXED = {**os.environ, "SOURCE_DATE_EPOCH": "946684800"}
SWEEP = """
sweep:
  compression.block_size: {range: {from: 32, to: 80, step: 4}}
  compression.stages:
    - {label: half, value: [{evict: {scorer: attention_sum, granularity: block, keep_ratio: 0.5}}]}
    - {label: int4, value: [{quantize: {format: int4, group: 32}}]}
"""


def mpirun(ranks, *arguments):
    command = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), PROGRAM, *map(str, arguments)]
    return subprocess.Popen(command, env=FIXED, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


needs_mpi = pytest.mark.skipif(
    MPIRUN is None or "MPI yes" not in kvtide("--version").stdout, reason="no mpirun, or kvtide was built without MPI"
)


@needs_mpi
def test_four_ranks_give_the_bytes_of_one_process(tmp_path):
    path = experiment(tmp_path, SWEEP)
    assert kvtide("run", path, "-o", tmp_path / "one.h5", "--quiet", env=FIXED).returncode == 0
    ranks = mpirun(4, "run", path, "-o", tmp_path / "four.h5", "--quiet")
    out, errors = ranks.communicate(timeout=300)
    assert ranks.returncode == 0, errors
    assert out == f"results: {tmp_path}/four.h5\n"  # once, not four times
    assert (tmp_path / "four.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()


@needs_mpi
def test_a_wrong_file_is_reported_once(tmp_path):
    path = experiment(tmp_path, batch=-1)
    ranks = mpirun(3, "run", path, "-o", tmp_path / "x.h5")
    _, errors = ranks.communicate(timeout=60)
    assert ranks.returncode == 2
    assert errors.count("batch: expected") == 1


@needs_mpi
def test_a_killed_rank_loses_only_what_was_not_finished(tmp_path):
    path = experiment(tmp_path, SWEEP)
    assert kvtide("run", path, "-o", tmp_path / "one.h5", "--quiet", env=FIXED).returncode == 0
    out = tmp_path / "cut.h5"
    ranks = mpirun(3, "run", path, "-o", out, "--quiet")
    folder = tmp_path / "cut.h5.runs"
    deadline = time.time() + 60
    while len(list(folder.glob("*.h5"))) < 3 and ranks.poll() is None and time.time() < deadline:
        time.sleep(0.005)
    children = subprocess.run(["pgrep", "-f", f"^{PROGRAM} run {path}"], capture_output=True, text=True).stdout.split()
    if ranks.poll() is None and children:
        os.kill(int(children[-1]), signal.SIGKILL)
    ranks.communicate(timeout=60)
    finished = len(list(folder.glob("*.h5"))) if folder.exists() else 26
    assert finished >= 3
    rest = kvtide("run", path, "-o", out, "--quiet", "--resume", env=FIXED)
    assert rest.returncode == 0
    assert out.read_bytes() == (tmp_path / "one.h5").read_bytes()
