"""The scan of a live server: which prompts are asked, and the CSV for `kvtide diagnose`."""

from __future__ import annotations

from dataclasses import dataclass

from . import texts
from .endpoint import Endpoint, score, written
from .exit_codes import InputError
from .output_file import write_whole
from .scan_options import chosen
from .scan_rows import ScanRows, csv_bytes


@dataclass(frozen=True)
class Place:
    """One prompt: a fact behind `before` characters of the text, `prefix` characters in front of that."""

    text: str
    probe: texts.Probe
    before: int
    prefix: int

    def prompt(self, options, control: bool = False) -> str:
        return written(self.probe, self.text, options.seed, options.characters, self.before, self.prefix, control)

    @property
    def kind(self) -> str:
        return f"{self.text}/{self.probe.kind}"


def scan_endpoint(server: Endpoint, uncompressed: Endpoint | None, options) -> int:
    """Rows written. Every row is on disk when its answer is known; the output appears when all are."""
    if options.chat and options.measure == "logprob":
        raise InputError("--measure logprob needs /v1/completions: leave out --chat")
    axis = "position" if options.scan == "position" else "prefix_chars"
    columns = [axis, options.measure, "repeat", "probe_type", "tokens", "latency_ms"]
    columns += ["baseline"] if uncompressed else []
    columns += ["control"] if options.control else []
    places = _places(options)
    same = ("model", "scan", "seed", "characters", "start", "chat", "measure", "characters_per_token")
    with ScanRows(options.output, columns, {**{name: getattr(options, name) for name in same}, "columns": columns}, options.resume) as rows:
        densities: dict[tuple, float] = {}
        planned = [(place, repeat, f"{place.kind} {place.before} {place.prefix} {repeat}")
                   for place in places for repeat in range(options.repeat)]
        for place, repeat, key in planned:
            if key in rows.rows:
                continue
            prompt = place.prompt(options)
            at = place.prefix
            if axis == "position":
                if place.kind not in densities:
                    densities[place.kind] = _tokens_per_character(server, place, options)
                at = round(place.before * densities[place.kind])
            value, tokens = _measure(server, prompt, place.probe, options.measure)
            row = {axis: at, options.measure: f"{value:.6g}", "repeat": repeat, "probe_type": place.kind,
                   "latency_ms": f"{1000 * server.seconds:.3f}", "tokens": "" if tokens is None else tokens}
            if uncompressed:
                row["baseline"] = f"{_measure(uncompressed, prompt, place.probe, options.measure)[0]:.6g}"
            if options.control:
                row["control"] = f"{_measure(server, place.prompt(options, control=True), place.probe, options.measure)[0]:.6g}"
            rows.add(key, row)
        write_whole(options.output, csv_bytes(columns, [rows.rows[key] for _, _, key in planned]))
        rows.complete()
    return len(planned)


def _places(options) -> list[Place]:
    """All of them, so that one that cannot be is said before anything is asked."""
    places = []
    for text in chosen(options.text, texts.KINDS, "text"):
        for kind in chosen(options.probe, texts.PROBES, "probe"):
            probe = texts.probe(kind, options.seed)
            room = options.characters - sum(map(len, probe.facts))
            for step in range(options.count):
                moved = options.start + step * options.step if options.scan == "position" else options.start
                if not 0 <= moved <= room:
                    raise InputError(f"the fact cannot begin at character {moved} of {options.characters}: at most {room}")
                places.append(Place(text, probe, moved, 0 if options.scan == "position" else step * options.step))
    return places


def _measure(server: Endpoint, prompt: str, probe: texts.Probe, measure: str) -> tuple[float, int | None]:
    if measure == "logprob":
        lead = probe.lead if probe.lead.endswith(" ") or probe.answer.startswith(" ") else probe.lead + " "
        value = server.logprob(prompt + lead, probe.answer)
        if value is None:
            raise InputError(f"{server.url} does not repeat the prompt with log-probabilities (echo): use --measure score or correct")
        return min(value, 0.0), None
    text, tokens = server.ask(prompt, probe.lead, max(16, 2 * len(probe.answer)))
    value = score(text, probe.answer)
    return (value if measure == "score" else float(value == 1)), tokens


def _tokens_per_character(server: Endpoint, place: Place, options) -> float:
    """Of the text alone: the server counts a template, a question and a <s> too, which are the same with and without the text.

    Example: 1,073 tokens for 4,052 characters, 73 for 52: (1,073 - 73) / (4,052 - 52) = 0.25.
    """
    if options.characters_per_token:
        return 1 / options.characters_per_token
    bare = written(place.probe, place.text, options.seed, sum(map(len, place.probe.facts)), 0, 0)
    prompts = (place.prompt(options), bare)
    counted = [server.ask(prompt, place.probe.lead, 1)[1] for prompt in prompts]
    if None in counted:
        raise InputError("the server does not tell the prompt's length in tokens: give --characters-per-token")
    characters, tokens = len(prompts[0]) - len(bare), counted[0] - counted[1]
    if tokens <= 0:
        raise InputError(f"the server counts {counted[0]} tokens for {len(prompts[0])} characters and {counted[1]} for {len(bare)}: give "
                         "--characters-per-token")
    return tokens / characters
