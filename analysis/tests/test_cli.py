"""One command line for every command, and what each needs."""

import os
import pathlib
import subprocess
import sys

import pytest
from kvtide_analysis import cli

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
COMMANDS = ("report", "plot", "validation", "reference", "proof", "gallery", "trust", "spread", "check", "capture", "scan-model", "scan-endpoint")


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


# A module that is None in sys.modules cannot be imported.
@pytest.mark.parametrize("words", [["--help"], ["scan-model", "--help"], ["scan-endpoint", "http://127.0.0.1:9", "--model", "m", "--retries", "0", "-o", "scan.csv"]])
def test_asking_a_server_needs_nothing_but_python(words, tmp_path):
    code = ("import sys\nfor name in ('numpy', 'h5py', 'pandas', 'xarray', 'matplotlib', 'yaml', 'scipy'): sys.modules[name] = None\n"
            "from kvtide_analysis.cli import main\nsys.exit(main())")
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    if "--help" in words:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 3 and "Connection refused" in done.stderr
