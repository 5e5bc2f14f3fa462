"""Damaged input files: every mutated copy ends in a clean exit, within bounded time and memory.

Each copy is made from (file, number) alone, so a failure is repeated by its number:
    KVTIDE_FUZZ_ONLY=417 python3 -m pytest sim/cli/test_mutated_input.py -k trace
KVTIDE_FUZZ_COPIES sets how many copies of each file are tried (default: 12; 500 with KVTIDE_TEST_SCOPE=all).
"""

import os
import random
import re
import resource
import subprocess

import pytest

from tested_program import PROGRAM, SOURCE, TRACE, is_sanitized

COPIES = int(os.environ.get("KVTIDE_FUZZ_COPIES", "500" if os.environ.get("KVTIDE_TEST_SCOPE") == "all" else "12"))
ONLY = os.environ.get("KVTIDE_FUZZ_ONLY")
CPU_SECONDS = 20
MEMORY_BYTES = 4 << 30
SANITIZED_EXIT = 99
# Sanitizers reserve terabytes of addresses, so there the limit is on what is touched and on single requests.
ENVIRONMENT = dict(
    os.environ,
    ASAN_OPTIONS=f"exitcode={SANITIZED_EXIT}:hard_rss_limit_mb=4096:max_allocation_size_mb=4096",
    UBSAN_OPTIONS="print_stacktrace=1",
)

# What tends to break readers: edges of integer types, numbers that are none, wrong kinds, deep or empty structures.
TOKENS = [
    "0", "-1", "1", "-0", "2147483648", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "1e308",
    "1e-320", "1e999", "nan", ".inf", "-.inf", "0x10", "0o17", "1_000", "true", "null", "~", '""', "''", "[]", "{}",
    "[[[[[[[[]]]]]]]]", "{a: {a: {a: {}}}}", "&a [*a, *a]", "*missing", "!!binary aGk=", "!!float 1", "<<", "? x", "|",
    ">", "---", "...", "%YAML 9.9", "\t", "\0", "\u2028", "\ufeff", "\xff", "x" * 5000, "a.b.c.d", "../../etc",
    "/dev/zero", "/dev/null", "0.5 GB/s", "1e300 TB", "-3 ns", "5 bananas", "1000000000000", "65536", "65537", "1048576",
]  # fmt: skip
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def mutated_text(text, number):
    choose = random.Random(f"text {number}")
    for _ in range(choose.choice([1, 1, 1, 2, 3, 6])):
        lines = text.split("\n")
        line = choose.randrange(len(lines))
        kind = choose.randrange(9)
        if kind == 0:
            del lines[line]
        elif kind == 1:
            lines.insert(choose.randrange(len(lines) + 1), lines[line])
        elif kind == 2:
            lines[line] = choose.choice(["", " ", "  ", "      "]) + lines[line].strip()
        elif kind == 3:
            key, colon, _rest = lines[line].partition(":")
            lines[line] = f"{key}{colon} {choose.choice(TOKENS)}"
        elif kind in (4, 5):  # most figures are quantities: another number, the unit stays
            places = list(NUMBER.finditer(text))
            if places:
                place = choose.choice(places)
                text = text[: place.start()] + choose.choice(TOKENS[:12]) + text[place.end() :]
            continue
        elif kind == 6:
            at = choose.randrange(len(text) + 1)
            text = text[:at] + choose.choice(TOKENS) + text[at:]
            continue
        elif kind == 7:
            begin = choose.randrange(len(text) + 1)
            text = text[:begin] + text[begin + choose.choice([1, 2, 8, 64, len(text)]) :]
            continue
        else:
            characters = list(text)
            for _ in range(choose.randrange(1, 6)):
                characters[choose.randrange(len(characters))] = chr(choose.randrange(256))
            text = "".join(characters) or "x"
            continue
        text = "\n".join(lines) or "x"
    return text.encode("utf-8", "surrogatepass")


# Structures of the HDF5 file format specification 3.0; a byte of one is worth more than one of the arrays between.
SIGNATURES = re.compile(rb"\x89HDF|TREE|SNOD|HEAP|GCOL|OHDR|OCHK|FRHP|FHDB|BTHD|BTLF|BTIN|FADB|FAHD|EAHD|FSHD")


def mutated_bytes(original, places, number):
    choose = random.Random(f"bytes {number}")
    data = bytearray(original)
    if choose.random() < 0.1:
        return bytes(data[: choose.choice([0, 1, 8, 100, 2048, choose.randrange(len(data))])])
    for _ in range(choose.choice([1, 1, 2, 4, 16, 64])):
        at = min(choose.choice(places) + choose.randrange(512), len(data) - 8)
        kind = choose.randrange(5)
        if kind == 0:
            data[at] ^= 1 << choose.randrange(8)
        elif kind == 1:
            data[at] = choose.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            width = choose.choice([2, 4, 8])
            value = choose.choice([0, 1, (1 << 8 * width) - 1, 1 << (8 * width - 1), choose.randrange(1 << 16)])
            data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
        elif kind == 3:
            other = min(choose.choice(places), len(data) - 16)
            data[at : at + 8] = data[other : other + 8]
        else:
            data[at : at + 8] = bytes(8)
    return bytes(data[: len(original)])


def bounded():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not is_sanitized():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def complaint(arguments):
    """None for a clean end: exit 0, 2 or 3, one that is not out of memory and owns up to no mistake of the program."""
    try:
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL,
                              env=ENVIRONMENT, preexec_fn=bounded, timeout=60 * CPU_SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hangs"
    errors = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 2, 3) or "mistake in kvtide" in errors or "out of memory" in errors:
        return f"exit {done.returncode}: {errors[-3000:]}"
    if done.returncode != 0 and not errors.strip():
        return f"exit {done.returncode} without a word"
    return None


def check(folder, name, mutated, arguments_of):
    complaints = []
    # HDF5 itself does not give back all that it took for a file that it then refuses.
    (folder / "leaks.txt").write_text("leak:libhdf5\n")
    ENVIRONMENT["LSAN_OPTIONS"] = f"print_suppressions=0:suppressions={folder}/leaks.txt"
    for number in [int(ONLY)] if ONLY else range(COPIES):
        path = folder / name
        path.write_bytes(mutated(number))
        found = complaint(arguments_of(path))
        if found:
            complaints.append(f"copy {number}: {found}")
    assert not complaints, f"{len(complaints)} of {COPIES}\n" + "\n".join(complaints[:20])


def test_experiment(tmp_path):
    text = (SOURCE / "experiments/demo.yaml").read_text().replace("traces/", str(TRACE.parent) + "/")
    check(tmp_path, "e.yaml", lambda number: mutated_text(text, number), lambda path: ["run", path, "--dry-run"])


@pytest.mark.parametrize("dry_run", [False, True])
def test_gpu_profile(tmp_path, dry_run):
    text = (SOURCE / "hw_profiles/h100-sxm.yaml").read_text()
    experiment = tmp_path / "e.yaml"
    experiment.write_text(
        f"name: t\nmodel: llama-3.1-8b\ngpu: {tmp_path}/g.yaml\ntrace: {TRACE}\nmeasure: [memory, time]\n")
    check(tmp_path, "g.yaml", lambda number: mutated_text(text, number),
          lambda path: ["run", experiment, "--dry-run"] if dry_run else ["show", "gpus", path])  # fmt: skip


@pytest.mark.parametrize("dry_run", [False, True])
def test_model(tmp_path, dry_run):
    text = (SOURCE / "models/llama-3.1-8b.json").read_text()
    experiment = tmp_path / "e.yaml"
    experiment.write_text(
        f"name: t\nmodel: {tmp_path}/m.json\ngpu: h100-sxm\ntrace: {TRACE}\nmeasure: [memory, time]\n")
    check(tmp_path, "m.json", lambda number: mutated_text(text, number),
          lambda path: ["run", experiment, "--dry-run"] if dry_run else ["show", "models", path])  # fmt: skip


def test_trace(tmp_path):
    original = TRACE.read_bytes()
    places = [0] * 4 + [found.start() for found in SIGNATURES.finditer(original)]
    check(tmp_path, "t.h5", lambda number: mutated_bytes(original, places, number), lambda path: ["trace", "check", path])


@pytest.fixture(scope="module", name="results")
def fixture_results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    experiment = folder / "e.yaml"
    experiment.write_text("name: t\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: {synthetic: {kind: needle, tokens: 128, head_dim: 16}}\n"
                          "compression: {block_size: 16, stages: [{evict: {scorer: attention_sum, keep_ratio: 0.5}}]}\n")
    subprocess.run([PROGRAM, "run", str(experiment), "-o", str(folder / "r.h5"), "--quiet"], check=True, capture_output=True)
    return (folder / "r.h5").read_bytes()


@pytest.mark.parametrize("command", ["merge", "export"])
def test_results(tmp_path, results, command):
    places = [0] * 4 + [found.start() for found in SIGNATURES.finditer(results)]
    check(tmp_path, "r.h5", lambda number: mutated_bytes(results, places, number),
          lambda path: [command, tmp_path / "out.h5", path] if command == "merge" else [command, path, "--json"])


def test_results_whose_text_lies_beyond_its_heap(tmp_path, results):
    # The first object of every global heap collection (16 bytes of header, 8 of the object's index; HDF5 format 3.0, III.E) says
    # that it has 4 GiB: HDF5 1.10.8 copies as much.
    data = bytearray(results)
    for found in re.finditer(rb"GCOL", results):
        data[found.start() + 24 : found.start() + 32] = (0xFFFFFFFF).to_bytes(8, "little")
    check(tmp_path, "r.h5", lambda number: bytes(data), lambda path: ["merge", tmp_path / "out.h5", path])
