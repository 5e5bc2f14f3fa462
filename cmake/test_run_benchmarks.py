"""The arithmetic of `kvtide bench`; the benchmarks themselves are not run."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_benchmarks as bench  # noqa: E402  pylint: disable=wrong-import-position


def row(name, unit="1/s", value=10.0):
    return {"name": name, "value": value, "unit": unit, "reference": None, "ratio": None, "reference_name": None}


@pytest.mark.parametrize("name, room", [("engine_store", "engine"), ("Memory/hbm3/seq", "gpu"), ("kv_memcpy", "kv"),
                                        ("attention_gemm/12", "attention"), ("loss_of_a_run/0", "loss")])
def test_room_is_read_from_the_name(name, room):
    assert bench.room_of(name) == room


def test_ratio_above_one_is_better_for_rates_and_for_times():
    rate, duration = row("a", "1/s", 30.0), row("b", "ms", 30.0)
    bench.set_reference(rate, "other", 10.0)
    bench.set_reference(duration, "other", 10.0)
    assert rate["ratio"] == pytest.approx(3)  # thrice as many a second
    assert duration["ratio"] == pytest.approx(1 / 3)  # thrice as long


def test_what_is_counted_decides_the_unit():
    counted = bench.as_benchmark("kv_compress/pool", {"items_per_second": 5.0, "label": "tokens", "cpu_time": 1.0})
    moved = bench.as_benchmark("kv_memcpy", {"bytes_per_second": 7.0, "cpu_time": 1.0})
    timed = bench.as_benchmark("loss_of_a_run/0", {"cpu_time": 2.0, "time_unit": "ms"})
    assert [(one["value"], one["unit"]) for one in (counted, moved, timed)] == [(5.0, "1/s"), (7.0, "B/s"), (2.0, "ms")]
    assert counted["work"] == "tokens"


def test_reference_patterns_give_their_mean_and_their_worst():
    row = {"geometric_mean_per_s": 6.5e6, "worst_per_s": 2.5e6, "label": "worst: hbm3/random32", "cpu_time": 9.0, "time_unit": "s"}
    one = bench.as_benchmark("Memory/reference_patterns", row)
    assert (one["value"], one["unit"]) == (6.5e6, "1/s")
    assert one["work"] == "32 B requests, geometric mean; worst: hbm3/random32 at 2.5 M/s"


def test_calibrations_are_shares_with_what_others_found():
    share = bench.as_benchmark("statistics_level_power/0/5", {"share_percent": 86.0, "tabulated_percent": 88.0, "label": "200 runs"})
    assert (share["value"], share["unit"], share["reference"], share["reference_name"]) == (86.0, "%", 88.0, "tabulated")
    alone = bench.as_benchmark("statistics_scan_power/32", {"share_percent": 50.0, "label": "100 runs"})
    assert alone["reference"] is None and alone["ratio"] is None


@pytest.mark.parametrize("name, tier", [("Memory/hbm3/seq", "detailed"), ("Memory/tier/sampled_new", "sampled"),
                                        ("Memory/tier/roofline", "roofline"), ("engine_store", None)])
def test_tier_is_that_of_the_memory_model(name, tier):
    assert bench.tier_of(name) == tier


def test_first_comparison_keeps_the_baseline_and_the_next_one_reads_it(tmp_path):
    path = tmp_path / "baseline.json"
    assert not bench.compare([row("a", value=10.0), row("b", "ms", 4.0)], path, keep=False)
    now = [row("a", value=20.0), row("b", "ms", 8.0), row("c")]
    assert bench.compare(now, path, keep=False)
    # Twice the rate is twice as good, twice the time half as good; c was not kept.
    assert [one["baseline_ratio"] for one in now] == [2.0, 0.5, None]
    assert json.loads(path.read_text())["benchmarks"]["a"]["value"] == 10.0


def test_keeping_one_room_leaves_the_others_in_the_baseline(tmp_path):
    path = tmp_path / "baseline.json"
    bench.compare([row("a", value=10.0), row("b", value=1.0)], path, keep=True)
    bench.compare([row("b", value=2.0)], path, keep=True)
    kept = json.loads(path.read_text())["benchmarks"]
    assert (kept["a"]["value"], kept["b"]["value"]) == (10.0, 2.0)


@pytest.mark.parametrize("value, unit, shown", [(None, "1/s", "-"), (999.0, "1/s", "999 /s"), (1000.0, "1/s", "1 k/s"),
                                                (2.5e9, "B/s", "2.5 GB/s"), (12.34, "ms", "12.34 ms")])
def test_quantities_carry_their_prefix(value, unit, shown):
    assert bench.quantity(value, unit) == shown
