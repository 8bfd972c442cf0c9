"""What the sections of the table are made of: claims beside our figures, and numbers as text."""

from forebay import reproduce

HEADER = ["source", "what", "case", "paper", "ours", "deviation", "unit", "cause"]

#: The cause of a deviation that no measurement explains.
UNKNOWN = "unknown"


class Study:
    """Rows of claims, as they are found."""

    def __init__(self, claims):
        self.claims = claims
        self.rows = []

    def add(self, claim: str, case: str, ours: float | None, cause: str = "") -> None:
        """One figure of ours beside the paper's; the cause is for those that deviate."""
        row = reproduce.Row(self.claims[claim], case, ours, cause or UNKNOWN)
        kept = "" if row.deviation == 0 else row.cause
        self.rows.append(reproduce.Row(row.claim, case, ours, kept))

    def deviation(self, claim: str, ours: float) -> float:
        """How far a figure is beyond the paper's."""
        return self.claims[claim].deviation(ours)

    def told(self) -> str:
        """The table of what came since it was last told."""
        cells = []
        for row in self.rows:
            case, paper, ours, deviation, cause = row.cells()
            claim = row.claim
            cells.append([claim.source, claim.says, case, paper, ours, deviation, claim.unit, cause])
        self.rows = []
        return reproduce.table(HEADER, cells)


def figure(value: float | None, digits: int = 1) -> str:
    """A number of a table."""
    return "-" if value is None else f"{value:,.{digits}f}"
