"""The frame of every HTML page: one file that needs nothing else, neither network nor files beside it."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
from importlib import resources
from string import Template



def assemble(title: str, subtitle: str, verdict: list[str], warnings: str, sections: str, data: dict) -> str:
    """The page as text. warnings, sections: HTML; the rest is escaped here. data: what `assets/report.js` draws:

    fixed  {key: figure} of the whole file, drawn in #plot-<key>
    keys, runs, first  figures of each run, by key and run number, and the run shown first (empty, {}, None: none)
    """
    return Template(_asset("report.html")).substitute(
        title=html.escape(title), subtitle=html.escape(subtitle), css=_asset("report.css"),
        verdict="".join(f"<p>{html.escape(sentence)}</p>" for sentence in verdict), warnings=warnings, sections=sections,
        data=json_text(data), bundle=_bundle(), script=_asset("report.js"))


def frame_bytes() -> int:
    """What a page takes without its content: the plotting library, mostly."""
    return len(_bundle()) + sum(len(_asset(name)) for name in ("report.html", "report.css", "report.js"))


def section(key: str, title: str, content: str) -> str:
    """content: HTML."""
    return f'<section aria-labelledby="{key}-heading"><h2 id="{key}-heading">{html.escape(title)}</h2>{content}</section>'


def plot(key: str, title: str = "") -> str:
    """The place of one figure. With a title it gets a heading of its own, else it is named by that of its section."""
    heading = f'<h3 id="title-{key}">{html.escape(title)}</h3>' if title else ""
    named = f"title-{key}" if title else f"{key}-heading"
    return (f'<figure>{heading}<div class="plot" id="plot-{key}" role="img" aria-labelledby="{named}"></div>'
            f'<figcaption id="caption-{key}" aria-live="polite"></figcaption></figure>')


def table(head: list[tuple[str, bool]], rows: list[str], placeholder: str, extra_controls: str = "") -> str:
    """A table to sort by every column and to filter by words. head: (title, is it text); rows: HTML."""
    cells = "".join(f'<th scope="col"{" class=" + chr(34) + "text" + chr(34) if is_text else ""}>'
                    f'<button type="button">{html.escape(title)}</button></th>'
                    for title, is_text in head)
    return ('<div class="controls"><label>Show rows with '
            f'<input type="search" id="filter" placeholder="{html.escape(placeholder)}"></label>'
            f'{extra_controls}<span id="count" class="soft" aria-live="polite"></span></div>'
            '<div class="scroll" tabindex="0" role="region" aria-label="table of settings">'
            f'<table id="runs"><thead><tr>{cells}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>')


def provenance(named: dict[str, object], yaml: str) -> str:
    """Attributes as a list, and the file that asked for it all."""
    items = "".join(f"<li>{html.escape(name)}: {html.escape(str(value))}</li>" for name, value in named.items() if str(value))
    return f'<ul>{items}</ul><h3>Experiment</h3><pre tabindex="0">{html.escape(yaml)}</pre>'


def json_text(value: object) -> str:
    """JSON that cannot end its script element: "<" is escaped."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@functools.lru_cache(maxsize=1)
def _bundle() -> str:
    """plotly.js, gzip and base64: the same bytes for the same version (no time stamp)."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("the report needs plotly (Debian: python3-plotly; PyPI: plotly)") from error
    return base64.b64encode(gzip.compress(get_plotlyjs().encode("utf-8"), 6, mtime=0)).decode("ascii")


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
