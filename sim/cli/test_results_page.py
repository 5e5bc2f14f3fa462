"""docs/results.md is what `kvtide run` writes."""

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
