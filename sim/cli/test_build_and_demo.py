"""What a newcomer types first: which build is this, and the demo, from any folder."""

import re

from tested_program import kvtide


def test_version_names_commit_build_compiler_and_libraries():
    name, build, libraries = kvtide("--version").stdout.splitlines()
    assert re.fullmatch(r"kvtide \d+\.\d+\.\d+ \(commit \w+\)", name)
    assert re.search(r"\w+ build for \w+ \S+, compiler \S+", build)
    for library in ("HDF5", "Eigen", "Boost", "fmt", "yaml-cpp"):
        assert re.search(rf"{library} \d+\.\d+", libraries), library


def test_demo_is_found_from_any_folder(tmp_path):
    done = kvtide("demo", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "21 runs" in done.stdout  # 3 block sizes x 7 policies
    assert not (tmp_path / "results").exists()


def test_demo_takes_no_file_and_refuses_what_run_refuses(tmp_path):
    assert kvtide("demo", "mine.yaml", cwd=tmp_path).returncode == 2
    done = kvtide("demo", "--jobs", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "--jobs" in done.stderr


def test_words_of_the_source_tree_are_named_and_not_taken_for_commands():
    assert "test [--all]" in kvtide("--help").stdout and "fuzz" in kvtide("--help").stdout
    done = kvtide("bench")
    assert done.returncode == 2
    assert "./kvtide bench" in done.stderr
