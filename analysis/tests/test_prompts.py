"""Made-up texts and prompts as token ids: the same seed gives the same text, a fact stands where it was put."""

import itertools
import re

import numpy as np
import pytest
from kvtide_analysis import texts
from kvtide_analysis.prompts import Prompt, PromptError, Writer, read_prompts, write_prompts


class Words:
    """A fast tokenizer in little: a token is a digit, or a word or mark with the space before it."""
    is_fast = True
    chat_template = None

    def __init__(self):
        self.known = {}

    def __call__(self, text, add_special_tokens=False, return_offsets_mapping=False):
        spans = [found.span() for found in re.finditer(r"\d| ?[A-Za-z_]+| ?[^\w\s]|\s", text)]
        ids = [self.known.setdefault(text[begin:end], len(self.known)) for begin, end in spans]
        return {"input_ids": ids, "offset_mapping": spans} if return_offsets_mapping else {"input_ids": ids}

    def decode(self, ids):
        names = list(self.known)
        return "".join(names[index] for index in ids)


def test_texts_follow_from_their_seed_alone():
    for kind in texts.KINDS:
        first = list(itertools.islice(texts.pieces(kind, 1), 50))
        assert first == list(itertools.islice(texts.pieces(kind, 1), 50))
        assert first != list(itertools.islice(texts.pieces(kind, 2), 50))
        assert all(a != b for a, b in zip(first, first[1:]))


def test_every_probe_says_its_answer_once_and_its_control_never():
    for kind in texts.PROBES:
        for seed in range(20):
            probe = texts.probe(kind, seed)
            assert "".join(probe.facts).count(probe.answer) == 1, (kind, seed)
            assert probe.answer not in probe.control and probe.answer not in probe.question
            assert probe == texts.probe(kind, seed)


@pytest.mark.parametrize("kind", texts.PROBES)
def test_fact_stands_where_it_was_put_and_the_lead_ends_where_the_answer_begins(kind):
    words = Words()
    writer = Writer(words, "report", texts.probe(kind, 5), 5)
    prompt = writer.prompt("position", 40, tokens=300, start=40)
    assert len(prompt.context) == 300
    fact = words(writer.probe.facts[0])["input_ids"]
    assert list(prompt.context[40:40 + len(fact)]) == fact and prompt.fact == (40, len(fact))
    held = prompt.context[prompt.answer_start:prompt.answer_start + len(prompt.answer)]
    assert np.array_equal(held, prompt.answer)
    assert words.decode(prompt.answer).strip() == writer.probe.answer.strip()
    # Lead and answer join to what the fact says.
    asked = words.decode(list(prompt.question) + list(prompt.answer))
    assert asked.endswith(writer.probe.lead.rstrip() + " " + writer.probe.answer.strip())


def test_longer_prefix_changes_nothing_behind_it():
    writer = Writer(Words(), "code", texts.probe("factual", 1), 1)
    plain = writer.prompt("prefix", 0, tokens=200, start=50)
    longer = writer.prompt("prefix", 9, tokens=200, start=50, prefix=9)
    assert np.array_equal(longer.context[9:], plain.context)
    assert longer.answer_start == plain.answer_start + 9
    assert longer.characters > plain.characters


def test_moving_the_fact_moves_nothing_else():
    writer = Writer(Words(), "table", texts.probe("factual", 1), 1)
    here, there = (writer.prompt("position", start, tokens=200, start=start) for start in (50, 58))
    length = len(Words()(writer.probe.facts[0])["input_ids"])
    rest = [np.delete(prompt.context, slice(start, start + length)) for prompt, start in ((here, 50), (there, 58))]
    assert np.array_equal(*rest)


def test_control_keeps_the_question_and_drops_the_answer():
    words = Words()
    writer = Writer(words, "log", texts.probe("factual", 2), 2)
    bare = writer.prompt("position", 60, tokens=200, start=60, control=True)
    assert bare.answer_start == -1 and writer.probe.answer not in words.decode(bare.context)
    assert writer.probe.question in words.decode(bare.question)


def test_fact_beyond_the_text_is_refused():
    writer = Writer(Words(), "log", texts.probe("factual", 2), 2)
    with pytest.raises(PromptError, match="cannot begin at 199"):
        writer.prompt("position", 199, tokens=200, start=199)


def test_prompt_file_gives_back_what_was_written(tmp_path):
    prompts = [Prompt("grid", key, np.arange(10 + key), np.arange(3 + key), np.array([4, 5]), 4, f"log/{key}", fact=(2, 5))
               for key in (0, 2)]
    path = str(tmp_path / "prompts.h5")
    write_prompts(path, prompts, "stub")
    back = read_prompts(path)
    assert list(back) == ["grid:0", "grid:2"]
    for prompt in prompts:
        read = back[prompt.name]
        assert read.kind == prompt.kind and read.answer_start == 4 and read.fact == (2, 5)
        for what in ("context", "question", "answer"):
            assert np.array_equal(getattr(read, what), getattr(prompt, what))
