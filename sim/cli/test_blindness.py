"""No validator reads its answers: with everything that was measured replaced by noise, what it predicts does not move by a bit.

Each test names the columns (or datasets) that are the answer; all others say what was asked.
"""

import csv
import json
import random
import shutil

import h5py
import numpy as np
import pytest

from tested_program import SOURCE, TRACE, kvtide

SHARED = SOURCE.parent / "shared/data"


def noisy(text, answers, seed):
    """A CSV with every cell of the columns `answers` drawn anew; empty cells stay empty."""
    draw = random.Random(seed)
    rows = [line.split(",") for line in text.splitlines()]
    assert answers <= set(rows[0]), f"no such columns: {answers - set(rows[0])}"
    for row in rows[1:]:
        for index, column in enumerate(rows[0]):
            if column in answers and row[index]:
                row[index] = draw.choice(answers_of(column, draw))
    return "\n".join(",".join(row) for row in rows) + "\n"


def answers_of(column, draw):
    if column in ("achieved_fraction", "row_hit_rate"):
        return [f"{draw.uniform(0.01, 1):.4f}"]
    if column.startswith("logp_"):
        return [f"{-draw.uniform(0, 20):.5f}"]
    if column.startswith("em_"):
        return ["0", "1"]
    if column in ("kv_tokens_measured", "preemptions", "right_tokens", "running", "waiting"):
        return [str(draw.randrange(1, 4))]
    return [f"{draw.uniform(0.1, 1e5):.3f}"]


def both(predict, *truth_and_noise):
    """predict(each) is equal and says something."""
    first, second = (predict(one) for one in truth_and_noise)
    assert first, "nothing is predicted"
    assert first == second


def json_of(*arguments):
    done = kvtide(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# One row an operation, in the layouts of the measured tables.
MEASURED = {
    "decode_attn": "framework,kernel,batch,kv_len,heads,kv_heads,head_dim,window,attn_dtype,kv_dtype,latency_us\n"
                   "vllm,k,8,4096,32,8,128,0,bfloat16,bfloat16,20.5\nvllm,k,64,1024,32,8,128,0,bfloat16,fp8,31.0\n",
    "prefill_attn": "framework,kernel,batch,isl,heads,kv_heads,head_dim,window,attn_dtype,kv_dtype,latency_us\n"
                    "trtllm,torch_flow,4,256,8,1,64,0,bfloat16,bfloat16,18.949\n",
    "gemm": "framework,kernel,m,n,k,dtype,latency_us\ntrtllm,torch_flow,48,4096,4096,bfloat16,12.654\n",
    "quantize": "framework,op,kernel,m,k,quant_dtype,latency_us\ntrtllm,computescale,torch_ops,1024,4096,fp8,7.312\n",
    "mla_decode": "framework,kernel,batch,kv_len,heads,mla_dtype,kv_dtype,latency_us\n"
                  "sglang,flash_attention,8,4096,16,bfloat16,bfloat16,13.416\n",
    "comm": "lib,kernel,op_name,dtype,num_gpus,message_size,latency_us\nnccl,NCCL,all_reduce,half,2,8192,6.240\n",
    "compressed_decode": "framework,op,model,kernel,compress_ratio,batch,kv_len,heads,tp_size,gemm_type,kv_dtype,latency_us\n"
                         "sglang,dsa,DeepSeek-V3.2,sglang_dsa_indexer_fa3,1,64,8192,16,8,fp8_block,bfloat16,92.200\n",
}  # fmt: skip


def measured_predictions(tmp_path, texts, *more):
    folder, out = tmp_path / "measured", tmp_path / "rows.csv"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    done = kvtide("validate", "measured", folder, "--rows", out, *more)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in out.read_text().splitlines()]
    return [(row[0], row[1], row[-1]) for row in rows]


@pytest.mark.parametrize("seed", [1, 2])
def test_measured_times(tmp_path, seed):
    truth = {f"h100_sxm_{operation}.csv": text for operation, text in MEASURED.items()}
    noise = {name: noisy(text, {"latency_us"}, seed) for name, text in truth.items()}
    both(lambda texts: measured_predictions(tmp_path, texts), truth, noise)


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/data")
def test_measured_times_of_every_gpu(tmp_path):
    """Every 97th row of every table; with each GPU left out its own times do not count either, those of its siblings do."""
    truth = {}
    for path in sorted((SHARED / "measured").glob("*.csv")):
        lines = path.read_text().splitlines()
        truth[path.name] = "\n".join(lines[:1] + lines[1::97]) + "\n"
    noise = {name: noisy(text, {"latency_us"}, 3) for name, text in truth.items()}
    both(lambda texts: measured_predictions(tmp_path, texts), truth, noise)


def test_times_of_a_gpu_left_out(tmp_path):
    sibling = {f"h200_sxm_{operation}.csv": text for operation, text in MEASURED.items()}
    truth = {f"h100_sxm_{operation}.csv": text for operation, text in MEASURED.items()}
    noise = {name: noisy(text, {"latency_us"}, 4) for name, text in truth.items()}

    def own(texts):
        rows = measured_predictions(tmp_path, {**texts, **sibling}, "--leave-out", "h100_sxm")
        return [row for row in rows if row[0] in ("gpu", "h100_sxm")]

    both(own, truth, noise)


def test_dram_reference(tmp_path):
    text = ("simulator,standard,mapping,pattern,block_bytes,n_requests,achieved_fraction,row_hit_rate,mean_latency_ns,window,variant\n"
            "ramulator2,HBM3,hash256,seq,0,20000,0.8800,0.9673,59.8,4096,base\n"
            "ramulator2,HBM3,row1k,seq_w5,0,20000,0.8255,0.9663,62.7,4096,noref\n")  # fmt: skip
    answers = {"achieved_fraction", "row_hit_rate", "mean_latency_ns"}

    def predicted(content):
        (tmp_path / "dram.csv").write_text(content)
        rows = json_of("validate", "dram", tmp_path / "dram.csv")["rows"]
        return [[value for key, value in row.items() if key.startswith("predicted_")] for row in rows]

    both(predicted, text, noisy(text, answers, 5))


def test_kept_positions(tmp_path):
    """A file of choices in which each method keeps other positions. Scores that it stores are answers too, except those of a
    method that draws random numbers: there only the selection is ours, and the row's note says so."""
    methods = {
        "Knorm": {"class": "KnormPress"},
        "SnapKV": {"class": "SnapKVPress", "window_size": 64, "kernel_size": 5},
        "ChunkKV64_SnapKV": {"class": "ChunkKVPress", "press": {"class": "SnapKVPress", "window_size": 64, "kernel_size": 5},
                             "chunk_length": 64},
        "Block64_Knorm": {"class": "BlockPress", "press": {"class": "KnormPress"}, "block_size": 64},
    }  # fmt: skip

    def chosen(seed):
        draw = np.random.default_rng(seed)
        with h5py.File(tmp_path / "kept.h5", "w") as file:
            file.attrs["layers"], file.attrs["ratios"], file.attrs["kvpress"] = [9], [0.25, 0.5], "0.5.5"
            for name, parameters in methods.items():
                group = file.create_group(name)
                group.attrs["params"] = json.dumps(parameters)
                group["kept"] = draw.integers(0, 2, (1, 2, 3, 2021), dtype=np.uint8)
                group["scores"] = draw.normal(size=(1, 3, 2021)).astype(np.float32)
        out = tmp_path / "rows.csv"
        done = kvtide("validate", "kept", TRACE, tmp_path / "kept.h5", "--rows", out)
        assert done.returncode == 0, done.stderr
        with open(out) as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 2 * len(methods) and all(row["chosen"] for row in rows)
        return rows

    both(chosen, 1, 2)


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/data")
def test_kept_positions_of_every_method(tmp_path):
    reference = tmp_path / "kept.h5"

    def chosen(seed):
        shutil.copy(SHARED / "kvpress-reference-2k.h5", reference)
        if seed:
            draw = np.random.default_rng(seed)
            with h5py.File(reference, "r+") as file:
                for group in file.values():
                    for name, data in group.items():
                        if name.startswith("kept"):
                            data[...] = draw.integers(0, 2, data.shape, dtype=np.uint8)
        out = tmp_path / "rows.csv"
        done = kvtide("validate", "kept", SHARED / "smollm2-135m-trace-2k.h5", SHARED / "smollm2-135m-trace-2k-more.h5",
                      reference, "--rows", out)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return out.read_text()

    both(chosen, 0, 7)


def test_scan_of_a_real_model(tmp_path):
    """One prompt, recorded before: the shipped trace with the margins that a capture holds."""
    captures = tmp_path / "captures"
    captures.mkdir()
    capture = captures / "position-700.h5"
    shutil.copy(TRACE, capture)
    with h5py.File(capture, "r+") as file:
        file["answer/margin"] = [5.0, 3.0, 2.0, 4.0]
    with h5py.File(tmp_path / "prompts.h5", "w") as file:
        file["position/context_ids"], file["position/probe_start"] = np.zeros((1, 2021), np.int64), [700]
    head = "context_len,probe_start,mode,policy,block,ratio,head_scope,logp_full,logp_comp,em_comp,right_tokens\n"
    text = head + "".join(
        f"2021,700,{mode},{policy},64,{ratio},{scope},-0.05,-3.1,0,2\n"
        for mode in ("agnostic", "aware")
        for policy, ratio, scope in [("evict", 0.5, "head"), ("evict", 0.75, "shared"), ("int4", 0, "all"), ("pool_postrope", 0.5, "all")]
    )  # fmt: skip

    def predicted(content):
        (tmp_path / "scan.csv").write_text(content)
        done = kvtide("validate", "scan", tmp_path / "prompts.h5", tmp_path / "scan.csv", "--captures", captures, "--rows",
                      tmp_path / "rows.csv")  # fmt: skip
        assert done.returncode == 0, done.stderr
        with open(tmp_path / "rows.csv") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 8
        return [[row[name] for name in ("predicted_loss", "weakest_margin", "expected_right_tokens", "is_trusted")] for row in rows]

    both(predicted, text, noisy(text, {"logp_full", "logp_comp", "em_comp", "right_tokens"}, 8))


RUNS = ("run,model,gpu,device_name,gpu_mem_gb,mem_bw_gb_s,tp,max_num_seqs,max_num_batched_tokens,max_model_len,block_size,num_gpu_blocks,"
        "prefix_caching,n_layers,n_q_heads,n_kv_heads,head_dim,hidden,ffn,vocab\n"
        "r,meta-llama/Llama-3.1-8B,RTX4090,NVIDIA GeForce RTX 4090,24,1008,1,256,2048,32768,16,200,True,32,32,8,128,4096,14336,128256\n")  # fmt: skip
REQUESTS = ("req,input_tokens,output_tokens,queued_s,scheduled_s,first_token_s,last_token_s,ttft_ms,tpot_ms,latency_ms\n"
            + "".join(f"{n},{300 + 70 * n},{20 + n},{0.02 * n:.3f},{0.1 * n:.3f},1.0,2.0,300.5,31.8,1500.25\n" for n in range(12)))  # fmt: skip
REQUEST_ANSWERS = {"scheduled_s", "first_token_s", "last_token_s", "ttft_ms", "tpot_ms", "latency_ms"}


def replayed(folder, *more):
    runs = json_of("validate", "e2e", folder, *more)["runs"]
    return [(one["run"], one["metric"], one["statistic"], one["step_times"], one["predicted"]) for one in runs]


def test_serving_runs_end_to_end(tmp_path):
    def predicted(requests):
        (tmp_path / "runs.csv").write_text(RUNS)
        (tmp_path / "r.requests.csv").write_text(requests)
        return replayed(tmp_path, "--step-times", "machine")

    both(predicted, REQUESTS, noisy(REQUESTS, REQUEST_ANSWERS, 9))


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/data")
def test_serving_runs_end_to_end_of_the_measured_servers(tmp_path):
    """The summary and the figures by second are not even there."""
    truth, noise = tmp_path / "truth", tmp_path / "noise"
    for folder in (truth, noise):
        folder.mkdir()
        (folder / "profiles").symlink_to(SHARED / "e2e/profiles")
        shutil.copy(SHARED / "e2e/runs.csv", folder)
    rivals = {"llmss_ttft_ms", "llmss_tpot_ms", "llmss_latency_ms", "arrival_s", "sched_arrival_s"}
    for path in (SHARED / "e2e").glob("*.requests.csv"):
        shutil.copy(path, truth)
        (noise / path.name).write_text(noisy(path.read_text(), REQUEST_ANSWERS | rivals, 10))
    both(replayed, truth, noise)


def test_published_serving_figures(tmp_path):
    preemptions = ("model,gpu,kv_tokens,block_size,max_num_seqs,max_model_len,client_concurrency,requests,input_mean,output_mean,range_ratio,"
                   "prefix_caching,watermark,preemptions,out_tok_per_s,req_per_s,ttft_p50_s,ttft_p99_s,itl_p99_ms,e2e_p50_s\n"
                   "Qwen2.5-7B-Instruct,GB200,20000,16,256,8192,32,40,1000,500,0.2,0,0.02,400,12134,2.416,11.80,26.49,18.80,48.4\n")  # fmt: skip
    quantized = ("source,model,gpu,method,input_tokens,output_tokens,concurrency,baseline_kv_tokens,kv_tokens,capacity_ratio,baseline_req_per_s,"
                 "req_per_s,throughput_ratio,baseline_tpot_ms,tpot_ms,ttft_change_pct,itl_change_pct\n"
                 "vllm-project/vllm pull 38479 comment 2026-04-10 (after kernel fusion),Qwen3-4B,H100 80GB,turboquant 3-bit,512,128,8,41744,"
                 "143118,3.43,41.75,22.77,0.545,10.17,24.10,-32.4,\n")  # fmt: skip
    counted = {"preemptions", "out_tok_per_s", "req_per_s", "ttft_p50_s", "ttft_p99_s", "itl_p99_ms", "e2e_p50_s"}
    compared = {"kv_tokens", "capacity_ratio", "baseline_req_per_s", "req_per_s", "throughput_ratio", "baseline_tpot_ms", "tpot_ms",
                "ttft_change_pct", "itl_change_pct"}  # fmt: skip

    def predicted(texts):
        (tmp_path / "preemption_watermark.csv").write_text(texts[0])
        (tmp_path / "kv_quant_serving.csv").write_text(texts[1])
        found = json_of("validate", "serving", tmp_path)
        counts = [(row["watermark"], row["predicted"], row["low"], row["high"]) for row in found["preemptions"]]
        return counts + [(row["recipe"], row["predicted_capacity_ratio"], row["predicted_throughput_ratio"]) for row in found["quantized"]]

    both(predicted, (preemptions, quantized), (noisy(preemptions, counted, 11), noisy(quantized, compared, 12)))


def test_calibration_never_reads_the_runs_it_holds_out(tmp_path):
    """Every second run is held out: its times move neither the constants nor what is predicted, only the error."""

    def block(concurrency, ttft, tpot):
        return ("============ Serving Benchmark Result ============\nSuccessful requests:  8\n"
                f"Maximum request concurrency:  {concurrency}\nBenchmark duration (s):  60.0\nTotal input tokens:  2048\n"
                f"Total generated tokens:  128\nMean TTFT (ms):  {ttft}\nMean TPOT (ms):  {tpot}\n"
                "==================================================\n")  # fmt: skip

    def fitted(held_out):
        log = tmp_path / "bench.log"
        log.write_text(block(1, 50.0, 9.0) + block(2, *held_out[0]) + block(4, 80.0, 11.0) + block(8, *held_out[1]))
        found = json_of("calibrate", log, "--model", "llama-3.1-8b", "--gpu", "h100-sxm")
        assert found["held_out"] == 2
        return [found[name] for name in ("step_factor", "step_gap_s", "ttft_offset_s")]

    both(fitted, [(60.0, 10.0), (120.0, 13.0)], [(9000.0, 1.0), (3.0, 700.0)])
