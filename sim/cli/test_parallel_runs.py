"""Models of every kind, several GPUs and timelines through `kvtide run`. Expected values are derived in comments."""

import json

import h5py
import pytest

from tested_program import kvtide


BASE = {
    "name": "t",
    "gpu": "h100-sxm",
    "trace": {"synthetic": {"kind": "uniform", "tokens": 512}},
    "context_tokens": 2048,
    "batch": 4,
    "fidelity": "roofline",
    "measure": ["memory", "time"],
    "compression": {"block_size": 64, "stages": [{"quantize": {"format": "int4", "group": 32}}]},
}


def run(folder, arguments=(), **changes):
    path = folder / "t.yaml"
    path.write_text(json.dumps({**BASE, **changes}))
    out = folder / "t.h5"
    return kvtide("run", path, "-o", out, "--quiet", *arguments), out


def column(path, name):
    with h5py.File(path) as file:
        return file["summary"][name][0]


@pytest.mark.parametrize(
    "model",
    ["deepseek-v2", "mixtral-8x7b", "gemma-2-9b", "gpt-oss-20b", "falcon-7b", "gpt-2-xl", "qwen3-30b-a3b"],
)
def test_latent_expert_windowed_and_ungated_models_run(tmp_path, model):
    context = 1024 if model == "gpt-2-xl" else 2048
    done, out = run(tmp_path, model=model, context_tokens=context)
    assert done.returncode == 0, done.stderr
    assert column(out, "decode_step_us") > 0


def test_latent_cache_is_one_vector_a_layer(tmp_path):
    # deepseek-v2: 60 layers, (512 + 64) x 2 B x 2048 tokens = 141,557,760 B.
    done, out = run(tmp_path, model="deepseek-v2", measure=["memory"])
    assert done.returncode == 0, done.stderr
    assert column(out, "kv_bytes_full") == 60 * 576 * 2 * 2048


def test_windowed_layers_hold_no_more_than_their_window(tmp_path):
    # gpt-oss-20b: 12 full layers and 12 with a window of 128 (8 pages of 16), 8 heads x 64 x 2 x 2 B = 2,048 B a token.
    done, out = run(tmp_path, model="gpt-oss-20b", measure=["memory"])
    assert done.returncode == 0, done.stderr
    assert column(out, "kv_bytes_full") == 12 * 2048 * (2048 + 128)


def test_two_gpus_hold_twice_the_cache_and_talk(tmp_path):
    one, out = run(tmp_path, model="llama-3.1-8b")
    assert one.returncode == 0, one.stderr
    single = {name: column(out, name) for name in ("max_sequences", "decode_step_us", "collective_us")}
    out.unlink()
    two, out = run(tmp_path, model="llama-3.1-8b", tensor_parallel=2)
    assert two.returncode == 0, two.stderr
    assert single["collective_us"] == 0
    assert column(out, "collective_us") > 0
    assert column(out, "decode_step_us") < single["decode_step_us"]
    assert column(out, "max_sequences") > 2 * single["max_sequences"]  # weights are divided too
    assert column(out, "num_gpus") == 2
    assert column(out, "machine_fidelity") in (b"roofline", "roofline")


# Mixtral-8x7B has 46,702,792,704 weights of 2 B; Qwen3-30B-A3B 30,532,122,624. A quarter each, whole experts or cut.
@pytest.mark.parametrize("model, weights", [("mixtral-8x7b", 46702792704), ("qwen3-30b-a3b", 30532122624)])
def test_whole_experts_on_ranks_exchange_tokens(tmp_path, model, weights):
    done, out = run(tmp_path, model=model, tensor_parallel=4)
    assert done.returncode == 0, done.stderr
    cut = column(out, "collective_us")
    out.unlink()
    done, out = run(tmp_path, model=model, tensor_parallel=4, expert_parallel=4)
    assert done.returncode == 0, done.stderr
    assert column(out, "weight_bytes_per_gpu") == weights * 2 // 4
    # Two exchanges and a gathering replace one all-reduce a layer; at batch 4 each costs its launch.
    assert column(out, "collective_us") > cut > 0
    with h5py.File(out) as file:
        assert file["summary"]["num_gpus"][0] == 4


def test_shared_experts_are_whole_on_every_rank(tmp_path):
    # deepseek-v2: 59 layers x 3 matrices x 5120 x 3072 x 2 B = 5,567,938,560 B; 7/8 of them more than when cut in eight.
    held = []
    for ranks in (1, 8):
        done, out = run(tmp_path, model="deepseek-v2", tensor_parallel=8, expert_parallel=ranks, measure=["memory"])
        assert done.returncode == 0, done.stderr
        held.append((column(out, "weight_bytes_per_gpu"), column(out, "max_sequences")))
        out.unlink()
    assert held[1][0] - held[0][0] == pytest.approx(5567938560 * 7 / 8, abs=1)
    assert held[1][1] < held[0][1]


@pytest.mark.parametrize("batch, is_beyond", [(158, False), (159, True)])
def test_cache_beyond_the_tlb_is_said(tmp_path, batch, is_beyond):
    # smollm2-1.7b: 24 layers x 2 x 32 x 64 x 2 B x 2048 tokens = 402,653,184 B; 64e9 B hold 158.95 of them.
    changes = {"model": "smollm2-1.7b", "batch": batch, "measure": ["memory"], "compression": "none"}
    done, out = run(tmp_path, gpu="a100-sxm", **changes)
    assert done.returncode == 0, done.stderr
    warnings = column(out, "warnings").decode()
    assert ("TLB" in warnings) == is_beyond
    assert "does not fit" not in warnings
    out.unlink()
    done, out = run(tmp_path, gpu="h100-sxm", **changes)  # no reach is known
    assert done.returncode == 0, done.stderr
    assert "TLB" not in column(out, "warnings").decode()


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"tensor_parallel": 3}, ["tensor_parallel", "32 query heads"]),
        ({"tensor_parallel": 16}, ["tensor_parallel", "joins 8"]),
        ({"tensor_parallel": 0}, ["tensor_parallel", "1..1024"]),
        ({"pipeline_parallel": 33}, ["pipeline_parallel", "32 layers"]),
        ({"tensor_parallel": 2, "expert_parallel": 2}, ["t.yaml:", "expert_parallel", "no experts"]),
        ({"expert_parallel": 0}, ["expert_parallel", "1..1024"]),
        (
            {"model": "mixtral-8x7b", "tensor_parallel": 4, "expert_parallel": 2},
            ["t.yaml:", "expert_parallel", "1 or tensor_parallel (4)"],
        ),
        (
            {"model": "mixtral-8x7b", "gpu": "gb200", "tensor_parallel": 16, "expert_parallel": 16},
            ["expert_parallel", "8 experts"],
        ),
        ({"fidelity": "exact"}, ["fidelity", "roofline"]),
    ],
)
def test_ranks_that_do_not_fit_are_refused(tmp_path, changes, words):
    done, _ = run(tmp_path, **{"model": "llama-3.1-8b", **changes})
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr


def test_timeline_follows_the_trace_event_format(tmp_path):
    path = tmp_path / "timeline.json"
    done, out = run(tmp_path, ["--timeline", path], model="llama-3.1-8b", pipeline_parallel=2)
    assert done.returncode == 0, done.stderr
    trace = json.loads(path.read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["ph"] for event in trace["traceEvents"]} == {"X", "M"}
    for event in events:
        assert {"name", "cat", "ph", "pid", "tid", "ts", "dur"} <= event.keys()
        assert event["ts"] >= 0 and event["dur"] > 0
    # Kernels of one stream follow one another; a viewer nests those that overlap.
    for lane in {(event["pid"], event["tid"]) for event in events}:
        end = 0
        for event in sorted((e for e in events if (e["pid"], e["tid"]) == lane), key=lambda e: e["ts"]):
            assert event["ts"] >= end - 1e-6
            end = event["ts"] + event["dur"]
    names = {event["name"] for event in events}
    assert {"attention", "compress", "send", "lm_head"} <= names
    assert {event["pid"] for event in events} == {0, 1}
    assert trace["otherData"]["events"] == len(events)
    assert trace["otherData"]["events_left_out"] == 0
    with h5py.File(out) as file:
        steps = file["runs/00000/machine/step_us"][:]
    assert max(event["ts"] + event["dur"] for event in events) == pytest.approx(steps.sum(), rel=1e-9)
