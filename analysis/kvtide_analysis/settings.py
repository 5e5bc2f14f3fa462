"""What a report needs to know of the experiment: the resolved settings and swept columns of the summary, in older files the stored YAML."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd
import yaml

from .columns import COMPUTED
from .results import SUPPORTED_SCHEMA, Results

# Defaults of the experiment file, for keys that it does not give.
DEFAULT_BLOCK_SIZE = 128
DEFAULT_METRIC = "mass_loss"
DEFAULT_SPAN = 8
MOST_NAMED = 3  # settings that one warning names
MOST_PERIOD = 1 << 20  # tokens; a larger block or period is that of a damaged file, and a fold on it would not fit in memory


def experiment(results: Results) -> dict[str, Any]:
    """The experiment as a mapping; empty where the file stores none or it cannot be read."""
    return _mapping(str(results.attrs.get("experiment_yaml", "")))


def lookup(document: dict[str, Any], dotted: str, default: Any = None) -> Any:
    """Value at a dotted key ("loss.metric"), or the default."""
    value: Any = document
    for key in dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value


def swept_columns(results: Results) -> list[str]:
    """Columns that say what was varied: the file's own list, in older files those that are no computed quantity."""
    if "swept_keys" in results.attrs:
        keys = str(results.attrs["swept_keys"]).split("\n")
        return [name for name in results.summary.columns if name in keys]
    return [name for name in results.summary.columns if name not in COMPUTED]


def block_size(results: Results, run: int) -> int:
    """block_size of a run in tokens; 0 where unreadable.

    From its swept column, else the resolved setting of the run (which knows --set and presets), else the experiment, else the default.
    """
    for name in swept_columns(results):
        if name.rsplit(".", 1)[-1] == "block_size":
            return _positive(results.summary.at[run, name])
    if "compression_setting" in results.summary:
        resolved = _mapping(str(results.summary.at[run, "compression_setting"]))
        if "block_size" in resolved:
            return _positive(resolved["block_size"])
    return _positive(lookup(experiment(results), "compression.block_size", DEFAULT_BLOCK_SIZE))


def resolved(results: Results, key: str) -> list[Any]:
    """The different values that a key ("model", "batch") has in the runs, in their order: what --set, includes and sweeps made of it.

    From the column KEY_setting; a file that was written without has what its experiment says. Empty where nothing is known.
    """
    column = results.summary.get(key.replace(".", "_") + "_setting")
    if column is None:
        value = lookup(experiment(results), key)
        return [value] if isinstance(value, (str, int)) else []
    values = [value for value in column.dropna() if value != ""]
    return list(dict.fromkeys(value if isinstance(value, str) else int(value) for value in values))


def loss_metric(results: Results, run: int) -> str:
    """The profile that loss_mean, loss_worst and the period of a run are taken from."""
    stored = results.summary.at[run, "loss_metric"] if "loss_metric" in results.summary else ""
    return stored if isinstance(stored, str) and stored else str(lookup(experiment(results), "loss.metric", DEFAULT_METRIC))


def metrics(results: Results) -> list[str]:
    """The different metrics of the runs that have a loss, of all runs where none has: losses of two metrics cannot be compared."""
    loss = results.summary.get("loss_worst", pd.Series(dtype=float)).dropna()
    return sorted({loss_metric(results, run) for run in (loss if len(loss) else results.summary).index})


def span(results: Results, run: int) -> int:
    """Positions in a span of `loss_worst`."""
    stored = _positive(results.summary.at[run, "loss_span_setting"]) if "loss_span_setting" in results.summary else 0
    return stored or _positive(lookup(experiment(results), "loss.span", DEFAULT_SPAN)) or DEFAULT_SPAN


def is_recorded(results: Results) -> bool:
    """Whether any loss was measured on recorded attention: then it is that of one text. Made-up attention has none."""
    models = results.summary["loss_model"] if "loss_model" in results.summary else [results.attrs.get("loss_model", "")]
    return any(isinstance(model, str) and model and not model.startswith("synthetic ") for model in models)


def short_model(name: str) -> str:
    """A model's name without how it was stored: "SmolLM2-135M (GGUF Q4_1, dequantised)" -> "SmolLM2-135M"."""
    return name.split(" (", 1)[0].strip() or name


def digits(value: Any) -> str:
    """Every digit that tells two numbers apart: 1234567 and 1234568, 0.1 and 0.1000001. Whole numbers have no point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def run_label(results: Results, run: int) -> str:
    """Short name of a run from what was varied: "evict-half, B 64"; "run 3" where nothing was."""
    parts = []
    for name in sorted(swept_columns(results), key=lambda column: isinstance(results.summary.at[run, column], str),
                       reverse=True):
        value, key = results.summary.at[run, name], name.rsplit(".", 1)[-1]
        if isinstance(value, str):
            parts.append(value)
        elif pd.notna(value):
            parts.append(f"{'B' if key == 'block_size' else key} {digits(value)}")
    return ", ".join(parts) or f"run {run}"


def shortened(name: str, longest: int = 44) -> str:
    """As much of both ends as a picture has room for: settings written out differ at either."""
    return name if len(name) <= longest else f"{name[:longest - 18]}…{name[-17:]}"


def warnings(results: Results) -> list[str]:
    """What a reader must know before trusting the figures; empty when there is nothing."""
    found = []
    served, contexts = resolved(results, "model"), resolved(results, "context_tokens")
    recorded, measured = short_model(str(results.attrs.get("loss_model", ""))), results.attrs.get("loss_tokens")
    context = contexts[0] if len(contexts) == 1 else None
    if recorded and served and served != [recorded]:
        model = served[0] if len(served) == 1 else "each run's own model"
        found.append(f"Loss and machine are of two models: loss was measured on the attention of {recorded}{_tokens(measured)}; bytes and "
                     f"times are those of {model}{_tokens(context)}. Score-driven choices are carried over; losses are {recorded}'s.")
    elif isinstance(measured, int) and contexts and contexts != [measured]:
        length = _tokens(context) or f" over {len(contexts)} other lengths"
        found.append(f"Context lengths differ: loss was measured{_tokens(measured)}, bytes and times{length}.")
    found += str(results.attrs.get("warnings", "") or "").splitlines()
    said: dict[str, list[int]] = {}
    for run, row in results.summary.iterrows():
        if row.get("status") == "failed":
            said.setdefault(f" has no result: {row.get('status_reason') or 'no reason stored'}.", []).append(run)
        elif row.get("warnings"):
            said.setdefault(f": {row['warnings']}", []).append(run)
    for text, runs in said.items():
        named = "; ".join(run_label(results, run) for run in runs[:MOST_NAMED])
        found.append(f"{named}{f' and {len(runs) - MOST_NAMED} more' if len(runs) > MOST_NAMED else ''}{text}")
    schema = results.attrs.get("schema_version", SUPPORTED_SCHEMA)
    if schema != SUPPORTED_SCHEMA:
        found.append(f"The file has schema_version {schema}; this program knows {SUPPORTED_SCHEMA}: figures may be missing.")
    if not experiment(results):
        found.append("The file stores no readable experiment: defaults are assumed for block_size and the loss metric.")
    return found


def extrapolations(results: Results) -> list[str]:
    """Where runs leave what kvtide was compared with, each sentence once, with how many settings it concerns."""
    counts: dict[str, int] = {}
    for text in results.summary.get("extrapolates", pd.Series(dtype=str)):
        for sentence in filter(None, str(text).split("; ")):
            counts[sentence] = counts.get(sentence, 0) + 1
    return [f"{sentence} ({count} of {len(results)} settings)" for sentence, count in counts.items()]


def _tokens(count: Any) -> str:
    return f" over {count:,} tokens" if isinstance(count, int) else ""


@functools.lru_cache(maxsize=1024)
def _mapping(text: str) -> dict[str, Any]:
    """The YAML mapping in `text`, parsed once; shared, so never changed by a caller."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _positive(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 < number <= MOST_PERIOD else 0
