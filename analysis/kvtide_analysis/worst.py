"""Where a run loses most, and how much attention lay there: a worst loss of 100 % means little on words nobody reads again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import settings
from .columns import write
from .results import Results, RunArrays

WHOLLY = 0.999  # a larger share lost counts as lost entirely


@dataclass(frozen=True)
class Worst:
    """The worst span of a run and the positions it loses entirely; attention is a share of what all positions receive together.

    begin, span          first position, positions in the span             loss        mean over the span, as `loss_worst`
    ties                 spans exactly as bad, this one included           attention   on the span, with the full cache
    lost, lost_attention positions lost entirely; attention on them        positions   in the profile
    """

    begin: int
    span: int
    loss: float
    ties: int
    attention: float
    lost: int
    lost_attention: float
    positions: int


def worst(results: Results, run: int, arrays: RunArrays) -> Worst | None:
    """None where the file holds no attention by position, or the summary's `loss_worst` is not a span of the stored profile.

    Example: losses 0 1 1 0, attention 5 1 1 3, span 2 -> begin 1, loss 1, attention 0.2; 2 positions lost entirely, 0.2.
    """
    metric, span = settings.loss_metric(results, run), settings.span(results, run)
    loss, attention = arrays.array("loss", metric), arrays.array("loss", "attention")
    told = results.summary.at[run, "loss_worst"] if "loss_worst" in results.summary else np.nan
    if metric != "mass_loss" or loss is None or attention is None or loss.shape != attention.shape or not 0 < span <= loss.size:
        return None
    values, weights = loss.to_numpy().astype(float), attention.to_numpy().astype(float)
    total = weights.sum()
    if not (np.isfinite(values).all() and total > 0):
        return None
    means = np.convolve(values, np.full(span, 1 / span), "valid")
    as_bad = np.flatnonzero(np.abs(means - told) < 1e-6)
    if not len(as_bad):
        return None
    begin = int(as_bad[0])
    lost = values > WHOLLY
    position = arrays["loss"]["position"].to_numpy() if "position" in arrays["loss"].coords else np.arange(len(values))
    return Worst(int(position[begin]), span, float(told), len(as_bad), float(weights[begin:begin + span].sum() / total),
                 int(lost.sum()), float(weights[lost].sum() / total), len(values))


def describe(found: Worst) -> str:
    """The finding in a sentence or two."""
    text = (f"{'First worst' if found.ties > 1 else 'Worst'} span: positions {found.begin} to {found.begin + found.span - 1}, "
            f"{write(found.loss, 'percent')} lost; it held {_share(found.attention)} of the attention on the context")
    if found.ties > 1:
        text += f" ({found.ties - 1} more just as bad)"
    if found.lost:
        text += (f". {found.lost:,} of {found.positions:,} positions are lost entirely, by every head that reads them; together they held "
                 f"{_share(found.lost_attention)} of that attention")
    return text + "."


def _share(value: float) -> str:
    return "under 0.1 %" if 0 < value < 0.0005 else write(value, "percent")
