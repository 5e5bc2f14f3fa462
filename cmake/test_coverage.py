"""How lines are counted, on made-up gcov documents; with KVTIDE_TEST_SCOPE=all the rooms themselves."""

import collections
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import coverage_of_rooms as coverage  # noqa: E402  pylint: disable=wrong-import-position

SOURCE = pathlib.PurePosixPath("/project")


def report(path, counts, folder="/project/build"):
    return {"current_working_directory": folder,
            "files": [{"file": path, "lines": [{"line_number": number, "count": count} for number, count in counts.items()]}]}


def lines_of(*reports):
    lines = collections.defaultdict(dict)
    for one in reports:
        coverage.add_report(one, pathlib.Path(SOURCE), lines)
    return lines


def test_a_line_counts_once_and_as_run_when_one_copy_ran():
    lines = lines_of(report("/project/sim/kv/a.h", {3: 0, 4: 0}), report("../sim/kv/a.h", {3: 7, 5: 0}))
    # Three lines of which one ran, in one of its two copies.
    assert coverage.room_share(lines, "kv") == (3, 1, [(pathlib.Path("sim/kv/a.h"), [4, 5])])


def test_other_rooms_tests_and_the_system_are_left_out():
    lines = lines_of(*(report(path, {1: 0}) for path in ("/usr/include/vector", "/project/sim/loss/a.cc", "/project/sim/kv/a_test.cc",
                                                        "/project/sim/kv/a_bench.cc", "/project/sim/kv/testing/a.h")))
    assert coverage.room_share(lines, "kv") == (0, 0, [])


@pytest.mark.parametrize("numbers, shown", [([], ""), ([7], "7"), ([3, 4, 5, 9], "3-5 9"), ([1, 3], "1 3")])
def test_missed_lines_are_shown_as_ranges(numbers, shown):
    assert coverage.ranges(numbers) == shown


@pytest.mark.skipif(os.environ.get("KVTIDE_TEST_SCOPE") != "all", reason="builds the rooms a second time: test --all")
def test_nine_lines_in_ten_of_the_central_rooms_are_run():
    done = subprocess.run([sys.executable, coverage.__file__], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout
