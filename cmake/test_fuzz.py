"""With KVTIDE_TEST_SCOPE=all: every reader half a minute against hostile bytes (fuzz/README.md)."""

import os
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent


@pytest.mark.skipif(os.environ.get("KVTIDE_TEST_SCOPE") != "all", reason="builds everything with Clang: test --all")
@pytest.mark.skipif(shutil.which("clang++") is None, reason="needs Clang")
def test_hostile_bytes_find_nothing_in_half_a_minute_a_reader():
    targets = sorted(path.name.removesuffix("_fuzz.cc") for path in (SOURCE / "fuzz").glob("*_fuzz.cc"))
    environment = {name: value for name, value in os.environ.items() if name != "KVTIDE_BUILD_DIR"}  # its own, of another compiler
    done = subprocess.run([SOURCE / "kvtide", "fuzz", "--minutes", "0.5"], env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    clean = sorted(line.split()[0] for line in done.stdout.splitlines() if line.endswith(" clean"))
    assert clean == targets, done.stdout
