"""`kvtide run` with a workload: the engine's figures beside the loss, and what a wrong workload says."""

import os
import stat

import h5py
import pytest

from tested_program import kvtide

FILE = """name: small
model: llama-3.1-8b
gpu: rtx-4090
trace: {synthetic: {kind: recency, tokens: 512}}
context_tokens: 2048
fidelity: roofline
workload:
  poisson: {rate: "4 /s", input_tokens: 1000, output_tokens: 50, requests: 40}
engine: {max_model_len: 4096, max_num_batched_tokens: 2048}
slo: {ttft: "1 s"}
measure: [loss]
"""


def test_a_workload_gives_the_engines_figures(tmp_path):
    (tmp_path / "small.yaml").write_text(FILE)
    kvtide("run", tmp_path / "small.yaml", "-o", tmp_path / "small.h5", "--quiet")
    with h5py.File(tmp_path / "small.h5") as file:
        serving = file["runs/00000/serving"]
        assert serving["ttft_s"].shape == (40,)
        # Latency is the first token plus 49 more.
        total = serving["ttft_s"][:] + 49 * serving["tpot_s"][:]
        assert total == pytest.approx(serving["latency_s"][:], rel=1e-6)
        assert sum(serving["output_tokens_per_s"][:]) > 0
        summary = file["summary"]
        assert 0 < summary["goodput_per_s"][0] <= summary["requests_per_s"][0]
        assert summary["ttft_p95_s"][0] >= summary["ttft_p50_s"][0] > 0
        uniform = summary["expected_loss_uniform"][0]
        assert uniform == pytest.approx(sum(file["runs/00000/loss/mass_loss"][:]) / 512, abs=1e-6)


def test_drawn_requests_and_a_file_of_the_same_lengths_hold_the_same_share(tmp_path):
    """What is kept is taken at the mean context, half way through the output: 300 + 600 / 2, not 300."""
    kept = FILE.replace("measure: [loss]", "compression: {stages: [{evict: {keep_ratio: 0.5}}]}\nmeasure: [loss]")
    drawn = kept.replace("input_tokens: 1000, output_tokens: 50", "input_tokens: 300, output_tokens: 600")
    (tmp_path / "requests.csv").write_text("arrival_s,input_tokens,output_tokens\n" + "0,300,600\n" * 4)
    of_a_file = "\n".join("  requests: requests.csv" if "poisson" in line else line for line in kept.splitlines())
    shares = []
    for name, text in (("drawn", drawn), ("file", of_a_file)):
        (tmp_path / f"{name}.yaml").write_text(text)
        kvtide("run", tmp_path / f"{name}.yaml", "-o", tmp_path / f"{name}.h5", "--quiet")
        with h5py.File(tmp_path / f"{name}.h5") as file:
            shares.append((file["summary/serving_keep_ratio"][0], file["summary/serving_entry_share"][0]))
    assert shares[0] == shares[1]
    assert shares[0][0] < 1


def test_the_same_file_gives_the_same_requests(tmp_path):
    (tmp_path / "small.yaml").write_text(FILE)
    for name in ("a", "b"):
        kvtide("run", tmp_path / "small.yaml", "-o", tmp_path / f"{name}.h5", "--quiet")
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert (a["runs/00000/serving/latency_s"][:] == b["runs/00000/serving/latency_s"][:]).all()


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('rate: "4 /s"', "rate: 4", "rate"),
        ("poisson", "poison", "poison"),
        ("slo: {ttft", "slo: {tfft", "tfft"),
        ("engine: {max_model_len: 4096", "engine: {kind: tgi", "tgi"),
        ("engine: {max_model_len: 4096", "engine: {max_model_len: 1", "engine.max_model_len: expected 0"),
        ("engine: {max_model_len: 4096", "engine: {num_blocks: 2147483646", "engine.num_blocks"),
        ('poisson: {rate: "4 /s", input_tokens: 1000, output_tokens: 50, requests: 40}', "", "exactly one of requests"),
    ],
)
def test_wrong_workloads_name_their_key(tmp_path, old, new, message):
    assert old in FILE
    (tmp_path / "wrong.yaml").write_text(FILE.replace(old, new))
    done = kvtide("run", tmp_path / "wrong.yaml", "-o", tmp_path / "x.h5")
    assert done.returncode == 2 and message in done.stderr


# 131,072 tokens of 128 KiB are 16 GiB; beside 15 GiB of weights a card of 24 GB has 5. The model has 131,072 positions.
@pytest.mark.parametrize(
    "engine, code, message",
    [
        ("kind: vllm", 1, "vLLM refuses to start: one sequence of 131072 tokens needed 16"),
        ("kind: vllm, max_model_len: 16384", 0, ""),
        ("kind: vllm, max_model_len: 131073", 1, "131073 is more than the model's 131072 positions: vLLM refuses"),
        ("kind: vllm, max_model_len: 131072, num_blocks: 3000", 0, "131072 tokens needs 8192 blocks, the cache has 2999"),
        ("kind: vllm, num_blocks: 3000", 0, ""),
        ("kind: sglang", 0, ""),
        ("kind: sglang, max_model_len: 131073", 0, "131073 is more than the model's 131072 positions"),
        ("kind: trtllm, max_model_len: 131072", 0, "a prompt of 131072 tokens needs 8192 blocks"),
    ],
)
def test_vllm_refuses_a_model_length_that_does_not_fit_and_others_say_so(tmp_path, engine, code, message):
    (tmp_path / "long.yaml").write_text(FILE.replace("max_model_len: 4096", engine).replace("requests: 40", "requests: 3"))
    done = kvtide("run", tmp_path / "long.yaml", "-o", tmp_path / "long.h5")
    assert done.returncode == code, done.stderr
    said = done.stderr + done.stdout
    assert message in said and (message or "max_model_len" not in said)


def test_an_engine_may_name_its_ranks(tmp_path):
    ranks = FILE.replace("gpu: rtx-4090", "gpu: h100-sxm")
    for name, text, gpus in (
        ("engine", ranks.replace("max_model_len: 4096", "max_model_len: 4096, tensor_parallel: 2"), 2),
        ("both", "tensor_parallel: 2\n" + ranks.replace("max_model_len: 4096", "max_model_len: 4096, tensor_parallel: 2"), 2),
        ("unlike", "tensor_parallel: 4\n" + ranks.replace("max_model_len: 4096", "max_model_len: 4096, tensor_parallel: 2"), 0),
    ):
        (tmp_path / "ranks.yaml").write_text(text)
        done = kvtide("run", tmp_path / "ranks.yaml", "-o", tmp_path / f"{name}.h5", "--quiet")
        if gpus == 0:
            assert done.returncode == 2 and "expected the file's tensor_parallel (4), got 2" in done.stderr
            continue
        assert done.returncode == 0, done.stderr
        with h5py.File(tmp_path / f"{name}.h5") as file:
            assert file["summary/num_gpus"][0] == gpus


def test_requests_beyond_the_models_limit_are_counted(tmp_path):
    (tmp_path / "requests.csv").write_text("arrival_s,input_tokens,output_tokens\n0,100,10\n1,9000,10\n2,200,10\n")
    drawn = 'poisson: {rate: "4 /s", input_tokens: 1000, output_tokens: 50, requests: 40}'
    for policy, code in (("refuse", 2), ("drop", 0), ("truncate", 0)):
        text = FILE.replace(drawn, f"requests: requests.csv\n  long_requests: {policy}")
        (tmp_path / "limit.yaml").write_text(text)
        done = kvtide("run", tmp_path / "limit.yaml", "-o", tmp_path / f"{policy}.h5", "--quiet")
        assert done.returncode == code, done.stderr
        if policy == "refuse":
            assert "requests.csv:3" in done.stderr
            continue
        with h5py.File(tmp_path / f"{policy}.h5") as file:
            assert file["summary/requests_dropped"][0] == (policy == "drop")
            assert file["summary/requests_truncated"][0] == (policy == "truncate")


# Prompts of 3,000 to 5,000 tokens in a model of 4,096: the same draws are refused, left out or cut.
def test_drawn_requests_beyond_the_models_limit_are_counted(tmp_path):
    counts = {}
    for policy, code in (("refuse", 2), ("drop", 0), ("truncate", 0)):
        text = FILE.replace("input_tokens: 1000", "input_tokens: {uniform: {min: 3000, max: 5000}}")
        text = text.replace("requests: 40}", f"requests: 40}}\n  long_requests: {policy}")
        (tmp_path / "limit.yaml").write_text(text)
        done = kvtide("run", tmp_path / "limit.yaml", "-o", tmp_path / f"{policy}.h5", "--quiet")
        assert done.returncode == code, done.stderr
        if policy == "refuse":
            assert "of 40 requests are longer than the model's limit of 4096 tokens" in done.stderr
            continue
        with h5py.File(tmp_path / f"{policy}.h5") as file:
            served = file["runs/00000/serving/input_tokens"].shape[0]
            counts[policy] = (served, file["summary/requests_dropped"][0], file["summary/requests_truncated"][0])
    left, dropped, _ = counts["drop"]
    assert 0 < dropped == 40 - left
    assert counts["truncate"] == (40, 0, dropped)


@pytest.mark.parametrize(
    "drawn",
    [
        'poisson: {rate: "1e-6 /s", input_tokens: 10, output_tokens: 10, requests: 40}',
        'closed_loop: {users: 1, think_time: "1e6 s", input_tokens: 10, output_tokens: 10, requests: 40}',
    ],
)
def test_arrivals_beyond_what_picoseconds_hold_are_refused(tmp_path, drawn):
    old = 'poisson: {rate: "4 /s", input_tokens: 1000, output_tokens: 50, requests: 40}'
    (tmp_path / "slow.yaml").write_text(FILE.replace(old, drawn))
    done = kvtide("run", tmp_path / "slow.yaml", "-o", tmp_path / "x.h5", "--quiet")
    assert done.returncode == 1 and "fewer requests" in done.stderr


def test_a_trace_stretched_beyond_what_picoseconds_hold_is_refused(tmp_path):
    (tmp_path / "requests.csv").write_text("arrival_s,input_tokens,output_tokens\n0,100,10\n1000,100,10\n")
    drawn = 'poisson: {rate: "4 /s", input_tokens: 1000, output_tokens: 50, requests: 40}'
    (tmp_path / "slow.yaml").write_text(FILE.replace(drawn, "requests: requests.csv\n  rate_scale: 1e-6"))
    done = kvtide("run", tmp_path / "slow.yaml", "-o", tmp_path / "x.h5", "--quiet")
    assert done.returncode == 1 and "rate_scale" in done.stderr


def test_results_are_not_put_in_place_of_a_pipe(tmp_path):
    (tmp_path / "small.yaml").write_text(FILE)
    os.mkfifo(tmp_path / "pipe")
    done = kvtide("run", tmp_path / "small.yaml", "-o", tmp_path / "pipe", "--quiet")
    assert done.returncode == 3 and "a pipe" in done.stderr
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
