"""The program from outside: exit codes, messages, files. Expected values are derived in comments."""

import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

from tested_program import PROGRAM, TRACE, kvtide

BASE = {
    "name": "t",
    "model": "llama-3.1-8b",
    "gpu": "h100-sxm",
    "trace": str(TRACE),
    "measure": ["loss"],
}


def experiment(folder, text="", **changes):
    """A small experiment file; `text` is appended as YAML."""
    path = folder / "t.yaml"
    keys = {**BASE, **changes}
    path.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in keys.items()) + "\n" + text)
    return path


def run(folder, text="", arguments=(), **changes):
    out = folder / "t.h5"
    done = kvtide("run", experiment(folder, text, **changes), "-o", out, "--quiet", *arguments)
    return done, out


EVICT = [{"evict": {"scorer": "attention_sum", "granularity": "block", "keep_ratio": 0.5}}]


def test_version_and_help_answer():
    assert kvtide("--version").stdout.startswith("kvtide ")
    overview = kvtide("--help").stdout
    for command in ("run", "show", "trace", "report", "plot", "explain", "import"):
        assert f"  {command} " in overview
        shown = kvtide(command, "--help")
        assert shown.returncode == 0
        assert shown.stdout.count("kvtide " + command) >= 3  # usage and two examples
        assert max(map(len, shown.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["rum"], ["unknown command", "run"]),
        (["run"], ["expected EXPERIMENT.yaml"]),
        (["run", "nowhere.yaml"], ["nowhere.yaml"]),
        (["run", "x.yaml", "--job", "2"], ["--job"]),  # no guessing of abbreviations
        (["run", "x.yaml", "--jobs", "-1"], ["--jobs", "1..4096"]),
        (["run", "x.yaml", "--jobs", "nan"], ["--jobs", "1..4096"]),
        (["show", "gpu"], ["gpus"]),
        (["show", "gpus", "h100-smx"], ["h100-sxm"]),
        (["explain", "los_mean"], ["loss_mean"]),
        (["trace", "check", "nowhere.h5"], ["nowhere.h5"]),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_allowed(arguments, words):
    done = kvtide(*arguments)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr


def test_what_a_run_extrapolates_stands_under_the_table(tmp_path):
    # L40S was never measured, and no measured kernel reads int4; losses are not measured here.
    out = tmp_path / "t.h5"
    path = experiment(tmp_path, gpu="l40s", measure=["time"], fidelity="roofline", context_tokens=2048,
                      compression={"stages": [{"quantize": {"format": "int4"}}]})
    said = [line for line in kvtide("run", path, "-o", out).stdout.splitlines() if line.startswith("extrapolates: ")]
    assert len(said) == 2 and "measured on l40s" in "".join(said) and "reads int4" in "".join(said)
    with h5py.File(out) as file:
        assert file["summary/extrapolates"].asstr()[0].count("; ") == 1


@pytest.mark.parametrize("label, is_shown", [("half", True), ("h" * 120, False)])
def test_the_step_of_most_sequences_stands_beside_them_where_the_table_stays_narrow(tmp_path, label, is_shown):
    half = {"label": label, "value": [{"evict": {"keep_ratio": 0.5}}]}
    path = experiment(tmp_path, measure=["memory", "time"], fidelity="roofline", context_tokens=2048,
                      sweep={"compression.stages": [half]})
    done = kvtide("run", path, "-o", tmp_path / "t.h5")
    assert done.returncode == 0, done.stderr
    assert ("step then" in done.stdout.splitlines()[0]) == is_shown and ("step then:" in done.stdout) == is_shown
    assert "ms a decode step then." in done.stdout
    with h5py.File(tmp_path / "t.h5") as file:
        step = file["summary/max_sequences_step_us"][0] / 1000
        assert (f"{step:.3g} ms" in done.stdout.splitlines()[2]) == is_shown


def test_all_errors_of_a_file_come_at_once_with_their_places(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(
        "name: bad\nmodel: llama-3.1-8b\ngpu: h100-sxm\n"
        f"trace: {TRACE}\n"
        "batch: 08\n"  # line 5: no octal, no leading zero
        "compression:\n"
        "  block_sise: 64\n"  # line 7: misspelt
        "  block_size: 0\n"  # line 8: below the range
        "  stages:\n"
        "    - evict: {keep_ratio: 1.5}\n"  # line 10: above the range
    )
    done = kvtide("run", path)
    assert done.returncode == 2
    for line in (5, 7, 8, 10):
        assert f"bad.yaml:{line}:" in done.stderr, done.stderr
    assert "did you mean block_size" in done.stderr or "block_size" in done.stderr


@pytest.mark.parametrize("value", ["0", "-1", "banana", "1e3", "3.7", "true", "[1]", "99999999999999999999"])
def test_block_size_must_be_a_whole_number_in_range(tmp_path, value):
    done, out = run(tmp_path, f"compression: {{block_size: {value}}}")
    assert done.returncode == 2 and "compression.block_size" in done.stderr
    assert not out.exists() and not out.with_suffix(".h5.runs").exists()


@pytest.mark.parametrize("value", ["0", "-0.5", "1.0001", "nan", "inf"])
def test_keep_ratio_must_lie_in_the_half_open_unit_interval(tmp_path, value):
    done, _ = run(tmp_path, f"compression: {{stages: [{{evict: {{keep_ratio: {value}}}}}]}}")
    assert done.returncode == 2 and "keep_ratio" in done.stderr


def test_keep_ratio_one_is_allowed_and_loses_nothing(tmp_path):
    done, out = run(tmp_path, "compression: {stages: [{evict: {keep_ratio: 1}}]}")
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        assert file["summary/loss_worst"][0] == 0


@pytest.mark.parametrize(
    "stages, words",
    [
        ("[{quantize: {format: int4}}, {pool: {width: 4}}]", ["pool", "quantize"]),
        ("[{quantize: {format: int4}}, {quantize: {format: int8}}]", ["two quantize"]),
        ("[{quantize: {format: int4, group: 48}}]", ["48", "divide"]),
    ],
)
def test_contradictory_stages_are_refused_before_any_run(tmp_path, stages, words):
    done, out = run(tmp_path, f"compression: {{stages: {stages}}}")
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert not out.exists()


def test_identity_loses_exactly_nothing_whatever_the_block_and_page_size(tmp_path):
    """Field case Q6."""
    done, out = run(
        tmp_path,
        "sweep: {compression.block_size: [1, 16, 64, 128], cache.page_size: [16, 64]}\n",
        measure=["loss", "prefix_scan", "position_scan"],
    )
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        assert (file["summary/loss_worst"][:] == 0).all()
        assert (file["summary/output_error"][:] == 0).all()
        assert (file["summary/prefix_sensitivity"][:] == 0).all()
        for run_group in file["runs"].values():
            for name in ("mass_loss", "lost_mass", "output_loss", "output_loss_signed", "bits_lost"):
                assert (run_group[f"loss/{name}"][:] == 0).all()


def test_a_warning_of_several_runs_names_them(tmp_path):
    # 8 x 4 GiB of KV fit beside 15 GiB of weights on an H100 of 79.7 GiB, not on an L40S of 45.
    path = experiment(tmp_path, "sweep: {gpu: [h100-sxm, l40s]}\n", compression={}, measure=["memory"], context_tokens=32768, batch=8)
    shown = kvtide("run", path, "-o", tmp_path / "t.h5").stdout
    assert [line.endswith("(run 1)") for line in shown.splitlines() if line.startswith("warning: batch 8 does not fit")] == [True]


def test_block_larger_than_the_context_is_one_protected_block_with_a_warning(tmp_path):
    done, out = run(tmp_path, f"compression: {{block_size: 4096, stages: {json.dumps(EVICT)}}}")
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        assert file["summary/loss_worst"][0] == 0
        assert b"no free block" in file["summary/warnings"][0]


def test_hidden_grid_is_found_from_the_jumps_alone(tmp_path):
    done, out = run(tmp_path, f"compression: {{block_size: 96, partition: {{kind: fixed, offset: 17}}, stages: {json.dumps(EVICT)}}}")
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        assert file["summary/period"][0] == 96
        assert file["summary/grid_offset"][0] == 17
        assert file["summary/period_kind"][0] == b"grid_locked"


def test_random_offset_is_recovered(tmp_path):
    done, out = run(
        tmp_path,
        f"compression: {{block_size: 64, partition: {{kind: random_offset}}, stages: {json.dumps(EVICT)}}}\nsweep: {{seed: [1, 2, 3]}}\n",
        measure=["loss", "detail"],
    )
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        offsets = file["summary/grid_offset"][:]
        assert len(set(offsets)) > 1
        for name, offset in zip(sorted(file["runs"]), offsets):
            kept = file[f"runs/{name}/kept"][:].astype(int)
            jumps = np.nonzero(np.abs(np.diff(kept, axis=-1)).sum(axis=(0, 1)))[0] + 1
            assert ((jumps + int(offset)) % 64 == 0).all()


def test_grid_shows_through_a_second_stage_that_adds_noise(tmp_path):
    stages = EVICT + [{"quantize": {"format": "int4", "group": 32}}]
    done, out = run(tmp_path, f"compression: {{stages: {json.dumps(stages)}}}\nsweep: {{compression.block_size: [64, 128, 96]}}\n")
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        assert list(file["summary/period"][:]) == [64, 128, 96]


@pytest.mark.parametrize(
    "trace, stages",
    [
        # token-level top-k on a trace whose importance is correlated noise
        ({"synthetic": {"kind": "ar1", "tokens": 2048}},
         [{"evict": {"scorer": "attention_sum", "granularity": "token", "keep_ratio": 0.5}}]),
        # white content, mean pooling
        ({"synthetic": {"kind": "uniform", "tokens": 2048}}, [{"pool": {"width": 4}}]),
    ],
)
def test_no_grid_is_reported_where_there_is_none(tmp_path, trace, stages):
    done, out = run(tmp_path, f"compression: {{block_size: 64, stages: {json.dumps(stages)}}}", trace=trace)
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        assert file["summary/period_kind"][0] == b"none"
        assert np.isnan(file["summary/period"][0])


def test_same_bytes_for_any_number_of_jobs(tmp_path):
    """Field case H6."""
    env = dict(os.environ, SOURCE_DATE_EPOCH="1000000000")
    text = f"compression: {{stages: {json.dumps(EVICT)}}}\nsweep: {{compression.block_size: [64, 96, 128, 256]}}\n"
    path = experiment(tmp_path, text, measure=["memory", "time", "loss", "position_scan"])
    contents = []
    for jobs in (1, 4):
        out = tmp_path / f"jobs{jobs}.h5"
        done = kvtide("run", path, "-o", out, "--quiet", "--jobs", jobs, env=env)
        assert done.returncode == 0, done.stderr
        contents.append(out.read_bytes())
    assert contents[0] == contents[1]


def test_damaged_traces_end_in_one_clear_error(tmp_path):
    whole = TRACE.read_bytes()
    for name, content in {"cut.h5": whole[: len(whole) // 2], "text.h5": b"not HDF5", "empty.h5": b""}.items():
        bad = tmp_path / name
        bad.write_bytes(content)
        done, out = run(tmp_path, trace=str(bad))
        assert done.returncode == 2, (name, done.stderr)
        assert name in done.stderr
        assert not out.exists()


def test_nan_in_a_tensor_is_refused_with_the_dataset_named(tmp_path):
    bad = tmp_path / "nan.h5"
    bad.write_bytes(TRACE.read_bytes())
    with h5py.File(bad, "r+") as file:
        layer = sorted(name for name in file if name.startswith("layer_"))[0]
        values = file[f"{layer}/v"][...]
        values[1, 1000, 3] = np.nan
        file[f"{layer}/v"][...] = values
    done, out = run(tmp_path, trace=str(bad))
    assert done.returncode == 2 and f"{layer}/v" in done.stderr
    assert not out.exists()


def test_second_writer_of_the_same_results_is_turned_away(tmp_path):
    text = f"compression: {{stages: {json.dumps(EVICT)}}}\nsweep: {{compression.block_size: {list(range(64, 1024, 8))}}}\n"
    path = experiment(tmp_path, text, measure=["loss", "prefix_scan"])
    out = tmp_path / "t.h5"
    first = subprocess.Popen([PROGRAM, "run", str(path), "-o", str(out), "--quiet"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob("t.h5.runs/0*.h5")):
        time.sleep(0.01)
    second = kvtide("run", path, "-o", out, "--quiet")
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=60) == 130
    assert second.returncode == 3 and "another kvtide" in second.stderr
    assert list(tmp_path.glob("t.h5.runs/0*.h5")), "the first one's finished runs must survive"


def test_full_disk_is_reported_and_leaves_no_final_file(tmp_path):
    if not os.access("/dev/full", os.W_OK) or os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small file system here")
    try:
        path = experiment(tmp_path, f"compression: {{stages: {json.dumps(EVICT)}}}", measure=["loss", "detail"])
        done = kvtide("run", path, "-o", small / "t.h5", "--quiet")
        assert done.returncode == 3, done.stderr
        assert not (small / "t.h5").exists()
    finally:
        subprocess.run(["umount", small], check=True)


def test_step_time_spikes_once_per_block(tmp_path):
    """Blocks of 64 fill every 64 appended tokens; each batch of blocks is compressed in the step in which it filled."""
    done, out = run(tmp_path, f"compression: {{block_size: 64, stages: {json.dumps(EVICT)}}}", measure=["time"])
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        machine = file["runs/00000/machine"]
        compress = machine["compress_us"][:]
        spikes = np.nonzero(compress)[0]
        assert len(spikes) >= 2 and (np.diff(spikes) == 64).all()
        steps = machine["step_us"][:]
        assert steps[spikes].min() > np.delete(steps, spikes).max()


def test_unwritable_output_exits_3(tmp_path):
    target = tmp_path / "file"
    target.write_text("")
    done = kvtide("run", experiment(tmp_path), "-o", target / "t.h5", "--quiet")
    assert done.returncode == 3 and str(target) in done.stderr


def test_killed_sweep_resumes_to_the_same_bytes(tmp_path):
    """Field case H2: kill -9 in the middle, resume, compare with an undisturbed sweep."""
    env = dict(os.environ, SOURCE_DATE_EPOCH="1000000000")
    text = f"compression: {{stages: {json.dumps(EVICT)}}}\nsweep: {{compression.block_size: {list(range(64, 256, 16))}}}\n"
    path = experiment(tmp_path, text, measure=["loss", "prefix_scan"])
    calm = tmp_path / "calm.h5"
    assert kvtide("run", path, "-o", calm, "--quiet", env=env).returncode == 0
    out = tmp_path / "killed.h5"
    process = subprocess.Popen([PROGRAM, "run", str(path), "-o", str(out), "--quiet", "--jobs", "1"], env=env)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(tmp_path.glob("killed.h5.runs/0*.h5"))) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    for finished in tmp_path.glob("killed.h5.runs/0*.h5"):
        with h5py.File(finished):
            pass  # a file under its final name always opens
    done = kvtide("run", path, "-o", out, "--quiet", "--resume", env=env)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == calm.read_bytes()


def test_what_a_command_reads_is_never_its_output(tmp_path):
    path = experiment(tmp_path, f"compression: {{stages: {json.dumps(EVICT)}}}")
    text = path.read_text()
    refused = kvtide("run", path, "-o", path, "--quiet")
    assert refused.returncode == 2 and "t.yaml: exists and is no results file" in refused.stderr
    assert path.read_text() == text
    trace = tmp_path / "trace.h5"
    shutil.copy(TRACE, trace)
    refused = kvtide("run", path, "-o", trace, "--quiet", "--set", f"trace={trace}")
    assert refused.returncode == 2 and "is read by this command" in refused.stderr
    assert trace.read_bytes() == TRACE.read_bytes()
    out = tmp_path / "t.h5"
    for _ in range(2):  # results replace older results
        assert kvtide("run", path, "-o", out, "--quiet").returncode == 0
    whole = out.read_bytes()
    assert kvtide("export", out, "-o", out).returncode == 2
    # The run leads every row, asked for or not; a wrong name is told the nearest.
    assert kvtide("export", out, "--columns", "run, kv_bytes").stdout == kvtide("export", out, "--columns", "kv_bytes").stdout
    assert kvtide("export", out, "--columns", "run").stdout.startswith("run\n0\n")
    assert "did you mean kv_bytes?" in kvtide("export", out, "--columns", "kv_byte").stderr
    assert kvtide("merge", path, out).returncode == 2
    assert out.read_bytes() == whole and path.read_text() == text


def test_interrupt_keeps_what_is_finished_and_names_the_way_on(tmp_path):
    text = f"compression: {{stages: {json.dumps(EVICT)}}}\nsweep: {{compression.block_size: {list(range(64, 1024, 8))}}}\n"
    path = experiment(tmp_path, text, measure=["loss", "prefix_scan"])
    out = tmp_path / "t.h5"
    process = subprocess.Popen([PROGRAM, "run", str(path), "-o", str(out), "--quiet", "--set", "name=it's here", "--seed", "5",
                                "--shard", "0/2"], stderr=subprocess.PIPE, text=True)  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob("t.h5.runs/0*.h5")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    # What it prints is taken as it stands: other keys would be another configuration.
    words = shlex.split(errors.split("the rest: ")[1])
    assert words == ["kvtide", "run", str(path), "-o", str(out), "--set", "name=it's here", "--seed", "5", "--shard", "0/2", "--resume"]
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.glob("t.h5.runs/0*.h5")}
    again = subprocess.Popen([PROGRAM, *words[1:], "--quiet"], stderr=subprocess.PIPE, text=True)
    # Where a signal comes before the program listens, it ends it (or is ignored, if whoever started these tests ignores it).
    while again.poll() is None and time.monotonic() < deadline + 60:
        time.sleep(0.3)
        again.send_signal(signal.SIGINT)
    _, errors = again.communicate(timeout=60)
    assert again.returncode in (0, 130, -signal.SIGINT), errors
    if again.returncode != 0:
        assert all(file.stat().st_mtime_ns == when for file, when in kept.items())


def test_on_a_terminal_the_table_begins_on_a_line_of_its_own(tmp_path):
    path = experiment(tmp_path, f"compression: {{stages: {json.dumps(EVICT)}}}")
    leader, follower = pty.openpty()
    process = subprocess.Popen([PROGRAM, "run", str(path), "-o", str(tmp_path / "t.h5")], stdout=follower, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # how the system says that nobody writes any more
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait(timeout=60) == 0
    header = next(line for line in shown.decode().split("\r\n") if "loss worst" in line)
    assert header.split("\x1b[K")[-1].lstrip().startswith("run"), shown  # what stood before that is wiped


def test_results_open_everywhere_with_names_and_units(tmp_path):
    """Field case H1."""
    done, out = run(tmp_path, f"compression: {{stages: {json.dumps(EVICT)}}}\nsweep: {{compression.block_size: [64, 128]}}\n",
                    measure=["memory", "time", "loss", "position_scan", "prefix_scan", "detail"])
    assert done.returncode == 0, done.stderr
    xarray = pytest.importorskip("xarray")
    engines = [engine for engine, module in (("netcdf4", "netCDF4"), ("h5netcdf", "h5netcdf")) if pytest.importorskip(module)]
    with h5py.File(out) as file:
        groups = ["summary", "runs/00000"]
        groups += [f"runs/00000/{name}" for name, item in file["runs/00000"].items() if isinstance(item, h5py.Group)]
        missing = []
        file.visititems(lambda name, item: missing.append(name)
                        if isinstance(item, h5py.Dataset) and "CLASS" not in item.attrs and not ("units" in item.attrs and "long_name" in item.attrs)
                        else None)
        assert missing == []
    for engine in engines:
        for group in groups:
            with xarray.open_dataset(out, group=group, engine=engine) as dataset:
                assert not [name for name in dataset.dims if "phony" in str(name)], (engine, group)
    header = subprocess.run(["ncdump", "-h", out], capture_output=True, text=True)
    assert header.returncode == 0 and "phony_dim" not in header.stdout


def test_dry_run_computes_nothing(tmp_path):
    done, out = run(tmp_path, "sweep: {compression.block_size: [64, 128]}\n", arguments=("--dry-run",))
    assert done.returncode == 0 and not out.exists()
    assert "2 runs" in done.stdout


def test_set_overrides_and_json_is_one_document(tmp_path):
    out = tmp_path / "t.h5"
    done = kvtide("run", experiment(tmp_path), "-o", out, "--json", "--set", "compression.block_size=32")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["runs"]) == 1
    with h5py.File(out) as file:
        assert b"block_size: 32" in file["summary/compression_setting"][0]


def test_show_prints_records_with_sources():
    assert "85520809984" in kvtide("show", "gpus", "h100-sxm").stdout.replace(",", "") or "81559" in kvtide("show", "gpus", "h100-sxm").stdout
    assert "131072" in kvtide("show", "models").stdout
    assert "attention_sum" in kvtide("show", "scorers").stdout


def test_synthetic_trace_is_written_sound(tmp_path):
    path = tmp_path / "needle.h5"
    assert kvtide("trace", "synth", path, "--kind", "needle", "--set", "tokens=512").returncode == 0
    checked = kvtide("trace", "check", path)
    assert checked.returncode == 0 and "sound" in checked.stdout
    assert "512" in kvtide("trace", "info", path).stdout


def test_show_machine_answers_for_a_pattern(tmp_path):
    environment = {**os.environ, "KVTIDE_MEMORY_CACHE": str(tmp_path / "signatures")}
    ask = ["show", "machine", "--gpu", "h100-sxm", "--pattern", "{chunk: 4 KiB, streams: 528}"]
    shown = kvtide(*ask, "--fidelity", "roofline", env=environment)
    assert shown.returncode == 0 and shown.stdout.startswith("h100-sxm: chunks of 4.00 KiB, 528 streams")
    sampled = json.loads(kvtide(*ask, "--json", env=environment).stdout)
    # More requests in flight never lose bandwidth (to the 1 % interval), and one latency's worth of a 64th is not enough.
    rates = [point["bytes_per_second"] for point in sampled["by_bytes_in_flight"]]
    assert all(later > 0.98 * earlier for earlier, later in zip(rates, rates[1:]))
    assert rates[0] < 0.5 * rates[-1]
    assert json.loads(kvtide(*ask, "--json", env=environment).stdout) == sampled  # from the signatures on disk
    assert list((tmp_path / "signatures").iterdir())


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--pattern", "{}"], ["--gpu NAME is required"]),
        (["--gpu", "h100-sxm", "--pattern", "{chunk: 4}"], ["--pattern:1:9: chunk", "one of the units"]),
        (["--gpu", "h100-sxm", "--pattern", "{chunks: 4 KiB}"], ["unknown key", "chunk"]),
        (["--gpu", "h100-sxm", "--fidelity", "exact"], ["roofline, sampled or detailed"]),
    ],
)
def test_show_machine_says_what_is_wrong(arguments, words):
    shown = kvtide("show", "machine", *arguments)
    assert shown.returncode == 2
    assert all(word in shown.stderr for word in words)
