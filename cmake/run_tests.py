"""Runs every C++ test program of a build folder and the Python tests, one a core, and closes with one line:
N passed, M failed."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# Folders whose test_*.py / *_test.py run under pytest.
PYTHON_TESTS = ["sim/cli", "analysis/tests", "cmake"]
# What a runner prints for passed, failed and skipped.
GOOGLETEST_COUNTS = [r"\[  PASSED  \] (\d+) test", r"\[  FAILED  \] (\d+) test", r"\[  SKIPPED \] (\d+) test"]
PYTEST_COUNTS = [r"(\d+) passed", r"(\d+) (?:failed|error)", r"(\d+) skipped"]


def run(command, env):
    start = time.monotonic()
    done = subprocess.run(command, cwd=SOURCE, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout, time.monotonic() - start


def count(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--scope", choices=["quick", "all"], default="quick")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    env = dict(os.environ, KVTIDE_TEST_SCOPE=arguments.scope, PYTHONPATH=str(SOURCE / "analysis"),
               KVTIDE_PROGRAM=str(arguments.build / "sim" / "kvtide"))
    # Heard by programs built with a sanitizer alone (`./kvtide test --sanitize`).
    env.setdefault("LSAN_OPTIONS", f"print_suppressions=0:suppressions={SOURCE / 'cmake/leaks.txt'}")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    totals = {"passed": 0, "failed": 0, "skipped": 0}

    def report(name, passed, failed, skipped, code, output, seconds):
        if code != 0 and failed == 0:
            failed = 1  # crashed, or did not even start
        totals["passed"] += passed
        totals["failed"] += failed
        totals["skipped"] += skipped
        print(f"{name:<28} {passed:5d} passed {failed:3d} failed {skipped:3d} skipped  {seconds:6.1f} s", flush=True)
        if code != 0:
            print(output[-6000:], flush=True)
        elif skipped:
            for reason in sorted(set(re.findall(r"Skipped\n|SKIPPED.*|.*_test\.cc:\d+: Skipped\n(.*)", output)) - {""}):
                print(f"    skipped: {reason}")

    programs = sorted((arguments.build / "sim").glob("*_test"))
    if not programs:
        print(f"no test programs in {arguments.build / 'sim'}")
        return 1
    # The Python tests take longest: they start first, so that nothing long is left for the end.
    jobs = []
    for folder in PYTHON_TESTS:
        if any((SOURCE / folder).rglob("*test*.py")):
            jobs.append((f"pytest {folder}", PYTEST_COUNTS,
                         [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", folder]))
    jobs += [(program.name, GOOGLETEST_COUNTS, [str(program)]) for program in programs]
    jobs = [(name, counts, command, env) for name, counts, command in jobs]
    # The room with code for a processor's matrix tiles also runs as on a processor without them.
    jobs += [(f"{program.name} without tiles", GOOGLETEST_COUNTS, [str(program)], dict(env, KVTIDE_MATRIX_TILES="off"))
             for program in programs if program.name == "kv_test"]
    with concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        started = {pool.submit(run, command, own_env): (name, counts) for name, counts, command, own_env in jobs}
        for job in concurrent.futures.as_completed(started):
            name, counts = started[job]
            code, output, seconds = job.result()
            if code == 5 and counts is PYTEST_COUNTS:  # pytest: nothing collected
                continue
            report(name, *(count(pattern, output) for pattern in counts), code, output, seconds)
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 0 if totals["failed"] == 0 and totals["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
