"""Command line: `report FILE.h5 [-o FILE.html]` and `plot FILE.h5 --what WHAT [-o FILE.png]`.

Exit codes are those of kvtide: 0 done, 2 wrong usage or input file, 3 environment (unwritable output, missing package).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from .exit_codes import exit_code
from .results import Results, ResultsError, open_results

PLOT_NAMES = ("pareto", "catalogue", "position", "phase", "spectrum", "steps", "prefix", "heads", "serving")


def main(arguments: list[str] | None = None) -> int:
    return exit_code(_parser().parse_args(arguments), ResultsError)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvtide_analysis", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Pictures of a result file of `kvtide run`: what each compression setting saves and where it loses information.",
        epilog="""examples:
  kvtide_analysis report results/demo.h5                       all of it on one page: results/demo.html
  kvtide_analysis plot results/demo.h5 --what pareto           results/demo-pareto.png
  kvtide_analysis plot results/demo.h5 --what phase --run 5 -o phase.pdf

exit codes: 0 done, 2 wrong usage or input file, 3 environment (unwritable output, missing package)""")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")

    report = commands.add_parser("report", allow_abbrev=False, help="one self-contained HTML page",
                                 description="Writes one HTML page that needs no network and no other file.")
    report.add_argument("file", metavar="FILE.h5")
    report.add_argument("-o", "--output", metavar="FILE.html", help="default: the input's name with .html")
    report.add_argument("--worst-max", type=_share, default=0.2, metavar="LOSS",
                        help="largest worst-span loss that the headline accepts (default 0.2)")
    report.set_defaults(handler=_report)

    plot = commands.add_parser("plot", allow_abbrev=False, help="one figure as PNG, SVG or PDF",
                               description="Draws one figure; the ending of -o chooses the format.")
    plot.add_argument("file", metavar="FILE.h5")
    plot.add_argument("--what", required=True, choices=(*PLOT_NAMES, "plan"),
                      help="pareto: savings against worst loss of all runs; catalogue: the same, each point named and coloured by its decode time; plan: cost, latency and worst loss of a file of kvtide plan; the others are of one run. phase has two panels: loss folded on the "
                           "period, and where its jumps fall")
    plot.add_argument("--run", type=int, metavar="N",
                      help="run number as in /summary/run (default: the run with the largest worst loss)")
    plot.add_argument("-o", "--output", metavar="FILE", help="default: FILE-WHAT.png beside the input")
    plot.set_defaults(handler=_plot)

    validation = commands.add_parser("validation", allow_abbrev=False, help="the picture of kvtide validate",
                                     description="Draws a file of `kvtide validate ... -o FILE.h5`.")
    validation.add_argument("file", metavar="FILE.h5")
    validation.add_argument("-o", "--output", metavar="FILE", help="default: FILE.png beside the input")
    validation.set_defaults(handler=_validation)

    reference = commands.add_parser("reference", allow_abbrev=False, help="the layout of result files as Markdown",
                                    description="Prints every attribute, column and array of the files with unit and meaning.")
    reference.add_argument("files", metavar="FILE.h5", nargs="+")
    reference.set_defaults(handler=_reference)

    proof = commands.add_parser("proof", allow_abbrev=False, help="the picture of kvtide validate scan",
                                description="Draws a file of `kvtide validate scan ... --rows ROWS.csv`.")
    proof.add_argument("file", metavar="ROWS.csv")
    proof.add_argument("-o", "--output", metavar="FILE", help="default: ROWS.png beside the input")
    proof.set_defaults(handler=_proof)

    spread = commands.add_parser("spread", allow_abbrev=False, help="how far losses carry from one text to another",
                                 description="Quantiles between the texts of rows written by `kvtide validate scan --rows`, and each text's own figures.")
    spread.add_argument("file", metavar="ROWS.csv")
    spread.add_argument("-o", "--output", metavar="TEXTS.csv", help="a row a text and setting")
    spread.set_defaults(handler=_spread)

    check = commands.add_parser("check", allow_abbrev=False, help="are the packages for pages and pictures here",
                                description="Imports what `report` and `plot` need and prints the versions.")
    check.set_defaults(handler=_check)
    return parser


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number from 0, got {text}")
    return value


def _report(options: argparse.Namespace) -> int:
    from .report import render

    output = options.output or os.path.splitext(options.file)[0] + ".html"
    page = render(open_results(options.file), worst_max=options.worst_max)
    _write(output, page.encode("utf-8"))
    print(output)
    return 0


def _plot(options: argparse.Namespace) -> int:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if options.what == "plan":
        from .plan import plot_plan, read_plan

        plan = read_plan(options.file)
        output = options.output or f"{os.path.splitext(options.file)[0]}-plan.png"
        figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
        plot_plan(list(axes), plan)
        figure.suptitle(plan.title, fontsize="medium")
        figure.savefig(output, dpi=160)
        print(output)
        return 0

    from .plots import PLOTS
    from .settings import run_label

    results = open_results(options.file)
    run = _chosen_run(results) if options.run is None else options.run
    output = options.output or f"{os.path.splitext(options.file)[0]}-{options.what}.png"
    panels = PLOTS[options.what]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(7.2 if len(panels) == 1 else 10.5, 4.2), layout="constrained", squeeze=False)
    for panel, drawn_on in zip(panels, axes[0]):
        panel(drawn_on, results, run)
    if options.what not in ("pareto", "catalogue"):
        figure.suptitle(run_label(results, run), fontsize="medium")
    try:
        figure.savefig(output, dpi=160)
    except ValueError as error:
        raise ResultsError(f"{output}: {error}") from error
    print(output)
    return 0


def _validation(options: argparse.Namespace) -> int:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from .validation import draw

    output = options.output or os.path.splitext(options.file)[0] + ".png"
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
    draw(options.file, list(axes))
    figure.savefig(output, dpi=160)
    return 0


def _reference(options: argparse.Namespace) -> int:
    from .reference import render

    print(render(options.files), end="")
    return 0


def _proof(options: argparse.Namespace) -> int:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from .proof import SHOWN, draw_configurations, draw_prefix
    from .spread import read_rows

    rows = read_rows(options.file)
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 6.4), layout="constrained")
    for panel, setting in zip(axes.flat, SHOWN):
        draw_prefix(panel, rows, *setting)
        panel.set_xlabel("tokens in front")
    axes.flat[0].legend(fontsize="x-small")
    draw_configurations(axes.flat[3], rows)
    output = options.output or os.path.splitext(options.file)[0] + ".png"
    figure.savefig(output, dpi=130)
    print(output)
    return 0


def _spread(options: argparse.Namespace) -> int:
    from .spread import between_texts, by_text, read_rows

    texts = by_text(read_rows(options.file))
    if options.output:
        _write(options.output, texts.to_csv(index=False, float_format="%.4f").encode("utf-8"))
    print(between_texts(texts).to_string(index=False))
    return 0


def _check(options: argparse.Namespace) -> int:
    import h5py
    import matplotlib
    import plotly
    import xarray

    versions = [f"{package.__name__} {package.__version__}" for package in (h5py, xarray, matplotlib, plotly)]
    print(f"  Python {sys.version.split()[0]}: {', '.join(versions)}")
    return 0


def _chosen_run(results: Results) -> int:
    """The run that shows most: with the largest worst loss; the first where no loss was measured."""
    worst = results.summary.get("loss_worst")
    return int(results.summary.index[0] if worst is None or worst.isna().all() else worst.idxmax())


def _write(path: str, content: bytes) -> None:
    """Whole or not at all: a partial file in the same folder is renamed at the end."""
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=os.path.basename(path) + ".partial-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
