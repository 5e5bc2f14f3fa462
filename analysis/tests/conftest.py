"""A made-up result file in the layout of a real one: 21 compressed runs and the identity, B in {64, 128, 256}.

Losses are built, not simulated: eviction loses most at the first 7 phases of a block, pooling and quantization lose white
noise without a period. So a test knows what every figure must show.
"""

from __future__ import annotations

import h5py
import numpy as np
import pytest

BLOCKS = (64, 128, 256)
#                label, share kept, loss level, lost on the grid
POLICIES = (("evict-75", 0.75, 0.10, True), ("evict-50", 0.50, 0.35, True), ("evict-25", 0.25, 0.70, True),
            ("pool-4", 0.25, 0.55, False), ("int8", 0.52, 0.002, False), ("int4", 0.28, 0.02, False),
            ("evict-50-int4", 0.14, 0.37, True))
YAML = """name: demo
model: llama-3.1-8b
gpu: h100-sxm
trace: traces/smollm2-135m-2k.h5
context_tokens: 32768
sweep:
  compression.block_size: [64, 128, 256]
  compression.stages: [{label: "evict-50", value: []}, {label: "</script><b>int4", value: []}]
"""
SPIKE = 7  # phases 0..6 of every block lose most


def loss_profile(positions: int, block: int, level: float, on_grid: bool, offset: int = 0, seed: int = 1) -> np.ndarray:
    """Loss [position] in 0..1: a spike at the first SPIKE phases of each block of the grid, or white noise around the level."""
    noise = np.random.default_rng(seed).normal(0, 1, positions)
    if not on_grid:
        return np.clip(level * (1 + 0.2 * noise), 0, 1)
    spike = (np.arange(positions) - offset) % block < SPIKE
    return np.clip(level * (0.3 + 1.2 * spike + 0.05 * noise), 0, 1)


class Writer:
    """Writes arrays with netCDF-4 dimension scales, units and long_name."""

    def __init__(self, file: h5py.File):
        self.file = file

    def scale(self, path: str, values: np.ndarray, units: str = "token") -> None:
        dataset = self.file.create_dataset(path, data=values)
        dataset.make_scale(path.rsplit("/", 1)[-1])
        self._describe(dataset, units)

    def array(self, path: str, values, dimensions: str | list[str], units: str = "1") -> None:
        if len(values) and isinstance(values[0], str):
            dataset = self.file.create_dataset(path, data=list(values), dtype=h5py.string_dtype("utf-8"))
        else:
            values = np.asarray(values)
            fill = np.nan if values.dtype.kind == "f" else None
            dataset = self.file.create_dataset(path, data=values, fillvalue=fill)
            if fill is not None:
                dataset.attrs["_FillValue"] = np.array([np.nan], values.dtype)
        for axis, dimension in enumerate([dimensions] if isinstance(dimensions, str) else dimensions):
            dataset.dims[axis].attach_scale(self.file[dimension])
        self._describe(dataset, units)

    @staticmethod
    def _describe(dataset: h5py.Dataset, units: str) -> None:
        dataset.attrs["units"] = units
        dataset.attrs["long_name"] = f"long name of {dataset.name}"


def write_results(path, positions: int = 2021, blocks=BLOCKS, policies=POLICIES, full: bool = True) -> None:
    """The whole file; `full=False` leaves the scan, prefix and machine groups out."""
    runs = [(label, block, keep, level, grid) for label, keep, level, grid in policies for block in blocks]
    runs.insert(0, ("identity", blocks[0], 1.0, 0.0, False))
    with h5py.File(path, "w") as file:
        writer = Writer(file)
        file.attrs.update(title="demo", kvtide_version="0.1.0", source_commit="0123456", created="1970-01-01T00:00:00Z",
                          experiment_yaml=YAML, schema_version=1, Conventions="CF-1.10", loss_model="smollm2-135m",
                          loss_tokens=positions)
        profiles = [loss_profile(positions, block, level, grid, seed=index)
                    for index, (_, block, _, level, grid) in enumerate(runs)]
        _write_summary(writer, runs, profiles)
        for index, (label, block, keep, level, grid) in enumerate(runs):
            _write_run(writer, f"/runs/{index:05d}", profiles[index], block, keep, grid, full)


def _write_summary(writer: Writer, runs, profiles) -> None:
    count = len(runs)
    keep = np.array([run[2] for run in runs])
    grid = np.array([run[4] for run in runs])
    block = np.array([run[1] for run in runs], np.int64)
    worst = np.array([np.convolve(profile, np.ones(8) / 8, "valid").max() for profile in profiles])
    mean = np.array([profile.mean() for profile in profiles])
    writer.scale("/summary/run", np.arange(count), "1")
    columns = {
        "compression.block_size": (block, "token"), "compression.stages": ([run[0] for run in runs], "1"),
        "kv_bytes_full": (np.full(count, 2**35), "B"), "kv_bytes": ((keep * 2**35).astype(np.int64), "B"),
        "memory_saving": (1 - keep, "1"), "decode_step_us_full": (np.full(count, 21000.0), "us"),
        "decode_step_us": (21000 * (0.4 + 0.6 * keep), "us"), "decode_speedup": (1 / (0.4 + 0.6 * keep), "1"),
        "max_sequences_full": (np.full(count, 12), "1"), "max_sequences": ((12 / keep).astype(np.int64), "1"),
        "max_sequences_step_us_full": (np.full(count, 25000.0), "us"), "max_sequences_step_us": (25000 + 5000 * keep, "us"),
        "max_context_tokens": ((49152 / keep).astype(np.int64), "token"), "kv_bound": (np.ones(count, np.uint8), "1"),
        # 80 GiB: weights 15, 60 for the cache, so 5 are reserved; a batch of 1 needs keep * 32 GiB.
        "gpu_memory_bytes": (np.full(count, 80 * 2.0**30), "B"), "weight_bytes_per_gpu": (np.full(count, 15 * 2.0**30), "B"),
        "kv_capacity_bytes": (np.full(count, 60 * 2.0**30), "B"), "kv_batch_bytes": (keep * 2.0**35, "B"),
        "loss_mean": (mean, "1"), "loss_worst": (worst, "1"),
        "loss_worst_over_mean": (np.divide(worst, mean, out=np.full(count, np.nan), where=mean > 0), "1"),
        "period": (np.where(grid, block, np.nan), "token"), "grid_offset": (np.where(grid, 0.0, np.nan), "token"),
        "period_kind": (["grid_locked" if on else "none" for on in grid], "1"),
        "cycles": (np.where(grid, len(profiles[0]) / block, np.nan), "1"),
        "periodicity_p": (np.full(count, np.nan), "1"), "free_blocks": (np.full(count, 14), "1"),
        "status": (["ok"] * count, "1"), "status_reason": ([""] * count, "1"),
    }
    for name, (values, units) in columns.items():
        writer.array(f"/summary/{name}", values, "/summary/run", units)


def _write_run(writer: Writer, root: str, profile: np.ndarray, block: int, keep: float, grid: bool, full: bool) -> None:
    positions = len(profile)
    writer.scale(f"{root}/loss/position", np.arange(positions))
    for metric in ("mass_loss", "lost_mass", "output_loss", "output_loss_signed", "bits_lost"):
        writer.array(f"{root}/loss/{metric}", profile.astype(np.float32), f"{root}/loss/position")
    phase = np.arange(positions) % block
    writer.scale(f"{root}/phase/phase", np.arange(block))
    count = np.bincount(phase, minlength=block)
    writer.array(f"{root}/phase/loss", np.bincount(phase, profile, block) / count, f"{root}/phase/phase")
    writer.array(f"{root}/phase/count", count, f"{root}/phase/phase")
    # Whole blocks jump at their first position, codecs everywhere.
    share = np.where(np.arange(block) == 0, 1.0, 0.0) if grid else np.full(block, 1 / block)
    writer.array(f"{root}/phase/jump_share", share, f"{root}/phase/phase")
    writer.array(f"{root}/loss/attention", np.full(positions, 1 / positions), f"{root}/loss/position")
    if not full:
        return
    # Two layers of three heads; head h of layer l loses (l + h) / 4 everywhere.
    writer.scale(f"{root}/layer", np.array([9, 17]), "1")
    writer.scale(f"{root}/kv_head", np.arange(3), "1")
    writer.scale(f"{root}/position", np.arange(positions))
    by_head = np.broadcast_to((np.arange(2)[:, None, None] + np.arange(3)[None, :, None]) / 4, (2, 3, positions))
    writer.array(f"{root}/loss_by_head/mass_loss", by_head.astype(np.float32),
                 [f"{root}/{name}" for name in ("layer", "kv_head", "position")])
    writer.array(f"{root}/loss_by_head/attention", np.full((2, 3, positions), 1 / positions),
                 [f"{root}/{name}" for name in ("layer", "kv_head", "position")])
    writer.scale(f"{root}/serving/time_s", np.arange(10.0), "s")
    for name, share in (("running", 8), ("waiting", 2), ("used_pages_share", 0.5), ("busy_share", 0.9)):
        writer.array(f"{root}/serving/{name}", np.full(10, float(share)), f"{root}/serving/time_s")
    scanned = np.arange(0, positions, 8)
    writer.scale(f"{root}/scan/position", scanned)
    writer.array(f"{root}/scan/success", (profile[scanned] < 0.5).astype(np.uint8), f"{root}/scan/position")
    writer.array(f"{root}/scan/margin", 1 - 2 * profile[scanned], f"{root}/scan/position")
    shift = np.arange(4 * block + 1)
    triangle = np.minimum(shift % (2 * block), -shift % (2 * block)) / block
    writer.scale(f"{root}/prefix/shift", shift)
    writer.array(f"{root}/prefix/sensitivity", triangle * profile.mean() * grid, f"{root}/prefix/shift")
    step = np.arange(1024)
    writer.scale(f"{root}/machine/decode_step", step, "1")
    writer.array(f"{root}/machine/step_us", 21000 * (0.4 + 0.6 * keep) + 800.0 * (step % block == block - 1),
                 f"{root}/machine/decode_step", "us")
    writer.array(f"{root}/machine/compress_us", 800.0 * (step % block == block - 1), f"{root}/machine/decode_step", "us")
    writer.array(f"{root}/machine/attention_us", np.full(1024, 21000 * 0.6 * keep), f"{root}/machine/decode_step", "us")
    duration = 21000 * (0.4 + 0.6 * keep) + 800.0 * (step % block == block - 1)
    writer.array(f"{root}/machine/start_us", np.cumsum(duration) - duration, f"{root}/machine/decode_step", "us")
    writer.array(f"{root}/machine/hbm_bytes", np.full(1024, keep * 2**35), f"{root}/machine/decode_step", "B")


@pytest.fixture(scope="session")
def demo_file(tmp_path_factory):
    """The made-up demo: 22 runs, 2,021 positions."""
    path = tmp_path_factory.mktemp("results") / "demo.h5"
    write_results(path)
    return path


@pytest.fixture(scope="session")
def long_file(tmp_path_factory):
    """One run of 131,072 positions with period 64: the profile that shows false periods when values are skipped."""
    path = tmp_path_factory.mktemp("results") / "long.h5"
    write_results(path, positions=131072, blocks=(64,), policies=(("evict-50", 0.5, 0.35, True),))
    return path
