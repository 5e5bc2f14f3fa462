"""The pictures of the README, from a finished demo: savings against worst loss, loss by position, and the report's top as a browser shows it.

    ./kvtide demo && python3 analysis/make_readme_pictures.py results/demo.h5

Writes docs/demo-pareto.png, docs/demo-position.png and, where there is a Chromium, docs/demo-report.png.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from kvtide_analysis import open_results, plots, report, settings

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
REPORT_SIZE = (1200, 1000)  # pixels
DPI = 130


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("file", metavar="FILE.h5")
    parser.add_argument("-o", "--output", metavar="FOLDER", type=pathlib.Path, default=DOCS, help="default: docs/ of this repository")
    parser.add_argument("--run", type=int, default=8, metavar="N", help="run drawn by position (default 8: evict 50 %%, B 128)")
    parser.add_argument("--catalogue", metavar="FILE.h5", help="results of experiments/catalogue.yaml: also docs/catalogue-pareto.png")
    options = parser.parse_args()
    results = open_results(options.file)
    options.output.mkdir(parents=True, exist_ok=True)
    draw_pareto(results, options.output / "demo-pareto.png")
    draw_position(results, options.run, options.output / "demo-position.png")
    draw_report(results, options.output / "demo-report.png")
    if options.catalogue:
        draw_catalogue(open_results(options.catalogue), options.output / "catalogue-pareto.png")
    return 0


def draw_pareto(results, path: pathlib.Path) -> None:
    figure, axes = pyplot.subplots(figsize=(7.2, 3.8), layout="constrained")
    plots.plot_pareto(axes, results)
    save(figure, path)


def draw_catalogue(results, path: pathlib.Path) -> None:
    """Every preset: savings against worst loss, decode time as colour."""
    figure, axes = pyplot.subplots(figsize=(8.2, 5.2), layout="constrained")
    plots.plot_catalogue(axes, results)
    save(figure, path)


def draw_position(results, run: int, path: pathlib.Path) -> None:
    """Loss by position above; below, folded on the period: its level and its jumps."""
    figure, axes = pyplot.subplot_mosaic([["position", "position"], ["phase", "jumps"]], figsize=(8.2, 5.6), layout="constrained")
    plots.plot_position(axes["position"], results, run)
    plots.plot_phase(axes["phase"], results, run)
    plots.plot_jumps(axes["jumps"], results, run)
    figure.suptitle(f"{settings.run_label(results, run)}: loss by position, and folded on the block grid", fontsize="medium")
    save(figure, path)


def save(figure, path: pathlib.Path) -> None:
    figure.savefig(path, dpi=DPI, metadata={"Software": None})  # the same bytes from the same result
    pyplot.close(figure)
    print(path)


def draw_report(results, path: pathlib.Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print(f"{path} is not made: no Chromium found", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "demo.html"
        page.write_text(report.render(results, worst_max=0.2), encoding="utf-8")
        subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
                        f"--window-size={REPORT_SIZE[0]},{REPORT_SIZE[1]}", "--virtual-time-budget=20000", f"--screenshot={path}",
                        page.as_uri()], check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(path)


if __name__ == "__main__":
    sys.exit(main())
