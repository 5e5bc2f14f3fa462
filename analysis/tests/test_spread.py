"""The spread between texts counts texts, not rows."""

import io
import pathlib

import pandas as pd
import pytest
from kvtide_analysis import spread
from kvtide_analysis.results import ResultsError

HEADER = "scan,prompt,kind,mode,policy,block,ratio,head_scope,grid_offset,failing,loss,predicted_loss\n"


def rows(*texts):
    """Texts as (prompt, kind, losses); predicted is half of it."""
    lines = [f"grid,{prompt},{kind},aware,evict,32,0.5,head,{4 * offset},{int(loss > 2)},{loss},{loss / 2}\n"
             for prompt, kind, losses in texts for offset, loss in enumerate(losses)]
    return spread.read_rows(io.StringIO(HEADER + "".join(lines)))


def test_each_text_has_its_mean_its_worst_and_where_that_is():
    texts = spread.by_text(rows((1, "log/factual", (0, 3, 0)), (2, "code/factual", (1, 1, 4))))
    assert list(texts["mean"]) == [2, 1] and list(texts["worst"]) == [4, 3]  # sorted by kind
    assert list(texts["worst_at"]) == [8, 4] and list(texts["predicted_worst"]) == [2, 1.5]
    assert list(texts["failing"]) == [pytest.approx(1 / 3)] * 2


# Means 0, 1, 2, .. 10 of eleven texts: percentiles 10, 50, 90 are 1, 5, 9 (capped at 9.2 the last is 9.2).
def test_quantiles_are_over_texts():
    table = spread.between_texts(spread.by_text(rows(*((n, "log/factual", (n, n)) for n in range(11)))))
    mean = table[table["figure"] == "mean"].iloc[0]
    assert (mean["texts"], mean["low"], mean["median"], mean["high"]) == (11, 1, 5, 9)


# Layers carry 0.5, 0.495 and 0.005: the last is left out. They lose 0.2 and 0.6 in the mean over rows: percentiles 10, 50, 90 are 0.24,
# 0.4, 0.56.
def test_layers_that_carry_little_are_no_layers():
    both = rows((1, "log/factual", (1, 2)))
    both["lost_by_layer"] = ["0.1 0.6 1", "0.3 0.6 1"]
    both["carried_by_layer"] = ["0.5 0.495 0.005"] * 2
    found = spread.between_layers(both).iloc[0]
    assert (found["figure"], found["texts"]) == ("lost_by_layer", 2)
    assert [found["low"], found["median"], found["high"]] == pytest.approx([0.24, 0.4, 0.56])
    assert spread.between_layers(rows((1, "log/factual", (1, 2)))).empty


def test_losses_stop_at_chance_and_gains_at_nothing():
    got = rows((1, "log/factual", (-0.1, 11)))
    assert list(got["loss"]) == [0, 9.2]


def test_stored_interval_is_that_of_the_stored_rows():
    """The numbers that reports quote follow from the committed measurement."""
    stored = pathlib.Path(__file__).resolve().parents[2] / "experiments/real-texts/rows.csv"
    rows = pd.read_csv(stored)
    rows["loss"] = (rows["logp_full"] - rows["logp_comp"]).clip(0, spread.CHANCE)
    assert rows["em_full"].all()
    for figure, of_text in (("mean", rows.groupby("probe_start")["loss"].mean()), ("worst", rows.groupby("probe_start")["loss"].max())):
        found = spread.stored_interval(figure)
        assert found.texts == len(of_text) == 20
        assert [found.low, found.median, found.high] == pytest.approx(list(of_text.quantile([0.1, 0.5, 0.9])), abs=1e-3)
    assert "20 texts of five kinds" in spread.sentence() and "1.2 to 3.5 nats" in spread.sentence()


def test_other_files_are_refused():
    with pytest.raises(ResultsError, match="no column"):
        spread.read_rows(io.StringIO("a,b\n1,2\n"))
