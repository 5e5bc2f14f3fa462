"""The program under test, for the tests that call it from outside."""

import functools
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KVTIDE_PROGRAM", str(SOURCE / "build/release/sim/kvtide"))
TRACE = SOURCE / "experiments/traces/smollm2-135m-2k.h5"
# A call that takes longer hangs; programs built with a sanitizer are so many times slower.
PATIENCE_S = 300 * float(os.environ.get("KVTIDE_TEST_SLOWDOWN", "1"))


def kvtide(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S, **options)


@functools.cache
def is_sanitized():
    text = pathlib.Path(PROGRAM).read_bytes()
    return b"__asan_init" in text or b"__tsan_init" in text
