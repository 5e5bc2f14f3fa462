"""Colours, line styles and symbols that stay apart for colour-blind readers and in black-and-white print.

Colours: Okabe and Ito, "Color Universal Design" (jfly.uni-koeln.de/color); yellow is left out (too faint on white).
Symbols and dashes repeat every distinction, so that no figure needs its colour.
"""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "#6b6b6b"
GRID = "#9a9a9a"
# One symbol per value of the second axis: (plotly name, matplotlib marker).
SYMBOLS = (("circle", "o"), ("square", "s"), ("triangle-up", "^"), ("diamond", "D"), ("cross", "P"), ("x", "X"),
           ("star", "*"))


def colour(index: int) -> str:
    """Colour of the index-th category; repeats after seven, where the labels must tell."""
    return COLOURS[index % len(COLOURS)]


def symbol(index: int) -> tuple[str, str]:
    """(plotly, matplotlib) symbol of the index-th category."""
    return SYMBOLS[index % len(SYMBOLS)]


def hatch(index: int) -> str:
    """Hatching of the index-th category: none for the first seven, whose colours differ, then lines."""
    return ("", "////", "....", "xxxx")[index // len(COLOURS) % 4]
