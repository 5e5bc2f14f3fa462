"""--json of every command that prints a result: one document on stdout, and nothing else there.

The list is held against `kvtide --help`: a new command is in it, or in NO_RESULT with the reason.
"""

import json
import os
import re
import stat
import subprocess

import pytest

from test_command_line import EVICT, run
from tested_program import PROGRAM, SOURCE, kvtide
from test_plan import BENCHMARK, PLAN
from test_validate import HEADER

NO_RESULT = {"completion": "prints a program for the shell"}
TRACE = SOURCE / "experiments/traces/smollm2-135m-2k.h5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small inputs of every kind: results, a plan, a scan, a log, measured kernels."""
    folder = tmp_path_factory.mktemp("json")
    done, _ = run(folder, "sweep: {batch: [1, 2]}", measure=["memory", "loss"], compression={"stages": EVICT})
    assert done.returncode == 0, done.stderr
    (folder / "scan.csv").write_text("prefix_tokens,correct\n" + "".join(f"{at},{int(at % 64 >= 10)}\n" for at in range(0, 512, 2)))
    (folder / "plan.yaml").write_text(PLAN.format(trace=TRACE, rate=100))
    (folder / "bench.log").write_text("".join(BENCHMARK.format(rate=rate, ttft=30, tpot=4) for rate in (1, 2)))
    (folder / "h100_sxm_decode_attn.csv").write_text(HEADER + "vllm,k,1,1024,32,8,128,0,bfloat16,bfloat16,20\n")
    (folder / "empty").mkdir()
    return folder


CASES = {
    "run": (["run", "t.yaml", "-o", "again.h5", "--quiet"], ["run", "t.yaml", "--dry-run"]),
    "demo": (["demo", "--dry-run"],),
    "show": (["show", "models"], ["show", "models", "llama-3.1-8b"], ["show", "gpus"], ["show", "gpus", "h100-sxm"], ["show", "presets"],
             ["show", "presets", "kivi-int2"], ["show", "policies", "h2o"], ["show", "scorers"], ["show", "scorers", "snapkv"],
             ["show", "codecs"], ["show", "codecs", "int4"], ["show", "experiments"], ["show", "experiments", "demo"], ["show", "schema"],
             ["show", "resonance", "--model", "llama-3.1-8b"], ["show", "machine", "--gpu", "h100-sxm", "--fidelity", "roofline"]),
    "trace": (["trace", "info", TRACE], ["trace", "check", TRACE], ["trace", "synth", "synth.h5", "--set", "tokens=256"]),
    "report": (["report", "t.h5"],),
    "plot": (["plot", "t.h5", "--what", "pareto"],),
    "claims": (["claims", SOURCE / "experiments/claims/s01-two-tokens.yaml", "--quiet"],),
    "diagnose": (["diagnose", "scan.csv"],),
    "explain": (["explain"], ["explain", "loss_worst"]),
    "validate": (["validate", "measured", "h100_sxm_decode_attn.csv"], ["validate", "all", "empty"]),
    "merge": (["merge", "merged.h5", "t.h5"],),
    "export": (["export", "t.h5"], ["export", "t.h5", "--columns", "memory_saving,status"]),
    "doctor": (["doctor"],),
    "import": (["import", "vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8"],),
    "plan": (["plan", "plan.yaml", "--quiet", "--no-sensitivity"],),
    "calibrate": (["calibrate", "bench.log", "--model", "smollm2-135m", "--gpu", "l4"],),
}


def test_every_command_is_tried_or_has_no_result():
    commands = set(re.findall(r"^  (\w+) ", kvtide("--help").stdout, re.M))
    assert commands == {*CASES, *NO_RESULT}


@pytest.mark.parametrize("arguments", [case for cases in CASES.values() for case in cases], ids=lambda case: " ".join(map(str, case[:3])))
def test_json_is_one_document(folder, arguments):
    done = kvtide(*arguments, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), (dict, list))


def test_json_of_gpus_is_in_base_units(folder):
    gpus = {gpu["name"]: gpu for gpu in json.loads(kvtide("show", "gpus", "--json").stdout)["gpus"]}
    # hw_profiles/h100-sxm.yaml: 85520809984 B, 3.35 TB/s, 132 SMs, 50 MiB of L2.
    h100 = gpus["h100-sxm"]
    assert (h100["memory_bytes"], h100["bandwidth_bytes_per_s"], h100["num_sms"], h100["l2_bytes"]) == (85520809984, 3.35e12, 132, 50 * 2**20)
    one = json.loads(kvtide("show", "gpus", "h100-sxm", "--json").stdout)
    assert all(fact["source"] for fact in one["facts"])


def test_json_of_export_holds_the_cells_of_the_csv(folder):
    columns = "memory_saving,batch,status,ttft_p95_s"
    rows = json.loads(kvtide("export", folder / "t.h5", "--columns", columns, "--json").stdout)["runs"]
    lines = kvtide("export", folder / "t.h5", "--columns", columns).stdout.splitlines()[1:]
    for row, line in zip(rows, lines, strict=True):
        run_number, saving, batch, status, ttft = line.split(",")
        assert (row["run"], row["memory_saving"], row["batch"], row["status"]) == (int(run_number), float(saving), float(batch), status)
        assert ttft == "" and row["ttft_p95_s"] is None  # nothing was served


def test_a_damaged_trace_is_told_in_json_too(folder):
    (folder / "damaged.h5").write_bytes(TRACE.read_bytes()[:1000])
    done = kvtide("trace", "check", folder / "damaged.h5", "--json")
    assert done.returncode == 2
    if done.stdout:
        assert json.loads(done.stdout)["sound"] is False


@pytest.mark.parametrize("arguments, words", [
    (["show", "schema", "zzz"], ["schema", "zzz"]),
    (["show", "codecs", "zzz", "--json"], ["zzz"]),
    (["export", "t.h5", "--columns", ""], ["--columns", "memory_saving"]),
    (["export", "t.h5", "--columns", "zzz"], ["zzz", "memory_saving"]),
])
def test_what_is_not_there_is_refused_with_what_is_allowed(folder, arguments, words):
    done = kvtide(*arguments, cwd=folder)
    assert done.returncode == 2 and not done.stdout
    for word in words:
        assert word in done.stderr


# As root a rename over /dev/stdout would put a file in the place of the device: nothing else could print any more.
@pytest.mark.parametrize("arguments", [["export", "t.h5"], ["report", "t.h5"], ["plot", "t.h5", "--what", "pareto"]], ids=lambda words: words[0])
def test_a_device_as_output_is_written_and_stays(folder, arguments):
    before = os.lstat("/dev/stdout")
    for output in ("/dev/stdout", "/dev/null"):
        done = subprocess.run([PROGRAM, *arguments, "-o", output], cwd=folder, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert bool(done.stdout) == (output == "/dev/stdout")
    assert stat.S_ISLNK(os.lstat("/dev/stdout").st_mode) and os.lstat("/dev/stdout").st_ino == before.st_ino
    assert not stat.S_ISREG(os.stat("/dev/null").st_mode)
    with open(folder / "redirected", "wb") as file:
        assert subprocess.run([PROGRAM, *arguments, "-o", "/dev/stdout"], cwd=folder, stdout=file).returncode == 0
    assert (folder / "redirected").stat().st_size > 10
