"""kvtide diagnose from outside: somebody's own scan in, period, danger, gates and monitor file out."""

import json
import random

import pytest

from tested_program import kvtide


def diagnose(*arguments):
    return kvtide("diagnose", *arguments)


def scan(path, rows, header="prefix_tokens,correct"):
    path.write_text(header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def dips(path, period=64, width=10, last=512, step=2):
    """Wrong where the prefix length's residue is below `width`."""
    return scan(path, [(at, int(at % period >= width)) for at in range(0, last, step)])


def test_period_danger_and_padding_of_a_clean_scan(tmp_path):
    done = diagnose(dips(tmp_path / "s.csv"), "--json", "--model", "llama-3.1-8b", "--current", 6)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["period"]["kind"] == "level"  # 8 cycles
    assert found["period"]["period"] == 64
    assert found["period"]["block_sizes"] == [64, 32, 16]
    assert found["danger"]["intervals"] == [{"begin": 0, "end": 10}]
    assert found["danger"]["share"] == pytest.approx(10 / 64)
    pad = {one["name"]: one for one in found["mitigations"]}["pad out of danger"]
    assert pad["mean_units"] == pytest.approx(55 / 64)  # 10 + 9 + .. + 1 over 64 residues
    assert pad["mean_bytes"] == pytest.approx(55 / 64 * 131072)  # 2 * 32 * 8 * 128 * 2 B a token
    text = diagnose(tmp_path / "s.csv").stdout
    assert "64 tokens" in text and "likely cause" in text and "Worth trying" in text


def test_the_text_tells_a_harmonic_and_nothing_of_other_models(tmp_path):
    # A quarter of each period is lost: waves of 32 / k tokens have strengths sin(k pi / 4) / k = 0.71, 0.5, 0.24; whitening,
    # which takes slow waves away, leaves the second strongest.
    text = diagnose(dips(tmp_path / "h.csv", period=32, width=8)).stdout
    assert "period      32 tokens" in text
    assert "harmonic 2 of the period" in text
    assert "135M" not in text


def test_uneven_noisy_repeated_scan_in_characters(tmp_path):
    # 128 tokens of 4 characters: period 512 characters; 10 % of the answers wrong anyway, places at random.
    draw = random.Random(7)
    places = sorted(draw.sample(range(5120), 200))
    rows = []
    for at in places:
        for repeat in range(3):
            wrong = at % 512 < 128 or draw.random() < 0.1
            rows.append((at, repeat, int(not wrong), at // 4 + 900))
    found = json.loads(diagnose(scan(tmp_path / "c.csv", rows, "prefix_chars,repeat,correct,tokens"), "--json").stdout)
    assert found["unit"] == "characters"
    assert found["repeats"] == 3
    assert found["period"]["period"] == pytest.approx(512, abs=8)
    assert found["tokens_per_unit"] == pytest.approx(0.25, rel=0.01)
    assert found["period"]["block_sizes"][0] == pytest.approx(128, abs=2)


def test_gates_exit_1_on_either_side(tmp_path):
    path = dips(tmp_path / "s.csv")
    assert diagnose(path, "--fail-above", 1).returncode == 0  # the worst loss is 1
    shut = diagnose(path, "--fail-above", 0.99)
    assert shut.returncode == 1 and "worst loss" in shut.stderr
    once = diagnose(path, "--min-stability", 0.5)
    assert once.returncode == 2 and "repeat each place" in once.stderr
    assert json.loads(diagnose(path, "--json").stdout)["cost"]["stability"] is None
    rows = [(at, int(at % 64 >= 10)) for at in range(0, 512, 2)]
    twice = scan(tmp_path / "twice.csv", rows + rows)
    assert diagnose(twice, "--min-stability", 0).returncode == 0
    assert diagnose(twice, "--min-stability", 0.5).returncode == 1
    perfect = dips(tmp_path / "p.csv", width=0)
    assert diagnose(perfect, "--min-stability", 1, "--fail-above", 0).returncode == 0


def test_comparison_judges_an_upgrade(tmp_path):
    before, after = dips(tmp_path / "b.csv", width=2), dips(tmp_path / "a.csv", period=128, width=40)
    done = diagnose("--compare", before, after, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["comparison"]["verdict"] == "worse"
    assert found["after"]["period"]["period"] == 128
    assert diagnose("--compare", before, after, "--fail-if-worse").returncode == 1
    assert diagnose("--compare", after, before, "--fail-if-worse").returncode == 0
    assert "another block size" in diagnose("--compare", before, after).stdout


def test_monitor_file_is_open_metrics(tmp_path):
    out = tmp_path / "kv.prom"
    assert diagnose(dips(tmp_path / "night.csv"), "--openmetrics", out).returncode == 0
    text = out.read_text()
    assert text.endswith("# EOF\n")
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert samples['kvtide_scan_period_tokens{scan="night",axis="prefix_tokens",measure="correct"}'] == "64"
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {family.name for family in parser.text_string_to_metric_families(text)}
    assert "kvtide_scan_stability" in families
    assert diagnose(tmp_path / "night.csv", "--openmetrics", tmp_path / "no" / "kv.prom").returncode == 3


@pytest.mark.parametrize(
    "text, words",
    [
        ("", ["empty"]),
        ("prefix_tokens,correct\n", ["no rows"]),
        ("place,correct\n1,1\n", [":1:", "prefix_tokens"]),
        ("prefix_tokens,correct\n1,1\n2\n", [":3:", "1 cells"]),
        ("prefix_tokens,correct\n1,maybe\n", [":2:", "correct", "maybe"]),
        ("prefix_tokens,correct\n1e99,1\n", [":2:", "prefix_tokens"]),
        ("prefix_tokens,correct\n\x00,1\n", [":2:", "prefix_tokens"]),
    ],
)
def test_bad_files_exit_2_with_the_place(tmp_path, text, words):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    done = diagnose(path)
    assert done.returncode == 2
    assert done.stdout == ""
    for word in [str(path), *words]:
        assert word in done.stderr


def test_wrong_usage_exits_2(tmp_path):
    path = dips(tmp_path / "s.csv")
    assert diagnose("nowhere.csv").returncode == 2
    assert diagnose(path, path).returncode == 2
    assert diagnose("--compare", path).returncode == 2
    assert diagnose(path, "--min-stability", "2").returncode == 2
    assert diagnose(path, "--fail-if-worse").returncode == 2


def test_short_scan_says_how_much_more(tmp_path):
    found = json.loads(diagnose(dips(tmp_path / "s.csv", last=16), "--json").stdout)
    assert found["period"]["kind"] == "none"
    assert found["period"]["period"] is None
    assert found["period"]["further_points"] > 0
    assert "not enough data" in found["period"]["certainty"]
