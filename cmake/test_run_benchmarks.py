"""The arithmetic of `kvtide bench`; the benchmarks themselves are not run."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_benchmarks as bench  # noqa: E402  pylint: disable=wrong-import-position


def row(name, unit="1/s", value=10.0):
    return {"name": name, "value": value, "unit": unit, "reference": None, "ratio": None, "allocations": None, "reference_name": None}


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


def test_ratio_to_the_baseline_is_above_one_where_this_run_is_better():
    kept = {"a": {"value": 10.0, "unit": "1/s"}, "b": {"value": 4.0, "unit": "ms"}, "d": {"value": 5.0, "unit": "B/s"}}
    now = [row("a", value=20.0), row("b", "ms", 8.0), row("c"), row("d", "1/s", 5.0), row("a", value=0.0)]
    bench.compare(now, kept)
    # Twice the rate is twice as good, twice the time half as good; c was not kept, d counted bytes, nothing is no rate.
    assert [one["baseline_ratio"] for one in now] == [2.0, 0.5, None, None, None]


def test_keeping_one_room_leaves_the_others_in_the_baseline(tmp_path):
    path = tmp_path / "build" / "baseline.json"
    bench.keep([row("a", value=10.0), row("b", value=1.0)], path)
    bench.keep([row("b", value=2.0)], path)
    kept = bench.read_baseline(path)
    assert (kept["a"]["value"], kept["b"]["value"]) == (10.0, 2.0)


def test_what_json_prints_is_a_baseline(tmp_path):
    path = tmp_path / "printed.json"
    path.write_text(json.dumps({"benchmarks": [row("a", "B/s", 3.0)], "machine": {"cpu": "x"}}))
    assert bench.read_baseline(path) == {"a": {"value": 3.0, "unit": "B/s"}}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmarks": 1}', '{"benchmarks": [{"name": "a"}]}',
                                  '{"benchmarks": {"a": {"value": "fast", "unit": "1/s"}}}', '{"benchmarks": {"a": 1}}'])
def test_what_is_no_baseline_is_a_usage_error_naming_the_file(tmp_path, capsys, text):
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(SystemExit) as raised:
        bench.read_baseline(path)
    assert raised.value.code == 2
    assert str(path) in capsys.readouterr().err


def test_a_missing_baseline_is_told_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench", "--compare", str(tmp_path / "none.json")])
    monkeypatch.setattr(bench, "run_cpp", lambda *_: pytest.fail("measured first"))
    with pytest.raises(SystemExit) as raised:
        bench.main()
    assert raised.value.code == 2
    assert "none.json: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("words, room, compare", [([], None, None), (["kv", "--compare"], "kv", ""), (["--compare", "kv"], "kv", ""),
                                                  (["kv", "--compare", "b.json"], "kv", "b.json"),
                                                  (["--compare", "b.json"], None, "b.json")])
def test_a_room_behind_compare_is_the_room(words, room, compare):
    arguments = bench.parse_arguments(words)
    assert (arguments.room, arguments.compare) == (room, compare)


class Measured:
    """main() with two made-up benchmarks and neither programs nor references."""

    def __init__(self, monkeypatch, folder):
        (folder / "build" / "release" / "sim").mkdir(parents=True)
        (folder / "build" / "release" / "sim" / "kvtide-bench").touch()
        self.monkeypatch, self.folder = monkeypatch, folder
        monkeypatch.setattr(bench, "SOURCE", folder)
        monkeypatch.setattr(bench, "machine", lambda *_: {})

    def run(self, rate, *words):
        rows = {"kv_memcpy": {"bytes_per_second": rate, "cpu_time": 1.0}, "kv_new": {"cpu_time": 2.0, "time_unit": "ms"}}
        self.monkeypatch.setattr(bench, "run_cpp", lambda *_: ({"num_cpus": 1, "mhz_per_cpu": 1}, rows))
        self.monkeypatch.setattr(sys, "argv", ["bench", "kv", "--build", str(self.folder / "build" / "release"), *words])
        return bench.main()


def test_json_keeps_a_baseline_that_compare_reads(tmp_path, monkeypatch, capsys):
    measured = Measured(monkeypatch, tmp_path)
    assert measured.run(4e9, "--json") == 0
    printed = tmp_path / "mine.json"
    printed.write_text(capsys.readouterr().out)
    assert measured.run(6e9, "--json", "--compare") == 0  # does not replace what is kept
    ratios = {one["name"]: one["baseline_ratio"] for one in json.loads(capsys.readouterr().out)["benchmarks"]}
    assert ratios == {"kv_memcpy": 1.5, "kv_new": 1.0}
    for base in ([], [str(printed)]):
        assert measured.run(2e9, "--compare", *base) == 0
        lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
        assert lines["benchmark"].endswith("to baseline")
        assert lines["kv_memcpy"].endswith("0.50x")
        assert lines["kv_new"].endswith("1.00x")


@pytest.mark.parametrize("value, unit, shown", [(None, "1/s", "-"), (999.0, "1/s", "999 /s"), (1000.0, "1/s", "1 k/s"),
                                                (2.5e9, "B/s", "2.5 GB/s"), (12.34, "ms", "12.34 ms")])
def test_quantities_carry_their_prefix(value, unit, shown):
    assert bench.quantity(value, unit) == shown
