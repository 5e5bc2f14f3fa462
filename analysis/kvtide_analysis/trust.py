"""How far kvtide can be trusted: every part of the model beside what it was checked against, from `kvtide validate`.

One command, `kvtide validate all FOLDER`, runs the checks whose data FOLDER holds (laid out like the project's reference data) and
writes one table: rows compared, the median error, the range that 80 % of the rows lie in, and where the part extrapolates. A part
whose data are not there is named, never left out in silence. The predictions are those of `kvtide validate`; this only counts.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from .results import ResultsError
from .validation import read_columns

BEGIN, END = "<!-- begin: kvtide validate all -->", "<!-- end: kvtide validate all -->"
OPERATIONS = {
    "decode_attn": ("decode attention",
                    "beyond 131,072 positions; formats below 8 bit; batches between powers of two; cold L2: every row is warm"),
    "mla_decode": ("latent decode attention", "other latent sizes than 512 + 64"),
    "prefill_attn": ("prefill attention", "prompts over 16,384 tokens; prefixes that are cached"),
    "gemm": ("matrix products", "int4 weights on GPUs without rows; fp4 weights beside 16-bit activations"),
    "quantize": ("cast to 8 bit", "casts to fewer bits"),
    "comm": ("collectives", "more than 8 GPUs; between nodes"),
    "compressed_decode": ("modules over sparse KV", "other sparse methods than DSA and DeepSeek's compressed attention"),
}


@dataclass(frozen=True)
class Part:
    """One line of the table. Errors in percent, signed: above 0 is predicted too large; median is that of the absolute error."""

    part: str
    against: str
    rows: int
    median: float
    low: float
    high: float
    worst: str
    beyond: str
    missing: str = ""


def validate(program: str, folder: pathlib.Path, captures: str | None = None) -> list[Part]:
    """Every part, in the order of the model: kernels, memory, serving, choices of a policy, losses. One whose data cannot be read is
    named like one without data; the others are still checked."""
    checks = {"kernel times": _measured, "kernel times, their GPU left out": _left_out, "device memory": _dram,
              "serving, step times of the modeled GPU": _step_times, "serving, scheduling rules alone": _scheduler,
              "preemptions": _preemptions, "quantized KV": _quantized, "what a policy keeps": _kept,
              "loss: nats of an answer under an evicted cache": lambda ask, data: _answers(ask, data, captures)}  # fmt: skip
    parts = []
    for name, check in checks.items():
        try:
            parts += check(lambda *words: _ask(program, words), folder)
        except ResultsError as failure:
            parts += _absent(name, str(failure).splitlines()[0].replace("|", "/"))
    return parts


def table(parts: list[Part]) -> str:
    """Markdown, misses of data last."""
    lines = ["| part | checked against | rows | median error | 80 % of the rows | farthest off | extrapolates |",
             "|---|---|---|---|---|---|---|"]
    for part in sorted(parts, key=lambda part: bool(part.missing)):
        if part.missing:
            lines.append(f"| {part.part} | not checked: {part.missing} | | | | | {part.beyond} |")
        else:
            lines.append(f"| {part.part} | {part.against} | {part.rows:,} | {part.median:.1f} % | "
                         f"{_signed(part.low)} to {_signed(part.high)} % | {part.worst} | {part.beyond} |")
    return "\n".join(lines) + "\n"


def _signed(percent: float) -> str:
    """Example: 1.23 -> "+1.2"; -0.04 -> "+0.0", not "-0.0"."""
    return f"{round(percent, 1) + 0.0:+.1f}"


def json_text(parts: list[Part]) -> str:
    """{"parts": [{...}]}; a number that is not there is null."""
    rows = [{name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in asdict(part).items()}
            for part in parts]
    return json.dumps({"parts": rows}, indent=1)


def put_into(page: str, text: str) -> str:
    """The page with what stands between the two markers replaced. Raises ResultsError where they are not there once each, in order."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest:
        raise ResultsError(f"the page needs the lines {BEGIN} and {END}, once each")
    return f"{before}{BEGIN}\n{text}{END}{after}"


Ask = Callable[..., tuple[dict, pd.DataFrame]]


def _ask(program: str, words: tuple[str, ...]) -> tuple[dict, pd.DataFrame]:
    """The JSON document of `kvtide validate words`, and its rows where the words hold "{csv}" or "{h5}", a file to write (else none)."""
    with tempfile.TemporaryDirectory() as folder:
        table, file = (os.path.join(folder, name) for name in ("rows.csv", "rows.h5"))
        done = subprocess.run([program, "validate", *(word.format(csv=table, h5=file) for word in words), "--json"], capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise ResultsError(f"kvtide validate {words[0]} ended with {done.returncode}: {done.stderr.strip()}")
        if os.path.exists(table):
            rows = pd.read_csv(table)
        else:
            rows = pd.DataFrame(read_columns(file, "rows")) if os.path.exists(file) else pd.DataFrame()
        return json.loads(done.stdout), rows


def _part(name: str, against: str, errors: np.ndarray, groups: np.ndarray | None, beyond: str) -> Part:
    """errors: signed, percent. groups: of each error; the one with the largest median is named.

    Example: errors -10, 0, 30 -> median of the absolute ones 10; 80 % lie between the 10th and the 90th percentile, -8 and +24.
    """
    errors = np.asarray(errors, float)
    worst = ""
    if groups is not None:
        medians = pd.Series(np.abs(errors)).groupby(np.asarray(groups)).median().sort_values()
        worst = f"{medians.index[-1]} {medians.iloc[-1]:.0f} %"
    low, high = np.quantile(errors, [0.1, 0.9])
    return Part(name, against, len(errors), float(np.median(np.abs(errors))), float(low), float(high), worst, beyond)


def _absent(name: str, why: str, beyond: str = "") -> list[Part]:
    return [Part(name, "", 0, float("nan"), float("nan"), float("nan"), "", beyond, why)]


def _predicted(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["measured_us"] > 0) & np.isfinite(rows["predicted_us"])]


def _kernel_rows(ask: Ask, data: pathlib.Path, *more: str) -> pd.DataFrame:
    _, rows = ask("measured", str(data / "measured"), "-o", "{h5}", *more)
    return rows


def _measured(ask: Ask, data: pathlib.Path) -> list[Part]:
    if not (data / "measured").is_dir():
        return _absent("kernel times", f"no {data.name}/measured")
    return _by_operation(_kernel_rows(ask, data), "")


def _left_out(ask: Ask, data: pathlib.Path) -> list[Part]:
    if not (data / "measured").is_dir():
        return []
    return _by_operation(_kernel_rows(ask, data, "--leave-out", "each"), ", its GPU left out")


def _by_operation(rows: pd.DataFrame, suffix: str) -> list[Part]:
    parts = []
    for operation, (name, beyond) in OPERATIONS.items():
        of_operation = _predicted(rows[rows["operation"] == operation]) if len(rows) else rows
        if len(of_operation):
            errors = 100 * (of_operation["predicted_us"] / of_operation["measured_us"] - 1)
            gpus = of_operation["gpu"].nunique()
            parts.append(_part(name + suffix, f"measured kernels of {gpus} GPUs", errors,
                               of_operation["gpu"] + " " + of_operation["framework"],
                               "GPUs of other makers" if suffix else beyond))
    return parts


def _dram(ask: Ask, data: pathlib.Path) -> list[Part]:
    if not (data / "dram-reference.csv").exists():
        return _absent("device memory", f"no {data.name}/dram-reference.csv")
    document, _ = ask("dram", str(data / "dram-reference.csv"))
    rows = pd.DataFrame(document["rows"]).dropna(subset=["predicted_fraction"])
    busy, idle = rows[~rows["pattern"].str.startswith("idle_")], rows[rows["pattern"].str.startswith("idle_")]
    parts = [_part("device memory: bandwidth", "two DRAM simulators on the same streams",
                   100 * (busy["predicted_fraction"] / busy["achieved_fraction"] - 1), busy["standard"] + " " + busy["pattern"],
                   "address maps of real GPUs, which nobody publishes")]
    if len(idle):
        parts.append(_part("device memory: latency when idle", "two DRAM simulators",
                           100 * (idle["predicted_mean_latency_ns"] / idle["mean_latency_ns"] - 1), idle["standard"], "latency under load"))
    return parts


def _served(ask: Ask, data: pathlib.Path, step_times: str, name: str, beyond: str) -> list[Part]:
    if not (data / "e2e" / "runs.csv").exists():
        return _absent(name, f"no {data.name}/e2e/runs.csv", beyond)
    document, _ = ask("e2e", str(data / "e2e"), "--step-times", step_times)
    rows = pd.DataFrame(document["runs"])
    return [_part(name, f"{rows['run'].nunique()} vLLM runs, mean and percentiles of three latencies", rows["error_percent"],
                  rows["run"].str.split("_").str[0] + " " + rows["metric"].str.removesuffix("_ms"), beyond)]


def _step_times(ask: Ask, data: pathlib.Path) -> list[Part]:
    return _served(ask, data, "machine", "serving, step times of the modeled GPU", "SGLang and TensorRT-LLM; more than 2 GPUs")


def _scheduler(ask: Ask, data: pathlib.Path) -> list[Part]:
    return _served(ask, data, "tables", "serving, scheduling rules alone", "vLLM versions other than 0.19")


def _published(ask: Ask, data: pathlib.Path) -> dict | None:
    needed = ("preemption_watermark.csv", "kv_quant_serving.csv")
    if not all((data / "e2e" / name).exists() for name in needed):
        return None
    return ask("serving", str(data / "e2e"))[0]


def _preemptions(ask: Ask, data: pathlib.Path) -> list[Part]:
    document = _published(ask, data)
    if document is None:
        return _absent("preemptions", f"no {data.name}/e2e/preemption_watermark.csv")
    rows = pd.DataFrame(document["preemptions"])
    return [_part("preemptions", "one published engine at five watermarks", 100 * (rows["predicted"] / rows["measured"] - 1), None,
                  "other loads than 128 clients in a closed loop")]


def _quantized(ask: Ask, data: pathlib.Path) -> list[Part]:
    document = _published(ask, data)
    if document is None:
        return []
    rows = pd.DataFrame(document["quantized"])
    rows = rows[rows["not_predicted"].isna()] if "not_predicted" in rows else rows
    beyond = "methods whose kernels are not published"
    return [_part(f"quantized KV: {name}", "published serving figures", 100 * (rows[f"predicted_{column}"] / rows[column] - 1),
                  rows["method"], beyond)
            for name, column in (("capacity", "capacity_ratio"), ("throughput", "throughput_ratio"))]


def _kept(ask: Ask, data: pathlib.Path) -> list[Part]:
    files = [data / name for name in ("smollm2-135m-trace-2k.h5", "smollm2-135m-trace-2k-more.h5", "kvpress-reference-2k.h5")]
    beyond = "methods of which kvpress has no code"
    if not all(file.exists() for file in files):
        return _absent("what a policy keeps", f"no {data.name}/kvpress-reference-2k.h5 and its trace", beyond)
    document, _ = ask("kept", *map(str, files))
    rows = pd.DataFrame(document["methods"]).dropna(subset=["agreement"])
    differing = 100 * (1 - rows["agreement"].astype(float))
    return [_part("what a policy keeps (share decided otherwise)", f"kvpress, {rows['method'].nunique()} methods on one trace", differing,
                  rows["method"], beyond)]


def _answers(ask: Ask, data: pathlib.Path, captures: str | None) -> list[Part]:
    name, beyond = "loss: nats of an answer under an evicted cache", "int2, int4 and pooled caches; other models; other probes than codes"
    prompts, scans = data / "real-scan-prompts.h5", sorted(data.glob("real-*-scan*.csv"))
    if not prompts.exists() or not scans:
        return _absent(name, f"no {data.name}/real-scan-prompts.h5", beyond)
    if captures is None:
        return _absent(name, "needs recordings of the model (--captures FOLDER; kvtide_analysis capture makes them)", beyond)
    document, rows = ask("scan", str(prompts), *map(str, scans), "--captures", captures, "--rows", "{csv}")
    evicted = rows[rows["policy"] == "evict"]
    means = evicted.groupby(["scan", "mode", "block", "ratio", "head_scope"])[["loss", "predicted_loss"]].mean().reset_index()
    means = means[means["loss"] > 0.2]  # nats; below, a ratio says nothing
    return [_part(f"{name} (AUC {document['pooled_auc']:.3f})", f"a real model's {len(evicted):,} answers, means of settings",
                  100 * (means["predicted_loss"] / means["loss"] - 1), means["scan"] + " " + means["mode"], beyond)]
