"""Turns the period columns of a run into words: what period, of which kind, how surely."""

from __future__ import annotations

import math
from typing import Any

KINDS = {
    "grid_locked": "on the block grid",
    "level": "level repeats",
    "likely": "likely",
    "none": "none",
}


def certainty(row: Any) -> str:
    """Short text for the table: the file's own words where it stores them (`period_certainty`), else from its numbers.

    `grid_locked` in a noise-free replay is a statement about the jumps, not a test, so it has no p; "level" rests on the
    rotation test; `likely` (2 to 6 cycles) never counts as proven.
    """
    stored = row.get("period_certainty")
    if isinstance(stored, str) and stored:
        return stored
    kind = str(row.get("period_kind", "none") or "none")
    period, p = _number(row, "period"), _number(row, "periodicity_p")
    if kind == "none" or math.isnan(period):
        return "no period found"
    cycles = _number(row, "cycles")
    seen = "" if math.isnan(cycles) else f", {cycles:.3g} cycles"
    if kind == "grid_locked":
        return f"jumps on one grid{seen}"
    if kind == "level":
        return f"level repeats, p = {p:.2g}{seen}" if math.isfinite(p) else f"level repeats{seen}"
    return f"{KINDS.get(kind, kind)}, not proven{f' (p = {p:.2g})' if math.isfinite(p) else ''}{seen}"


def _number(row: Any, name: str) -> float:
    try:
        return float(row.get(name, math.nan))
    except (TypeError, ValueError):
        return math.nan
