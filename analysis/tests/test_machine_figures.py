"""Memory, time, heads and an engine over time: what the figures say, by hand from how the made-up file was written (conftest.py)."""

import json

import matplotlib

matplotlib.use("Agg")

import h5py
import numpy as np
import pytest
from matplotlib import pyplot

from kvtide_analysis import kernel_timeline, machine_figures, machine_views, open_results, views
from kvtide_analysis.results import ResultsError

GIB = 2**30


@pytest.fixture(scope="module")
def opened(demo_file):
    return open_results(demo_file)


def test_memory_account_adds_up_to_the_gpus_memory(opened):
    # Run 5: evict-50, B 128: half of 32 GiB.
    view = machine_views.memory_account(opened, 5)
    assert (view.total, view.weights, view.reserved, view.capacity) == (80 * GIB, 15 * GIB, 5 * GIB, 60 * GIB)
    assert (view.kv_full, view.kv) == (32 * GIB, 16 * GIB)


def test_a_batch_that_does_not_fit_is_drawn_beyond_the_memory(tmp_path, demo_file):
    path = tmp_path / "full.h5"
    path.write_bytes(demo_file.read_bytes())
    with h5py.File(path, "a") as file:
        file["summary/kv_batch_bytes"][5] = 70 * GIB
    results = open_results(path)
    bars = {trace["name"]: trace["x"] for trace in machine_figures.memory(results, 5, results.run(5))["data"]}
    # 60 GiB are there: 70 exceed by 10; without compression 140 exceed by 80.
    assert bars["KV cache of the batch"] == [60, 60] and bars["does not fit"] == [80, 10] and bars["free for KV"] == [0, 0]


def test_older_files_without_the_columns_say_so(tmp_path, demo_file):
    path = tmp_path / "old.h5"
    path.write_bytes(demo_file.read_bytes())
    with h5py.File(path, "a") as file:
        del file["summary/kv_capacity_bytes"]
    results = open_results(path)
    assert isinstance(machine_views.memory_account(results, 5), views.Missing)
    assert "older files" in machine_figures.memory(results, 5, results.run(5))["missing"]


def test_parts_of_a_step_add_up_to_the_step(opened):
    view = machine_views.step_parts(opened.run(5))
    step = opened.run(5)["machine"]["step_us"].to_numpy() / 1000
    np.testing.assert_allclose(view.attention + view.compress + view.rest, step)
    # keep 0.5: 14.7 ms, of it attention 6.3; 0.8 of compression in every 128th step: 8.4 remain.
    assert view.rest[0] == pytest.approx(8.4) and view.compress[127] == pytest.approx(0.8)


def test_captions_name_the_worst_head_and_the_fullest_moment(opened):
    arrays = opened.run(5)
    # Head h of layer l loses (l + h) / 4: most the last head of the second layer (17): 75 %.
    assert "KV head 2 of layer 17 loses most: 75.0 %" in machine_figures.heads(opened, 5, arrays)["caption"]
    assert "At most 8 requests in the batch and 2 in line" in machine_figures.queue(opened, 5, arrays)["caption"]
    assert "at most 50.0 %; the engine computes 90.0 %" in machine_figures.occupancy(opened, 5, arrays)["caption"]


def timeline_file(path, events):
    names = [{"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "h100-sxm stage 0"}},
             {"name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "main stream"}}]
    path.write_text(json.dumps({"traceEvents": names + events}))
    return path


def kernel(name, step, start, duration):
    return {"name": name, "cat": "critical", "ph": "X", "pid": 0, "tid": 0, "ts": start, "dur": duration,
            "args": {"step": step, "slack_us": 0}}


def test_kernels_of_the_longest_step_are_drawn_a_lane_a_stream(tmp_path):
    path = timeline_file(tmp_path / "t.json", [kernel("gemm", 0, 0, 5), kernel("gemm", 1, 5, 5), kernel("attention", 1, 10, 7)])
    timeline = kernel_timeline.read_timeline(str(path))
    figure, axes = pyplot.subplots()
    kernel_timeline.plot_kernels(axes, timeline)
    assert axes.get_xlabel() == "time within decode step 1 (us)"
    assert axes.get_xlim() == (0, 12)  # from 5 to 17
    assert [label.get_text() for label in axes.get_yticklabels()] == ["h100-sxm stage 0\nmain stream"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["attention, 7 us", "gemm, 5 us"]
    with pytest.raises(ResultsError, match="0 to 1"):
        kernel_timeline.plot_kernels(axes, timeline, 2)
    pyplot.close(figure)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": [{"ph": "X"}]}', '{"traceEvents": 3}', '{"traceEvents": [3]}'])
def test_a_file_that_is_no_timeline_is_said_so(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ResultsError, match="t.json"):
        kernel_timeline.read_timeline(str(tmp_path / "t.json"))


def test_a_results_file_is_no_timeline_and_its_bytes_are_not_printed(tmp_path):
    (tmp_path / "t.h5").write_bytes(b"\x89HDF\r\n" + bytes(5000))
    with pytest.raises(ResultsError, match="not a file of kvtide run --timeline") as error:
        kernel_timeline.read_timeline(str(tmp_path / "t.h5"))
    assert len(str(error.value)) < 300
