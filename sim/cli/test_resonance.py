"""kvtide show resonance from outside."""

import json

import pytest

from tested_program import kvtide


def resonance(*arguments):
    return kvtide("show", "resonance", *arguments)


def test_llama_2_resonates_with_blocks_of_64():
    # theta 1e4, 128 channels: pair 16 turns in 20 pi = 62.83 tokens; 64 / (64 / 62.83 - 1) = 3,442.
    done = resonance("--model", "llama-2-7b", "--block-sizes", "16,64", "--json")
    assert done.returncode == 0, done.stderr
    narrow, wide = json.loads(done.stdout)["spectra"][0]["blocks"]
    assert wide["pair"] == 16
    assert wide["beat_tokens"] == pytest.approx(3442, abs=1)
    assert wide["resonates"] and not narrow["resonates"]


def test_two_kinds_of_layers_have_two_spectra():
    spectra = json.loads(resonance("--model", "gemma-3-4b", "--json").stdout)["spectra"]
    assert [one["layers"] for one in spectra] == ["full layers", "sliding layers"]
    assert spectra[0]["wavelengths"][0] == pytest.approx(8 * spectra[1]["wavelengths"][0])  # linear scaling by 8


@pytest.mark.parametrize("arguments, word", [([], "--model"), (["--model", "gpt-2-xl"], "no rotary positions"),
                                             (["--model", "llama-2-7b", "--block-sizes", "64,,3"], "64,,3"),
                                             (["--model", "llama-2-7b", "--block-sizes", "1"], "2..65536"),
                                             (["--model", "llama-9"], "llama-")])
def test_wrong_questions_exit_2(arguments, word):
    done = resonance(*arguments)
    assert done.returncode == 2
    assert word in done.stderr
