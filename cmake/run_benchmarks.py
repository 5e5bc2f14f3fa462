"""Runs kvtide-bench and the references that are not C++ (SimPy, NumPy) in one go, and prints how they compare.

    kvtide bench [ROOM] [--json] [--compare [BASE]] [--keep]

ROOM is engine, gpu, kv, attention, loss, serving, statistics (calibration of the period tests: percents, minutes), experiment or
policies. Policies are held against kvpress: its recorded processor seconds, or measured in the same run by the Python that
KVTIDE_KVPRESS_PYTHON names. Rates are per second of processor time, so that a busy machine
disturbs them little. `reference` is measured in the same run; it is empty where there is nothing to compare with. `allocations` are
of memory, for each event, token, row, position or request: below 1 where the inner loop makes none.

`--json` and `--compare` keep a run as the baseline where none is kept yet, build/bench-baseline.json; `--keep` replaces what is
kept. `--compare` adds a column of ratios to the baseline, or to BASE: any file that `kvtide bench --json` printed.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import resource
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ["engine", "gpu", "kv", "attention", "loss", "statistics", "serving", "experiment", "policies"]
# How the names of a room's benchmarks begin.
PREFIXES = {"gpu": "Memory/|gpu_", "policies": "policies"}

# Benchmark (whole name): the benchmark of the same run that it is held against.
REFERENCES = [
    (re.compile(r"kv_(?:every_)?codec/[\w.]+/(\d+)"), r"kv_memcpy/\1"),
    # The machine's BLAS where there is one, else Eigen: the later of two wins.
    (re.compile(r"attention_(?:reference|replay)/(\d+)"), r"attention_gemm/\1"),
    (re.compile(r"attention_(?:reference|replay|gemm)/(\d+)"), r"attention_blas/\1"),
    (re.compile(r"loss_prefix_scan/by_runs"), "loss_prefix_scan/by_caches"),
    (re.compile(r"experiment_sweep/10+"), "experiment_sweep/1"),  # runs a second of a long sweep over those of a single run
    (re.compile(r"experiment_jobs/2/real_time"), "experiment_jobs/1/real_time"),  # 2 is perfect
]

# What the NumPy program evaluates: 2 block sizes x 129 shifts x 2 modes x 3 ratios x 4 layers x 3 KV heads.
NUMPY_PROGRAM = SOURCE.parent / "shared" / "data" / "golden_offsets.py"
NUMPY_EVALUATIONS = 2 * 129 * 2 * 3 * 4 * 3
NUMPY_NAME = "loss_prefix_scan/by_runs"
SYSTEM_PYTHON = os.environ.get("KVTIDE_PYTHON", sys.executable)


# Peer's policies: recorded CPU seconds, and the script that measures them again.
DATA = SOURCE.parent / "shared" / "data"
PEER_SPEED = DATA / "kvpress-speed.csv"
PEER_TRACES = [DATA / "smollm2-135m-trace-2k.h5", DATA / "smollm2-135m-trace-2k-more.h5"]
PEER_EVALUATION = "policies_whole_evaluation"


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def room_of(name):
    for room in ROOMS:
        if re.match(PREFIXES.get(room, f"{room}_"), name):
            return room
    return name.split("_")[0].split("/")[0]


def run_cpp(program, room, seconds, repeats):
    """One row a benchmark: the fastest of its repetitions, since other programs can only slow one down."""
    pattern = "." if room is None else f"^({PREFIXES.get(room, room + '_')})"
    command = [str(program), f"--benchmark_filter={pattern}", "--benchmark_format=json",
               f"--benchmark_min_time={seconds}", f"--benchmark_repetitions={repeats}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise SystemExit(f"kvtide bench: {program} ended with {done.returncode}")
    document = json.loads(done.stdout)
    best = {}
    for row in document["benchmarks"]:
        if row.get("run_type") != "iteration":
            continue
        if row.get("error_occurred"):
            say(f"kvtide bench: {row['run_name']}: {row.get('error_message', 'failed')}")
            continue
        name = row["run_name"].removesuffix("/repeats:1").removesuffix("/iterations:1")
        if name not in best or row["cpu_time"] < best[name]["cpu_time"]:
            best[name] = row
    return document["context"], best


def tier_of(name):
    if not name.startswith("Memory/"):
        return None
    parts = name.split("/")
    if parts[1] == "tier":
        return parts[2].split("_")[0]
    return "detailed"


def as_benchmark(name, row):
    """The document's row: a rate where the benchmark counts something, a share where it counts outcomes, else its time."""
    if "share_percent" in row:
        return {"name": name, "value": row["share_percent"], "unit": "%", "reference": row.get("tabulated_percent"),
                "ratio": None, "tier": None, "work": row["label"], "allocations": None,
                "reference_name": "tabulated" if "tabulated_percent" in row else None}
    if "geometric_mean_per_s" in row:
        value, unit = row["geometric_mean_per_s"], "1/s"
        work = f"32 B requests, geometric mean; {row['label']} at {quantity(row['worst_per_s'], unit)}"
    elif "items_per_second" in row:
        work = row.get("label") or {"engine": "events", "gpu": "32 B requests"}.get(room_of(name), "items")
        value, unit = row["items_per_second"], "1/s"
    elif "bytes_per_second" in row:
        work, value, unit = row.get("label") or "bytes", row["bytes_per_second"], "B/s"
    else:
        work, value, unit = row.get("label") or "calls", row["cpu_time"], row["time_unit"]
    return {"name": name, "value": value, "unit": unit, "reference": None, "ratio": None, "tier": tier_of(name),
            "work": work, "allocations": row.get("allocations"), "reference_name": None}


def set_reference(benchmark, name, value):
    benchmark["reference"] = value
    benchmark["reference_name"] = name
    # Above 1 is better than the reference, for rates and for times.
    is_rate = benchmark["unit"].endswith("/s")
    benchmark["ratio"] = benchmark["value"] / value if is_rate else value / benchmark["value"]


OPENING = """
import sys, time, kvtide_analysis, xarray
begin = time.process_time(); opened = kvtide_analysis.open_results(sys.argv[1]); middle = time.process_time()
assert len(xarray.open_dataset(sys.argv[1], group="summary", engine="h5netcdf").load()["run"]) == len(opened)
print(middle - begin, time.process_time() - middle)
"""


def opening_benchmarks(path):
    """Processor seconds of a long results file's summary in Python: kvtide_analysis (pandas), and xarray alone."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE / "analysis")}
    done = subprocess.run([SYSTEM_PYTHON, "-c", OPENING, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env=env)
    if done.returncode != 0:
        say("kvtide bench: Python cannot open the summary:", (done.stderr.strip().splitlines() or ["failed"])[-1])
        return []
    return [{"name": f"experiment_open_summary/10000/{name}", "value": 1e3 * float(seconds), "unit": "ms", "reference": None, "ratio": None,
             "tier": None, "work": "summary of 10,000 runs read", "allocations": None, "reference_name": None}
            for name, seconds in zip(("kvtide_analysis", "xarray"), done.stdout.split())]


def child_seconds(command, **options):
    """Processor seconds of a child and its children; None when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def numpy_rate():
    """Evaluations a processor second of the plain NumPy program on one thread, its imports not counted."""
    if not NUMPY_PROGRAM.exists():
        return None
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    env = {**os.environ, **threads}
    imports = child_seconds([SYSTEM_PYTHON, "-c", "import h5py, numpy"], env=env)
    if imports is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        whole = child_seconds([SYSTEM_PYTHON, str(NUMPY_PROGRAM), str(pathlib.Path(folder) / "out.h5")], env=env)
    return None if whole is None else NUMPY_EVALUATIONS / (whole - imports)


def simpy_models():
    """The engine's models in SimPy, by benchmark name; {} where it cannot be installed."""
    command = [SYSTEM_PYTHON, str(SOURCE / "sim" / "engine" / "simpy_reference.py"), "--repeats", "3"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        say("kvtide bench: no SimPy to compare with:", (done.stderr.strip().splitlines() or ["failed"])[-1])
        return {}
    document = json.loads(done.stdout)
    return {name: dict(model["simpy"], version=document["simpy"]) for name, model in document["models"].items()}


def peer_seconds():
    """(source, CPU seconds by benchmark): the peer measured now where its Python is given, else as recorded."""
    recorded = {}
    if PEER_SPEED.exists():
        for press, _, what, _, cpu in (line.split(",") for line in PEER_SPEED.read_text().splitlines()[1:]):
            if what == "compress_only_30_layers":
                recorded[f"policies/{press}"] = float(cpu)
            elif what == "attention_matrix_per_layer":
                recorded[f"policies/{press}"] = 30 * float(cpu)
            elif what == "prefill_included" and press == "SnapKV":
                recorded[PEER_EVALUATION] = float(cpu)
    python = os.environ.get("KVTIDE_KVPRESS_PYTHON")
    if not python:
        return "kvpress, recorded", recorded
    command = [python, str(SOURCE / "cmake" / "kvpress_speed.py"), *map(str, PEER_TRACES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        say("kvtide bench: kvpress cannot be measured:", (done.stderr.strip().splitlines() or ["failed"])[-1])
        return "kvpress, recorded", recorded
    document = json.loads(done.stdout)
    for press, why in document["failed"].items():
        say(f"kvtide bench: kvpress {press}: {why}")
    # A whole evaluation repeats the prefill, which is not measured here.
    now = {f"policies/{press}": seconds for press, seconds in document["seconds"].items()}
    return f"kvpress {document['kvpress']}, this run", {**recorded, **now}


def hold_against_peer(benchmarks):
    source, seconds = peer_seconds()
    for name, one in benchmarks.items():
        if name in seconds:
            set_reference(one, source, seconds[name] * {"ms": 1e3, "us": 1e6, "ns": 1e9}[one["unit"]])


def check_simpy(name, row, simpy):
    """Both sides must have simulated the same; a counter is a double, so the check sum comes in two halves."""
    ours = {"events": int(row["events"]), "end_ps": int(row["end_ps"]),
            "check": (int(row["check_high"]) << 32) + int(row["check_low"])}
    different = [f"{key} {value} against {simpy[key]}" for key, value in ours.items() if value != simpy[key]]
    if different:
        say(f"kvtide bench: {name} and SimPy disagree: {', '.join(different)}")
    return not different


def cmake_cache(build, key):
    cache = build / "CMakeCache.txt"
    found = re.search(rf"^{key}:\w+=(.*)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return found.group(1) if found else None


def machine(context, build):
    cpu = platform.processor() or platform.machine()
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.*)$", info.read_text(), re.MULTILINE)
        cpu = found.group(1) if found else cpu
    compiler = cmake_cache(build, "CMAKE_CXX_COMPILER")
    version = subprocess.run([compiler, "-dumpfullversion"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             check=False).stdout.strip() if compiler else ""
    return {"cpu": cpu, "cores": context["num_cpus"], "mhz": context["mhz_per_cpu"],
            "load_average": context.get("load_avg", []), "system": f"{platform.system()} {platform.machine()}",
            "compiler": f"{pathlib.Path(compiler).name} {version}".strip() if compiler else None,
            "build_type": cmake_cache(build, "CMAKE_BUILD_TYPE")}


def quantity(value, unit):
    if value is None:
        return "-"
    if not unit.endswith("/s"):
        return f"{value:.4g} {unit}"
    for scale, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.3g} {letter}{unit.removeprefix('1')}"
    return f"{value:.3g} {unit.removeprefix('1')}"


def print_table(benchmarks, has_baseline):
    rows = [["benchmark", "value", "of", "allocations", "reference", "ratio", "held against"] + ["to baseline"] * has_baseline]
    for one in benchmarks:
        ratio = "-" if one["ratio"] is None else f"{one['ratio']:.3g}x"
        allocations = "" if one["allocations"] is None else f"{one['allocations']:.2g}"
        row = [one["name"], quantity(one["value"], one["unit"]), one["work"], allocations, quantity(one["reference"], one["unit"]),
               ratio, one["reference_name"] or ""]
        if has_baseline:
            row.append("new" if one["baseline_ratio"] is None else f"{one['baseline_ratio']:.2f}x")
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def read_baseline(path):
    """Value and unit by name, of a kept baseline or of what `--json` printed. Raises SystemExit where it is neither."""
    try:
        rows = json.loads(path.read_text())["benchmarks"]
        named = rows.items() if isinstance(rows, dict) else ((row["name"], row) for row in rows)
        return {str(name): {"value": float(row["value"]), "unit": str(row["unit"])} for name, row in named}
    except OSError as error:
        say(f"kvtide bench: {path}: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError):
        say(f"kvtide bench: {path}: expected what `kvtide bench --json` prints: {{\"benchmarks\": [{{name, value, unit}}]}}")
    raise SystemExit(2)


def keep(benchmarks, path):
    """Other rooms' benchmarks stay as they were kept."""
    kept = read_baseline(path) if path.exists() else {}
    kept.update({one["name"]: {"value": one["value"], "unit": one["unit"]} for one in benchmarks})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmarks": kept}, indent=1) + "\n")
    say(f"kvtide bench: kept as the baseline in {path}")


def compare(benchmarks, kept):
    """Adds `baseline_ratio`, above 1 where this run is better; None for what the baseline lacks or counts otherwise."""
    for one in benchmarks:
        old = kept.get(one["name"])
        one["baseline_ratio"] = None
        if old and old["unit"] == one["unit"] and old["value"] > 0 and one["value"] > 0:
            ratio = one["value"] / old["value"]
            one["baseline_ratio"] = ratio if one["unit"].endswith("/s") else 1 / ratio


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog="kvtide bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("room", nargs="?", choices=ROOMS, metavar="ROOM", help=f"one of {', '.join(ROOMS)}; all by default")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--compare", nargs="?", const="", metavar="BASE",
                        help="against the kept baseline, or against a file that --json printed")
    parser.add_argument("--keep", action="store_true", help="keep this run as the baseline")
    parser.add_argument("--seconds", type=float, default=0.2, help="least time a repetition (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions, of which the fastest counts (default %(default)s)")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build" / "release", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.compare in ROOMS and arguments.room is None:  # kvtide bench --compare kv
        arguments.room, arguments.compare = arguments.compare, ""
    return arguments


def main():
    arguments = parse_arguments(sys.argv[1:])
    baseline = SOURCE / "build" / "bench-baseline.json"
    chosen = pathlib.Path(arguments.compare) if arguments.compare else baseline
    # Read before the minutes of measuring, so that a wrong name is told at once.
    kept = read_baseline(chosen) if arguments.compare or (arguments.compare is not None and chosen.exists()) else None
    program = arguments.build / "sim" / "kvtide-bench"
    if not program.exists():
        say(f"kvtide bench: {program} is missing; build the target kvtide-bench")
        return 3
    say("kvtide bench: C++ benchmarks")
    with tempfile.TemporaryDirectory() as folder:
        summary = os.environ["KVTIDE_BENCH_RESULTS"] = str(pathlib.Path(folder) / "summary.h5")
        context, rows = run_cpp(program, arguments.room, arguments.seconds, arguments.repeats)
        benchmarks = {name: as_benchmark(name, row) for name, row in rows.items()}
        if os.path.exists(summary):
            benchmarks |= {one["name"]: one for one in opening_benchmarks(summary)}
    if not benchmarks:
        say(f"kvtide bench: no benchmark of {arguments.room}")
        return 1
    for name, one in benchmarks.items():
        for pattern, template in REFERENCES:
            found = pattern.fullmatch(name)
            other = benchmarks.get(found.expand(template)) if found else None
            if other is not None:
                set_reference(one, other["name"], other["value"])
    agrees = True
    if arguments.room in (None, "engine"):
        say("kvtide bench: SimPy")
        for name, simpy in simpy_models().items():
            if name in benchmarks:
                set_reference(benchmarks[name], f"SimPy {simpy['version']}", simpy["events_per_s"])
                agrees = check_simpy(name, rows[name], simpy) and agrees
    if arguments.room in (None, "policies"):
        say("kvtide bench: kvpress")
        hold_against_peer(benchmarks)
    if NUMPY_NAME in benchmarks:
        say("kvtide bench: NumPy")
        rate = numpy_rate()
        if rate is not None:
            for name in ("loss_prefix_scan/by_runs", "loss_prefix_scan/by_caches"):
                set_reference(benchmarks[name], "NumPy, one thread", rate)

    benchmarks = list(benchmarks.values())
    if kept is not None:
        compare(benchmarks, kept)
    if arguments.keep or ((arguments.json or arguments.compare == "") and not baseline.exists()):
        keep(benchmarks, baseline)
    if arguments.json:
        print(json.dumps({"benchmarks": benchmarks, "machine": machine(context, arguments.build)}, indent=2))
    else:
        print_table(benchmarks, kept is not None)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
