"""The picture of a plan's file, and files that are none."""

import h5py
import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest

from kvtide_analysis import plan, plan_report
from kvtide_analysis.results import ResultsError

matplotlib.use("Agg")


@pytest.fixture
def plan_file(tmp_path):
    """Three candidates on one GPU type, the last not possible."""
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as file:
        file.attrs.update({"title": "chat", "goal": "cost", "best": 1, "loss_worst_max": 0.4})
        group = file.create_group("candidates")
        texts = {"gpu": ["l40s"] * 3, "policy": ["none", "fp8", "int4"]}
        numbers = {"tensor_parallel": [1, 1, 1], "max_num_seqs": [64, 64, 64], "feasible": [1, 1, 0], "gpus": [4, 3, 0],
                   "usd_per_hour": [4.0, 3.0, np.nan], "rate": [0.0, 0.0, 0.0], "latency_p95_s": [2.0, 2.5, np.nan],
                   "loss_worst": [0.0, 0.1, 0.5], "loss_mean": [0.0, 0.01, 0.1], "on_front": [1, 1, 0]}
        for name, values in texts.items():
            group.create_dataset(name, data=values, dtype=h5py.string_dtype())
        for name, values in numbers.items():
            group[name] = np.asarray(values)
    return path


def test_points_are_the_possible_candidates_and_the_ring_is_the_choice(plan_file):
    figure, axes = matplotlib.pyplot.subplots(1, 2)
    plan.plot_plan(list(axes), plan.read_plan(plan_file))
    drawn = [line.get_xydata()[0].tolist() for line in axes[0].lines if len(line.get_xdata()) == 1]
    # 4 USD/h without loss, 3 USD/h with 10 %, the choice once more; nothing of the third.
    assert drawn == [[4.0, 0.0], [3.0, 10.0], [3.0, 10.0]]
    labels = [text.get_text() for text in axes[1].get_legend().get_texts()]
    assert "cache fp8" in labels and "cache int4" not in labels
    matplotlib.pyplot.close(figure)


def test_report_has_a_row_a_candidate_and_a_point_a_possible_one(plan_file):
    pytest.importorskip("plotly")
    read = plan.read_plan(str(plan_file))
    points = [trace for trace in plan_report.against(read, "loss_worst")["data"] if "customdata" in trace]
    assert {trace["name"]: (trace["x"], trace["y"]) for trace in points} == {"cache none": ([4.0], [0.0]), "cache fp8": ([3.0], [0.1])}
    page = plan_report.render(read)
    assert page.count("<tr class=") == 3 and "(choice)" in page
    assert len(page.encode()) < 6_000_000


def test_better_is_where_there_is_more_of_a_rate_and_less_of_a_cost(plan_file):
    read = plan.read_plan(str(plan_file))
    note = plan_report.against(read, "loss_worst")["note"]
    assert note.startswith("Lower left is better. A black edge: nothing is at least as good in cost,")
    read.goal = "rate"
    note = plan_report.against(read, "loss_worst")["note"]
    assert note.startswith("Lower right is better. A black edge: nothing is at least as good in rate,")


def test_a_file_that_is_no_plan_is_said_so(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_group("summary")
    with pytest.raises(ResultsError, match="/candidates"):
        plan.read_plan(tmp_path / "other.h5")
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(ResultsError, match="not a file of kvtide plan"):
        plan.read_plan(tmp_path / "text.h5")
