"""Presets and `kvtide import` through the program: what is printed is what runs."""

import json

import pytest

from tested_program import SOURCE, kvtide


def test_preset_prints_the_mapping_it_stands_for():
    shown = kvtide("show", "presets", "kivi-int2")
    assert shown.returncode == 0
    assert "2402.02750" in shown.stdout and "residual: 128" in shown.stdout
    assert "kivi-int2" in kvtide("show", "presets").stdout


def test_unknown_preset_names_the_nearest():
    shown = kvtide("show", "presets", "kivy-int2")
    assert shown.returncode == 2 and "did you mean kivi-int2" in shown.stderr


def test_policies_as_json_hold_bytes_and_paper():
    shown = kvtide("show", "policies", "fp8", "--json")
    [entry] = json.loads(shown.stdout)
    assert entry["bytes_per_token"] == 65536 and entry["bytes_per_token_full"] == 131072


@pytest.mark.parametrize("preset", ["kivi-int2", "nvfp4", "kvquant", "pool-4"])
def test_preset_runs_on_the_real_trace(tmp_path, preset):
    experiment = tmp_path / "one.yaml"
    experiment.write_text(f"""name: one
model: llama-3.1-8b
gpu: h100-sxm
trace: {SOURCE}/experiments/traces/smollm2-135m-2k.h5
compression: {{preset: {preset}}}
measure: [memory, loss]
""")
    done = kvtide("run", experiment, "-o", tmp_path / "one.h5", "--quiet")
    assert done.returncode == 0, done.stderr


def test_imported_file_runs(tmp_path):
    imported = tmp_path / "mine.yaml"
    done = kvtide("import", "vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8 --max-model-len 8192", "-o", imported)
    assert done.returncode == 0 and "E4M3" in done.stdout
    dry = kvtide("run", imported, "--dry-run")
    assert dry.returncode == 0, dry.stderr


def test_import_reads_stdin_and_files(tmp_path):
    text = "llama-server -m x.gguf -ctk q8_0 -ctv q8_0"
    assert "q8_0" in kvtide("import", "-", input=text).stdout
    file = tmp_path / "command.txt"
    file.write_text(text)
    answer = json.loads(kvtide("import", file, "--json").stdout)
    assert answer["stack"] == "llama.cpp" and "q8_0" in answer["compression"]


def test_import_of_nothing_known_says_what_is():
    done = kvtide("import", "make -j8 all")
    assert done.returncode == 2 and "vllm" in done.stderr


def test_import_replaces_no_file(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("mine")
    done = kvtide("import", "vllm serve M", "-o", mine)
    assert done.returncode == 2 and "exists already" in done.stderr
    assert mine.read_text() == "mine"


def test_import_says_what_it_did_not_take(tmp_path):
    command = "vllm serve meta-llama/Llama-3.1-8B-Instruct --quantization bitsandbytes --typo-flag 3"
    done = kvtide("import", command, "-o", tmp_path / "new.yaml")
    assert "not understood: --typo-flag\n" in done.stdout and "not carried over: weights in bitsandbytes" in done.stdout
    assert json.loads(kvtide("import", command, "--json").stdout)["not_understood"] == ["--typo-flag"]


def test_names_are_those_of_the_stacks():
    assert kvtide("show", "codecs", "fp8").stdout.splitlines()[2].startswith("fp8_e4m3")
    assert json.loads(kvtide("show", "codecs", "fp8", "--json").stdout)["name"] == "fp8_e4m3"
    assert json.loads(kvtide("show", "gpus", "H100", "--json").stdout)["name"] == "h100-sxm"
    assert json.loads(kvtide("show", "models", "Qwen/Qwen2.5-32B-Instruct", "--json").stdout)["name"] == "qwen2.5-32b"
