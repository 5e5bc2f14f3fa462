"""The gallery knows every picture that a page shows, and a page shows every picture in docs/."""

import pathlib
import re

import matplotlib

matplotlib.use("Agg")

from conftest import write_results
from kvtide_analysis import cli, gallery, plots

PAGES = [gallery.ROOT / "README.md", *sorted((gallery.ROOT / "docs").glob("*.md"))]


def shown_pictures() -> set[str]:
    return {pathlib.PurePath(path).name for page in PAGES
            for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))}


def test_every_picture_of_a_page_is_drawn_by_the_gallery():
    assert shown_pictures() <= set(gallery.PICTURES)


def test_every_picture_of_the_gallery_lies_in_docs():
    assert {path.name for path in (gallery.ROOT / "docs").glob("*.png")} == set(gallery.PICTURES)


def test_every_kind_of_plot_is_in_the_gallery():
    kinds = {name.removeprefix("kind-").removesuffix(".png") for name in gallery.KINDS}
    assert kinds | {"pareto", "catalogue", "remedies"} == {*plots.PLOTS, "kernels"}


def test_pictures_are_drawn_from_results_at_hand_and_the_rest_is_named(tmp_path, capsys, monkeypatch):
    (tmp_path / "results").mkdir()
    write_results(tmp_path / "results/demo.h5")
    monkeypatch.setattr(gallery, "PICTURES",
                        {name: gallery.PICTURES[name] for name in ("demo-pareto.png", "demo-position.png", "proof-prefix.png")})
    assert cli.main(["gallery", "-o", str(tmp_path / "out"), "--results", str(tmp_path / "results"), "--program", "false"]) == 3
    for name in ("demo-pareto.png", "demo-position.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    assert "not drawn: proof-prefix.png" in capsys.readouterr().err
