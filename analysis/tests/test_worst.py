"""Where a run loses most and how much attention lay there; every number derived by hand."""

import numpy as np
import pandas as pd
import xarray as xr

from kvtide_analysis.results import RunArrays
from kvtide_analysis.worst import describe, worst


class Told:
    """A result file as far as `worst` looks into it."""

    def __init__(self, loss_worst, metric="mass_loss", span=2):
        self.attrs = {"experiment_yaml": f"loss: {{metric: {metric}, span: {span}}}"}
        self.summary = pd.DataFrame({"loss_worst": [loss_worst]})


def arrays(loss, attention):
    return RunArrays("00000", {"loss": xr.Dataset({"mass_loss": ("position", loss), "attention": ("position", attention)},
                                                  coords={"position": np.arange(len(loss)) + 100})})


def test_span_and_its_attention():
    # Means of two: .5 1 .5; the span at 101 holds 1 + 1 of 10.
    found = worst(Told(1.0), 0, arrays([0.0, 1.0, 1.0, 0.0], [5.0, 1.0, 1.0, 3.0]))
    assert (found.begin, found.ties, found.attention, found.lost, found.lost_attention) == (101, 1, 0.2, 2, 0.2)
    assert describe(found) == ("Worst span: positions 101 to 102, 100.0 % lost; it held 20.0 % of the attention on the context. 2 of 4 "
                               "positions are lost entirely, by every head that reads them; together they held 20.0 % of that attention.")


def test_equally_bad_spans_are_counted_and_small_shares_are_not_written_as_none():
    # Spans at 100, 101 and 102 lose 1; the first holds 0.0002 of 1.
    found = worst(Told(1.0), 0, arrays([1.0, 1.0, 1.0, 1.0], [0.0001, 0.0001, 0.0, 0.9998]))
    assert found.ties == 3
    assert describe(found).startswith("First worst span: positions 100 to 101, 100.0 % lost; it held under 0.1 % of the attention on the "
                                      "context (2 more just as bad). 4 of 4")


def test_nothing_is_said_where_the_stored_profile_does_not_hold_the_worst_span():
    profile = arrays([0.0, 1.0, 1.0, 0.0], [5.0, 1.0, 1.0, 3.0])
    assert worst(Told(0.9), 0, profile) is None  # no span has that mean
    assert worst(Told(1.0, metric="output_loss"), 0, profile) is None  # attention says nothing of that loss
    assert worst(Told(1.0, span=5), 0, profile) is None  # longer than the profile
    assert worst(Told(1.0), 0, RunArrays("00000", {})) is None
