"""The papers' tables and figures, ours beside theirs.

    python -m forebay.reproduce                             # all five papers, then one page of their claims
    python -m forebay.reproduce papers/bid                  # one of them, into papers/bid/table.md
    python -m forebay.reproduce --short --check             # the bundled trace alone, compared, nothing written
    python -m forebay.reproduce --page claims.html          # the page of what is committed; nothing is run
    python -m forebay.reproduce papers/bid --pictures DIR   # and the figures as SVG (matplotlib)

A paper is a folder with `expected.toml`, which holds what the paper says and nothing of ours, and
`run.py`, whose `main(options)` answers the text of the tables. What a table shows of ours comes out
of the public functions of `forebay`. From the tables follows `claims.toml`: each claim of the paper, what it says, what
we found, whether that bears it out, and why. The page is made of these.

Cases are kept in the work folder as they are done, by a hash of what they depend on: whoever runs a paper again, after
an interruption too, waits only for what is missing.
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
