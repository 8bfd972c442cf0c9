"""What a paper claims, and a figure of it beside ours."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tables import number, signed


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
    #: Whether more than the high end bears it out too: a gain that is larger than the paper's.
    more: bool = False

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
