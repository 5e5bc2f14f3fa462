"""`kvtide plan`: its JSON, its file, what an interrupted call keeps, what it emits, and what is wrong with a plan."""

import json
import pathlib
import re
import shlex
import signal
import subprocess
import time

import h5py
import pytest

from tested_program import PROGRAM, SOURCE, kvtide

PLAN = """
name: small
model: smollm2-135m
fidelity: roofline
trace: {trace}
workload: {{poisson: {{rate: "50 /s", input_tokens: 400, output_tokens: 40, requests: 200}}}}
plan:
  rate: "{rate} /s"
  gpus: [l4]
  max_num_seqs: [4, 16]
  compression: [none, preset: fp8]
  slo: {{ttft_p95: "1 s", tpot_p95: "20 ms"}}
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(PLAN.format(trace=SOURCE / "experiments/traces/smollm2-135m-2k.h5", rate=100))
    return path


def test_json_has_every_candidate_and_a_best_one(plan):
    answer = json.loads(kvtide("plan", plan, "--json", "--quiet", "--no-sensitivity").stdout)
    assert len(answer["candidates"]) == 4  # two batch limits, two policies
    best = answer["candidates"][answer["best"]]
    assert best["feasible"] and best["gpus"] == best["replicas"] * best["tensor_parallel"]
    assert best["ttft_s"]["p95"] <= 1 and best["tpot_s"]["p95"] <= 0.02
    assert best["usd_per_hour"] == pytest.approx(best["gpus"] * answer["prices"]["l4"]["usd_per_hour"], rel=1e-4)
    assert all(one["reason"] for one in answer["candidates"] if not one["feasible"])
    assert answer["sensitivity"] == []


def test_file_opens_and_names_the_choice(plan, tmp_path):
    output = tmp_path / "small.h5"
    done = kvtide("plan", plan, "--quiet", "-o", output)
    assert "cost" not in done.stderr and "KV cache" in done.stdout and "Choice:" in done.stdout
    with h5py.File(output) as file:
        assert file["candidates/usd_per_hour"].shape == (4,)
        assert 0 <= file.attrs["best"] < 4
        assert file["candidates/ttft_p95_s"].attrs["units"] in ("s", b"s")
        assert set(file["sensitivity/factor"][()]) == {0.8, 1.2}
    assert not pathlib.Path(f"{output}.candidates").exists()


def test_resume_takes_only_candidates_of_the_same_plan(plan, tmp_path):
    output = tmp_path / "small.h5"
    first = json.loads(kvtide("plan", plan, "--quiet", "--json", "--no-sensitivity").stdout)
    journal = pathlib.Path(f"{output}.candidates")
    journal.write_text("0123 1 2\nnot a line\n")
    again = json.loads(kvtide("plan", plan, "--quiet", "--json", "--no-sensitivity", "-o", output, "--resume").stdout)
    assert again["candidates"] == first["candidates"]


def test_interrupt_names_what_is_kept_and_the_way_on(plan, tmp_path):
    plan.write_text(plan.read_text().replace("[4, 16]", "[4, 8, 12, 16, 24, 32, 48, 64]").replace("requests: 200", "requests: 20000"))
    output = tmp_path / "a plan.h5"
    journal = pathlib.Path(f"{output}.candidates")
    process = subprocess.Popen([PROGRAM, "plan", plan, "-o", output, "--set", "plan.rate=90 /s", "--no-sensitivity", "--jobs", "1"],
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_text().count("\n") >= 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    lines = journal.read_text().splitlines()
    kept = int(re.search(r"interrupted: (\d+) of 16 candidates are kept", errors)[1])
    assert 2 <= kept <= len(lines) <= kept + 1  # the one just written may not be counted yet
    assert shlex.split(errors.split("the rest: ")[1]) == [
        "kvtide", "plan", str(plan), "-o", str(output), "--set", "plan.rate=90 /s", "--no-sensitivity", "--resume"]


def test_an_interrupt_without_a_file_says_that_nothing_is_kept(plan):
    plan.write_text(plan.read_text().replace("requests: 200", "requests: 50000"))
    process = subprocess.Popen([PROGRAM, "plan", plan], stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted: nothing is kept (with -o FILE.h5" in errors


def test_emitted_flags_are_those_of_the_choice(plan):
    text = kvtide("plan", plan, "--emit", "vllm", "--quiet").stdout
    assert text.startswith("#!/bin/sh") and "vllm serve smollm2-135m" in text and "--max-num-seqs" in text
    assert kvtide("plan", plan, "--emit", "ollama").returncode == 2


@pytest.mark.parametrize("stack", ["vllm", "sglang"])
def test_an_emitted_command_is_imported_as_the_engine_that_was_judged(plan, tmp_path, stack):
    keys = "num_blocks: 500, scheduling_policy: priority, prefix_caching: false"
    plan.write_text(f"{plan.read_text()}engine: {{kind: {stack}, {keys}}}\n")
    script = tmp_path / "serve.sh"
    script.write_text(kvtide("plan", plan, "--emit", stack, "--quiet").stdout)
    imported = kvtide("import", script).stdout
    engine = next(line for line in imported.splitlines() if "engine: {" in line)
    assert f"kind: {stack}" in engine and all(key in engine for key in keys.split(", "))
    assert "cache: {page_size: 16}" in imported and "Not understood" not in imported


def test_nothing_possible_is_exit_code_1_with_reasons(plan):
    done = kvtide("plan", plan, "--quiet", "--set", "plan.slo.tpot_p95=1 us")
    assert done.returncode == 1 and "with every request alone" in done.stdout


def test_a_plan_without_an_uncompressed_candidate_says_nothing_of_its_objectives(plan):
    only = plan.with_name("only.yaml")
    only.write_text(plan.read_text().replace("[none, preset: fp8]", "[preset: fp8]"))
    done = kvtide("plan", only, "--quiet", "--no-sensitivity", "--set", "plan.loss={mean_max: 1, worst_max: 1}")
    assert "Uncompressed: not among the candidates of this plan." in done.stdout
    assert "Uncompressed, no candidate keeps the objectives." not in done.stdout


def test_wrong_keys_and_prices_are_named(plan):
    done = kvtide("plan", plan, "--set", "plan.gpu=h100")
    assert done.returncode == 2 and "plan.gpu" in done.stderr
    done = kvtide("plan", plan, "--set", "plan.gpus=[h20]")
    assert done.returncode == 2 and "no price is known for h20" in done.stderr
    done = kvtide("plan", plan, "--resume")
    assert done.returncode == 2 and "-o" in done.stderr


BENCHMARK = """============ Serving Benchmark Result ============
Successful requests:                     40
Request rate configured (RPS):           {rate}
Total input tokens:                      16000
Total generated tokens:                  1600
Mean TTFT (ms):                          {ttft}
Mean TPOT (ms):                          {tpot}
==================================================
"""


def test_calibrate_fits_every_second_run_and_says_how_well_the_others_fit(tmp_path):
    log = tmp_path / "bench.log"
    log.write_text("".join(BENCHMARK.format(rate=rate, ttft=30, tpot=4) for rate in (1, 2, 4, 8)))
    answer = json.loads(kvtide("calibrate", log, "--model", "smollm2-135m", "--gpu", "l4", "--json").stdout)
    assert answer["runs"] == 4 and answer["held_out"] == 2
    error = answer["rms_log_error"]
    assert error["fitted_after"]["tpot"] < error["fitted_before"]["tpot"]
    assert error["held_out_after"]["tpot"] < error["held_out_before"]["tpot"]
    text = kvtide("calibrate", log, "--model", "smollm2-135m", "--gpu", "l4").stdout
    assert text.count("held out") >= 3 and "calibration: {step_factor:" in text


def test_calibrate_offers_no_constants_that_predict_worse(tmp_path):
    """Runs alternate between a fast and a slow server: what fits the first is wrong for those held out."""
    log = tmp_path / "bench.log"
    log.write_text("".join(BENCHMARK.format(rate=1, ttft=ttft, tpot=tpot) for ttft, tpot in ((10, 0.9), (60, 9)) * 2))
    done = kvtide("calibrate", log, "--model", "smollm2-135m", "--gpu", "l4")
    assert "no calibration is offered" in done.stdout and "calibration: {" not in done.stdout
    assert "Assumed, neither given nor in a log: --tensor-parallel, --preset" in done.stdout
    assert "right number of GPUs (--tensor-parallel 1)" in done.stdout
    assert json.loads(kvtide("calibrate", log, "--model", "smollm2-135m", "--gpu", "l4", "--json").stdout)["is_worse"] is True


def test_calibrate_takes_from_a_log_only_what_it_says(tmp_path):
    """The first log has a start-up with an fp8 cache, the second none: the order does not matter."""
    steps = "Decode batch. #running-req: 12, #token: 12000, gen throughput (token/s): 480.00, #queue-req: 0\n"
    (tmp_path / "first.log").write_text(
        "INFO vLLM API server version 0.19.0\nINFO args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', "
        "'tensor_parallel_size': 2, 'kv_cache_dtype': 'fp8'}\n" + steps)
    (tmp_path / "second.log").write_text(steps)
    for order in (("first.log", "second.log"), ("second.log", "first.log")):
        done = kvtide("calibrate", *(tmp_path / name for name in order), "--gpu", "h100-sxm", "--json")
        answer = json.loads(done.stdout)
        assert (answer["compression"], answer["tensor_parallel"]) == ("{preset: fp8}", 2)


def test_calibrate_names_what_a_log_lacks(tmp_path):
    log = tmp_path / "bench.log"
    log.write_text("INFO: started\n")
    done = kvtide("calibrate", log, "--model", "smollm2-135m", "--gpu", "l4")
    assert done.returncode == 2 and "no run" in done.stderr
    assert kvtide("calibrate", log).returncode == 2


def test_prices_go_by_any_name_of_a_gpu_and_unknown_ones_are_errors(plan):
    sets = ["--set", "plan.gpus=[h100]", "--set", "plan.max_num_seqs=[16]", "--set", "plan.compression=[none]"]
    done = kvtide("plan", plan, "--json", "--quiet", "--no-sensitivity", *sets, "--set", "plan.prices={h100: 99 USD/h}")
    assert json.loads(done.stdout)["prices"]["h100-sxm"]["usd_per_hour"] == 99
    done = kvtide("plan", plan, "--set", "plan.prices={l44: 1 USD/h}")
    assert done.returncode == 2 and "plan.prices.l44" in done.stderr


def test_names_in_an_emitted_script_stay_in_their_comment(plan):
    text = plan.read_text().replace("name: small", 'name: "small\\ntouch owned"')
    plan.write_text(text.replace("[none, preset: fp8]", '[{label: "a\\ntouch owned", value: none}]'))
    script = kvtide("plan", plan, "--emit", "vllm", "--quiet").stdout
    assert script.startswith("#!/bin/sh") and not any(line.startswith("touch") for line in script.splitlines())


def test_a_folder_as_output_is_refused_before_the_work(plan, tmp_path):
    done = kvtide("plan", plan, "--quiet", "-o", tmp_path)
    assert done.returncode == 3 and "no regular file" in done.stderr
    assert not pathlib.Path(f"{tmp_path}.candidates").exists()


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("request_rate", 1e-7, "request_rate"),
        ("total_output_tokens", 100, "total_output_tokens"),
        ("mean_ttft_ms", 1e300, "mean_ttft_ms"),
    ],
)
def test_benchmarks_that_tell_nothing_are_refused(tmp_path, key, value, message):
    run = {"completed": 100, "total_input_tokens": 20000, "total_output_tokens": 2000}
    run |= {"mean_ttft_ms": 30, "mean_tpot_ms": 5, "request_rate": 4, key: value}
    (tmp_path / "bench.json").write_text(json.dumps(run))
    done = kvtide("calibrate", tmp_path / "bench.json", "--model", "smollm2-135m", "--gpu", "l4")
    assert done.returncode == 2 and "bench.json:1" in done.stderr and message in done.stderr
