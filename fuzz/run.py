"""Runs the fuzz programs one after another, each for so many minutes of processor time, and closes with a table.

    ./kvtide fuzz [--minutes N] [TARGET...]

A finding (crash, hang, too much memory, an exception that is no kvtide::Error) is kept under findings/ of the build folder with
the command that repeats it. Exit code 1 when there is one.
"""

import argparse
import fcntl
import os
import pathlib
import re
import subprocess
import sys
import time

from seeds import HDF5_READERS, make_seeds, words

# Beyond these an input counts as a finding. Seconds pass on a wall clock, of a sanitized program on a machine that may have other work.
TIMEOUT_S = 90
MEMORY_MB = 2048
ALLOCATION_MB = 1024
# HDF5 1.10.8 takes as much as a damaged text says it is long, 4 GiB at most, before it looks whether the file has it.
LIBRARY_MB = 4096
# Files of HDF5 are first tried in a child of 20 s; the library itself leaks what it took for a file that it then refuses.
BINARY = {*HDF5_READERS, *(f"{reader}_edits" for reader in HDF5_READERS)}
SLICE_S = 120


def run_slice(program, corpus, dictionary, findings, seconds, is_binary):
    """@return (exit code, processor seconds, output)"""
    library_mb = LIBRARY_MB if program.name.removeprefix("fuzz_") in HDF5_READERS else 0
    command = [str(program), str(corpus), f"-max_total_time={seconds}", f"-timeout={TIMEOUT_S}",
               f"-rss_limit_mb={MEMORY_MB + library_mb}", f"-malloc_limit_mb={ALLOCATION_MB + library_mb}",
               f"-artifact_prefix={findings}/{program.name}-",
               f"-max_len={1 << 20 if is_binary else 1 << 15}", "-print_final_stats=1", "-verbosity=1", "-reload=0"]  # fmt: skip
    if is_binary:
        command.append("-detect_leaks=0")
    elif dictionary.exists():
        command.append(f"-dict={dictionary}")
    # libFuzzer's own option does not reach the search at the program's end.
    leaks = ":detect_leaks=0" if is_binary else ""
    environment = dict(os.environ, ASAN_OPTIONS="allocator_may_return_null=0:detect_stack_use_after_return=0" + leaks,
                       UBSAN_OPTIONS="print_stacktrace=1", KVTIDE_DATA_DIR=str(pathlib.Path(__file__).resolve().parents[1]))  # fmt: skip
    log = findings / f"{program.name}.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
                                   preexec_fn=lambda: os.nice(19))  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, log.read_text(errors="replace")


def last(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def main():
    parser = argparse.ArgumentParser(prog="kvtide fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=1, help="processor minutes a target (default: 1)")
    parser.add_argument("targets", nargs="*", help="without: all")
    arguments = parser.parse_args()
    programs = {path.name[len("fuzz_"):]: path for path in sorted((arguments.build / "fuzz").glob("fuzz_*")) if path.is_file()}
    unknown = set(arguments.targets) - set(programs)
    if unknown or not programs:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(programs)}")
        return 2
    corpus, findings = arguments.build / "corpus", arguments.build / "findings"
    findings.mkdir(exist_ok=True)
    with open(arguments.build / "seeds.lock", "w", encoding="ascii") as lock:  # two calls at once would write the same seeds
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_seeds(corpus, arguments.build / "sim/kvtide")
    executions, failures = [], 0
    for name in arguments.targets or programs:
        dictionary = arguments.build / f"{name}.dict"
        dictionary.write_text(words(corpus / name))
        used = executed = taken = refused = 0
        finding = ""
        while used < 60 * arguments.minutes and not finding:
            seconds = max(2, min(SLICE_S, int(60 * arguments.minutes - used) + 1))
            code, processor, text = run_slice(programs[name], corpus / name, dictionary, findings, seconds, name in BINARY)
            used += processor
            executed += last(r"stat::number_of_executed_units:\s+(\d+)", text)
            taken += last(r"readings taken: (\d+)", text)
            refused += last(r"readings refused: (\d+)", text)
            if code != 0:
                (findings / f"{name}-{int(time.time())}.log").write_text(text)
                summary = re.findall(r"SUMMARY: .*|terminate called .*|what\(\): .*|runtime error: .*", text)
                finding = (summary or [f"exit {code}"])[-1][:150]
                print(f"{name}: {finding}\n    {' '.join(re.findall('Test unit written to (.*)', text))}", flush=True)
        if not taken and not finding:
            finding = "nothing was taken: the reader was not reached"
        share = 100 * taken / max(1, taken + refused)
        edges, kept, peak = (last(pattern, text) for pattern in (r"cov: (\d+)", r"corp: (\d+)", r"peak_rss_mb:\s+(\d+)"))
        print(f"{name:<18} {used / 60:6.1f} CPU min {executed:>10,} inputs {share:>5.1f} % taken {edges:>6} edges {kept:>5} kept "
              f"{peak:>5} MiB  {finding or 'clean'}", flush=True)
        executions.append(executed)
        failures += bool(finding)
    print(f"{len(executions)} targets, {sum(executions):,} inputs, {failures} findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
