"""Which cloud volume each volume of a fleet needs, what all cost a month, and which to change."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .. import Error
from .asked import Asked, Traces
from .finding import Finding, Row, percent, plural

# A change that saves less than this share of the price is not worth it.
_SAVES = 0.01


def volumes(
    traces: Traces,
    *,
    output: str | os.PathLike[str],
    within: str = "10ms",
    fraction: float = 0.99,
    type: str | None = None,
    current: str | Mapping[str, str] | None = None,
    prices: str | os.PathLike[str] | None = None,
    trust_times: bool = False,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """Finds the cheapest cloud volume for each volume of a fleet that answers `fraction` of its requests `within` a time.

    `type` names the types to try, as in "gp3,io2". `current` is the volume that each has now, as in "gp2:gib=500", or a
    mapping of names to such volumes; the answer then says which to change. `prices` is a file as for `forebay plan
    volume`. How much volumes let pass at once is unknown, so each price is a range: `month` holds at any depth,
    `month_low` if 100 ms of the rate pass at once. Each row is a volume, the dearest first.
    """
    if not 0 < fraction <= 1:
        raise Error(f"fraction: got {fraction}, expected above 0 and at most 1")
    question: dict[str, Any] = {"within": within, "fraction": fraction}
    given = {"type": type, "prices": None if prices is None else os.fspath(prices), "trust_times": trust_times or None}
    question |= {name: value for name, value in given.items() if value is not None}
    if current is not None:
        # Each volume is asked about every volume that occurs; only its own answer is used.
        question["current"] = sorted(set(current.values())) if isinstance(current, Mapping) else current
    asked = Asked({"volume": question}, traces, output=output, **options)
    rows = [
        _row(name, answer)
        for name, cell, answer in asked.answers
        if not isinstance(current, Mapping) or current.get(name) == json.loads(cell.parameters)["current"]
    ]
    if not rows:
        raise Error("current: got no volume of the fleet, expected names as in rows of forebay.fleet.needs")
    rows.sort(key=lambda row: (-(row["month"] or 0.0), row["volume"]))
    whole = _whole(rows)
    cautions = [
        "Volumes whose depth and base latency are assumed may need more or less: `forebay device probe` measures them.",
        *_unpriced(rows),
    ]
    heads = {
        "volume": "volume",
        "advice": "advice",
        "current": "now",
        "current_month": "now a month",
        "type": "best",
        "gib": "GiB",
        "iops": "IOPS",
        "mibps": "MiB/s",
        "month": "a month",
        "month_low": "at 100 ms",
    }
    finding = Finding(
        "Which volumes the fleet needs",
        _said(rows, whole, within, fraction),
        rows,
        missing=asked.missing,
        cautions=cautions,
        of="Each volume",
        heads=heads,
        more=whole,
    )
    return finding.report(report)


def _row(name: str, answer: dict[str, Any]) -> Row:
    kept = [row for row in answer["rows"] if row["keeps"]]
    depths = answer["depths_ms"]
    best = next((row for row in kept if row["depth_ms"] == depths[0]), None)
    low = next((row for row in kept if row["depth_ms"] == depths[-1]), None)
    now = answer["current"][0] if answer["current"] else None
    one = best or {}
    return {
        "volume": name,
        "requests": answer["requests"],
        "advice": _advice(best, now),
        "current": now and now["type"],
        "current_month": now and now["price_month"],
        "current_fraction": now and now["in_time_fraction"],
        "type": one.get("type"),
        "gib": one.get("gib"),
        "iops": one.get("iops"),
        "mibps": one.get("mibps"),
        "month": one.get("price_month"),
        "month_low": low and low["price_month"],
        "currency": one.get("currency"),
        "create": answer["apply"] and answer["apply"]["create"],
        "modify": answer["apply"] and answer["apply"]["modify"],
    }


def _advice(best: dict[str, Any] | None, now: dict[str, Any] | None) -> str:
    """Says what to do: `buy`, `keep`, `cheaper` (over-provisioned), `faster` (under-provisioned) or `none`."""
    if best is None:
        return "none"
    if now is None:
        return "buy"
    if not now["keeps"]:
        return "faster"
    price, cost = best["price_month"], now["price_month"]
    if price is None or cost is None or best["currency"] != now["currency"]:
        return "keep"
    return "cheaper" if price < cost * (1 - _SAVES) else "keep"


def _whole(rows: list[Row]) -> dict[str, Any]:
    """Adds up what is paid now and what would be paid, for volumes whose prices are known."""
    currencies = {row["currency"] for row in rows if row["month"] is not None}
    if len(currencies) != 1:
        return {"currency": None, "month": None, "month_low": None, "current_month": None}

    def total(key: str) -> float | None:
        known = [row[key] for row in rows if row[key] is not None]
        return sum(known) if known else None

    totals = {key: total(key) for key in ("month", "month_low", "current_month")}
    return {"currency": currencies.pop(), **totals}


def _said(rows: list[Row], whole: dict[str, Any], within: str, fraction: float) -> list[str]:
    kept = sum(row["type"] is not None for row in rows)
    promise = f"{percent(fraction)} of the requests within {within}"
    if not kept:
        return [f"No type that was tried answers {promise} on any of {plural(len(rows), 'volume')}."]
    price = ""
    if whole["month"] is not None:
        low = "" if whole["month_low"] is None else f" (from {whole['month_low']:.2f} if 100 ms of the rate pass at once)"
        price = f" for {whole['month']:.2f} {whole['currency']} a month{low}"
    said = [f"{kept:,} of {plural(len(rows), 'volume')} can answer {promise}{price}."]
    if whole["current_month"] is not None:
        changes = {word: [row["volume"] for row in rows if row["advice"] == word] for word in ("cheaper", "faster")}
        cost = f"They cost {whole['current_month']:.2f} {whole['currency']} a month now"
        said.append(
            f"{cost}; {len(changes['cheaper']):,} can be cheaper, and {len(changes['faster']):,} are too slow for the promise."
        )
    return said


def _unpriced(rows: list[Row]) -> list[str]:
    count = sum(row["type"] is not None and row["month"] is None for row in rows)
    return [f"The total leaves out {plural(count, 'volume')} whose best type has no known price."] if count else []
