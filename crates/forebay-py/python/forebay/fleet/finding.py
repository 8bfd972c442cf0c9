"""The answer to a question about a fleet: sentences, rows, and a page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .._forebay import page as _page
from .._forebay import write_page

if TYPE_CHECKING:
    import polars

Row = dict[str, Any]

_COLUMNS = 100
_ROWS_SHOWN = 40


class Finding:
    """The answer to a question: sentences in `said`, the main result first, and `rows`, all with the same keys.

    `missing` describes what was left out, `of` describes a row, and `heads` maps the displayed keys to their headings.
    """

    def __init__(
        self,
        title: str,
        said: Sequence[str],
        rows: Sequence[Row],
        *,
        missing: Sequence[str] = (),
        cautions: Sequence[str] = (),
        of: str,
        heads: Mapping[str, str],
        curve: Mapping[str, Any] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.title = title
        self.said = [*said[:1], *missing, *said[1:]]
        """Sentences: the answer, what it leaves out, and further remarks."""
        self.rows = list(rows)
        """A dict each."""
        self.cautions = list(cautions)
        """The settings, as shown below the answer."""
        self.more = dict(more or {})
        """Figures about the fleet as a whole."""
        self._of, self._heads, self._curve = of, dict(heads), curve

    def to_dict(self) -> dict[str, Any]:
        """Returns the whole answer."""
        return {
            "schema_version": 4,
            "said": self.said,
            "cautions": self.cautions,
            **self.more,
            "rows": self.rows,
        }

    def to_json(self) -> str:
        """Returns the whole answer as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def to_pyarrow(self) -> pa.Table:
        """Returns the rows."""
        return pa.Table.from_pylist(self.rows)

    def to_polars(self) -> polars.DataFrame:
        """Returns the rows as a Polars frame."""
        import polars

        frame = polars.from_arrow(self.to_pyarrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __str__(self) -> str:
        parts = ["\n".join(_wrapped(text) for text in self.said), self._table()]
        parts.append("\n".join(_wrapped(f"! {text}") for text in self.cautions))
        return "\n\n".join(part for part in parts if part)

    def page(self) -> str:
        """Returns a page in the design of `forebay advise --output`."""
        text: str = _page(self._told())
        return text

    def report(self, path: str | os.PathLike[str] | None) -> Finding:
        """Writes the page atomically to `path`, unless `path` is None."""
        if path is not None:
            write_page(self._told(), os.fspath(path))
        return self

    def _told(self) -> str:
        heads = list(self._heads.values())
        rows = [self._cells(row) for row in self.rows]
        told = {
            "title": self.title,
            "verdict": self.title,
            "headline": self.said[0],
            "findings": self.said[1:],
            "cautions": self.cautions,
            "tables": [{"title": self._of, "heads": heads, "rows": rows}] if rows else [],
            "curve": self._curve,
        }
        return json.dumps(told)

    def _table(self) -> str:
        if not self.rows:
            return ""
        shown = [self._cells(row) for row in self.rows[:_ROWS_SHOWN]]
        lines = [list(self._heads.values()), *shown]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self._heads))]
        # Shrink the widest column until the table fits.
        while sum(widths) + 3 * len(widths) + 1 > _COLUMNS and max(widths) > 8:
            widths[widths.index(max(widths))] -= 1
        text = [f"{self._of}:", *(_line(line, widths) for line in lines)]
        text.insert(2, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        if len(self.rows) > _ROWS_SHOWN:
            text.append(f"({len(self.rows) - _ROWS_SHOWN} more rows in to_pyarrow())")
        return "\n".join(text)

    def _cells(self, row: Row) -> list[str]:
        return [shown(key, row[key]) for key in self._heads]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    cut = (cell if len(cell) <= width else cell[: width - 1] + "…" for cell, width in pairs)
    return "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(cut, widths, strict=True)) + " |"


_NAMES_SHOWN = 4


def shown(key: str, value: Any) -> str:
    """Formats a value for readers, with the unit given by the last word of its key."""
    match value:
        case None:
            return "-"
        case list():
            more = " and others" if len(value) > _NAMES_SHOWN else ""
            return ", ".join(map(str, value[:_NAMES_SHOWN])) + more
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
    if key.endswith("_share"):
        return percent(value)
    if key.endswith("_gib"):
        return size(value)
    return number(value)


def number(value: float) -> str:
    """Formats a number with three or four digits; large numbers have no exponent."""
    if value != 0 and abs(value) < 1e-4:
        return f"{value:.1e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if value != 0 else "0"


def percent(share: float) -> str:
    """Formats a percentage with enough digits to distinguish it from 100 %."""
    digits = 1 if share < 0.99 else 2 if share < 0.9999 else 4
    text = f"{share * 100:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if share >= 0.99 else text} %"


def size(gib: float) -> str:
    """Formats a size in the binary unit that gives the shortest text."""
    for unit, of_gib in (("TiB", 1024.0), ("GiB", 1.0), ("MiB", 2.0**-10), ("KiB", 2.0**-20)):
        if gib >= of_gib or unit == "KiB":
            break
    return f"{float(f'{gib / of_gib:.3g}'):g} {unit}"


def plural(count: int, what: str) -> str:
    """Formats a count with its noun: "1 volume", "2 volumes"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _wrapped(text: str) -> str:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > _COLUMNS:
            lines.append(line)
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])
