"""A prefix scan counted in characters, from the prompt to the file that diagnose reads; no model is run."""

import csv

import numpy as np
import pytest
from kvtide_analysis import capture, cli, model_scan
from test_prompts import Words

BLOCK = 16


class CutFactsFail:
    """Answers wrongly where a boundary of the blocks cuts the four digits, so that the period is the block size in tokens."""

    def __init__(self, model):
        self.prompt = None

    def require(self, prompt):
        pass

    def require_setting(self, setting):
        pass

    def load(self, prompt):
        self.prompt = prompt

    def answer(self, setting):
        is_cut = setting.policy != "full" and self.prompt.answer_start % BLOCK > BLOCK - 4
        return model_scan.Answer(np.full(4, -2.5 if is_cut else -0.01), np.full(4, not is_cut), 0 if is_cut else 4, (1, 2, 3, 4))


@pytest.fixture
def scanned(tmp_path, monkeypatch):
    words = Words()
    monkeypatch.setattr(capture, "load_tokenizer", lambda name: words)
    monkeypatch.setattr(capture, "load_model", lambda name, **options: None)
    monkeypatch.setattr(model_scan, "ModelScan", CutFactsFail)

    def scan(axis):
        out = tmp_path / axis
        assert cli.main(["scan-model", "--scan", "prefix", "--axis", axis, "--tokens", "120", "--start", "40", "--step", "1",
                         "--count", "49",
                          "--block", str(BLOCK), "-o", str(out)]) == 0
        with open(out / f"scan-aware-evict-{BLOCK}-0.5-head.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file)), words
    return scan


def test_characters_are_those_of_the_tokens_in_front(scanned):
    rows, words = scanned("chars")
    at = [int(row["prefix_chars"]) for row in rows]
    assert at[0] == 0 and len(at) == 49
    # A token of this tokenizer is a word, a mark or a digit: the places are uneven, and each step adds one token's characters.
    lengths = {len(word) for word in words.known}
    assert all(step in lengths for step in np.diff(at)) and len(set(np.diff(at))) > 2
    assert [int(row["tokens"]) for row in rows] == list(range(int(rows[0]["tokens"]), int(rows[0]["tokens"]) + 49))


def test_both_axes_tell_of_the_same_answers(scanned):
    in_chars, _ = scanned("chars")
    in_tokens, _ = scanned("tokens")
    assert [int(row["prefix_tokens"]) for row in in_tokens] == list(range(49))
    answers = [row["logprob"] for row in in_tokens]
    assert [row["logprob"] for row in in_chars] == answers
    # Period 16 tokens, three of them bad: digits that begin 13, 14 or 15 tokens into a block.
    wrong = [n for n, value in enumerate(answers) if float(value) < -1]
    assert len(wrong) == 9 and {b - a for a, b in zip(wrong, wrong[3:])} == {BLOCK}


def test_interrupted_scan_is_gone_on_with_and_wrote_over_nothing(scanned, tmp_path, monkeypatch, capsys):
    scanned("tokens")
    out = tmp_path / "tokens"
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    words = ["scan-model", "--scan", "prefix", "--tokens", "120", "--start", "40", "--step", "1", "--count", "49", "--block", str(BLOCK),
             "-o", str(out)]
    (out / "rows.csv").write_text("an earlier scan\n")
    answered = CutFactsFail.answer
    asked = []

    def stopped(self, setting):
        asked.append(self.prompt.key)
        if len(asked) == 2 * 10 + 1:  # full cache and setting of ten places
            raise KeyboardInterrupt
        return answered(self, setting)

    monkeypatch.setattr(CutFactsFail, "answer", stopped)
    assert cli.main(words) == 130
    assert (out / "rows.csv").read_text() == "an earlier scan\n"
    assert "10 rows are kept; --resume" in capsys.readouterr().err
    assert cli.main(words) == 2
    assert cli.main([*words, "--resume"]) == 0
    assert len(asked) == 21 + 2 * 39
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.suffix == ".csv"} == {
        name: content for name, content in whole.items() if name.endswith(".csv")}
