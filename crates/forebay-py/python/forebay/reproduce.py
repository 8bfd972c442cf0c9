"""The papers' tables and figures, ours beside theirs.

    python -m forebay.reproduce papers/bid                  # everything, into papers/bid/table.md
    python -m forebay.reproduce papers/bid --short -o t.md  # the bundled trace alone
    python -m forebay.reproduce papers/bid --pictures DIR   # and the figures as SVG (matplotlib)

A paper is a folder with `expected.toml`, which holds what the paper says and nothing of ours, and
`run.py`, whose `main(options)` answers the text of the tables. What a table shows of ours comes out
of the public functions of `forebay`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Claim:
    """A figure of a paper: one number, or a range. An end that is None is open."""

    id: str
    #: Where the paper says it.
    source: str
    #: What it says, in our words.
    says: str
    unit: str
    low: float | None = None
    high: float | None = None

    def deviation(self, ours: float) -> float:
        """How far `ours` is beyond the nearer end of the range; 0 within it."""
        if self.low is not None and ours < self.low:
            return ours - self.low
        if self.high is not None and ours > self.high:
            return ours - self.high
        return 0.0

    def text(self) -> str:
        """The paper's figure as it stands in a table."""
        if self.low is None and self.high is None:
            return "no number"
        if self.low == self.high:
            return number(self.low)
        if self.low is None:
            return f"at most {number(self.high)}"
        if self.high is None:
            return f"at least {number(self.low)}"
        return f"{number(self.low)} to {number(self.high)}"


@dataclass(frozen=True)
class Row:
    """A figure of the paper beside ours."""

    claim: Claim
    #: On which trace, in which replay, at which load.
    case: str
    ours: float | None
    #: Why ours differs, or why there is none.
    cause: str

    @property
    def deviation(self) -> float | None:
        """Ours less the nearer end of the paper's range; None where either has no number."""
        unnumbered = self.claim.low is None and self.claim.high is None
        return None if self.ours is None or unnumbered else self.claim.deviation(self.ours)

    def cells(self) -> list[str]:
        """The row as it stands in a table."""
        figures = [self.claim.text(), number(self.ours), signed(self.deviation)]
        return [self.case, *figures, self.cause]


#: The columns of [`Row.cells`].
ROW_HEADER = ["case", "paper", "ours", "deviation", "cause"]


def number(value: float | None) -> str:
    """Three digits that say something, no exponents."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.095 else 3
    return f"{value:,.{digits}f}"


def signed(value: float | None) -> str:
    """A deviation: with its sign, nothing where there is none."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{'+' if value > 0 else ''}{number(value)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its columns aligned in the text too."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    texts = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([texts[0], rule, *texts[1:]]) + "\n"


def claims(path: Path) -> dict[str, Claim]:
    """The claims in the file `expected.toml`, by their ids."""
    listed = load(path)["claim"]
    return {claim["id"]: Claim(**claim) for claim in listed}


def load(path: Path) -> dict[str, Any]:
    """A TOML file as a dict."""
    # Python's own parser came with 3.11; tomli is the same for 3.10.
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    parsed: dict[str, Any] = tomllib.loads(path.read_text())
    return parsed


def grid(function: Callable[[T], U], cases: Sequence[T], processes: int) -> list[U]:
    """`function` of each of `cases`, in their order, on so many processes."""
    if processes <= 1:
        return [_told(function(case), index, len(cases)) for index, case in enumerate(cases)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        done = pool.map(function, cases)
        return [_told(answer, index, len(cases)) for index, answer in enumerate(done)]


def _told(answer: U, index: int, of: int) -> U:
    if sys.stderr.isatty():
        print(f"\r{index + 1} of {of} cases", end="\n" if index + 1 == of else "", file=sys.stderr)
    return answer


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a reproduction."""
    parser = argparse.ArgumentParser(prog="forebay.reproduce", description="A paper's tables.")
    parser.add_argument("paper", type=Path, help="the paper's folder, e.g. papers/bid")
    parser.add_argument("--short", action="store_true", help="the bundled trace alone")
    parser.add_argument("--full", action="store_true", help="nothing scaled down, where something is")
    parser.add_argument("--traces", type=Path, help="folder of the traces; see the table's head")
    parser.add_argument("--device", help="the disk for every trace, instead of the chosen ones")
    parser.add_argument("--flash", default="samsung-830", help="the flash device beside it")
    parser.add_argument("--work", type=Path, default=Path("target/reproduce"), help="scratch")
    parser.add_argument("--pictures", type=Path, help="folder for the figures (needs matplotlib)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="instead of table.md beside run.py")
    options = parser.parse_args(words)
    if options.output is not None and _is_read(options.output, options):
        parser.error(f"{options.output}: got a file that is read, expected another file")
    return options


def _is_read(output: Path, options: argparse.Namespace) -> bool:
    """Whether it is a file of the paper or of the traces, by whatever name."""
    folders = [folder for folder in (options.paper, options.traces) if folder is not None]
    read = (path for folder in folders for path in folder.rglob("*") if path.name != "table.md")
    return output.is_file() and any(path.is_file() and path.samefile(output) for path in read)


def main(words: Sequence[str] | None = None) -> None:
    """Reproduces the paper that the command line names."""
    options = arguments(words)
    sys.path.insert(0, str(options.paper.resolve()))
    text = importlib.import_module("run").main(options)
    output = options.output or options.paper / "table.md"
    output.write_text(text)
    print(f"forebay: wrote {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
