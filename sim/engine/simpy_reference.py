#!/usr/bin/env python3
"""The three models of reference_models.h in SimPy, and the comparison of both in one run.

    simpy_reference.py                                          prints SimPy's figures as JSON
    simpy_reference.py --bench build/release/sim/kvtide-bench   runs the C++ benchmark too and adds the ratios

SimPy 4.1.2 comes from PyPI into a virtual environment (--venv, by default build/venv of this source tree) when it is not there.
Both sides run the same models with the same delays; `check` and `end_ps` must agree to the picosecond (exit 1 if not).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

SIMPY = "simpy==4.1.2"
MASK = 2**64 - 1
NUM_DELAYS = 4096


def mix64(x):
    """SplitMix64's finaliser as in base/random.h."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


DELAYS = [1 + mix64(i) % 1_000_000_000 for i in range(NUM_DELAYS)]


def delays_of(process, count):
    """The first `count` delays of a process, drawn before the clock of the measurement starts."""
    return [DELAYS[(process * 37 + draw) % NUM_DELAYS] for draw in range(count)]


class Outcome:
    """What a model adds up while it runs; the C++ side calls it the same."""

    def __init__(self):
        self.check = 0


def prepare_timeouts(simpy, num_processes, num_rounds):
    env, outcome = simpy.Environment(), Outcome()

    def time_out(delays):
        for delay in delays:
            yield env.timeout(delay)
        outcome.check += env.now

    for process in range(num_processes):
        env.process(time_out(delays_of(process, num_rounds)))
    return env, outcome, num_processes * num_rounds


def prepare_resource(simpy, num_processes, capacity, num_rounds):
    env, outcome = simpy.Environment(), Outcome()
    resource = simpy.Resource(env, capacity)

    def contend(delays):
        for draw in range(0, len(delays), 2):
            asked = env.now
            with resource.request() as request:
                yield request
                outcome.check += env.now - asked
                yield env.timeout(delays[draw])
            yield env.timeout(delays[draw + 1])

    for process in range(num_processes):
        env.process(contend(delays_of(process, 2 * num_rounds)))
    return env, outcome, 4 * num_processes * num_rounds


def prepare_store(simpy, num_producers, capacity, num_rounds):
    env, outcome = simpy.Environment(), Outcome()
    store = simpy.Store(env, capacity)

    def produce(process, delays):
        for item, delay in enumerate(delays, process * num_rounds):
            yield store.put(item)
            yield env.timeout(delay)

    def consume(delays):
        for delay in delays:
            item = yield store.get()
            outcome.check += item * env.now
            yield env.timeout(delay)

    for producer in range(num_producers):
        env.process(produce(producer, delays_of(producer, num_rounds)))
        env.process(consume(delays_of(producer + num_producers, num_rounds)))
    return env, outcome, 4 * num_producers * num_rounds


# name of the C++ benchmark: how to prepare the same model here; the sizes are those of engine_bench.cc
MODELS = {
    "engine_timeouts/100": lambda simpy: prepare_timeouts(simpy, 100, 2000),
    "engine_timeouts/1000": lambda simpy: prepare_timeouts(simpy, 1000, 200),
    "engine_resource": lambda simpy: prepare_resource(simpy, 64, 4, 1000),
    "engine_store": lambda simpy: prepare_store(simpy, 16, 8, 4000),
}


def measure(simpy, prepare, repeats):
    """Best of `repeats`: the other programs of the machine can only slow a run down."""
    best = None
    for _ in range(repeats):
        env, outcome, num_events = prepare(simpy)
        begin = time.process_time()
        env.run()
        seconds = time.process_time() - begin
        best = seconds if best is None else min(best, seconds)
    return {"events": num_events, "events_per_s": num_events / best, "end_ps": env.now, "check": outcome.check & MASK}


def run_bench(program, repeats):
    """Best of `repeats` of every engine benchmark, in events a second of processor time, with its figures."""
    command = [program, "--benchmark_filter=^engine_(timeouts|resource|store)", "--benchmark_format=json",
               f"--benchmark_repetitions={repeats}"]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    rates = {}
    for row in answer["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        seen = rates.setdefault(row["run_name"], row)
        if row["items_per_second"] > seen["items_per_second"]:
            rates[row["run_name"]] = row
    return rates


def check_of(row):
    """The 64-bit check sum, which a benchmark counter (a double) carries in two halves."""
    return (int(row["check_high"]) << 32) + int(row["check_low"])


def enter_venv(venv):
    """Goes on in the virtual environment when this Python has no SimPy of the right version."""
    try:
        import simpy  # pylint: disable=import-outside-toplevel

        if f"simpy=={simpy.__version__}" == SIMPY:
            return simpy
    except ImportError:
        pass
    python = venv / "bin" / "python"
    if pathlib.Path(sys.prefix) == venv:
        sys.exit(f"{venv} has another SimPy than {SIMPY}; delete it and run again")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", SIMPY], check=True, stdout=sys.stderr)
    os.execv(str(python), [str(python), *sys.argv])


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", help="path of kvtide-bench, to run it too")
    parser.add_argument("--venv", type=pathlib.Path, default=root / "build" / "venv")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    simpy = enter_venv(arguments.venv.resolve())

    results = {name: {"simpy": measure(simpy, prepare, arguments.repeats)} for name, prepare in MODELS.items()}
    agrees = True
    if arguments.bench:
        ours = run_bench(arguments.bench, arguments.repeats)
        for name, result in results.items():
            theirs, row = result["simpy"], ours[name]
            result["kvtide"] = {"events": int(row["events"]), "events_per_s": row["items_per_second"],
                                "end_ps": int(row["end_ps"]), "check": check_of(row)}
            result["ratio"] = row["items_per_second"] / theirs["events_per_s"]
            result["agrees"] = all(result["kvtide"][key] == theirs[key] for key in ("events", "end_ps", "check"))
            agrees = agrees and result["agrees"]
    print(json.dumps({"simpy": simpy.__version__, "python": sys.version.split()[0], "models": results}, indent=2))
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
