"""The picture of `kvtide plan ... -o FILE.h5`: what each setting costs, how fast it answers, and what its worst position loses."""

from __future__ import annotations

from dataclasses import dataclass, field

import h5py
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from . import palette
from .results import ResultsError

COLUMNS = ("gpu", "policy", "tensor_parallel", "max_num_seqs", "feasible", "gpus", "usd_per_hour", "rate", "latency_p95_s",
           "loss_worst", "loss_mean", "on_front")
PROVENANCE = ("kvtide_version", "created", "loss_model", "loss_tokens", "task", "wanted_rate")


@dataclass
class Plan:
    """Candidates as a table, and the root's words. best: index of the choice, -1 where none is possible."""

    title: str
    goal: str
    best: int
    bound: float
    candidates: pd.DataFrame
    verdict: str = ""
    yaml: str = ""
    provenance: dict[str, object] = field(default_factory=dict)


def cost_of(plan: Plan) -> tuple[str, str]:
    """The column that a plan minimises (a rate: maximises), and its title."""
    if plan.goal == "rate":
        return "rate", "requests a second"
    possible = plan.candidates[plan.candidates.feasible == 1]
    return ("gpus", "GPUs") if plan.goal == "gpus" or possible.usd_per_hour.isna().any() else ("usd_per_hour", "USD an hour")


def is_plan(path: str) -> bool:
    """Whether the file has candidates; what cannot be opened is none."""
    try:
        with h5py.File(path) as file:
            return "candidates" in file
    except (OSError, RuntimeError):  # the latter where a read fails
        return False


def read_plan(path: str) -> Plan:
    """Raises ResultsError where the file is no plan."""
    try:
        with h5py.File(path) as file:
            if "candidates" not in file:
                raise ResultsError(f"{path}: no group /candidates: expected a file of kvtide plan -o")
            group = file["candidates"]
            table = {}
            for name in COLUMNS:
                if name not in group:
                    raise ResultsError(f"{path}: /candidates/{name} is missing")
                values = group[name].asstr()[()] if group[name].dtype.kind == "O" else group[name][()]
                table[name] = values
            table["reason"] = group["reason"].asstr()[()] if "reason" in group else [""] * len(table["gpu"])
            attrs = {name: value.decode() if isinstance(value, bytes) else value for name, value in file.attrs.items()}
            return Plan(str(attrs["title"]), str(attrs["goal"]), int(attrs["best"]), float(attrs["loss_worst_max"]), pd.DataFrame(table),
                        str(attrs.get("verdict", "")), str(attrs.get("plan_yaml", "")),
                        {name: attrs[name] for name in PROVENANCE if name in attrs})
    except (OSError, RuntimeError, KeyError) as error:
        raise ResultsError(f"{path}: not a file of kvtide plan: {error}") from error


def figure_of(plan: Plan):
    """Cost against the worst loss and against latency, side by side."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    plot_plan(list(axes), plan)
    figure.suptitle(plan.title, fontsize="medium")
    return figure


def plot_plan(axes: list[Axes], plan: Plan) -> None:
    """Left: cost against the worst position's loss; right: cost against the 95th percentile of latency. A black edge:
    nothing is at least as good in all three and better in one; the ring is the choice."""
    every = plan.candidates
    table = every[every.feasible == 1]
    if table.empty:
        for one in axes:
            one.text(0.5, 0.5, "no candidate is possible", ha="center", transform=one.transAxes)
        return
    cost, cost_title = cost_of(plan)
    machines = [f"{gpu}, {ranks} a replica" for gpu, ranks in zip(table.gpu, table.tensor_parallel)]
    names, policies = sorted(set(machines)), list(dict.fromkeys(every.policy))
    panels = (("loss_worst", "attention lost at the worst position (%)", 100.0), ("latency_p95_s", "latency p95 (s)", 1.0))
    for one, (column, title, scale) in zip(axes, panels):
        for machine, (_, row) in zip(machines, table.iterrows()):
            one.plot(row[cost], scale * row[column], linestyle="none", alpha=0.85, color=palette.colour(policies.index(row.policy)),
                     marker=palette.symbol(names.index(machine))[1], markersize=7,
                     markeredgecolor="black" if row.on_front == 1 else "none", markeredgewidth=1.2)
        if plan.best >= 0:
            chosen = every.loc[plan.best]
            one.plot(chosen[cost], scale * chosen[column], marker="o", markersize=14, markerfacecolor="none",
                     markeredgecolor="black", linestyle="none")
        one.set_xlabel(cost_title)
        one.set_ylabel(title)
        one.margins(0.08)
        one.set_ylim(bottom=-0.04 * scale * np.nanmax(table[column]) if np.nanmax(table[column]) > 0 else -0.5)
    for number, name in enumerate(names):
        axes[-1].plot([], [], color=palette.GREY, marker=palette.symbol(number)[1], linestyle="none", label=name)
    for number, policy in enumerate(policies):
        if policy in set(table.policy):
            axes[-1].plot([], [], color=palette.colour(number), marker="o", linestyle="none", label=f"cache {policy}")
    axes[-1].plot([], [], marker="o", markersize=11, markerfacecolor="none", markeredgecolor="black", linestyle="none", label="choice")
    axes[-1].plot([], [], color="white", marker="o", linestyle="none", markeredgecolor="black", markeredgewidth=1.2, label="front")
    axes[-1].legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
