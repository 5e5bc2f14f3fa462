"""docs/results.md is what `kvtide run` writes; `kvtide report` shows what was run and in what unit."""

import json
import os
import re
import subprocess
import sys

from tested_program import SOURCE, kvtide


def test_the_page_of_the_results_file_is_read_off_results_files(tmp_path):
    outs = [tmp_path / "every.h5", tmp_path / "bits.h5"]
    for out, changes in zip(outs, [[], ["--set", "loss.metric=bits_lost"]]):
        done = kvtide("run", SOURCE / "experiments/every-measure.yaml", "-o", out, "--quiet", *changes)
        assert done.returncode == 0, done.stderr
    page = subprocess.run([sys.executable, "-m", "kvtide_analysis", "reference", *outs], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(SOURCE / "analysis")})
    assert page.returncode == 0, page.stderr
    assert page.stdout == (SOURCE / "docs/results.md").read_text(), (
        "kvtide run experiments/every-measure.yaml -o a.h5; the same --set loss.metric=bits_lost -o b.h5; "
        "python3 -m kvtide_analysis reference a.h5 b.h5 > docs/results.md")


def test_the_page_of_the_results_file_and_explain_say_the_same():
    columns = json.loads(kvtide("explain", "--json").stdout)["columns"]
    said = {column["name"]: (column["units"], column["definition"].replace("|", "\\|")) for column in columns}
    rows = re.findall(r"^\| `(\w+)` \| (?:float64|text) \| (.+?) \| (.+) \|$", (SOURCE / "docs/results.md").read_text(), re.MULTILINE)
    assert len(rows) > 100
    assert {name: (unit, text) for name, unit, text in rows} == {name: said[name] for name, _, _ in rows}


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
