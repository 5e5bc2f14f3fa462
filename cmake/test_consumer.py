"""Installs the build into an empty prefix and uses the copy as another project would: libraries, program, data."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import h5py
import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("KVTIDE_BUILD_DIR", SOURCE / "build" / "release"))


def call(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=600, **options)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def clean_environment():
    """Without anything that would point the installed copy back at the source tree."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "KVTIDE_DATA_DIR")}
    return {**kept, "CMAKE_GENERATOR": "Ninja"}  # a bare system has ninja, which ./kvtide installs, and no make


def sanitizer():
    """The libraries of `kvtide test --sanitize` want their users built alike, by the same compiler."""
    cache = BUILD / "CMakeCache.txt"
    text = cache.read_text() if cache.exists() else ""
    found = re.search(r"^KVTIDE_SANITIZE:STRING=(.+)$", text, re.MULTILINE)
    compiler = re.search(r"^CMAKE_CXX_COMPILER:[A-Z]+=(.+)$", text, re.MULTILINE)
    if not found:
        return []
    # The fuzzer's coverage needs nothing of them, and Clang 14 does not compile it at -O3.
    wanted = found.group(1).replace(",fuzzer-no-link", "")
    return [f"-DCMAKE_CXX_FLAGS=-fsanitize={wanted}", f"-DCMAKE_CXX_COMPILER={compiler.group(1)}"]


@pytest.fixture(scope="module", name="prefix")
def fixture_prefix(tmp_path_factory):
    if not (BUILD / "sim" / "kvtide").exists():
        pytest.skip(f"no built kvtide in {BUILD}")
    prefix = tmp_path_factory.mktemp("prefix")
    call("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def test_other_project_finds_links_and_runs(prefix, tmp_path):
    project = shutil.copytree(SOURCE / "cmake" / "consumer", tmp_path / "project")
    call("cmake", "-S", project, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
         "-DCMAKE_BUILD_TYPE=Release", *sanitizer(), env=clean_environment())
    call("cmake", "--build", tmp_path / "build")
    # Eight blocks of 128 with half kept: four go, 512 positions. Two delays of 2,000 ps end at 4,000 ps.
    assert call(tmp_path / "build" / "consumer") == "512 4000\n"


def test_package_of_another_minor_version_is_refused(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(p LANGUAGES C CXX)\n"
                                             "find_package(kvtide 0.0 REQUIRED)\n")
    done = subprocess.run(["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"),
                           f"-DCMAKE_PREFIX_PATH={prefix}"], capture_output=True, text=True, check=False,
                          env=clean_environment())
    assert done.returncode != 0
    assert "kvtide" in done.stderr and "0.0" in done.stderr


def test_every_installed_header_is_found_from_the_installed_copy(prefix):
    """No installed header includes one that stayed behind."""
    include = prefix / "include" / "kvtide"
    rooms = {entry.name for entry in include.iterdir() if entry.is_dir()}
    assert {"base", "engine", "kv", "gpu", "loss"} <= rooms
    for header in include.rglob("*.h"):
        for line in header.read_text().splitlines():
            if line.startswith('#include "'):
                name = line.split('"')[1]
                assert (include / name).is_file(), f"{header.relative_to(include)} includes {name}"


def test_installed_program_reads_its_own_data(prefix, tmp_path):
    """A profile copied inside the prefix is known by its new name: neither the source tree nor the build is read."""
    profiles = prefix / "share" / "kvtide" / "hw_profiles"
    shutil.copy(profiles / "h100-sxm.yaml", profiles / "only-in-the-prefix.yaml")
    program = prefix / "bin" / "kvtide"
    assert "only-in-the-prefix" in call(program, "show", "gpus", env=clean_environment(), cwd=tmp_path)
    trace = prefix / "share" / "kvtide" / "experiments" / "traces" / "smollm2-135m-2k.h5"
    keys = {"name": "installed", "model": "llama-3.1-8b", "gpu": "only-in-the-prefix", "trace": str(trace),
            "measure": ["memory", "loss"], "compression": {"block_size": 64, "stages": [{"evict": {"keep_ratio": 0.5}}]}}
    (tmp_path / "small.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items()))
    call(program, "run", "small.yaml", "-o", "small.h5", env=clean_environment(), cwd=tmp_path)
    with h5py.File(tmp_path / "small.h5") as result:
        # 32,768 served tokens are 512 blocks of four whole pages; 256 stay.
        assert result["summary/memory_saving"][0] == pytest.approx(0.5)


def test_installed_program_starts_the_installed_report(prefix, tmp_path):
    assert (prefix / "share" / "kvtide" / "analysis" / "kvtide_analysis" / "__main__.py").is_file()
    program = prefix / "bin" / "kvtide"
    done = subprocess.run([str(program), "report", "missing.h5"], cwd=tmp_path, env=clean_environment(),
                          capture_output=True, text=True, timeout=120, check=False)
    # A missing results file, not a missing Python package.
    assert done.returncode == 2, done.stderr
    assert "missing.h5" in done.stderr
    assert "No module named" not in done.stderr
