"""Which cloud volume each volume of a fleet needs, what all cost a month, and which to change."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .. import Error
from .asked import Asked, Traces
from .finding import Finding, Row, percent, plural

# A change that saves less than this share of the price is not recommended.
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
    confidence: float = 0.95,
    trust_times: bool = False,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """Finds the cheapest cloud volume for each volume of a fleet that answers `fraction` of its requests `within` a time.

    `type` names the types to try, as in "gp3,io2". `current` is the volume that each has now, as in "gp2:gib=500", or a
    mapping of names to such volumes; the answer then says which to change. `prices` is a file as for `forebay plan
    volume`. How much volumes let pass at once is unknown, so each price is a range: `type`, its settings and `month` hold
    at any depth, `low_type`, its settings and `month_low` if 100 ms of the rate pass at once. `month_interval` and
    `month_low_interval` are the ends of the confidence intervals of these prices. The totals add the prices of one depth;
    their intervals add the ends, as if the loads of all volumes were low or high at once. Each row is a volume, the dearest
    first.
    """
    if not 0 < fraction <= 1:
        raise Error(f"fraction: got {fraction}, expected above 0 and at most 1")
    question: dict[str, Any] = {"within": within, "fraction": fraction, "confidence": confidence}
    given = {"type": type, "prices": None if prices is None else os.fspath(prices), "trust_times": trust_times or None}
    question |= {name: value for name, value in given.items() if value is not None}
    if current is not None:
        # Each volume is compared with every current volume type, but only the answer for its own is
        # used.
        question["current"] = sorted(set(current.values())) if isinstance(current, Mapping) else current
    asked = Asked({"volume": question}, traces, output=output, **options)
    rows = [
        _row(name, answer)
        for name, cell, answer in asked.answers
        if not isinstance(current, Mapping) or current.get(name) == json.loads(cell.parameters)["current"]
    ]
    if not rows:
        raise Error("current: got no volume of the fleet, expected names as in rows of forebay.fleet.needs")
    rows.sort(key=lambda row: (-(row["month"] or row["month_low"] or 0.0), row["volume"]))
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
        _said(rows, whole, within, fraction, confidence),
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
    best, low = (next((row for row in kept if row["depth_ms"] == depth), None) for depth in (depths[0], depths[-1]))
    now = answer["current"][0] if answer["current"] else None
    # The commands belong to the best row at the smallest queue depth with which any volume type is
    # fast enough.
    apply = answer["apply"] if best else None
    return {
        "volume": name,
        "requests": answer["requests"],
        "advice": _advice(best, now),
        "current": now and now["type"],
        "current_month": now and now["price_month"],
        "current_fraction": now and now["in_time_fraction"],
        **{key: best and best[key] for key in _SETTING},
        "month": best and best["price_month"],
        "month_interval": _interval(best),
        **{f"low_{key}": low and low[key] for key in _SETTING},
        "month_low": low and low["price_month"],
        "month_low_interval": _interval(low),
        "currency": (best or low or {}).get("currency"),
        "create": apply and apply["create"],
        "modify": apply and apply["modify"],
    }


# The parameters that define a volume to buy.
_SETTING = ("type", "gib", "iops", "mibps", "mbps")


def _interval(row: dict[str, Any] | None) -> list[float] | None:
    if row is None or row["price_low_month"] is None:
        return None
    return [row["price_low_month"], row["price_high_month"]]


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
    """Adds up what is paid now and what would be paid at each depth, for volumes whose prices are known."""
    keys = ("month", "month_low", "current_month")
    empty = dict.fromkeys(("currency", *keys, "month_interval", "month_low_interval"))
    currencies = {row["currency"] for row in rows if row["month"] is not None or row["month_low"] is not None}
    if len(currencies) != 1:
        return empty

    def total(key: str) -> float | None:
        known = [row[key] for row in rows if row[key] is not None]
        return sum(known) if known else None

    def interval(key: str) -> list[float] | None:
        known = [row for row in rows if row[key] is not None]
        ends = [row[f"{key}_interval"] for row in known]
        return [sum(of) for of in zip(*ends, strict=True)] if ends and None not in ends else None

    intervals = {f"{key}_interval": interval(key) for key in ("month", "month_low")}
    return empty | {"currency": currencies.pop()} | {key: total(key) for key in keys} | intervals


def _said(rows: list[Row], whole: dict[str, Any], within: str, fraction: float, confidence: float) -> list[str]:
    kept, low = (sum(row[key] is not None for row in rows) for key in ("type", "low_type"))
    promise = f"{percent(fraction)} of the requests within {within}"
    if not kept and not low:
        return [f"No type that was tried answers {promise} on any of {plural(len(rows), 'volume')}."]
    said = [f"{kept:,} of {plural(len(rows), 'volume')} can answer {promise}{_price(whole, 'month', confidence)}."]
    if low:
        price = _price(whole, "month_low", confidence)
        said.append(f"If 100 ms of the rate pass at once, {low:,} can{price}.")
    if whole["current_month"] is not None:
        changes = {word: [row["volume"] for row in rows if row["advice"] == word] for word in ("cheaper", "faster")}
        cost = f"They cost {whole['current_month']:.2f} {whole['currency']} a month now"
        said.append(
            f"{cost}; {len(changes['cheaper']):,} can be cheaper, and {len(changes['faster']):,} are too slow for the promise."
        )
    return said


def _price(whole: dict[str, Any], key: str, confidence: float) -> str:
    """Formats a total with its interval."""
    if whole[key] is None:
        return ""
    ends = whole[f"{key}_interval"]
    interval = "" if ends is None else f" ({ends[0]:.2f} to {ends[1]:.2f} in {confidence * 100:g} % of resamples)"
    return f" for {whole[key]:.2f} {whole['currency']} a month{interval}"


def _unpriced(rows: list[Row]) -> list[str]:
    unpriced = {
        "best type": sum(row["type"] is not None and row["month"] is None for row in rows),
        "present type": sum(row["current"] is not None and row["current_month"] is None for row in rows),
    }
    return [f"The total leaves out {plural(count, 'volume')} whose {of} has no known price." for of, count in unpriced.items() if count]
