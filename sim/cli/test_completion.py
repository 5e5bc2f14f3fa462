"""Completion scripts, asked the way a shell asks."""

import shutil
import subprocess

import pytest

from tested_program import PROGRAM, kvtide


def completions(*words):
    """What bash offers after the words; the last one is being typed."""
    script = f"""
source <("{PROGRAM}" completion bash)
COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
_kvtide
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_topics_and_options():
    assert "merge" in completions("kvtide", "m")
    assert {"models", "machine"} <= set(completions("kvtide", "show", "m"))
    assert completions("kvtide", "run", "--ou") == ["--output"]
    assert "--shard" in completions("kvtide", "run", "--")
    assert not any("CLAIM" in word for word in completions("kvtide", "claims", ""))  # a placeholder is no word


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(shell):
    script = kvtide("completion", shell).stdout
    assert "kvtide" in script
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script, text=True).returncode == 0


def test_an_unknown_shell_is_refused():
    assert kvtide("completion", "csh").returncode == 2
