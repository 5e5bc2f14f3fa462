"""The command line. What a command needs is imported by its handler, so that `scan-endpoint` needs nothing but Python.

Exit codes are those of kvtide: 0 done, 2 wrong usage or input file, 3 environment (unwritable output, missing package), 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys

from . import live
from .exit_codes import InputError, exit_code
from .output_file import is_stream, require_other_than, write_whole

PLOT_NAMES = ("pareto", "catalogue", "remedies", "position", "phase", "spectrum", "steps", "prefix", "heads", "serving", "memory",
              "timeline")


def main(arguments: list[str] | None = None) -> int:
    return exit_code(_parser().parse_args(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvtide_analysis", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Pictures of a result file of `kvtide run`: what each compression setting saves and where it loses information; "
        "scans and recordings of real models.",
        epilog="""examples:
  kvtide_analysis report results/demo.h5                       all of it on one page: results/demo.html
  kvtide_analysis plot results/demo.h5 --what pareto           results/demo-pareto.png
  kvtide_analysis plot results/demo.h5 --what phase --run 5 -o phase.pdf

exit codes: 0 done, 2 wrong usage or input file, 3 environment (unwritable output, missing package), 130 interrupted""")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")

    report = commands.add_parser("report", allow_abbrev=False, help="one self-contained HTML page",
                                 description="Writes one HTML page that needs no network and no other file.")
    report.add_argument("file", metavar="FILE.h5")
    report.add_argument("-o", "--output", metavar="FILE.html", help="default: the input's name with .html")
    report.add_argument("--worst-max", type=_share, metavar="LOSS",
                        help="largest worst-span loss that the headline accepts, in the metric's unit (default 0.2 of the attention; none "
                             "for other metrics)")
    report.add_argument("--quiet", action="store_true", help="print nothing")
    report.add_argument("--json", action="store_true", help="name and size of the page as JSON")
    report.set_defaults(handler=_report)

    plot = commands.add_parser("plot", allow_abbrev=False, help="one figure as PNG, SVG or PDF",
                               description="Draws one figure; the ending of -o chooses the format.")
    plot.add_argument("file", metavar="FILE.h5")
    plot.add_argument("--what", required=True, choices=(*PLOT_NAMES, "plan", "kernels"),
                      help="pareto: savings against worst loss of all runs; catalogue: the same, each point named and coloured by its "
                           "decode time; remedies: loss of all runs and what a longer prefix changes; plan: cost, latency and worst loss "
                           "of a file of kvtide plan; kernels: a decode step of a file of kvtide run --timeline (--run: the step); the "
                           "others are of one run. phase has two panels: loss folded on the period, and where its jumps fall")
    plot.add_argument("--run", type=int, metavar="N",
                      help="run number as in /summary/run (default: the run with the largest worst loss)")
    plot.add_argument("-o", "--output", metavar="FILE", help="default: FILE-WHAT.png beside the input")
    plot.add_argument("--json", action="store_true", help="name and size of the picture as JSON")
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

    gallery = commands.add_parser("gallery", allow_abbrev=False, help="every picture of the README and of docs/",
                                  description="Draws the pictures of the README and of docs/; computes what results/ does not hold yet.")
    gallery.add_argument("-o", "--output", metavar="FOLDER", help="default: docs/ of this source")
    gallery.add_argument("--results", metavar="FOLDER", help="what the pictures are drawn from (default: results/ of this source)")
    gallery.add_argument("--program", default=os.environ.get("KVTIDE_PROGRAM", "kvtide"), metavar="PATH",
                         help="kvtide (default: that of the path)")
    gallery.add_argument("--every", action="store_true", help="one picture of every other kind of plot too")
    gallery.set_defaults(handler=_gallery)

    trust = commands.add_parser("trust", allow_abbrev=False, help="how far kvtide can be trusted: what kvtide validate all runs",
                                description="Runs every check whose data FOLDER holds and prints one table.")
    trust.add_argument("folder", metavar="FOLDER")
    trust.add_argument("--program", default=os.environ.get("KVTIDE_PROGRAM", "kvtide"), metavar="PATH",
                       help="kvtide (default: that of the path)")
    trust.add_argument("--page", metavar="FILE.md", help="put the table between the two markers of this page, too")
    trust.add_argument("--captures", metavar="FOLDER", help="recordings of the model, for the losses")
    trust.add_argument("--json", action="store_true", help="one JSON document instead of Markdown")
    trust.set_defaults(handler=_trust)

    spread = commands.add_parser("spread", allow_abbrev=False, help="how far losses carry from one text to another",
                                 description="Quantiles between the texts of rows written by `kvtide validate scan --rows`, and each "
                                 "text's own figures.")
    spread.add_argument("file", metavar="ROWS.csv")
    spread.add_argument("-o", "--output", metavar="TEXTS.csv", help="a row a text and setting")
    spread.set_defaults(handler=_spread)

    check = commands.add_parser("check", allow_abbrev=False, help="are the packages for pages and pictures here",
                                description="Imports what `report` and `plot` need and prints the versions.")
    check.add_argument("--quiet", action="store_true", help="only the exit code")
    check.set_defaults(handler=_check)
    live.add_commands(commands)
    return parser


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number from 0, got {text}")
    return value


def _report(options: argparse.Namespace) -> int:
    from .plan import is_plan, read_plan
    from .plan_report import render as render_plan
    from .report import render
    from .results import open_results

    output = _output(options, ".html")
    page = (render_plan(read_plan(options.file)) if is_plan(options.file)
            else render(open_results(options.file), worst_max=options.worst_max))
    write_whole(output, page.encode("utf-8"))
    _say(output, options)
    return 0


def _plot(options: argparse.Namespace) -> int:
    pyplot = _pyplot()
    if options.what == "plan":
        from .plan import figure_of, read_plan

        plan = read_plan(options.file)
        output = _output(options, "-plan.png")
        _save(figure_of(plan), output, options)
        return 0

    if options.what == "kernels":
        from .kernel_timeline import figure_of, read_timeline

        output = _output(options, "-kernels.png")
        _save(figure_of(read_timeline(options.file), options.run), output, options)
        return 0

    from .plots import PLOTS
    from .results import open_results
    from .settings import run_label

    results = open_results(options.file)
    run = _chosen_run(results) if options.run is None else options.run
    output = _output(options, f"-{options.what}.png")
    panels = PLOTS[options.what]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(7.2 if len(panels) == 1 else 10.5, 4.2), layout="constrained", squeeze=False)
    for panel, drawn_on in zip(panels, axes[0]):
        panel(drawn_on, results, run)
    if options.what not in ("pareto", "catalogue", "remedies"):
        figure.suptitle(run_label(results, run), fontsize="medium")
    _save(figure, output, options)
    return 0


def _validation(options: argparse.Namespace) -> int:
    pyplot = _pyplot()
    from .validation import draw

    output = _output(options, ".png")
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
    draw(options.file, list(axes))
    write_whole(output, _picture(figure, output, 160))
    return 0


def _reference(options: argparse.Namespace) -> int:
    from .reference import render

    print(render(options.files), end="")
    return 0


def _proof(options: argparse.Namespace) -> int:
    _pyplot()
    from .proof import figure_of, panels
    from .spread import SETTING, read_rows

    output = _output(options, ".png")
    rows = read_rows(options.file)
    write_whole(output, _picture(figure_of(rows), output, 130))
    print(output)
    scans = rows.groupby(["scan", *SETTING]).ngroups
    print(f"{len(panels(rows))} of {scans} scans have a panel of their own; means of all are in the last", file=sys.stderr)
    return 0


def _gallery(options: argparse.Namespace) -> int:
    import pathlib

    from .gallery import ROOT, draw_pictures

    output, results = pathlib.Path(options.output or ROOT / "docs"), pathlib.Path(options.results or ROOT / "results")
    left_out = draw_pictures(output.resolve(), results.resolve(), options.program, options.every)
    for line in left_out:
        print(f"not drawn: {line}", file=sys.stderr)
    return 3 if left_out else 0


def _trust(options: argparse.Namespace) -> int:
    import pathlib

    from . import trust

    if not os.path.isdir(options.folder):
        raise InputError(f"{options.folder}: no such folder")
    try:
        page = pathlib.Path(options.page).read_text(encoding="utf-8") if options.page else None
    except (OSError, ValueError) as error:
        raise InputError(f"{options.page}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if page is not None:
        trust.put_into(page, "")  # a page without markers is said before an hour of computing
    parts = trust.validate(options.program, pathlib.Path(options.folder), options.captures)
    if page is not None:
        write_whole(options.page, trust.put_into(page, trust.table(parts)).encode("utf-8"))
    print(trust.json_text(parts) if options.json else trust.table(parts), end="\n" if options.json else "")
    return 0


def _spread(options: argparse.Namespace) -> int:
    import pandas as pd

    from .spread import between_layers, between_texts, by_text, read_rows

    require_other_than(options.output or "", [options.file])
    rows = read_rows(options.file)
    texts = by_text(rows)
    if options.output:
        write_whole(options.output, texts.to_csv(index=False, float_format="%.4f").encode("utf-8"))
    print(pd.concat([between_texts(texts), between_layers(rows)]).to_string(index=False))
    return 0


def _check(options: argparse.Namespace) -> int:
    import h5py
    import matplotlib
    import plotly
    import xarray

    if options.quiet:
        return 0
    versions = [f"{package.__name__} {package.__version__}" for package in (h5py, xarray, matplotlib, plotly)]
    print(f"  Python {sys.version.split()[0]}: {', '.join(versions)}")
    return 0


def _chosen_run(results) -> int:
    """The run that shows most: with the largest worst loss; the first where no loss was measured."""
    if not len(results):
        raise InputError(f"{results.path}: holds no runs")
    worst = results.summary.get("loss_worst")
    return int(results.summary.index[0] if worst is None or worst.isna().all() else worst.idxmax())


def _say(path: str, options: argparse.Namespace) -> None:
    """What was written; nothing where that went to stdout itself."""
    if is_stream(path) or getattr(options, "quiet", False):
        return
    print(json.dumps({"file": path, "bytes": os.path.getsize(path)}) if options.json else path)


def _output(options: argparse.Namespace, ending: str) -> str:
    """What is written: as asked, or the input's name with another ending; never the input itself."""
    output = options.output or os.path.splitext(options.file)[0] + ending
    require_other_than(output, [options.file])
    return output


def _pyplot():
    """matplotlib's pyplot, drawing into files only: no window, no display asked for."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _picture(figure, output: str, dpi: int) -> bytes:
    """The ending chooses the format; a stream without one gets PNG."""
    content = io.BytesIO()
    ending = os.path.splitext(output)[1][1:] or "png"
    try:
        figure.savefig(content, dpi=dpi, format=ending)
    except ValueError as error:
        raise InputError(f"{output}: {error}") from error
    return content.getvalue()


def _save(figure, output: str, options: argparse.Namespace, dpi: int = 160) -> None:
    write_whole(output, _picture(figure, output, dpi))
    _say(output, options)
