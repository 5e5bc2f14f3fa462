"""Rules of the house that a machine can check: sizes, names, READMEs, links, formatting, clang-tidy."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
ALL = os.environ.get("KVTIDE_TEST_SCOPE") == "all"


def files(*patterns):
    """Files of the project below its root, build outputs left out."""
    own = ["sim", "analysis", "cmake", "docs", "experiments", "models", "hw_profiles", "fuzz"]
    found = list(SOURCE.glob("*.md"))
    for folder in own:
        for pattern in ("*.cc", "*.h", "*.py", "*.md"):
            found += (SOURCE / folder).rglob(pattern)
    return sorted(path for path in found if path.suffix in patterns and "__pycache__" not in path.parts)


def name(path):
    return str(path.relative_to(SOURCE))


def test_no_source_file_is_longer_than_600_lines():
    long = {name(path): lines for path in files(".cc", ".h", ".py")
            if (lines := len(path.read_text().splitlines())) > 600}
    assert not long


def test_a_file_is_named_after_its_concept():
    vague = re.compile(r"(^|_)(utils?|common|helpers?|manager|misc)(_|\.|$)")
    assert [name(path) for path in files(".cc", ".h", ".py") if vague.search(path.name)] == []


def test_every_room_says_what_it_is():
    rooms = [path for path in sorted((SOURCE / "sim").iterdir()) if path.is_dir() and any(path.glob("*.h"))]
    assert len(rooms) > 10
    assert [name(room) for room in rooms if not (room / "README.md").is_file()] == []


def test_the_first_page_can_be_read_at_a_sitting():
    assert len((SOURCE / "README.md").read_text().splitlines()) <= 300


@pytest.mark.parametrize("page", files(".md"), ids=name)
def test_links_and_files_named_in_a_page_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{name(page)} links {target}"
    # `name.h` and `name.*` in the table of a room: a file of that name somewhere in the room.
    if page.name == "README.md" and page.parent.parent == SOURCE / "sim":
        stems = {path.stem for path in page.parent.rglob("*.*")}
        for cell in re.findall(r"^\| (`[^|]*) \|", text, re.M):
            for stem in re.findall(r"`(?:\w+/)*(\w+)(?:\.h|\.cc|\.\*)`", cell):
                assert stem in stems, f"{name(page)} names {stem}"


@pytest.mark.skipif(not ALL, reason="formats every file; kvtide test --all")
@pytest.mark.skipif(shutil.which("clang-format") is None, reason="needs clang-format")
def test_sources_are_formatted():
    done = subprocess.run(["clang-format", "--dry-run", "--Werror", *map(str, files(".cc", ".h"))],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def clang_tidy_14():
    if shutil.which("clang-tidy") is None:
        return False
    return "version 14" in subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=False).stdout


@pytest.mark.skipif(not ALL, reason="a quarter of an hour; kvtide test --all")
@pytest.mark.skipif(not clang_tidy_14(), reason="needs clang-tidy 14, whose checks .clang-tidy was chosen for")
def test_clang_tidy_finds_nothing():
    done = subprocess.run([sys.executable, str(SOURCE / "cmake" / "run_clang_tidy.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
