"""Building blocks for the sections of the table: claims beside our figures, and numbers as text."""

from forebay import reproduce

HEADER = ["source", "what", "case", "paper", "ours", "deviation", "unit", "cause"]

#: The cause of a deviation that no measurement explains.
UNKNOWN = "unknown"


class Study:
    """Collects rows of claims."""

    def __init__(self, claims):
        self.claims = claims
        self.rows = []

    def add(self, claim: str, case: str, ours: float | None, cause: str = "") -> None:
        """Adds one of our figures beside the paper's; the cause applies if they deviate."""
        row = reproduce.Row(self.claims[claim], case, ours, cause or UNKNOWN)
        kept = "" if row.deviation == 0 else row.cause
        self.rows.append(reproduce.Row(row.claim, case, ours, kept))

    def deviation(self, claim: str, ours: float) -> float:
        """Returns how far a figure is outside the paper's range."""
        return self.claims[claim].deviation(ours)

    def told(self) -> str:
        """Returns a table of the rows added since the last call."""
        cells = []
        for row in self.rows:
            case, paper, ours, deviation, cause = row.cells()
            claim = row.claim
            cells.append([claim.source, claim.says, case, paper, ours, deviation, claim.unit, cause])
        self.rows = []
        return reproduce.table(HEADER, cells)


def figure(value: float | None, digits: int = 1) -> str:
    """Formats a number for a table."""
    return "-" if value is None else f"{value:,.{digits}f}"
