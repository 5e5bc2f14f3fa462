"""The seed corpus: what ships, and a few small files in the other formats.

make_seeds(FOLDER, PROGRAM) writes FOLDER/<target>/*; PROGRAM is a kvtide that makes the results files. Everything under
regressions/<target>/ (an input that once went wrong) is a seed too.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[1]
HDF5_READERS = ("trace", "results", "run_file")
SYNTHETIC = "{synthetic: {kind: uniform, tokens: 128, head_dim: 16}}"
COMMAND_LINES = [
    "vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8 --block-size=32 --max-model-len 32k",
    'LLM(model="Qwen/Qwen3-8B", kv_cache_dtype="fp8_e5m2", tensor_parallel_size=2, max_num_seqs=64)',
    "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --kv-cache-dtype fp8_e5m2 --page-size 1 --tp 8",
    "trtllm-serve m --kv_cache_config: {dtype: fp8, max_attention_window: [4096], sink_token_length: 4, free_gpu_memory_fraction: 0.9}",
    "llama-server -m llama.gguf -c 8192 -ctk q8_0 -ctv q4_0 --keep 4 -np 8\nllama_kv_cache: K (q8_0): 128 MiB, V (q4_0): 64 MiB",
    "LMCACHE_CHUNK_SIZE=256 LMCACHE_LOCAL_CPU=True\nchunk_size: 256\nlocal_cpu: true\nremote_serde: cachegen",
    'QuantizedCacheConfig(backend="quanto", nbits=4, axis_key=0, axis_value=0, q_group_size=64, residual_length=128)',
    "from kvpress import SnapKVPress\npress = ChunkKVPress(press=SnapKVPress(compression_ratio=0.5, window_size=64), chunk_length=20)",
    "INFO non-default args: {'model': 'm', 'kv_cache_dtype': 'fp8', 'max_model_len': 8192}\n# GPU blocks: 2588, # CPU blocks: 0\n"
    "Maximum concurrency for 8,192 tokens per request: 12.00x",
    '{"kv_cache_dtype": "fp8", "block_size": 16, "hf_overrides": {"sliding_window": 4096}}',
]  # fmt: skip
QUANTIZATIONS = [
    '{"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "model.layers.0.self_attn"]}',
    '{"quant_method": "compressed-tensors", "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8, "type": "float"}, "config_groups":'
    ' {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}, "input_activations": null}}}',
    '{"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}',
    '{"quant_method": "gptq", "bits": 8}',
]  # fmt: skip
LOGS = [
    "============ Serving Benchmark Result ============\nSuccessful requests:  64\nMaximum request concurrency:  8\nRequest rate configured (RPS):  4.00\n"
    "Benchmark duration (s):  60.0\nTotal input tokens:  65536\nTotal generated tokens:  8192\nMean TTFT (ms):  60.5\nMean TPOT (ms):  10.25\n"
    "==================================================\n",
    '{"completed": 10, "total_input_tokens": 100, "total_output_tokens": 50, "mean_ttft_ms": 5, "mean_tpot_ms": 2, "request_rate": "inf", "max_concurrency": null}',
    "Namespace(backend='sglang', request_rate=inf, max_concurrency=16)\n============ Serving Benchmark Result ============\nBackend:  sglang\n"
    "Traffic request rate:  inf\nMax request concurrency:  16\nSuccessful requests:  64\nTotal input tokens:  65536\nTotal generated tokens:  8192\n"
    "Mean TTFT (ms):  60.5\nMean TPOT (ms):  10.25\n",
    "1 2 3 4 5 6 7 8 9 1.5 2.5 0.25 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1.0 1.1 nan |does not fit|",
]  # fmt: skip
EVERYTHING = """name: seed
model: llama-3.1-8b
gpu: h100-sxm
trace: {synthetic: {kind: needle, tokens: 128, head_dim: 16}}
context_tokens: 512
batch: 2
compression:
  block_size: 16
  partition: {kind: overlap, overlap: {fraction: 0.25, storage: union}}
  protect: {sinks: 4, window: 16, anchors: none}
  stages:
    - evict: {scorer: attention_sum, granularity: block, keep_ratio: 0.5}
    - quantize: {format: int4, group: 16}
sweep: {compression.block_size: [16, 32], batch: [1, 2]}
measure: [memory, time, loss, position_scan, prefix_scan]
"""


def trace_file(path, research=False):
    """A trace of one layer in our own layout, as attention/trace_layout.h has it."""
    draw = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "kvtide-trace-1", "model": "m", "n_layers_model": 2, "n_q_heads": 2, "n_kv_heads": 1, "head_dim": 4,
                           "rope_theta": 10000.0, "attn_scale": 0.5, "n_tokens": 16, "n_context": 12, "question": np.array([12, 14]),
                           "answer": np.array([14, 15])})  # fmt: skip
        file["layers"] = np.array([1])
        file["tokens/ids"] = np.arange(16)
        file["tokens/strings"] = np.array([f"t{n}" for n in range(16)], dtype=h5py.string_dtype())
        file["probes/start"], file["probes/length"] = np.array([3]), np.array([2])
        file["probes/noun"] = np.array(["gate"], dtype=h5py.string_dtype())
        file["probes/code"] = np.array(["12"], dtype=h5py.string_dtype())
        file["probes/digit_positions"] = np.array([[3, 4]])
        file["probes"].attrs["asked"] = 0
        group = file.create_group("layer_01")
        group["k_pre"], group["v"] = (draw.normal(size=(1, 16, 4)).astype(np.float16) for _ in range(2))
        group["q_pre"] = draw.normal(size=(2, 8, 4)).astype(np.float16)
        group["q_positions"] = np.arange(8, 16)


def scan_texts():
    places = range(0, 48, 2)
    yield "prefix_tokens,correct\n" + "".join(f"{at},{int(at % 16 >= 4)}\n" for at in places)
    yield "position,score,baseline,probe_type,latency_ms\n" + "".join(f"{at},{0.5 + at % 8 / 16},1,code,{10 + at}\n" for at in places)
    yield "prefix_chars,logprob,tokens,repeat,control\n" + "".join(f"{5 * at},{-0.1 * (at % 6)},{at},{n},-3\n" for at in places for n in (0, 1))


def run_files(folder, program, work):
    """Two finished runs of a sweep that is stopped, under the run key that run_file_fuzz.cc asks for."""
    path, runs = pathlib.Path(work) / "many.yaml", pathlib.Path(work) / "many.h5.runs"
    path.write_text(EVERYTHING.replace("batch: [1, 2]", f"batch: {list(range(1, 500))}").replace(", position_scan, prefix_scan", ""))
    process = subprocess.Popen([program, "run", path, "-o", f"{work}/many.h5", "--quiet"], stdout=subprocess.DEVNULL)
    while process.poll() is None and len(list(runs.glob("?????.h5"))) < 2:
        time.sleep(0.05)
    process.kill()
    process.wait()
    folder.mkdir(parents=True, exist_ok=True)
    for found in sorted(runs.glob("?????.h5"))[:2]:
        shutil.copy(found, folder)
        with h5py.File(folder / found.name, "r+") as file:
            file.attrs["run_key"] = "0" * 16
            file.attrs["kvtide_build"] = "seed"


def write(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def small(path, lines=40):
    return "\n".join(path.read_text().splitlines()[:lines]) + "\n"


def kept_inputs(_, names):
    """What libFuzzer kept of earlier calls: named by a digest, without a suffix."""
    return [name for name in names if not name.endswith(".h5")]


def make_seeds(folder, program):
    for number, path in enumerate(sorted((SOURCE / "experiments").rglob("*.yaml"))):
        text = path.read_text()
        if "plan:" in text:
            write(folder / "plan", path.name, text)
        else:
            write(folder / "experiment", f"{number}-{path.name}", re.sub(r"(?m)^trace: .*$", f"trace: {SYNTHETIC}", text))
    write(folder / "experiment", "everything.yaml", EVERYTHING)
    for path in (SOURCE / "models").glob("*.json"):
        write(folder / "model_config", path.name, path.read_bytes())
    llama = (SOURCE / "models/llama-3.1-8b.json").read_text()
    for number, quantization in enumerate(QUANTIZATIONS):
        write(folder / "model_config", f"quantized-{number}.json", llama.replace("{", f'{{"quantization_config": {quantization},', 1))
    for pattern in ("*.yaml", "memory/*.yaml", "interconnects/*.yaml"):
        for path in (SOURCE / "hw_profiles").glob(pattern):
            write(folder / "hardware_profile", f"{path.parent.name}-{path.name}", path.read_bytes())
    for path in (SOURCE / "experiments/planning/requests").glob("*.csv"):
        write(folder / "requests", path.name, small(path))
    write(folder / "requests", "ids.csv", "arrival_s,input_tokens,output_tokens,shared_prefix_block_ids\n0.5,64,8,0-3 7\n0.25,32,1,\n")
    for name, text in (("headkv.json", '{"0-0": [0.1, 0.3], "0-1": 0.2, "1-0": [1], "1-1": [0]}'), ("lists.json", "[[0.1, 0.3], [0.2, 0.4]]"),
                       ("duo.tsv", "6.05e-01\t0.0\n9.9e-01\t1.0\n")):
        write(folder / "heads", name, text)
    for number, text in enumerate(scan_texts()):
        write(folder / "scan", f"{number}.csv", text)
    for number, text in enumerate(COMMAND_LINES):
        write(folder / "import", str(number), text)
    for number, text in enumerate(LOGS):
        write(folder / "log", str(number), text)
    (folder / "trace").mkdir(parents=True, exist_ok=True)
    trace_file(folder / "trace/small.h5")
    (folder / "results").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for name, text in {"sweep": EVERYTHING, "one": EVERYTHING.replace("sweep:", "# sweep:")}.items():
            (pathlib.Path(work) / "e.yaml").write_text(text.replace(", position_scan, prefix_scan", "") if name == "sweep" else text)
            subprocess.run([program, "run", f"{work}/e.yaml", "-o", folder / f"results/{name}.h5", "--quiet"], check=True,
                           stdout=subprocess.DEVNULL)  # fmt: skip
        run_files(folder / "run_file", program, work)
    for target in HDF5_READERS:
        shutil.copytree(folder / target, folder / f"{target}_edits", dirs_exist_ok=True, ignore=kept_inputs)
    for path in (SOURCE / "fuzz/regressions").rglob("*"):
        if path.is_file() and path.name != "README.md":
            write(folder / path.parent.name, f"regression-{path.name}", path.read_bytes())


def words(folder):
    """Words of the seeds and numbers at the edges, as a libFuzzer dictionary."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".h5":
            continue
        for word in re.findall(r"[A-Za-z_][A-Za-z_0-9-]{2,24}", path.read_text(errors="replace")):
            found[word] = found.get(word, 0) + 1
    chosen = sorted(found, key=lambda word: (-found[word], word))[:400]
    edges = ["9223372036854775807", "-9223372036854775808", "18446744073709551616", "1e308", "1e-320", "nan", ".inf", "-1", "0.1", "65536",
             "null", "~", "[]", "{}", "&a [*a, *a]", "<<: *a", "!!binary", "---", "\\xef\\xbb\\xbf", " GB/s", " ns", "0-1000000"]  # fmt: skip
    return "".join(f'"{word}"\n' for word in [*chosen, *edges])


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    make_seeds(target, sys.argv[2])
