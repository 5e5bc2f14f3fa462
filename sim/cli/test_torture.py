"""A sweep that is killed again and again loses nothing: 200 times with KVTIDE_TEST_SCOPE=all, 10 times without.

KVTIDE_TORTURE_SEED chooses other moments; a failure prints the one it used.
"""

import os
import random
import signal
import subprocess
import time

import h5py

from test_command_line import experiment
from tested_program import PROGRAM

KILLS = 200 if os.environ.get("KVTIDE_TEST_SCOPE") == "all" else 10
SWEEP = "sweep:\n  compression.block_size: [16, 32, 48, 64, 80, 96, 112, 128]\n  batch: [1, 8]\n"
SETTINGS = {"measure": ["memory", "loss"], "compression": {"stages": [{"evict": {"keep_ratio": 0.5}}]}}
ENVIRONMENT = {**os.environ, "SOURCE_DATE_EPOCH": "946684800"}


def command(path, out, *more):
    return [PROGRAM, "run", str(path), "-o", str(out), "--quiet", "--jobs", "2", *more]


def finished(out):
    """Run files that a reader can open; a broken one would raise."""
    folder = out.with_suffix(".h5.runs")
    names = sorted(folder.glob("[0-9]*.h5")) if folder.is_dir() else []
    for name in names:
        with h5py.File(name) as file:
            assert len(file) > 0
    return {name.name: name.stat().st_mtime_ns for name in names}


def test_a_killed_sweep_goes_on_where_it_was_and_ends_in_the_same_bytes(tmp_path):
    seed = int(os.environ.get("KVTIDE_TORTURE_SEED", "1"))
    draw = random.Random(seed)
    path = experiment(tmp_path, SWEEP, **SETTINGS)
    undisturbed = tmp_path / "undisturbed.h5"
    begin = time.monotonic()
    assert subprocess.run(command(path, undisturbed), env=ENVIRONMENT, timeout=300).returncode == 0
    duration = time.monotonic() - begin
    kills = rounds = 0
    while kills < KILLS:
        rounds += 1
        out = tmp_path / f"round{rounds}.h5"
        done = {}
        while True:
            process = subprocess.Popen(command(path, out, "--resume"), env=ENVIRONMENT, stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=draw.uniform(0, 0.7 * duration) if kills < KILLS else 300)
            except subprocess.TimeoutExpired:
                # Now and then politely; SIGINT is answered with 130 after the runs under way.
                process.send_signal(signal.SIGINT if draw.random() < 0.2 else signal.SIGKILL)
                process.wait(timeout=300)
                kills += 1
            else:
                assert process.returncode == 0, f"seed {seed}, round {rounds}"
                break
            if out.exists():
                break
            now = finished(out)
            assert done.items() <= now.items(), f"seed {seed}, round {rounds}: a finished run was lost or redone"
            done = now
        assert out.read_bytes() == undisturbed.read_bytes(), f"seed {seed}, round {rounds}"
        assert not list(tmp_path.glob(f"round{rounds}.*partial*"))
        out.unlink()
    assert kills >= KILLS
