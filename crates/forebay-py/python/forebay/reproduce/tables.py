"""Formats numbers and tables as Markdown, and parses tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

#: The columns of `Row.cells`.
ROW_HEADER = ["case", "paper", "ours", "deviation", "cause"]


def number(value: float | None) -> str:
    """Formats a number with three significant digits and without an exponent."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.095 else 3
    return f"{value:,.{digits}f}"


def signed(value: float | None) -> str:
    """Formats a deviation with its sign; "-" if there is none."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{'+' if value > 0 else ''}{number(value)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Formats a Markdown table whose columns are also aligned in the source."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    texts = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([texts[0], rule, *texts[1:]]) + "\n"


class Read(NamedTuple):
    """A parsed table."""

    #: The title of the second-level section that contains the table.
    section: str
    #: The paragraph before the table, joined to one line.
    before: str
    #: The rows, as dicts with the column headings as keys.
    rows: list[dict[str, str]]


def read(text: str) -> Iterator[Read]:
    """Parses all tables in a text, in order."""
    section, before = "", ""
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line]
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
        if len(rows) > 2:
            yield Read(section, before, [dict(zip(rows[0], row)) for row in rows[2:]])
            before = ""
        for line in lines:
            if line.startswith("## "):
                section, before = line[3:].strip(), ""
        if lines and not rows and not lines[0].startswith("#"):
            before = " ".join(lines)
