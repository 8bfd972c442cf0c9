"""Decides which claims are borne out: reads a paper's tables, writes `claims.toml`, and compares it with the committed
version.

A figure supports a claim if it lies in the paper's range; for a single number, if it differs by at most the `tolerance`
in `expected.toml`, which is a share of the number; for a gain (`more = true`), also if it is higher. A claim is
borne out if all its figures support it, and in part if some do. If a paper's tables contain verdicts (`holds`,
`verdict`), these are used. The cells of a table in the paper form one claim per workload. The reason comes
from `why.toml`, or else from the causes given for the failing figures.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .claim import Claim, load
from .tables import Read, number, read

BORNE_OUT, IN_PART, NOT = "borne out", "in part", "not borne out"
#: Verdicts for claims that we have no figure for, and for claims that the paper makes only in
#: words.
UNTRIED, UNNUMBERED = "not tried", "no number"
_WORTH = {BORNE_OUT: 2, IN_PART: 1, NOT: 0}
#: A figure is reported as moved if it changed by more than this share.
MOVED = 0.02
#: Reasons that are not worth reporting.
_EMPTY = {"", "-", "unknown", "within the paper's range", "as the paper says"}


@dataclass
class Found:
    """A claim and its verdict."""

    id: str
    source: str
    says: str
    verdict: str
    #: The paper's figure and our figure, with their unit.
    paper: str
    ours: str
    reason: str
    #: For each figure: the case, the paper's value and our value.
    figures: list[list[str]] = field(default_factory=list)


@dataclass
class _Figure:
    case: str
    paper: str
    ours: str
    #: Whether the figure supports the claim; None if there is nothing to compare it with.
    holds: bool | None
    cause: str


def found(text: str, expected: Path) -> list[Found]:
    """Returns the verdict on every claim in the tables `text`; the file `expected` contains the claims."""
    told = load(expected)
    tolerance = told.get("tolerance", 0.0)
    by_says = {claim["says"]: Claim(**claim) for claim in told.get("claim", [])}
    listed: dict[str, tuple[Claim, list[_Figure]]] = {}
    judged: list[Found] = []
    for table in read(text):
        if not table.rows:
            continue
        heads = set(table.rows[0])
        if {"where", "verdict", "why"} <= heads:
            judged += [_with_verdict(row, by_says, tolerance) for row in table.rows]
        elif {"holds", "where", "why"} <= heads:
            judged += _with_holds(table.rows, by_says)
        elif {"holds on", "fails on"} <= heads:
            judged += [_on_traces(row, by_says) for row in table.rows]
        elif {"what", "paper", "ours", "deviation", "unit"} <= heads:
            for row in table.rows:
                _add(listed, *_of_row(row, by_says, table.section), tolerance)
        elif {"case", "ours", "deviation", "cause"} <= heads and " says the paper " in table.before:
            claim = _claim_before(table, by_says)
            for row in table.rows:
                _add(listed, claim, _figure(row, claim.text()), tolerance)
    why = expected.with_name("why.toml")
    reasons = load(why) if why.is_file() else {}
    return [_of_figures(claim, figures, reasons) for claim, figures in listed.values()] + judged


def _add(listed: dict[str, Any], claim: Claim, figure: _Figure, tolerance: float) -> None:
    low, high = _range(figure.paper)
    ours = _value(figure.ours)
    if ours is not None and (low is not None or high is not None):
        figure.holds = _holds(claim, low, high, ours, tolerance)
    listed.setdefault(claim.id, (claim, []))[1].append(figure)


def _holds(claim: Claim, low: float | None, high: float | None, ours: float, tolerance: float) -> bool:
    if low is not None and low == high:
        room = abs(low) * tolerance
        low, high = low - room, high + room
    return (low is None or ours >= low) and (high is None or ours <= high or claim.more)


def _figure(row: dict[str, str], paper: str) -> _Figure:
    return _Figure(row["case"], paper, row["ours"], None, row.get("cause", ""))


def _of_row(row: dict[str, str], by_says: dict[str, Claim], section: str) -> tuple[Claim, _Figure]:
    known = by_says.get(row["what"])
    if known is not None and known.source == row["source"]:
        return known, _figure(row, row["paper"])
    # All figures in a cell of the paper's table or figure form one claim; in tables, one per
    # workload.
    workload = row["case"].split(":")[0].split(",")[0]
    of = f", {workload}" if row["source"].startswith("Table") else ""
    title = section.split(": ")[-1]
    claim = Claim(_slug(row["source"] + of), row["source"], f"{_begun(row['source'])} as a whole: {title}{of}", "")
    case = f"{row['what']}, {row['case']}, {row['unit']}"
    return claim, _Figure(case, row["paper"], row["ours"], None, row["cause"])


def _claim_before(table: Read, by_says: dict[str, Claim]) -> Claim:
    """Finds the claim that the paragraph before a table refers to."""
    for claim in sorted(by_says.values(), key=lambda claim: -len(claim.says)):
        if f"says the paper ({claim.source}): {claim.says}." in table.before:
            return claim
    raise ValueError(f"{table.section}: got '{table.before}', expected a claim of expected.toml")


def _of_figures(claim: Claim, figures: list[_Figure], reasons: dict[str, str]) -> Found:
    held = [figure.holds for figure in figures if figure.holds is not None]
    papers = list(dict.fromkeys(figure.paper for figure in figures))
    paper = _with_unit(papers[0], claim.unit) if len(papers) == 1 else f"{len(figures)} figures"
    tried = [figure for figure in figures if _value(figure.ours) is not None]
    ours = _span(tried, claim.unit)
    if len(held) > 1:
        ours += f"; {sum(held)} of {len(held)} bear it out"
    fails = [figure for figure in figures if figure.holds is False]
    others = [figure for figure in figures if figure.holds is None]
    reason = reasons.get(claim.id) or _reason(figure.cause for figure in fails or others)
    if fails and not reason:
        reason = "The cause is not known"
    listed = [[figure.case, figure.paper, figure.ours] for figure in figures]
    return Found(claim.id, claim.source, claim.says, _verdict(held, bool(tried)), paper, ours, reason, listed)


def _span(tried: list[_Figure], unit: str) -> str:
    if not tried:
        return "-"
    papers = {figure.paper for figure in tried}
    if len(papers) > 1:
        return f"{len(tried)} figures" if len(tried) > 1 else "1 figure"
    values = sorted(tried, key=lambda figure: _value(figure.ours) or 0.0)
    least, most = values[0].ours, values[-1].ours
    return _with_unit(least if least == most else f"{least} to {most}", unit)


def _verdict(held: list[bool], is_tried: bool) -> str:
    if not held:
        return UNNUMBERED if is_tried else UNTRIED
    return BORNE_OUT if all(held) else IN_PART if any(held) else NOT


def _reason(causes: Iterable[str]) -> str:
    """Returns the two most frequent causes."""
    counted = Counter(cause for cause in causes if cause not in _EMPTY)
    texts = [cause for cause, _ in counted.most_common(2)]
    more = len(counted) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")


def _with_verdict(row: dict[str, str], by_says: dict[str, Claim], tolerance: float) -> Found:
    """Evaluates a row that says for six settings whether the claim holds; without such a verdict, uses the figures."""
    says, _, unit = row["claim"].rpartition(", ")
    claim = by_says[says]
    settings = [head for head in row if ", " in head]
    figures = [[head, row["paper"], row[head]] for head in settings]
    values = [value for head in settings if (value := _value(row[head])) is not None]
    verdict = row["verdict"].split(":")[0]
    if verdict in ("-", ""):
        held = [_holds(claim, claim.low, claim.high, value, tolerance) for value in values]
        has_range = claim.low is not None or claim.high is not None
        verdict = _verdict(held if has_range else [], bool(values))
    ours = "-" if not values else number(min(values))
    ours += f" to {number(max(values))}" if len(set(values)) > 1 else ""
    swept = row["in all sweeps"]
    told = "" if swept in ("-", "") else f"; in all sweeps {swept.replace('depends: ', '')}"
    verdict = {"depends": IN_PART}.get(verdict, verdict)
    return Found(claim.id, claim.source, says, verdict, _with_unit(row["paper"], unit), _with_unit(ours, unit) + told,
                 row["why"], figures)


def _with_holds(rows: list[dict[str, str]], by_says: dict[str, Claim]) -> Iterator[Found]:
    """Evaluates rows that say whether the claim holds in the main setting and, in parentheses, in how many of all
    settings.
    """
    grouped: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        grouped.setdefault(row["claim"], []).append(row)
    for says, of in grouped.items():
        claim, words = by_says[says], [row["holds"] for row in of]
        verdict = BORNE_OUT if set(words) == {"yes"} else NOT if set(words) == {"no"} else IN_PART
        ours = "; ".join(map(_in_settings, of))
        reason = "; ".join(dict.fromkeys(f"{row['where']}: {row['why']}" for row in of if row["why"]))
        figures = [[row["where"], row["paper"], row["ours"]] for row in of]
        paper = _with_unit(of[0]["paper"], claim.unit)
        yield Found(claim.id, claim.source, says, verdict, paper, ours, reason, figures)


def _in_settings(row: dict[str, str]) -> str:
    word, _, counted = row["holds"].partition(" (")
    holds = "holds" if word == "yes" else "does not hold"
    part = f"{', but' if word == 'no' else ''} in {counted[:-1]} settings" if counted else ""
    return f"{row['where']}: {row['ours']} ({row['over what is open']} over all settings), {holds}{part}"


def _on_traces(row: dict[str, str], by_says: dict[str, Claim]) -> Found:
    """Evaluates a row that says on how many traces a claim holds."""
    claim = by_says[row["claim"]]
    held, of, count = row["holds on"].partition(" of ")
    verdict = UNNUMBERED if row["paper"] == "no number" else UNTRIED
    if of:
        verdict = BORNE_OUT if held == count else NOT if held == "0" else IN_PART
    fails = f"fails on {row['fails on']}" if row["fails on"] else ""
    ours = f"{row['ours, least']} to {row['most']}" + (f"; holds on {row['holds on']} traces" if of else "")
    return Found(f"elsewhere {claim.id}", claim.source, f"On other traces: {claim.says}", verdict,
                 _with_unit(row["paper"], claim.unit), ours, fails)


def _with_unit(text: str, unit: str) -> str:
    return text if text in ("-", "yes", "no number") or not unit else f"{text} {unit}"


def _value(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _range(text: str) -> tuple[float | None, float | None]:
    """Parses a range as written by `Claim.text`."""
    if text.startswith("at most "):
        return None, _value(text[8:])
    if text.startswith("at least "):
        return _value(text[9:]), None
    low, to, high = text.partition(" to ")
    return (_value(low), _value(high)) if to else (_value(text), _value(text))


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.%]+", "-", text.lower()).strip("-")


def written(of: list[Found], paper: str) -> str:
    """Formats `claims.toml`."""
    head = (
        f"# The verdict on each claim of papers/{paper}, derived from table.md and expected.toml and written with\n"
        "# table.md by `python -m forebay.reproduce`. The page of all claims is generated from this file.\n"
    )
    parts = [head]
    for one in of:
        lines = ["[[claim]]"]
        lines += [f"{key} = {_quoted(getattr(one, key))}" for key in
                  ("id", "source", "says", "verdict", "paper", "ours", "reason")]
        rows = "".join(f"  [{', '.join(map(_quoted, row))}],\n" for row in one.figures)
        lines.append(f"figures = [\n{rows}]" if rows else "figures = []")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _quoted(text: str) -> str:
    # JSON strings are also valid TOML strings.
    return json.dumps(text, ensure_ascii=False)


def committed(path: Path) -> list[Found]:
    """Reads a `claims.toml`; returns an empty list if it does not exist."""
    return [Found(**claim) for claim in load(path)["claim"]] if path.is_file() else []


def out(before: list[Found], now: list[Found]) -> list[str]:
    """Describes what became worse or moved, one sentence each."""
    known = {one.id: one for one in before}
    said = []
    for one in now:
        was = known.pop(one.id, None)
        if was is None:
            continue
        if _WORTH.get(one.verdict, 0) < _WORTH.get(was.verdict, 0):
            said.append(f"{one.id}: was {was.verdict} and is {one.verdict}")
        old = {case: ours for case, _, ours in was.figures}
        moved = [f"{case} from {old[case]} to {ours}" for case, _, ours in one.figures
                 if case in old and _has_moved(old[case], ours)]
        if moved:
            more = f" and {len(moved) - 1} more" if len(moved) > 1 else ""
            said.append(f"{one.id}: {moved[0]}{more}")
    return said


def _has_moved(was: str, now: str) -> bool:
    a, b = _value(was), _value(now)
    if a is None or b is None:
        return was != now
    return abs(a - b) > MOVED * max(abs(a), abs(b), 0.01)
