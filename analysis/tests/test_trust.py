"""The table of how far to trust it: figures counted by hand, data that are not there named, the page changed between its markers only."""

import json
import stat

import numpy as np
import pytest

from kvtide_analysis import cli, trust
from kvtide_analysis.results import ResultsError


def test_a_part_counts_absolute_median_and_the_range_of_80_percent():
    # Absolute errors 10, 0, 30: median 10. Quantiles of (-10, 0, 30), linear: 0.1 -> -10 + 0.2 * 10 = -8; 0.9 -> 0 + 0.8 * 30 = 24.
    part = trust._part("p", "a", np.array([0.0, -10.0, 30.0]), np.array(["x", "y", "y"]), "b")
    assert (part.rows, part.median, part.low, part.high) == (3, 10, pytest.approx(-8), pytest.approx(24))
    assert part.worst == "y 20 %"  # the median of 10 and 30


def test_parts_without_data_stand_last_and_say_what_is_missing(tmp_path):
    parts = trust.validate("false", tmp_path)
    assert parts and all(part.missing for part in parts)
    shown = trust.table([*parts, trust._part("here", "rows", np.array([1.0]), None, "")])
    assert shown.splitlines()[2].startswith("| here | rows | 1 | 1.0 % |")
    assert f"not checked: no {tmp_path.name}/measured" in shown


def test_a_part_that_cannot_be_checked_leaves_the_others(tmp_path):
    for folder, file in (("measured", "x.csv"), ("e2e", "runs.csv")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("run\n")
    program = tmp_path / "kvtide"
    row = {"run": "a_b", "metric": "ttft_ms", "error_percent": 1.0}
    program.write_text(f"#!/bin/sh\nif [ $2 = measured ]; then echo 'x.csv: a | b' >&2; exit 2; fi\necho '{json.dumps({'runs': [row]})}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    parts = {part.part: part for part in trust.validate(str(program), tmp_path)}
    assert parts["kernel times"].missing == "kvtide validate measured ended with 2: x.csv: a / b"
    assert parts["serving, scheduling rules alone"].rows == 1


def test_a_page_is_changed_between_its_markers_only():
    page = f"before\n{trust.BEGIN}\nold\n{trust.END}\nafter\n"
    assert trust.put_into(page, "new\n") == f"before\n{trust.BEGIN}\nnew\n{trust.END}\nafter\n"
    for wrong in ("no markers", f"{trust.END}\n{trust.BEGIN}", f"{trust.BEGIN}{trust.BEGIN}{trust.END}"):
        with pytest.raises(ResultsError):
            trust.put_into(wrong, "new")


def test_the_command_asks_kvtide_and_writes_table_and_json(tmp_path, capsys):
    # A stand-in for kvtide that answers `validate e2e` as interface.md has it: errors +4 and -2 %.
    (tmp_path / "e2e").mkdir()
    (tmp_path / "e2e/runs.csv").write_text("run\n")
    rows = [{"run": "a_b", "metric": "ttft_ms", "error_percent": error} for error in (4.0, -2.0)]
    program = tmp_path / "kvtide"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({'runs': rows})}\nEND\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    page = tmp_path / "page.md"
    page.write_text(f"{trust.BEGIN}\n{trust.END}\n")
    words = ["trust", str(tmp_path), "--program", str(program), "--page", str(page)]
    assert cli.main(words) == 0
    assert "| serving, step times of the modeled GPU | 1 vLLM runs" in page.read_text()
    assert "3.0 %" in capsys.readouterr().out  # the median of 4 and 2
    assert cli.main([*words, "--json"]) == 0
    assert {part["rows"] for part in json.loads(capsys.readouterr().out)["parts"]} == {0, 2}
    assert cli.main(["trust", str(tmp_path / "nowhere")]) == 2
