"""The report of a results file: verdict, table, savings against worst loss, every figure of a run, provenance."""

from __future__ import annotations

import html

import numpy as np

from . import figures, page, settings, spread
from .certainty import certainty
from .columns import TABLE, Shown, default_bound, loss_style, metric_title, write
from .machine_figures import MACHINE_FIGURES
from .results import Results
from .verdict import named_runs, verdict

MOST_DETAILED = 60  # runs with figures of their own
MOST_DETAIL_BYTES = 3_000_000
MOST_PAGE_BYTES = 5_800_000  # details give way to a long table, so that the page stays under 6 MB
BYTES_A_ROW = 1_200  # of the table, about
MOST_COMPARED = 3  # beside the setting shown; more curves cannot be told apart


def render(results: Results, worst_max: float | None = None) -> str:
    """The whole page as text.

    worst_max: the largest worst-span loss that the headline accepts; None: that of the metric, if it has one. A bound is in the unit of one
    metric: runs of several have none.
    """
    metrics = settings.metrics(results)
    if len(metrics) != 1:
        worst_max = None
    elif worst_max is None:
        worst_max = default_bound(metrics[0])
    details = _details(results, worst_max)
    shown = {**figures.RUN_FIGURES, **{key: MACHINE_FIGURES[key] for key in MACHINE_FIGURES
                                       if any("missing" not in made[key] for made in details.values())}}
    details = {run: {key: made[key] for key in shown} for run, made in details.items()}
    data = {"keys": list(shown), "runs": details, "first": _first_shown(results, list(details)),
            "fixed": {"pareto": figures.pareto(results)}, "most_compared": MOST_COMPARED}
    sections = [page.section("runs", "Settings", _table(results, set(details), worst_max) + _legend(results)),
                page.section("pareto", "Savings against worst loss", page.plot("pareto")),
                page.section("run", "One setting in detail", _chooser(results, list(details)) +
                             f'<div class="figures">{"".join(page.plot(key, title) for key, (title, _) in shown.items())}</div>'),
                page.section("provenance", "Where this comes from", _provenance(results))]
    return page.assemble(f"{results.attrs.get('title', 'kvtide results')}: savings against information loss", _subtitle(results),
                         verdict(results, worst_max), _warnings(results), "".join(sections), data)


def _by_interest(results: Results, worst_max: float | None) -> list[int]:
    """Runs, those first that the headline names; then by turns the highest and the lowest loss, at the end those without one."""
    rows = results.summary
    if "loss_worst" not in rows:
        return list(rows.index)
    ranked = list(rows["loss_worst"].dropna().sort_values(kind="stable").index)
    turns = [run for pair in zip(ranked[::-1], ranked) for run in pair]
    return list(dict.fromkeys([*named_runs(results, worst_max), *turns, *rows.index]))


def _details(results: Results, worst_max: float | None) -> dict[str, dict[str, figures.Figure]]:
    """Figures of each run by run number, as many runs as the page may hold, in the order of the file."""
    order = _by_interest(results, worst_max)
    details: dict[int, dict[str, figures.Figure]] = {}
    used = 0
    most = min(MOST_DETAIL_BYTES, MOST_PAGE_BYTES - page.frame_bytes() - BYTES_A_ROW * len(results))
    for run in order[:MOST_DETAILED]:
        arrays = results.run(run)
        made = {key: function(results, run, arrays) for key, (_, function) in {**figures.RUN_FIGURES, **MACHINE_FIGURES}.items()}
        used += len(page.json_text(made))
        if details and used > most:
            break
        details[run] = made
    return {str(run): details[run] for run in results.summary.index if run in details}


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


def _table(results: Results, detailed: set[str], worst_max: float | None) -> str:
    columns = _columns(results)
    head = [("Setting", False), *((f"{column.title}{f' ({column.unit})' if column.unit == 'tokens' else ''}", False) for column in columns),
            ("Certainty of the period", True)]
    rows = []
    for run, row in results.summary.iterrows():
        label = html.escape(settings.run_label(results, run))
        name = (f'<input type="checkbox" class="compare" aria-label="compare {label}"> <button type="button">{label}</button>'
                if str(run) in detailed else label)
        style = loss_style(settings.loss_metric(results, run))
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
        state = "unknown" if worst_max is None or not np.isfinite(worst) else "within" if worst <= worst_max else "over"
        rows.append(f'<tr class="{state}" data-run="{run}">{"".join(cells)}</tr>')
    within = ""
    if worst_max is not None:
        bound = html.escape(write(worst_max, loss_style(settings.metrics(results)[0])))
        within = f'<label><input type="checkbox" id="within"> only worst loss up to {bound} (above: !)</label>'
    return page.table(head, rows, "e.g. int4 128", within)


def _certainty_or_failure(row) -> str:
    reason = row.get("status_reason", "")
    return f"failed: {reason}" if row.get("status") == "failed" else certainty(row)


def _legend(results: Results) -> str:
    """Definitions of the columns shown, as the file gives them."""
    items = "".join(f"<dt>{html.escape(column.title)}</dt><dd>{html.escape(results.definitions[column.name])}</dd>"
                    for column in _columns(results))
    return f'<details class="soft"><summary>What the columns mean</summary><dl>{items}</dl></details>'


def _chooser(results: Results, detailed: list[str]) -> str:
    """Which setting is drawn, beside which others."""
    options = "".join(f'<option value="{run}">{html.escape(settings.run_label(results, int(run)))}</option>' for run in detailed)
    note = (f"Choose a setting here, in the table or by a click on its point above; up to {MOST_COMPARED} ticked in the table are drawn "
            "beside it.")
    if len(detailed) != len(results):
        note = (f"Figures are kept for {len(detailed)} of {len(results)} runs (those named above, then the highest and lowest loss); "
                f"the table has all. {note}")
    if "loss_mean" in results.summary and settings.is_recorded(results):
        note += " " + spread.sentence()
    return (f'<div class="controls sticky"><label>Setting <select id="run">{options}</select></label>'
            f'<label>compare with <select id="other"><option value="">nothing</option>{options}</select></label>'
            f'<span id="compared" class="soft" aria-live="polite"></span></div><p class="soft">{html.escape(note)}</p>')


def _warnings(results: Results) -> str:
    """What must be known, in plain sight; what the figures extrapolate, a line each with how many settings do."""
    said = "".join(f'<p class="warning">{html.escape(text)}</p>' for text in settings.warnings(results))
    beyond = settings.extrapolations(results)
    if beyond:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in beyond)
        said += f'<div class="warning" id="extrapolates"><p>Beyond what kvtide was compared with:</p><ul>{items}</ul></div>'
    return said


def _subtitle(results: Results) -> str:
    """What was simulated, in one line, and what it costs without compression."""
    values = {key: settings.resolved(results, key) for key in ("model", "gpu", "context_tokens", "batch")}
    known = {key: value[0] for key, value in values.items() if len(value) == 1}  # what the runs differ in is in the table
    parts = [f"{known[key]}" for key in ("model", "gpu") if key in known]
    parts += [f"{write(known['context_tokens'], 'integer')} tokens of context"] if "context_tokens" in known else []
    parts += [f"batch {known['batch']}"] if "batch" in known else []
    text = f"{', '.join(parts)}: {len(results)} settings. " if parts else f"{len(results)} settings. "
    named = " or ".join(f"{metric_title(metric)} ({metric})" for metric in settings.metrics(results))
    text += f"Loss is {named}. B is block_size in tokens."
    full = {name: results.summary[name].dropna() for name in ("kv_bytes_full", "max_sequences_full", "decode_step_us_full")
            if name in results.summary}
    if len(full) == 3 and all(values.nunique() == 1 for values in full.values()):
        text += (f" Without compression: {full['kv_bytes_full'].iloc[0] / 2**30:.2f} GiB of KV a sequence, "
                 f"{write(full['decode_step_us_full'].iloc[0], 'milliseconds')} ms a decode step; "
                 f"{write(full['max_sequences_full'].iloc[0], 'integer')} sequences at once")
        then = results.summary.get("max_sequences_step_us_full")
        text += f", {write(then.iloc[0], 'milliseconds')} ms a decode step then." if then is not None and then.notna().all() else "."
    return text


def _provenance(results: Results) -> str:
    named = ("kvtide_version", "source_commit", "created", "schema_version", "loss_model", "loss_tokens", "experiment_overrides")
    return page.provenance({name: results.attrs[name] for name in named if name in results.attrs},
                           str(results.attrs.get("experiment_yaml", "none stored")))
