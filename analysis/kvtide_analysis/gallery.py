"""Every picture of the README and of docs/, and with `every` one of each kind that there is, from one command.

    kvtide_analysis gallery                 docs/*.png; computes what is not in results/ yet
    kvtide_analysis gallery --every -o all/   every kind of plot beside them

What a picture is drawn from is computed by `kvtide` once and kept: results/demo.h5 and so on. The proof is drawn from the rows of
`kvtide validate scan`, which needs a model; where there are none the picture is named and left as it is.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from . import kernel_timeline, plan, plots, proof, report, settings, spread
from .results import open_results

ROOT = pathlib.Path(__file__).resolve().parents[2]
DPI = 130
REPORT_SIZE = (1200, 1000)  # pixels
DEMO_RUN = 8  # evict 50 %, B 128: the run drawn by position

# What pictures are drawn from: file in the results folder -> the words of `kvtide` that make it, {out} being that file.
SOURCES = {
    "demo.h5": ("run", "experiments/demo.yaml", "-o", "{out}", "--quiet"),
    "catalogue.h5": ("run", "experiments/catalogue.yaml", "-o", "{out}", "--quiet"),
    "serving.h5": ("run", "experiments/serving.yaml", "-o", "{out}", "--quiet"),
    "every-measure.h5": ("run", "experiments/every-measure.yaml", "-o", "{out}", "--quiet"),
    "mitigations.h5": ("run", "experiments/mitigations.yaml", "-o", "{out}", "--quiet"),
    "chat.h5": ("plan", "experiments/planning/chat-h100.yaml", "-o", "{out}", "--quiet"),
    "timeline.json": ("run", "experiments/demo.yaml", "--shard", "6/21", "--quiet", "--timeline", "{out}", "-o", "{out}.h5"),
    "proof.csv": (),  # kvtide validate scan PROMPTS.h5 MEASURED.csv... --rows results/proof.csv
}


@dataclass(frozen=True)
class Picture:
    """source: a key of SOURCES; draw(source, picture) writes the picture."""

    source: str
    draw: Callable[[pathlib.Path, pathlib.Path], None]


def draw_pictures(output: pathlib.Path, results: pathlib.Path, program: str, every: bool) -> list[str]:
    """Writes the pictures into `output` and prints their names. @return what could not be drawn, and why, a line each"""
    wanted = {**PICTURES, **(KINDS if every else {})}
    output.mkdir(parents=True, exist_ok=True)
    results.mkdir(parents=True, exist_ok=True)
    left_out = []
    for name, picture in wanted.items():
        source = results / picture.source
        if not source.exists() and not SOURCES[picture.source]:
            left_out.append(f"{name}: needs {source} (kvtide validate scan ... --rows {source})")
            continue
        if not source.exists():
            words = [word.format(out=source) for word in SOURCES[picture.source]]
            print(f"kvtide {' '.join(words)}", file=sys.stderr)
            done = subprocess.run([program, *words], cwd=ROOT, stdout=subprocess.DEVNULL)
            if done.returncode != 0:
                left_out.append(f"{name}: kvtide {' '.join(words)} ended with {done.returncode}")
                continue
        try:
            picture.draw(source, output / name)
        except FileNotFoundError as error:
            left_out.append(f"{name}: {error}")
            continue
        print(output / name)
    return left_out


def _one(what: str, run: int | None = None, size: tuple[float, float] = (7.2, 3.8)) -> Callable[[pathlib.Path, pathlib.Path], None]:
    """The panels of `plot --what`, side by side; run: None where the plot is of all runs."""

    def draw(source: pathlib.Path, picture: pathlib.Path) -> None:
        opened, panels = open_results(source), plots.PLOTS[what]
        figure, axes = pyplot.subplots(1, len(panels), figsize=(size[0] * (1 if len(panels) == 1 else 1.5), size[1]), layout="constrained",
                                       squeeze=False)
        for panel, drawn_on in zip(panels, axes[0]):
            panel(drawn_on, opened, run or 0)
        if run is not None:
            figure.suptitle(settings.run_label(opened, run), fontsize="medium")
        _save(figure, picture)

    return draw


def _position(source: pathlib.Path, picture: pathlib.Path) -> None:
    """Loss by position above; below, folded on the period: its level and its jumps."""
    opened = open_results(source)
    figure, axes = pyplot.subplot_mosaic([["position", "position"], ["phase", "jumps"]], figsize=(8.2, 5.6), layout="constrained")
    plots.plot_position(axes["position"], opened, DEMO_RUN)
    plots.plot_phase(axes["phase"], opened, DEMO_RUN)
    plots.plot_jumps(axes["jumps"], opened, DEMO_RUN)
    figure.suptitle(f"{settings.run_label(opened, DEMO_RUN)}: loss by position, and folded on the block grid", fontsize="medium")
    _save(figure, picture)


def _report(source: pathlib.Path, picture: pathlib.Path) -> None:
    """The report's top as a browser shows it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise FileNotFoundError("no Chromium found")
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "demo.html"
        page.write_text(report.render(open_results(source), worst_max=0.2), encoding="utf-8")
        subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
                        f"--window-size={REPORT_SIZE[0]},{REPORT_SIZE[1]}", "--virtual-time-budget=20000",
                        f"--screenshot={picture.resolve()}", page.as_uri()],
                       check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _plan(source: pathlib.Path, picture: pathlib.Path) -> None:
    _save(plan.figure_of(plan.read_plan(os.fspath(source))), picture)


def _proof(source: pathlib.Path, picture: pathlib.Path) -> None:
    _save(proof.figure_of(spread.read_rows(os.fspath(source))), picture)


def _kernels(source: pathlib.Path, picture: pathlib.Path) -> None:
    _save(kernel_timeline.figure_of(kernel_timeline.read_timeline(os.fspath(source))), picture)


def _save(figure, path: pathlib.Path) -> None:
    figure.savefig(path, dpi=DPI, metadata={"Software": None})  # the same bytes from the same result
    pyplot.close(figure)


# The pictures of the README and of docs/*.md, by their name in docs/.
PICTURES = {
    "demo-pareto.png": Picture("demo.h5", _one("pareto")),
    "demo-position.png": Picture("demo.h5", _position),
    "demo-report.png": Picture("demo.h5", _report),
    "catalogue-pareto.png": Picture("catalogue.h5", _one("catalogue", size=(8.2, 5.2))),
    "mitigations.png": Picture("mitigations.h5", _one("remedies", size=(7.2, 4.6))),
    "plan-chat.png": Picture("chat.h5", _plan),
    "proof-prefix.png": Picture("proof.csv", _proof),
}

# One of each kind, where it shows something.
KINDS = {
    **{f"kind-{what}.png": Picture("demo.h5", _one(what, DEMO_RUN))
       for what in ("position", "phase", "spectrum", "prefix", "steps", "memory",
                                                                              "timeline")},
    "kind-heads.png": Picture("every-measure.h5", _one("heads", 1)),
    "kind-serving.png": Picture("serving.h5", _one("serving", 0)),
    "kind-kernels.png": Picture("timeline.json", _kernels),
}
