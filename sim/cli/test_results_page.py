"""docs/results.md is what `kvtide run` writes; `kvtide report` shows what was run and in what unit."""

import os
import subprocess
import sys

from tested_program import SOURCE, kvtide


def test_the_page_of_the_results_file_is_read_off_a_results_file(tmp_path):
    out = tmp_path / "every.h5"
    done = kvtide("run", SOURCE / "experiments/every-measure.yaml", "-o", out, "--quiet")
    assert done.returncode == 0, done.stderr
    page = subprocess.run([sys.executable, "-m", "kvtide_analysis", "reference", out], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(SOURCE / "analysis")})
    assert page.returncode == 0, page.stderr
    assert page.stdout == (SOURCE / "docs/results.md").read_text(), (
        "kvtide run experiments/every-measure.yaml -o f.h5; python3 -m kvtide_analysis reference f.h5 > docs/results.md")


EXPERIMENT = """name: page
include: common.yaml
compression: {block_size: 128, stages: [{quantize: {format: int4, group: 32}}]}
measure: [memory, loss]
"""
COMMON = """model: llama-3.1-8b
gpu: h100-sxm
trace: {synthetic: {kind: recency, tokens: 512}}
context_tokens: 4096
loss: {metric: bits_lost, span: 16}
"""


def test_report_is_of_what_was_run_and_takes_a_bound(tmp_path):
    (tmp_path / "page.yaml").write_text(EXPERIMENT)
    (tmp_path / "common.yaml").write_text(COMMON)
    done = kvtide("run", tmp_path / "page.yaml", "--set", "gpu=l40s", "--set", "context_tokens=2048", "-o", tmp_path / "page.h5", "--quiet")
    assert done.returncode == 0, done.stderr
    done = kvtide("report", tmp_path / "page.h5")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert "llama-3.1-8b, l40s, 2,048 tokens of context, batch 8: 1 settings." in page
    assert "Loss is bits lost per element (bits_lost)" in page and "No bound is set for bits lost per element (--worst-max)" in page
    done = kvtide("report", tmp_path / "page.h5", "--worst-max", "0.001")
    assert done.returncode == 0, done.stderr
    assert "No setting that saves memory keeps every span of 16 tokens at or under 0.001 bit loss." in (tmp_path / "page.html").read_text()
    held = (tmp_path / "page.h5").read_bytes()
    done = kvtide("report", tmp_path / "page.h5", "-o", tmp_path / "page.h5")
    assert done.returncode == 2 and (tmp_path / "page.h5").read_bytes() == held
