"""The program where the machine grants little: it does with less, or says what is missing; it never waits for ever."""

import resource
import subprocess

import pytest

from tested_program import PROGRAM, is_sanitized

GIB = 1 << 30


# A thread's stack takes as many addresses as the stack limit says: 1 GiB each, so 3 GiB hold two of the 8 asked for.
def test_fewer_threads_than_asked_for_do_all_the_work(tmp_path):
    if is_sanitized():
        pytest.skip("sanitizers reserve more addresses than the limit of this test")
    experiment = tmp_path / "t.yaml"
    experiment.write_text(
        "name: t\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: {synthetic: {kind: uniform, tokens: 256}}\n"
        "context_tokens: 512\nmeasure: [memory]\n"
        "sweep:\n  compression.block_size: [16, 32, 48, 64, 80, 96, 112, 128]\n"
    )

    def few_threads():
        resource.setrlimit(resource.RLIMIT_STACK, (GIB, GIB))
        resource.setrlimit(resource.RLIMIT_AS, (3 * GIB, 3 * GIB))

    out = tmp_path / "t.h5"
    done = subprocess.run([PROGRAM, "run", str(experiment), "-o", str(out), "--jobs", "8", "--quiet"],
                          capture_output=True, text=True, timeout=120, preexec_fn=few_threads)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert out.exists()
