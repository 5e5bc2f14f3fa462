"""How far a loss figure carries to another text: rows of `kvtide validate scan --rows`, one text a prompt, several grid offsets each.

Per text: mean and worst loss over the offsets (capped at chance) and the offset at which it is worst. Between texts: their 10th, 50th and
90th percentile, measured and predicted. Texts that the full cache does not answer, or that fail at every offset, tell nothing of places but
stay in.
"""

from __future__ import annotations

import dataclasses
import io
import os

import numpy as np
import pandas as pd

from .results import ResultsError

CHANCE = 9.2  # nats, four digits
INTERVAL = os.path.join(os.path.dirname(__file__), "assets", "text-spread.csv")
SETTING = ["mode", "policy", "block", "ratio", "head_scope"]
CARRIES = 0.01
QUANTILES = {"low": 0.1, "median": 0.5, "high": 0.9}


def read_rows(source: str | io.TextIOBase) -> pd.DataFrame:
    """Raises ResultsError for a file that is missing, none of these or without rows."""
    try:
        rows = pd.read_csv(source, comment="#")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ResultsError(f"{source}: cannot be read as a file of kvtide validate scan --rows: {reason}") from error
    missing = {*SETTING, "prompt", "kind", "grid_offset", "loss", "predicted_loss", "failing"} - set(rows.columns)
    if missing:
        raise ResultsError(f"{source}: no column {sorted(missing)[0]}: not a file of kvtide validate scan --rows")
    if rows.empty:
        raise ResultsError(f"{source}: holds no rows")
    for column in ("loss", "predicted_loss"):
        try:
            rows[column] = pd.to_numeric(rows[column]).clip(0, CHANCE)
        except (ValueError, TypeError) as error:
            raise ResultsError(f"{source}: {column}: expected numbers: {error}") from error
    return rows


def by_text(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a setting and text."""
    groups = rows.groupby([*SETTING, "kind", "prompt"], sort=True)
    texts = groups.agg(mean=("loss", "mean"), worst=("loss", "max"), predicted_mean=("predicted_loss", "mean"),
                       predicted_worst=("predicted_loss", "max"), failing=("failing", "mean"), offsets=("loss", "size"))
    for name, column in (("worst_at", "loss"), ("predicted_worst_at", "predicted_loss")):
        texts[name] = rows.loc[groups[column].idxmax(), "grid_offset"].to_numpy()
    return texts.reset_index()


def between_texts(texts: pd.DataFrame) -> pd.DataFrame:
    """A row a setting and figure: number of texts, and the quantiles over them."""
    result = []
    for setting, group in texts.groupby(SETTING, sort=True):
        for figure in ("mean", "worst", "predicted_mean", "predicted_worst"):
            result.append({**dict(zip(SETTING, setting)), "figure": figure, "texts": len(group),
                           **{name: round(float(group[figure].quantile(share)), 3) for name, share in QUANTILES.items()}})
    return pd.DataFrame(result)


def between_layers(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a setting: of the layers that carry at least CARRIES of what is read of the answer (`texts` counts them), the share that each
    loses."""
    result = []
    if "lost_by_layer" not in rows:
        return pd.DataFrame(result)
    for setting, group in rows.groupby(SETTING, sort=True):
        lost, carried = (np.array([[float(word) for word in cell.split()] for cell in group[column]]).mean(axis=0)
                         for column in ("lost_by_layer", "carried_by_layer"))
        reading = lost[carried >= CARRIES]
        if len(reading):
            result.append({**dict(zip(SETTING, setting)), "figure": "lost_by_layer", "texts": len(reading),
                           **{name: round(float(np.quantile(reading, share)), 3) for name, share in QUANTILES.items()}})
    return pd.DataFrame(result)


@dataclasses.dataclass(frozen=True)
class Interval:
    texts: int
    low: float
    median: float
    high: float


def stored_interval(figure: str = "mean", path: str = INTERVAL) -> Interval:
    """What reports quote: the spread of one figure between the texts that were asked, nats."""
    table = pd.read_csv(path, comment="#")
    row = table[table["figure"] == figure].iloc[0]
    return Interval(int(row["texts"]), float(row["low"]), float(row["median"]), float(row["high"]))


def sentence() -> str:
    """What a report says of figures that come from one text."""
    mean, worst, layers = stored_interval("mean"), stored_interval("worst"), stored_interval("lost_by_layer")
    return (f"Losses here come from one text. Asked with {mean.texts} texts of five kinds, a real 135M model lost "
            f"{mean.low:.1f} to {mean.high:.1f} nats in the mean over block grids in 80 % of them (median {mean.median:.1f}) under one "
            f"setting, and {worst.low:.1f} to {worst.high:.1f} at the worst grid. "
            f"Its {layers.texts} layers that read the answer lost {100 * layers.low:.0f} to {100 * layers.high:.0f} % of it.")
