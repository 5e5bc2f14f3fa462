"""Files that fail: each file operation of a command in turn ends in ENOSPC, EIO, EACCES, EROFS, EINTR, half of the bytes, or
finds its folder gone. The command then gives the bytes of an undisturbed one, or says what failed and leaves no half file;
and what an interrupted sweep left is completed by --resume to the undisturbed bytes.

With KVTIDE_TEST_SCOPE=all every operation of every command is tried (24 of a name, spread, where there are more), without it one
of each name. The faults are made by testing/failing_calls.c, preloaded.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tested_program import PROGRAM, is_sanitized

SHIM = pathlib.Path(PROGRAM).resolve().parent / "failing_calls.so"
ALL = os.environ.get("KVTIDE_TEST_SCOPE") == "all"
# A signal and a short transfer are no failures: the command does what it always does.
HARMLESS = {"read": ["EINTR", "short"], "write": ["EINTR", "short"], "fsync": ["EINTR"], "close": ["EINTR"], "rename": ["EINTR"]}
FAILURES = {
    "open": ["EACCES", "EROFS", "EIO1", "EINTR", "vanish"],
    "write": ["ENOSPC", "EIO1", "vanish"],
    "read": ["EIO", "EIO1"],
    "fsync": ["EIO1", "ENOSPC"],
    "rename": ["EACCES", "EIO1", "vanish"],
    "close": ["EIO1", "ENOSPC"],
    "mkdir": ["EACCES", "ENOSPC"],
    "unlink": ["EACCES"],
}
SWEEP = """name: t
model: llama-3.1-8b
gpu: h100-sxm
trace: {synthetic: {kind: uniform, tokens: 128, head_dim: 16}}
measure: [memory, loss]
compression: {block_size: 16, stages: [{evict: {keep_ratio: 0.5}}]}
sweep: {compression.block_size: [8, 16, 32]}
"""
LOG = """============ Serving Benchmark Result ============
Successful requests:                     100
Maximum request concurrency:             8
Benchmark duration (s):                  60.0
Total input tokens:                      102400
Total generated tokens:                  25600
Mean TTFT (ms):                          120.0
Mean TPOT (ms):                          12.0
==================================================
"""


def environment(work, **more):
    return {**os.environ, "SOURCE_DATE_EPOCH": "946684800", "KVTIDE_FAULT_UNDER": str(work), **more}


def call(work, arguments, fault=None, log=None):
    """The command in the folder, one of its file operations failing."""
    more = {"LD_PRELOAD": str(SHIM)} if fault or log else {}
    if fault:
        more["KVTIDE_FAULT"] = fault
    if log:
        more["KVTIDE_FAULT_LOG"] = str(log)
    return subprocess.run([PROGRAM, *arguments], cwd=work.parent, env=environment(work, **more), capture_output=True,
                          text=True, errors="replace", timeout=120)  # fmt: skip


class Case:
    """A command, the folder it starts from and the file it makes (none: it prints)."""

    def __init__(self, tmp_path, prepare, arguments, output, resume=False):
        self.work, self.template = tmp_path / "work", tmp_path / "template"
        self.output, self.resume = output, resume
        self.work.mkdir()
        self.arguments = [str(self.work / a[1:]) if a.startswith("@") else a for a in arguments]
        prepare(self.work)
        self.work.rename(self.template)
        self.fresh()
        log = tmp_path / "log"
        done = call(self.work, self.arguments, log=log)
        assert done.returncode == 0, done.stderr
        self.expected, self.stdout = self.result(), done.stdout
        self.counts = {}
        for line in log.read_text().splitlines():
            name, count = line.split()
            self.counts[name] = max(self.counts.get(name, 0), int(count))

    def fresh(self):
        for folder in (self.work, self.work.with_name("work.vanished")):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.template, self.work)

    def result(self):
        path = self.work / self.output if self.output else None
        return path.read_bytes() if path and path.exists() else None

    def faults(self):
        """(name, number, kind): every operation with every kind, or one operation of each name."""
        for kinds, number_of in ((HARMLESS, lambda count: (count + 1) // 2), (FAILURES, lambda count: count)):
            for name, these in kinds.items():
                count = self.counts.get(name, 0)
                # Reading one dataset takes hundreds of calls: two dozen stand for them.
                all_of_them = sorted({1 + at * (count - 1) // 23 for at in range(24)}) if count else []
                for number in all_of_them if ALL else [number_of(count)] if count else []:
                    for kind in these if ALL else these[:1]:
                        yield name, number, kind

    def complaint(self, name, number, kind):
        """None, or what went wrong."""
        self.fresh()
        before = self.result()
        done = call(self.work, self.arguments, f"{name}:{number}:{kind}")
        away = self.work.with_name("work.vanished")
        if away.exists():
            shutil.rmtree(self.work, ignore_errors=True)
            away.rename(self.work)
        found = self.result()
        if done.returncode == 0:
            if self.output and found != self.expected:
                return "exit 0, and another file than an undisturbed run's"
            if not self.output and done.stdout != self.stdout:
                return "exit 0, and other figures than an undisturbed run's"
        else:
            if kind in HARMLESS.get(name, ()):
                return f"exit {done.returncode}: {done.stderr[-300:]}"
            # A file to be read that cannot be is the input's fault (2), everything else the machine's (3); a failed run (1)
            # is stored.
            if done.returncode not in ((2, 3) if name in ("read", "open") or kind == "vanish" else (3,)):
                return f"exit {done.returncode}: {done.stderr[-600:]}"
            if not done.stderr.strip() or "mistake in kvtide" in done.stderr or "Traceback" in done.stderr:
                return f"no clear word: {done.stderr[-600:]}"
            if self.output and found not in (before, self.expected):
                return "half a file under its final name"
        left = [path.name for path in self.work.rglob("*.partial*")]
        if left and name != "unlink" and kind != "vanish":
            return f"left behind: {left}"
        if self.resume:
            again = call(self.work, [*self.arguments, "--resume"])
            if again.returncode != 0:
                return f"--resume: exit {again.returncode}: {again.stderr[-600:]}"
            if self.result() != self.expected:
                return "--resume ends in other bytes than an undisturbed run"
        return None

    def check(self):
        complaints, tried = [], 0
        for name, number, kind in self.faults():
            tried += 1
            found = self.complaint(name, number, kind)
            if found:
                complaints.append(f"{name}:{number}:{kind} of {self.counts[name]}: {found}")
        print(f"{tried} faults, operations {self.counts}")
        assert not complaints, f"{len(complaints)} of {tried}\n" + "\n".join(complaints[:30])
        assert tried > 0


pytestmark = pytest.mark.skipif(
    not SHIM.exists() or is_sanitized(),
    reason="needs failing_calls.so beside a program without sanitizers",
)


def sweep(work):
    (work / "t.yaml").write_text(SWEEP)


def results(work):
    sweep(work)
    done = call(work, ["run", str(work / "t.yaml"), "-o", str(work / "t.h5"), "--quiet", "--jobs", "1"])
    assert done.returncode == 0, done.stderr


def test_run(tmp_path):
    Case(tmp_path, sweep, ["run", "@t.yaml", "-o", "@t.h5", "--quiet", "--jobs", "1"], "t.h5", resume=True).check()


def test_run_on_a_recorded_trace(tmp_path):
    def prepare(work):
        made = call(work, ["trace", "synth", str(work / "trace.h5"), "--set", "tokens=128", "--set", "head_dim=16"])
        assert made.returncode == 0, made.stderr
        text = SWEEP.splitlines()
        (work / "t.yaml").write_text("\n".join("trace: trace.h5" if line.startswith("trace:") else line for line in text))

    Case(tmp_path, prepare, ["run", "@t.yaml", "-o", "@t.h5", "--quiet", "--jobs", "1"], "t.h5", resume=True).check()


def test_resume(tmp_path):
    """Half of the runs are there, the rest is computed while files fail."""

    def prepare(work):
        sweep(work)
        for number in range(1, 100):
            done = call(work, ["run", str(work / "t.yaml"), "-o", str(work / "t.h5"), "--quiet", "--jobs", "1"],
                        f"rename:{number}:EIO1")  # fmt: skip
            assert done.returncode == 3, "the key, then run after run is renamed into place"
            if len(list((work / "t.h5.runs").glob("0000?.h5"))) == 2:
                return

    Case(tmp_path, prepare, ["run", "@t.yaml", "-o", "@t.h5", "--quiet", "--jobs", "1", "--resume"], "t.h5",
         resume=False).check()  # fmt: skip


def test_export(tmp_path):
    Case(tmp_path, results, ["export", "@t.h5", "-o", "@t.csv"], "t.csv").check()


def test_export_over_an_earlier_file(tmp_path):
    def prepare(work):
        results(work)
        (work / "t.csv").write_text("earlier\n")

    Case(tmp_path, prepare, ["export", "@t.h5", "-o", "@t.csv"], "t.csv").check()


def test_merge(tmp_path):
    def prepare(work):
        sweep(work)
        for shard in (0, 1):
            done = call(work, ["run", str(work / "t.yaml"), "-o", str(work / f"s{shard}.h5"), "--quiet", "--shard", f"{shard}/2"])
            assert done.returncode == 0, done.stderr

    Case(tmp_path, prepare, ["merge", "@t.h5", "@s0.h5", "@s1.h5"], "t.h5").check()


def test_import(tmp_path):
    def prepare(work):
        (work / "line.txt").write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8\n")

    Case(tmp_path, prepare, ["import", "@line.txt", "-o", "@t.yaml"], "t.yaml").check()


def test_calibrate(tmp_path):
    def prepare(work):
        (work / "bench.log").write_text(LOG)

    Case(tmp_path, prepare, ["calibrate", "@bench.log", "--model", "llama-3.1-8b", "--gpu", "h100-sxm"], None).check()


def test_diagnose(tmp_path):
    def prepare(work):
        rows = "".join(f"{at},{int(at % 16 >= 4)}\n" for at in range(96))
        (work / "scan.csv").write_text("prefix_tokens,correct\n" + rows)

    Case(tmp_path, prepare, ["diagnose", "@scan.csv", "--openmetrics", "@t.prom"], "t.prom").check()


@pytest.mark.skipif(not ALL, reason="a report takes seconds; with --all")
def test_report(tmp_path):
    case = Case(tmp_path, results, ["report", "@t.h5", "-o", "@t.html"], "t.html")
    # Python opens and reads much that is none of ours; its own files count as everybody's.
    case.counts = {name: min(count, 12) for name, count in case.counts.items()}
    case.check()


@pytest.mark.parametrize("arguments", [["show", "models"], ["show", "gpus", "h100-sxm"], ["explain", "loss_mean"], ["--help"]])
def test_a_full_disk_under_standard_output_is_an_error(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3 and "writ" in done.stderr and "mistake" not in done.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q"]))
