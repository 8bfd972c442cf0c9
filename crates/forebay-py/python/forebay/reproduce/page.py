"""A page of all claims with their verdicts (borne out, in part, not borne out) and the reasons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .._forebay import page as _page
from .verdicts import BORNE_OUT, IN_PART, NOT, UNNUMBERED, UNTRIED, Found, committed

_WORDS = {
    BORNE_OUT: "borne out",
    IN_PART: "in part",
    NOT: "not",
    UNNUMBERED: "without a number to compare with",
    UNTRIED: "not tried",
}


def page(papers: Sequence[Path]) -> str:
    """Builds the page from the committed results in these folders."""
    groups, every = [], []
    for folder in papers:
        claims = committed(folder / "claims.toml")
        every += claims
        groups.append({"title": _title(folder), "told": f"{_many(len(claims), 'claim')}: {_counted(claims)}.", "claims": [_card(one) for one in claims]})
    told = {
        "title": "every claim of the papers",
        "verdict": "Papers reproduced",
        "headline": f"Of {_many(len(every), 'claim')} of {_many(len(groups), 'paper')}: {_counted(every)}.",
        "findings": [
            "A claim is borne out if all our figures are in the paper's range, or close to its single number, and in part if "
            "some are. Expand the figures of a claim to see which ones.",
            "Most claims that are not borne out have a measurable reason, which is given with the claim: another trace, "
            "another disk, a scheduler that Linux has improved since, or an effect that the paper's model leaves out.",
        ],
        "cautions": ["The papers' own traces are not available, except for the beginnings of two; ours are other traces of the same kinds."],
        "tables": [],
        "curve": None,
        "claims": groups,
    }
    text: str = _page(json.dumps(told))
    return text


def _title(folder: Path) -> str:
    """Returns the title of the paper's tables."""
    first = (folder / "table.md").read_text().split("\n", 1)[0]
    return first.removeprefix("# ").split(": the paper's")[0]


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _counted(claims: Sequence[Found]) -> str:
    counts = Counter(one.verdict for one in claims)
    parts = [f"{counts[verdict]} {word}" for verdict, word in _WORDS.items() if counts[verdict]]
    return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + (parts[-1] if parts else "none")


def _card(one: Found) -> dict[str, object]:
    return {
        "verdict": one.verdict,
        "says": one.says,
        "source": one.source,
        "claimed": one.paper,
        "found": one.ours,
        "reason": one.reason,
        "figures": one.figures,
    }
