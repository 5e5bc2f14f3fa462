"""Lines of each room that its tests run: builds the tests with gcov's counters in a folder of their own, runs them, counts.

    coverage_of_rooms.py [--rooms engine,kv,loss,serving] [--least 90] [--missed] [--json]

A line counts once however many templates it became, and as run when one of them ran. Files of tests and benchmarks, and what
lies under testing/, are left out. Exit code 1 when a room is below --least percent.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ["engine", "kv", "loss", "serving"]


def is_counted(path, room):
    """Whether a file is the room's own code. Example: sim/kv/rope.cc is, sim/kv/rope_test.cc and sim/kv/testing/x.h are not."""
    name = path.name
    inside = pathlib.PurePath("sim", room) in path.parents
    return inside and "testing" not in path.parts and not name.endswith(("_test.cc", "_bench.cc"))


def add_report(report, source, lines):
    """Adds one gcov document to lines[path relative to source][line number], the largest count of all copies."""
    folder = pathlib.Path(report.get("current_working_directory", "/"))
    for entry in report["files"]:
        path = pathlib.Path(os.path.normpath(folder / entry["file"]))
        if source not in path.parents:
            continue
        of_file = lines[path.relative_to(source)]
        for line in entry["lines"]:
            number = line["line_number"]
            of_file[number] = max(of_file.get(number, 0), line["count"])


def room_share(lines, room):
    """(lines, lines run, [(path, missed line numbers)]) of a room."""
    total = run = 0
    missed = []
    for path in sorted(lines):
        if not is_counted(path, room):
            continue
        total += len(lines[path])
        not_run = sorted(number for number, count in lines[path].items() if count == 0)
        run += len(lines[path]) - len(not_run)
        if not_run:
            missed.append((path, not_run))
    return total, run, missed


def ranges(numbers):
    """Example: [3, 4, 5, 9] -> "3-5 9"."""
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def build_and_run(build, rooms, jobs):
    configure = ["cmake", "-S", str(SOURCE), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                 # Without optimisation the tests of losses, which multiply matrices, take a quarter of an hour.
                 "-DCMAKE_CXX_FLAGS_DEBUG=-Og --coverage -fprofile-update=prefer-atomic", "-DKVTIDE_BUILD_BENCHMARKS=OFF"]
    tests = [f"{room}_test" for room in rooms]
    for command in (configure, ["cmake", "--build", str(build), "-j", str(jobs), "--target", *tests]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"coverage: {' '.join(command)} failed:\n{done.stdout[-3000:]}")
    for counters in build.rglob("*.gcda"):
        counters.unlink()
    for test in tests:
        done = subprocess.run([str(build / "sim" / test), "--gtest_brief=1"], cwd=SOURCE, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise SystemExit(f"coverage: {test} failed:\n{done.stdout[-3000:]}")


def collect(build, rooms):
    lines = collections.defaultdict(dict)
    for room in rooms:
        for target in (f"kvtide_{room}.dir", f"{room}_test.dir"):
            for notes in sorted((build / "sim" / "CMakeFiles" / target).rglob("*.gcno")):
                # Notes without counters: nothing of the file ran, which gcov reports as zeros.
                done = subprocess.run(["gcov", "--json-format", "--stdout", str(notes)], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True, check=True, cwd=build)
                for document in done.stdout.splitlines():
                    if document.startswith("{"):
                        add_report(json.loads(document), SOURCE, lines)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", default=",".join(ROOMS), help="default %(default)s")
    parser.add_argument("--least", type=float, default=90.0, help="percent of lines, default %(default)s")
    parser.add_argument("--missed", action="store_true", help="list the lines that did not run")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build" / "coverage")
    arguments = parser.parse_args()
    rooms = arguments.rooms.split(",")
    build_and_run(arguments.build.resolve(), rooms, arguments.jobs)
    lines = collect(arguments.build.resolve(), rooms)
    result = []
    for room in rooms:
        total, run, missed = room_share(lines, room)
        percent = 100.0 * run / total if total else 0.0
        result.append({"room": room, "lines": total, "run": run, "percent": round(percent, 2)})
        if arguments.json:
            continue
        print(f"{room:<10} {run:6d} of {total:6d} lines  {percent:6.2f} %{'' if percent >= arguments.least else '  TOO FEW'}")
        for path, numbers in missed if arguments.missed else []:
            print(f"    {path}: {ranges(numbers)}")
    if arguments.json:
        print(json.dumps({"rooms": result}, indent=1))
    return 0 if all(one["percent"] >= arguments.least for one in result) else 1


if __name__ == "__main__":
    sys.exit(main())
