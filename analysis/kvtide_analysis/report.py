"""The report: one HTML page that needs nothing else, neither network nor files beside it."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
from importlib import resources
from string import Template

import numpy as np

from . import figures, settings, spread
from .certainty import certainty
from .columns import METRIC_TITLES, TABLE, Shown, loss_style, write
from .results import Results
from .verdict import verdict

MOST_DETAILED = 60  # runs with figures of their own; the page stays under 6 MB
MOST_DETAIL_BYTES = 3_000_000


def render(results: Results, worst_max: float) -> str:
    """The whole page as text. worst_max: the largest worst-span loss that the headline accepts."""
    details = _details(results)
    first = _first_shown(results, list(details))
    data = {"keys": list(figures.RUN_FIGURES), "runs": details, "first": first, "pareto": figures.pareto(results)}
    style = loss_style(settings.loss_metric(results))
    escape = html.escape
    options = "".join(f'<option value="{run}">{escape(settings.run_label(results, int(run)))}</option>' for run in details)
    asked = len(results)
    note = ("Choose a setting here, in the table or by a click on its point above." if len(details) == asked else
            f"Figures are kept for {len(details)} of {asked} runs (lowest and highest loss first); the table has all.")
    if "loss_mean" in results.summary:
        note += " " + spread.sentence()
    return Template(_asset("report.html")).substitute(
        title=escape(f"{results.attrs.get('title', 'kvtide results')}: savings against information loss"),
        subtitle=escape(_subtitle(results)), css=_asset("report.css"),
        verdict="".join(f"<p>{escape(sentence)}</p>" for sentence in verdict(results, worst_max)),
        warnings="".join(f'<p class="warning">{escape(text)}</p>' for text in settings.warnings(results)),
        bound=escape(write(worst_max, style)), table=_table(results, set(details), worst_max), options=options,
        legend=_legend(results), detail_note=escape(note),
        figures="".join(f'<figure><h3 id="title-{key}">{escape(title)}</h3><div class="plot" id="plot-{key}" role="img" '
                        f'aria-labelledby="title-{key}"></div><figcaption id="caption-{key}" aria-live="polite"></figcaption></figure>'
                        for key, (title, _) in figures.RUN_FIGURES.items()),
        provenance=_provenance(results), data=_json(data), bundle=_bundle(), script=_asset("report.js"))


def _details(results: Results) -> dict[str, dict[str, figures.Figure]]:
    """Figures of each run by run number, as many runs as the page may hold, in the order of the file."""
    order = list(results.summary.index)
    if len(order) > MOST_DETAILED and "loss_worst" in results.summary:
        ranked = list(results.summary["loss_worst"].sort_values(na_position="last").index)
        half = MOST_DETAILED // 2
        order = sorted(set(ranked[:half] + ranked[-half:]))
    details: dict[str, dict[str, figures.Figure]] = {}
    used = 0
    for run in order[:MOST_DETAILED]:
        arrays = results.run(run)
        made = {key: function(results, run, arrays) for key, (_, function) in figures.RUN_FIGURES.items()}
        used += len(_json(made))
        if details and used > MOST_DETAIL_BYTES:
            break
        details[str(run)] = made
    return details


def _first_shown(results: Results, detailed: list[str]) -> str | None:
    """The detailed run with the largest worst loss among those with a period, else the largest of all."""
    if not detailed:
        return None
    rows = results.summary.loc[[int(run) for run in detailed]]
    if "loss_worst" not in rows or rows["loss_worst"].isna().all():
        return detailed[0]
    periodic = rows[np.isfinite(rows["period"])] if "period" in rows else rows[:0]
    chosen = periodic if len(periodic) and periodic["loss_worst"].notna().any() else rows
    return str(chosen["loss_worst"].idxmax())


def _columns(results: Results) -> list[Shown]:
    """What the table shows: measured in at least one run."""
    return [column for column in TABLE if column.name in results.summary and results.summary[column.name].notna().any()]


def _table(results: Results, detailed: set[str], worst_max: float) -> str:
    columns = _columns(results)
    style = loss_style(settings.loss_metric(results))
    titles = ["Setting", *(f"{column.title}{f' ({column.unit})' if column.unit == 'tokens' else ''}" for column in columns),
              "Certainty of the period"]
    head = "".join(f'<th scope="col"><button type="button">{html.escape(title)}</button></th>' for title in titles)
    head = head.replace('<th scope="col"><button type="button">Certainty', '<th scope="col" class="text"><button type="button">Certainty')
    rows = []
    for run, row in results.summary.iterrows():
        label = html.escape(settings.run_label(results, run))
        name = f'<button type="button">{label}</button>' if str(run) in detailed else label
        cells = [f'<td data-value="{label}">{name}</td>']
        for column in columns:
            value = row[column.name]
            finite = isinstance(value, (int, float, np.number)) and np.isfinite(value)
            written = write(value, style if column.format == "loss" else column.format)
            mark = ' class="worst"' if column.name == "loss_worst" else ""
            cells.append(f'<td{mark} data-value="{float(value) if finite else ""}">{html.escape(written)}</td>')
        said = html.escape(_certainty_or_failure(row))
        cells.append(f'<td class="text" data-value="{said}">{said}</td>')
        worst = row.get("loss_worst", np.nan)
        state = "within" if worst <= worst_max else "over" if worst > worst_max else "unknown"
        rows.append(f'<tr class="{state}" data-run="{run}">{"".join(cells)}</tr>')
    return f'<table id="runs"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _certainty_or_failure(row) -> str:
    reason = row.get("status_reason", "")
    return f"failed: {reason}" if row.get("status") == "failed" else certainty(row)


def _legend(results: Results) -> str:
    """Definitions of the columns shown, as the file gives them, as list items."""
    return "".join(f"<dt>{html.escape(column.title)}</dt><dd>{html.escape(results.definitions[column.name])}</dd>"
                   for column in _columns(results))


def _subtitle(results: Results) -> str:
    """What was simulated, in one line, and what it costs without compression."""
    document, metric = settings.experiment(results), settings.loss_metric(results)
    known = {key: document[key] for key in ("model", "gpu", "context_tokens", "batch") if isinstance(document.get(key), (str, int))}
    parts = [f"{known[key]}" for key in ("model", "gpu") if key in known]
    parts += [f"{write(known['context_tokens'], 'integer')} tokens of context"] if "context_tokens" in known else []
    parts += [f"batch {known['batch']}"] if "batch" in known else []
    text = f"{', '.join(parts)}: {len(results)} settings. " if parts else f"{len(results)} settings. "
    text += f"Loss is {METRIC_TITLES.get(metric, metric)} ({metric}). B is block_size in tokens."
    full = {name: results.summary[name].dropna() for name in ("kv_bytes_full", "max_sequences_full", "decode_step_us_full")
            if name in results.summary}
    if len(full) == 3 and all(values.nunique() == 1 for values in full.values()):
        text += (f" Without compression: {full['kv_bytes_full'].iloc[0] / 2**30:.2f} GiB of KV a sequence, "
                 f"{write(full['max_sequences_full'].iloc[0], 'integer')} sequences at once, "
                 f"{full['decode_step_us_full'].iloc[0] / 1000:.2f} ms a decode step.")
    return text


def _provenance(results: Results) -> str:
    named = ("kvtide_version", "source_commit", "created", "schema_version", "loss_model", "loss_tokens", "experiment_overrides")
    items = "".join(f"<li>{name}: {html.escape(str(results.attrs[name]))}</li>" for name in named
                    if str(results.attrs.get(name, "")))
    text = html.escape(str(results.attrs.get("experiment_yaml", "none stored")))
    return f"<ul>{items}</ul><h3>Experiment</h3><pre tabindex=\"0\">{text}</pre>"


def _json(value: object) -> str:
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
