"""One command line for every command, and what each needs."""

import os
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest
from conftest import write_results
from kvtide_analysis import cli

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
COMMANDS = ("report", "plot", "validation", "reference", "proof", "gallery", "trust", "spread", "check", "capture", "scan-model",
            "scan-endpoint")


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(f"    {command}" in told for command in COMMANDS)


@pytest.mark.parametrize("command", [["report"], ["plot", "--what", "pareto"]])
def test_output_is_never_the_input(command, demo_file, tmp_path, capsys):
    held, link = tmp_path / "results.h5", tmp_path / "link.h5"
    held.write_bytes(demo_file.read_bytes())
    link.symlink_to(held)
    assert cli.main([command[0], str(held), *command[1:], "-o", str(link)]) == 2
    assert "is the input itself" in capsys.readouterr().err
    assert held.read_bytes() == demo_file.read_bytes()


def test_page_named_like_a_page_is_not_written_over_it(demo_file, tmp_path):
    held = tmp_path / "results.html"  # the default output's name
    held.write_bytes(demo_file.read_bytes())
    assert cli.main(["report", str(held)]) == 2
    assert held.read_bytes() == demo_file.read_bytes()


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary.csv").write_bytes(b"\x80\x81\n")
    (tmp_path / "empty.csv").write_text("")
    columns = "mode,policy,block,ratio,head_scope,prompt,kind,grid_offset,loss,predicted_loss,failing"
    (tmp_path / "head.csv").write_text(f"{columns}\n")
    (tmp_path / "words.csv").write_text(f"{columns}\naware,evict,64,0.5,head,1,,0,much,1,0\n")
    (tmp_path / "no-scan.csv").write_text(f"{columns}\naware,evict,64,0.5,head,1,,0,1,1,0\n")
    with h5py.File(tmp_path / "no-runs.h5", "w") as file:
        file["summary/loss_worst"] = np.empty(0)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["position/context_ids"] = [[1, 2]]


@pytest.mark.parametrize("words", [
    *(f"{command} {name}.csv" for command in ("proof", "spread") for name in ("nosuch", "binary", "empty", "head", "words")),
                                   "proof no-scan.csv", "proof .",
    *(f"{command} {name} -o out" for command in ("capture", "scan-model") for name in ("nosuch.h5", "binary.csv", "other.h5")),
    *(f"plot no-runs.h5 --what {what}" for what in ("position", "pareto", "remedies")), "plot no-runs.h5 --what heads --run 3",
    "plot nosuch.h5 --what plan", "plot nosuch.json --what kernels", "plot binary.csv --what kernels", "validation nosuch.h5",
                                   "reference nosuch.h5",
    "report nosuch.h5", "trust nosuch", "trust . --page nosuch.md"])
def test_missing_and_damaged_inputs_are_wrong_input(words, inputs, capsys):
    assert cli.main(words.split()) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and told.count("\n") == 1


# 3e9 would need 22 GiB for a fold on it.
def test_period_that_no_profile_holds_is_none(tmp_path):
    path = tmp_path / "small.h5"
    write_results(path, positions=300, blocks=(16,), policies=(("evict-50", 0.5, 0.3, True),))
    with h5py.File(path, "r+") as file:
        file["summary/period"][:] = 3e9
        file["runs/00001/prefix/shift"][-1] = 1 << 60
        file["runs/00001/loss/position"][-1] = 1 << 60
    assert cli.main(["report", str(path), "--quiet"]) == 0


# A module that is None in sys.modules cannot be imported.
@pytest.mark.parametrize("words", [["--help"], ["scan-model", "--help"],
                                   ["scan-endpoint", "http://127.0.0.1:9", "--model", "m", "--retries", "0", "-o", "scan.csv"]])
def test_asking_a_server_needs_nothing_but_python(words, tmp_path):
    code = ("import sys\nfor name in ('numpy', 'h5py', 'pandas', 'xarray', 'matplotlib', 'yaml', 'scipy'): sys.modules[name] = None\n"
            "from kvtide_analysis.cli import main\nsys.exit(main())")
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    if "--help" in words:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 3 and "Connection refused" in done.stderr
