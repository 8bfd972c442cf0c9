"""Reproduces the papers' tables and figures, and compares our results with theirs.

    python -m forebay.reproduce                             # all five papers, then one page of their claims
    python -m forebay.reproduce papers/bid                  # one paper, into papers/bid/table.md
    python -m forebay.reproduce --short --check             # only the bundled trace, compared, nothing written
    python -m forebay.reproduce --page claims.html          # the page of the committed results; nothing is run
    python -m forebay.reproduce papers/bid --pictures DIR   # also the figures as SVG (matplotlib)

A paper is a folder with two files. `expected.toml` contains what the paper says and none of our results. `run.py` has a
function `main(options)` that returns the text of the tables, whose results come from the public functions of `forebay`.
`claims.toml` is derived from the tables: each claim of the paper, its figure, our figure, whether our figure supports
the claim, and why. The page is generated from these files.

Completed cases are stored in the work folder under a hash of their dependencies, so that another run of a paper, for
example after an interruption, computes only missing cases.
"""

from .claim import Claim, Row, claims, load
from .verdicts import Found, found
from .cases import OutOfTime, grid, kept
from .tables import ROW_HEADER, number, signed, table

__all__ = [
    "ROW_HEADER",
    "Claim",
    "Found",
    "OutOfTime",
    "Row",
    "arguments",
    "claims",
    "found",
    "grid",
    "kept",
    "load",
    "main",
    "number",
    "signed",
    "table",
]

from .command import arguments, main
