"""What a figure shows, in words: for its caption, for those who cannot see it, and for both drawing paths alike."""

from __future__ import annotations

import numpy as np

from .columns import write
from .series import finer_grid
from .views import Jumps, Steps

MOST_NAMED = 4  # phases named one by one
WHOLE = 0.99  # share of the jumps from which whole blocks are all there is


def phase_title(period: int, offset: int) -> str:
    """Axis title: "position mod 64 (tokens)", or with the first boundary where that is not 0."""
    return f"{f'(position − {offset})' if offset else 'position'} mod {period} (tokens)"


def jumps_in_words(view: Jumps) -> str:
    """Example: "100.0 % of the loss's jumps fall on phase 0, the first position of a block: ..."."""
    even = f"Spread evenly, each would hold {write(1 / view.period, 'percent')} (dotted)."
    if not len(view.outstanding):
        finer = finer_grid(np.nan_to_num(view.share))
        if finer is not None:
            step, first, times = finer
            return (f"The jumps of the loss, summed over all heads, favour every {step} tokens (phases {first}, {first + step}, ...: "
                    f"{times:.2g} times the even share): a grid finer than the block, as of pooling. {even}")
        highest = int(np.nanargmax(view.share))
        return (f"The jumps of the loss, summed over all heads, lie at no particular place of the block: at most "
                f"{write(view.share[highest], 'percent')} at one phase ({highest}). {even}")
    together = write(float(view.share[view.outstanding].sum()), "percent")
    named = [str(phase) for phase in view.outstanding]
    where = ", ".join(named) if len(named) <= MOST_NAMED else f"{len(named)} of the {view.period} phases"
    text = f"{together} of the jumps of the loss, summed over all heads, fall on phase{'s' if len(named) > 1 else ''} {where}"
    if view.outstanding[0] == 0 and len(named) == 1:
        text += ", the first position of a block: blocks come and go as a whole, even where the folded loss is flat"
        if view.share[0] < WHOLE:
            text += "; the others are spread over the block, as what a codec does to those that stay"
    if not view.period_found:
        text += f". The fold is on block_size {view.period}, which the setting told; from the loss alone no period was proven"
    return f"{text}. {even}"


def steps_in_words(view: Steps) -> str:
    """How long a step takes, how often it compresses, and what that adds."""
    finite = view.curve.mean[np.isfinite(view.curve.mean)]
    text = f"Median {np.median(finite):.4g} ms" if len(finite) else "No step has a time"
    if np.isfinite(view.full_ms):
        text += f" (uncompressed: {view.full_ms:.4g} ms)"
    if view.compress_ms is None:
        return f"{text}. A block that fills up (every {view.block_size} steps) is compressed within its step."
    at = np.flatnonzero(view.compress_ms > 0)
    if not len(at):
        return f"{text}. No block filled up in these steps, so none was compressed."
    gaps = np.unique(np.diff(view.context[at]))
    apart = f", {gaps[0]:g} tokens apart" if len(gaps) == 1 else ""
    longest = view.compress_ms[at].max()
    share = f" ({write(longest / np.median(finite), 'percent')} of a step)" if len(finite) and np.median(finite) > 0 else ""
    return f"{text}. {len(at)} of {len(view.context)} steps compress blocks that filled up{apart}: up to {longest:.3g} ms more{share}."
