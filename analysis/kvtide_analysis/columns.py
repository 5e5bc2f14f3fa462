"""Summary columns: which are computed, which the table shows, and how their values are written."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Every computed column of /summary; any other column is a swept key.
COMPUTED = frozenset("""
kv_bytes_full kv_bytes memory_saving bytes_per_token peak_bytes decode_step_us_full decode_step_us decode_speedup
compress_us_per_block max_sequences_full max_sequences max_sequences_step_us_full max_sequences_step_us
max_sequences_tokens_per_s_per_gpu_full max_sequences_tokens_per_s_per_gpu max_context_tokens_full max_context_tokens kv_bound loss_mean
loss_worst loss_worst_over_mean loss_cvar05 longest_lost_run output_error bits_lost position_stability prefix_sensitivity
period grid_offset period_kind cycles periodicity_index periodicity_ratio periodicity_p edge_index edge_p free_blocks status
status_reason loss_metric loss_model loss_tokens period_certainty run_seed compression_setting warnings extrapolates
weight_bytes_per_gpu gpu_memory_bytes kv_capacity_bytes kv_batch_bytes
model_setting gpu_setting context_tokens_setting batch_setting loss_span_setting
""".split())


@dataclass(frozen=True)
class Shown:
    """A column of the report's table. `higher_is_better` is None for facts that are neither."""

    name: str
    title: str
    unit: str
    format: str
    higher_is_better: bool | None


TABLE = (
    Shown("memory_saving", "Saving", "%", "percent", True),
    Shown("decode_speedup", "Decode speed-up", "x", "factor", True),
    Shown("max_sequences", "Most concurrent sequences", "", "integer", True),
    Shown("max_sequences_step_us", "Their step (ms)", "", "milliseconds", False),
    Shown("max_sequences_tokens_per_s_per_gpu", "Their tokens/s per GPU", "", "integer", True),
    Shown("max_context_tokens", "Longest context", "tokens", "integer", True),
    Shown("loss_mean", "Mean loss", "", "loss", False),
    Shown("loss_worst", "Worst loss", "", "loss", False),
    Shown("goodput_per_s", "Goodput (requests/s)", "", "number", True),
    Shown("ttft_p95_s", "First token p95 (s)", "", "number", False),
    Shown("tpot_p95_s", "Time per token p95 (s)", "", "number", False),
    Shown("free_blocks", "Free blocks", "", "integer", None),
    Shown("period", "Period", "tokens", "integer", None),
)


def write(value: object, style: str) -> str:
    """A value for people. write(0.7188, "percent") -> "71.9 %"; milliseconds of microseconds; an en dash for what is missing."""
    if value is None or isinstance(value, str) or not math.isfinite(float(value)):
        return value if isinstance(value, str) and value else "–"
    number = float(value)
    if style == "percent":
        return f"{100 * number:.1f} %"
    if style == "factor":
        return f"{number:.2f} ×" if number < 100 else f"{number:.0f} ×"
    if style == "bits":
        return f"{number:.3g} bit"
    if style == "integer":
        return f"{number:,.0f}"
    if style == "milliseconds":
        return f"{number / 1000:.2f}"
    return f"{number:.3g}"


# The loss metrics in words, for axes.
METRIC_TITLES = {
    "mass_loss": "attention lost", "lost_mass": "attention lost, absolute", "output_loss": "output error",
    "output_loss_signed": "output error, signed", "bits_lost": "bits lost per element",
}


def metric_title(metric: str) -> str:
    return METRIC_TITLES.get(metric, metric)


def loss_style(metric: str) -> str:
    """Shares of attention are percentages; bits are bits; an output error is a plain number."""
    return "percent" if metric in ("mass_loss", "lost_mass") else "bits" if metric == "bits_lost" else "number"


def default_bound(metric: str | None) -> float | None:
    """Largest worst-span loss that a report accepts unless it is told; None where no loss of the metric is good or bad by itself."""
    return 0.2 if metric == "mass_loss" else None
