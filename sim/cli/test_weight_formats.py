"""`weights:` of experiments: what a checkpoint is stored in decides what is left for the cache, and the time of a step."""

import json

import h5py
import pytest

from tested_program import kvtide

GIB = 2**30


def run(folder, **changes):
    experiment = {"name": "w", "gpu": "h100-sxm", "trace": {"synthetic": {"kind": "uniform", "tokens": 512}}, "context_tokens": 4096,
                  "batch": 4, "fidelity": "roofline", "measure": ["memory", "time"], "compression": {"preset": "fp8"}}  # fmt: skip
    path = folder / "w.yaml"
    path.write_text(json.dumps({**experiment, **changes}))
    return kvtide("run", path, "-o", folder / "w.h5", "--quiet")


def columns(folder, *names):
    with h5py.File(folder / "w.h5") as file:
        return [list(file["summary"][name].asstr() if file["summary"][name].dtype == "O" else file["summary"][name]) for name in names]


# vLLM 0.10.1 loads gpt-oss-120b into 65.97 GiB of an H100 (vllm-project/vllm#23278); at 16 bits its 116.8 billion weights are 217.6.
def test_a_model_is_served_in_the_format_that_it_is_published_in(tmp_path):
    done = run(tmp_path, model="gpt-oss-120b", sweep={"weights": ["published", "bf16"]})
    assert done.returncode == 0, done.stderr
    formats, sizes, fitting = columns(tmp_path, "weight_format", "weight_bytes_per_gpu", "max_sequences")
    assert formats == ["mxfp4, attention in bf16", "bf16"]
    assert [size / GIB for size in sizes] == pytest.approx([65.97, 217.6], abs=0.1)
    assert fitting[0] > 0 and fitting[1] == 0


# 8.03 billion weights of 2 B are 14.96 GiB; 6.98 billion of them in a byte and the rest in two 8.46.
def test_narrow_weights_leave_room_and_shorten_the_step(tmp_path):
    done = run(tmp_path, model="llama-3.1-8b", sweep={"weights": ["bf16", "fp8", "w4a16"]})
    assert done.returncode == 0, done.stderr
    sizes, fitting, steps = columns(tmp_path, "weight_bytes_per_gpu", "max_sequences_full", "decode_step_us_full")
    assert [size / GIB for size in sizes[:2]] == pytest.approx([14.96, 8.46], abs=0.01)
    assert fitting == sorted(fitting) and len(set(fitting)) == 3
    assert steps == sorted(steps, reverse=True) and len(set(steps)) == 3


def test_an_unknown_format_is_named_with_what_is_allowed(tmp_path):
    done = run(tmp_path, model="llama-3.1-8b", weights="fp9")
    assert done.returncode == 2
    for part in ("w.yaml:1:", "weights", "fp9", "published", "w4a16"):
        assert part in done.stderr


# A checkpoint of one's own that is quantized: as large as its config.json says, and run.
def test_a_quantized_checkpoint_runs(tmp_path):
    config = {"model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16,
              "hidden_size": 128, "intermediate_size": 256, "vocab_size": 100, "max_position_embeddings": 4096,
              "quantization_config": {"quant_method": "awq", "bits": 4}}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = run(tmp_path, model=str(tmp_path / "config.json"), trace={"synthetic": {"kind": "uniform", "tokens": 512, "head_dim": 16}})
    assert done.returncode == 0, done.stderr
    # 557,056 weights of 4 bits with 2.5 B for 128, 26,752 of 2 B (sim/model/weight_storage_test.cc).
    assert columns(tmp_path, "weight_format", "weight_bytes_per_gpu") == [["w4a16"], [289408 + 2 * 26752]]
