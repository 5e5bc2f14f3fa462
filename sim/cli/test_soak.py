"""Ten thousand runs in one process need no more memory than a few: every run is on disk when the next begins."""

import os
import subprocess
import time

import pytest

from tested_program import PROGRAM

RUNS = 10_000


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next((int(line.split()[1]) for line in status if line.startswith("VmRSS")), 0)


@pytest.mark.skipif(os.environ.get("KVTIDE_TEST_SCOPE") != "all", reason="ten thousand runs take minutes; with --all")
def test_memory_is_flat_over_ten_thousand_runs(tmp_path):
    path, out = tmp_path / "soak.yaml", tmp_path / "soak.h5"
    path.write_text(
        "name: soak\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: {synthetic: {kind: uniform, tokens: 128, head_dim: 16}}\n"
        "measure: [memory, loss]\ncompression: {stages: [{evict: {keep_ratio: 0.5}}]}\n"
        f"sweep:\n  compression.block_size: [8, 16]\n  batch: {list(range(1, 51))}\n  seed: {list(range(1, RUNS // 100 + 1))}\n"
    )
    process = subprocess.Popen([PROGRAM, "run", str(path), "-o", str(out), "--quiet", "--jobs", "2"])
    runs = out.with_name("soak.h5.runs")
    seen = []  # (runs done, KiB)
    try:
        while process.poll() is None:
            done = len(os.listdir(runs)) if runs.is_dir() else 0
            if 0 < done < RUNS:  # afterwards the results are put together, once
                seen.append((done, resident_kib(process.pid)))
            time.sleep(0.25)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    for done, kib in seen[:: max(1, len(seen) // 20)]:
        print(f"{done:6d} runs {kib:8d} KiB")
    early = [kib for done, kib in seen if RUNS // 10 <= done < RUNS // 4]
    late = [kib for done, kib in seen if done >= RUNS * 3 // 4]
    assert early and late, seen
    growth = max(late) - max(early)
    print(f"growth over the second half: {growth} KiB")
    # A leak of a hundred bytes a run would be 600 KiB; an allocator's own pages may come and go.
    assert growth < 4096, seen
