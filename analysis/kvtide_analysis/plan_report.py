"""The report of a plan: the choice in words, every candidate in a table, cost against loss and against latency to zoom and hover over."""

from __future__ import annotations

import html

import numpy as np

from . import figures, page, palette
from .columns import write
from .plan import Plan, cost_of

# column -> (title, format)
SHOWN = {"gpus": ("GPUs", "integer"), "usd_per_hour": ("USD/h", "number"), "rate": ("Requests/s", "number"),
         "latency_p95_s": ("Latency p95 (s)", "number"), "loss_mean": ("Mean loss", "percent"), "loss_worst": ("Worst loss", "percent"),
         "max_num_seqs": ("Batch limit", "integer")}


def render(plan: Plan) -> str:
    """The whole page as text."""
    data = {"keys": [], "runs": {}, "first": None, "most_compared": 0,
            "fixed": {"loss": against(plan, "loss_worst"), "latency": against(plan, "latency_p95_s")}}
    sections = [page.section("loss", "Cost against the worst position's loss", page.plot("loss")),
                page.section("latency", "Cost against latency", page.plot("latency")),
                page.section("candidates", "Candidates", _table(plan)),
                page.section("provenance", "Where this comes from", page.provenance(plan.provenance, plan.yaml))]
    possible = int((plan.candidates.feasible == 1).sum())
    subtitle = f"{len(plan.candidates)} candidates, {possible} of them keep the objectives and the bound on the loss."
    return page.assemble(f"{plan.title}: what to buy", subtitle, [sentence for sentence in plan.verdict.split("\n") if sentence], "",
                         "".join(sections), data)


def against(plan: Plan, column: str) -> figures.Figure:
    """Every possible candidate as a point: cost against `column`; the ring is the choice, a black edge marks the front."""
    table = plan.candidates[plan.candidates.feasible == 1]
    if table.empty:
        return {"missing": "no candidate keeps the objectives and the bound on the loss"}
    cost, cost_title = cost_of(plan)
    policies = list(dict.fromkeys(plan.candidates.policy))
    machines = sorted({machine_of(row) for _, row in table.iterrows()})
    style = "percent" if column == "loss_worst" else "number"
    traces = []
    for policy in (name for name in policies if name in set(table.policy)):
        rows = table[table.policy == policy]
        traces.append({
            "type": "scatter", "mode": "markers", "name": f"cache {policy}", "customdata": [int(index) for index in rows.index],
            "x": figures.numbers(rows[cost].to_numpy(float)), "y": figures.numbers(rows[column].to_numpy(float)),
            "text": [label_of(row) for _, row in rows.iterrows()], "hovertemplate": "%{text}<extra></extra>",
            "marker": {"size": 11, "opacity": 0.85, "color": palette.colour(policies.index(policy)),
                       "symbol": [palette.symbol(machines.index(machine_of(row)))[0] for _, row in rows.iterrows()],
                       "line": {"color": ["#1b1b1b" if front == 1 else "#ffffff" for front in rows.on_front], "width": 1.5}}})
    traces += [{"type": "scatter", "mode": "markers", "name": name, "x": [None], "y": [None], "hoverinfo": "skip",
                "marker": {"size": 9, "color": palette.GREY, "symbol": palette.symbol(number)[0]}} for number, name in enumerate(machines)]
    said = ""
    if plan.best >= 0:
        chosen = plan.candidates.loc[plan.best]
        traces.append({"type": "scatter", "mode": "markers", "name": "choice", "x": figures.numbers(np.array([float(chosen[cost])])),
                       "y": figures.numbers(np.array([float(chosen[column])])), "hoverinfo": "skip",
                       "marker": {"size": 20, "symbol": "circle-open", "color": "#1b1b1b", "line": {"width": 1.5}}})
        said = f"The choice: {label_of(chosen).replace('<br>', ', ')}."
    title = "attention lost at the worst position" if column == "loss_worst" else "latency, 95th percentile (s)"
    highest = float(np.nanmax(table[column])) if table[column].notna().any() else 0.0
    figure = figures.figure_of(traces, cost_title, title, said, style=style, highest=highest,
                               note=f"Lower {'right' if cost == 'rate' else 'left'} is better. A black edge: nothing is at least as good "
                                    f"in {'rate' if cost == 'rate' else 'cost'}, latency and worst loss and better in one.")
    figure["layout"]["yaxis"]["range"] = [-0.05 * highest, 1.08 * highest] if highest > 0 else [-1, 1]
    return figure


def machine_of(row) -> str:
    """Example: "h100-sxm, 4 a replica"."""
    return f"{row.gpu}, {int(row.tensor_parallel)} a replica"


def label_of(row) -> str:
    """A candidate in words."""
    price = f", {row.usd_per_hour:.2f} USD/h" if np.isfinite(row.usd_per_hour) else ""
    return (f"{int(row.gpus)} x {machine_of(row)}, cache {row.policy}, {int(row.max_num_seqs)} sequences<br>latency p95 "
            f"{row.latency_p95_s:.3g} s, worst loss {write(row.loss_worst, 'percent')}{price}")


def _table(plan: Plan) -> str:
    head = [("Machine", False), ("Cache", False), *((title, False) for title, _ in SHOWN.values()), ("Why not", True)]
    rows = []
    for index, row in plan.candidates.iterrows():
        machine = f"{machine_of(row)}{' (choice)' if index == plan.best else ' (front)' if row.on_front == 1 else ''}"
        cells = [f'<td data-value="{html.escape(machine)}">{html.escape(machine)}</td>',
                 f'<td data-value="{html.escape(row.policy)}">{html.escape(row.policy)}</td>']
        for name, (_, style) in SHOWN.items():
            value = float(row[name])
            known = np.isfinite(value) and not (name in ("rate", "gpus") and value == 0)
            cells.append(f'<td data-value="{value if known else ""}">{html.escape(write(value if known else None, style))}</td>')
        cells.append(f'<td class="text" data-value="{html.escape(row.reason)}">{html.escape(row.reason)}</td>')
        state = "shown" if index == plan.best else "within" if row.feasible == 1 else "unknown"
        rows.append(f'<tr class="{state}" data-run="{index}">{"".join(cells)}</tr>')
    return page.table(head, rows, "e.g. h100 int8 front")
