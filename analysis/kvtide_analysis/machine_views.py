"""What the machine's figures show of a run: where a GPU's memory goes, and where the simulated time goes.

As in `views.py`, a view that cannot be made is a `Missing` with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .results import Results, RunArrays
from .views import Missing

GIB = float(1 << 30)


@dataclass(frozen=True)
class MemoryAccount:
    """One GPU's memory with the whole batch on it, in bytes; kv_full and kv without and with compression.

    Example: 80 GiB, of it weights 15, 60 for the cache: reserved is 5 (activations, an engine's reserve). A batch that needs 40
    leaves 20; one that needs 70 exceeds by 10.
    sequences_full, sequences: most sequences of this context at once.
    """

    total: float
    weights: float
    reserved: float
    capacity: float
    kv_full: float
    kv: float
    sequences_full: float
    sequences: float


@dataclass(frozen=True)
class StepParts:
    """Simulated time of each decode step by what it is spent on; all arrays [step], in ms.

    rest is what neither attention nor compression takes: weights, collectives, launches. Where kernels overlap, the parts may add up
    to more than the step; rest is then 0.
    """

    start: np.ndarray
    attention: np.ndarray
    compress: np.ndarray
    rest: np.ndarray


def memory_account(results: Results, run: int) -> MemoryAccount | Missing:
    """From the summary's columns."""
    names = ("gpu_memory_bytes", "weight_bytes_per_gpu", "kv_capacity_bytes", "kv_batch_bytes", "kv_bytes_full", "kv_bytes",
             "max_sequences_full", "max_sequences")
    if any(name not in results.summary for name in names):
        return Missing("the file does not tell a GPU's memory (measure: memory gives it; older files lack it)")
    values = {name: float(results.summary.at[run, name]) for name in names}
    if not all(np.isfinite(value) for value in values.values()) or values["kv_bytes"] <= 0:
        return Missing("the run has no memory account (measure: memory gives it)")
    weights, capacity = values["weight_bytes_per_gpu"], values["kv_capacity_bytes"]
    return MemoryAccount(total=values["gpu_memory_bytes"], weights=weights, capacity=capacity,
                         reserved=max(values["gpu_memory_bytes"] - weights - capacity, 0.0),
                         kv_full=values["kv_batch_bytes"] * values["kv_bytes_full"] / values["kv_bytes"],
                         kv=values["kv_batch_bytes"], sequences_full=values["max_sequences_full"], sequences=values["max_sequences"])


def step_parts(arrays: RunArrays) -> StepParts | Missing:
    """From the arrays of /runs/N/machine."""
    found = {name: arrays.array("machine", name) for name in ("start_us", "step_us", "attention_us", "compress_us")}
    if any(value is None or value.ndim != 1 or not value.size for value in found.values()):
        return Missing("the run has no steps by part (measure: time gives them)")
    ms = {name: value.to_numpy().astype(float) / 1000 for name, value in found.items()}
    rest = np.maximum(ms["step_us"] - ms["attention_us"] - ms["compress_us"], 0.0)
    return StepParts(ms["start_us"], ms["attention_us"], ms["compress_us"], rest)
