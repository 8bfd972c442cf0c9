"""The claims of a paper, and its figures next to ours."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tables import number, signed


@dataclass(frozen=True)
class Claim:
    """A claim: a number or a range from a paper. An end of None is unbounded."""

    id: str
    #: Where in the paper the claim is made.
    source: str
    #: The claim in our words.
    says: str
    unit: str
    low: float | None = None
    high: float | None = None
    #: Whether a value above the range also supports the claim, as it does for a gain larger than
    #: the paper's.
    more: bool = False

    def deviation(self, ours: float) -> float:
        """Returns how far `ours` is beyond the nearer end of the range; 0 within it."""
        if self.low is not None and ours < self.low:
            return ours - self.low
        if self.high is not None and ours > self.high:
            return ours - self.high
        return 0.0

    def text(self) -> str:
        """Formats the paper's figure for a table."""
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
    """A figure of the paper and our figure."""

    claim: Claim
    #: The trace, the replay mode and the load.
    case: str
    ours: float | None
    #: The reason why our figure differs or is missing.
    cause: str

    @property
    def deviation(self) -> float | None:
        """Returns the difference between our figure and the nearer end of the paper's range; None if either has no
        number.
        """
        unnumbered = self.claim.low is None and self.claim.high is None
        return None if self.ours is None or unnumbered else self.claim.deviation(self.ours)

    def cells(self) -> list[str]:
        """Formats the row for a table."""
        figures = [self.claim.text(), number(self.ours), signed(self.deviation)]
        return [self.case, *figures, self.cause]


def claims(path: Path) -> dict[str, Claim]:
    """Reads the claims in the file `expected.toml`, by id."""
    listed = load(path)["claim"]
    return {claim["id"]: Claim(**claim) for claim in listed}


def load(path: Path) -> dict[str, Any]:
    """Reads a TOML file."""
    # Python 3.10 has no TOML parser, but tomli is equivalent.
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    parsed: dict[str, Any] = tomllib.loads(path.read_text())
    return parsed
