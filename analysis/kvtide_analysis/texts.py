"""Made-up texts of several kinds and facts to hide in them: what a scan of a real model or a live server asks about.

A text is a list of pieces (sentences, turns, lines) that join to one string; a probe is one or more pieces that say something nobody can
know otherwise, the question that asks for it, the words the answer begins with (so that its tokens come next) and the answer. Every choice
follows
from the seed: the same kind and seed give the same text on every machine.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

NOUNS = ("amber", "copper", "river", "granite", "willow", "harbour", "falcon", "cedar", "lantern", "meadow")
PLACES = ("mill", "library", "clinic", "orchard", "bakery", "archive", "theatre", "forge", "stable", "bridge")
PEOPLE = ("Maria Voss", "Oscar Hale", "Elsa Brandt", "Samuel Reed", "Nora Quinn", "Peter Lang", "Anna Holt", "Victor Stone")
THINGS = ("roof", "ledger", "crane", "cellar", "timetable", "lamp", "gate", "scale", "bench", "map")
GOODS = ("oak planks", "flour sacks", "iron nails", "sea salt", "paper rolls", "copper wire", "roof tiles", "candles")
MONTHS = ("January", "March", "April", "May", "July", "September", "October", "November")
WORDS = ("Lighthouse", "Marigold", "Thunder", "Sparrow", "Velvet", "Orchid", "Compass", "Saffron")


def _report(draw: random.Random) -> str:
    return draw.choice((
        f"In {draw.choice(MONTHS)} the {draw.choice(PLACES)} received {draw.randint(10, 99)} crates of {draw.choice(GOODS)}, and "
        f"{draw.choice(PEOPLE)} signed for them. ",
        f"{draw.choice(PEOPLE)} inspected the {draw.choice(PLACES)} twice and found the {draw.choice(THINGS)} in fair order. ",
        f"The committee spent {draw.randint(100, 990)} crowns on {draw.choice(GOODS)} because the older stock had been sold.\n",
        f"Nobody at the {draw.choice(PLACES)} could say why the {draw.choice(THINGS)} had been moved. ",
        f"It was agreed that {draw.choice(PEOPLE)} would repair the {draw.choice(THINGS)} before the end of {draw.choice(MONTHS)}. ",
    ))


def _dialogue(draw: random.Random) -> str:
    return f"{draw.choice(PEOPLE).split()[0]}: " + draw.choice((
        f"Did anyone look at the {draw.choice(THINGS)} in the {draw.choice(PLACES)}?",
        f"Yes, I was there on the {draw.randint(2, 28)}th, and it was closed.",
        f"I think we should order more {draw.choice(GOODS)} before {draw.choice(MONTHS)}.",
        f"{draw.choice(PEOPLE)} told me the same thing yesterday.",
        f"Fine, but who pays for the {draw.choice(GOODS)}? We have {draw.randint(100, 900)} crowns left.",
    )) + "\n"


def _code(draw: random.Random) -> str:
    thing, place = draw.choice(THINGS), draw.choice(PLACES)
    return draw.choice((
        f"def move_{thing}(count, limit={draw.randint(2, 90)}):\n    return min(count, limit) * {draw.randint(2, 9)}\n\n",
        f"{thing}_total = sum(row['{place}'] for row in {thing}_rows if row['year'] > {draw.randint(1950, 2020)})\n",
        f"for {thing} in {place}.items():\n    if {thing}.weight >= {draw.randint(10, 99)}:\n        {thing}.ship()\n\n",
        f"# The {place} keeps its {draw.choice(GOODS)} in another table.\n",
        f"assert len({place}) == {draw.randint(2, 64)}, 'the {thing} is missing'\n",
    ))


def _table(draw: random.Random) -> str:
    return (f"| {draw.choice(PLACES)} | {draw.choice(MONTHS)} | {draw.choice(GOODS)} | {draw.randint(10, 999)} | "
            f"{draw.choice(PEOPLE)} |\n")


def _log(draw: random.Random) -> str:
    return (f"{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d} {draw.choice(('INFO', 'WARN', 'DEBUG'))} {draw.choice(PLACES)}: "
            f"{draw.choice(THINGS)} {draw.choice(('opened', 'closed', 'moved', 'checked'))} by {draw.choice(PEOPLE).split()[1].lower()}\n")


KINDS = {"report": _report, "dialogue": _dialogue, "code": _code, "table": _table, "log": _log}


def pieces(kind: str, seed: int) -> Iterator[str]:
    """Without end; no two neighbours are equal."""
    draw, last = random.Random(f"kvtide text {kind} {seed}"), ""
    while True:
        piece = KINDS[kind](draw)
        if piece != last:
            yield piece
            last = piece


@dataclasses.dataclass(frozen=True)
class Probe:
    kind: str
    facts: tuple[str, ...]  # pieces for the text; the first holds the answer
    question: str
    lead: str  # what the answer begins with
    answer: str
    control: str  # stands in the first fact's place when the fact is removed

    def answer_at(self) -> int:
        """Character of the first fact at which the answer begins."""
        return self.facts[0].index(self.answer)


def _factual(draw: random.Random) -> Probe:
    noun, code = draw.choice(NOUNS), f"{draw.randint(1000, 9999)}"
    lead = f"The access code for the {noun} station is "
    return Probe("factual", (f"\n{lead}{code}.\n",), f"What is the access code for the {noun} station?", lead, code,
                 f"\nThe access code for the {noun} station is not known.\n")


def _keyword(draw: random.Random) -> Probe:
    noun, word = draw.choice(NOUNS), draw.choice(WORDS)
    lead = f"The password of the {noun} office is"
    return Probe("keyword", (f"\n{lead} {word}.\n",), f"What is the password of the {noun} office?", lead, f" {word}",
                 f"\nThe password of the {noun} office is not written down.\n")


def _coreference(draw: random.Random) -> Probe:
    noun, code = draw.choice(NOUNS), f"{draw.randint(1000, 9999)}"
    return Probe("coreference", (f"\nThe {noun} station was rebuilt in {draw.choice(MONTHS)}. Its access code is {code}.\n",),
                 f"What is the access code of the {noun} station?", f"The access code of the {noun} station is ", code,
                 f"\nThe {noun} station was rebuilt in {draw.choice(MONTHS)}. Its access code is not known.\n")


def _reasoning(draw: random.Random) -> Probe:
    first, second, other = draw.sample(NOUNS, 3)
    codes = draw.sample(range(1000, 9999), 2)
    return Probe("reasoning", (f"\nThe access code for the {first} station is {codes[0]}.\n",
                               f"\n{draw.choice(PEOPLE)} works at the {first} station. "
                               f"The access code for the {other} station is {codes[1]}.\n"),
                 f"What is the access code for the {first} station, where the {second} key is kept?",
                 f"The access code for the {first} station is ", str(codes[0]),
                 f"\nThe access code for the {first} station is not known.\n")


def _multi_needle(draw: random.Random) -> Probe:
    nouns = draw.sample(NOUNS, 3)
    codes = draw.sample(range(1000, 9999), 3)
    facts = tuple(f"\nThe access code for the {noun} station is {code}.\n" for noun, code in zip(nouns, codes))
    return Probe("multi_needle", facts, f"What is the access code for the {nouns[0]} station?",
                 f"The access code for the {nouns[0]} station is ", str(codes[0]),
                 f"\nThe access code for the {nouns[0]} station is not known.\n")


PROBES = {"factual": _factual, "keyword": _keyword, "coreference": _coreference, "reasoning": _reasoning, "multi_needle": _multi_needle}


def probe(kind: str, seed: int) -> Probe:
    return PROBES[kind](random.Random(f"kvtide probe {kind} {seed}"))
