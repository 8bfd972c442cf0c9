"""What a fleet needs to keep a promise, with confidence intervals: each volume alone, and all volumes on one server."""

from __future__ import annotations

import os
import re
from typing import Any

from .. import Error
from .._forebay import Together
from ..sweep.work import fetch
from .finding import Finding, Row, number, percent, plural
from .asked import Asked, Traces


def needs(
    traces: Traces,
    *,
    output: str | os.PathLike[str],
    within: str = "10ms",
    fraction: float = 0.99,
    confidence: float = 0.95,
    seed: int = 1,
    trust_times: bool = False,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """Computes the IOPS with which `fraction` of all requests are answered `within` a time: for each volume alone, and
    for all on one server, with intervals.

    The needs of single volumes are those of `forebay.plan_capacity`. The common need is that of `forebay plan
    consolidate`, computed exactly from every request of every volume on its folder's clock; this takes 12 bytes of
    memory per request. `trust_times` accepts timestamps even if their resolution seems too coarse for the promise. Each
    row is a volume, the one with the largest need first.
    """
    if not 0 < fraction <= 1:
        raise Error(f"fraction: got {fraction}, expected above 0 and at most 1")
    question: dict[str, Any] = {"within": within, "fraction": fraction, "confidence": confidence}
    if trust_times:
        question["trust_times"] = True
    asked = Asked({"plan": question}, traces, output=output, **options)
    rows: list[Row] = []
    for name, _, answer in asked.answers:
        found = answer["rows"][0]
        rows.append(
            {
                "volume": name,
                "requests": answer["requests"],
                "alone_iops": found["capacity_iops"],
                "low_iops": found.get("capacity_low_iops"),
                "high_iops": found.get("capacity_high_iops"),
            }
        )
    together = _together(asked, within, fraction, confidence, seed)
    shares = list(zip(together["client_fractions"], (row["volume"] for row in rows), strict=True))
    rows.sort(key=lambda row: (-row["alone_iops"], row["volume"]))
    said = [_headline(rows, together, within, fraction), *_who_gets_less(shares, together, fraction, confidence), *_most(rows)]
    heads = {
        "volume": "volume",
        "requests": "requests",
        "alone_iops": "IOPS alone",
        "low_iops": "low",
        "high_iops": "high",
    }
    whole = {
        "sum_iops": together["sum_iops"],
        "together_iops": together["merged_iops"],
        "together_low_iops": together.get("merged_low_iops"),
        "together_high_iops": together.get("merged_high_iops"),
        "together_share": together["ratio"],
        "every_volume_iops": together["every_client_iops"],
        "shaped_iops": together["shaped_iops"],
    }
    cautions = ["Intervals do not include bursts that are too rare to appear in the traces."]
    finding = Finding("What the fleet needs", said, rows, missing=asked.missing, cautions=cautions, of="Each volume alone", heads=heads, more=whole)
    return finding.report(report)


def _together(asked: Asked, within: str, fraction: float, confidence: float, seed: int) -> dict[str, Any]:
    """Computes the common need."""
    all_of = Together(within, fraction, confidence, seed)
    begun = asked.began_ns()
    for name, cell, answer in asked.answers:
        path = fetch(cell.file, cell.likeness, asked.storage)
        all_of.add(path, begun[name], answer["rows"][0]["capacity_iops"])
    found: dict[str, Any] = all_of.answer()
    return found


def _headline(rows: list[Row], together: dict[str, Any], within: str, fraction: float) -> str:
    time = re.sub(r"(?<=\d)(?=[a-zµ])", " ", within)

    def promised(whose: str) -> str:
        return f"{percent(fraction)} of {whose} requests within {time}"

    if len(rows) == 1:
        own = promised("its")
        return f"{rows[0]['volume']}: {rows[0]['alone_iops']:,} IOPS answer {own}."
    each = promised("each volume's")
    shared, alone = together["every_client_iops"], together["sum_iops"]
    return (
        f"On one server, {shared:,} IOPS answer {each}; on separate servers, the "
        f"{len(rows):,} volumes need {alone:,} in all, {number(alone / shared)} times as much."
    )


def _who_gets_less(
    shares: list[tuple[float, str]], together: dict[str, Any], fraction: float, confidence: float
) -> list[str]:
    """Describes the need of all requests taken together, whichever volume they belong to, and the volumes whose promise
    would then be broken.

    `shares` contains the fraction that each volume gets of its own requests, and its name.
    """
    if len(shares) == 1:
        return []
    interval = ""
    if together.get("merged_low_iops") is not None:
        low, high = together["merged_low_iops"], together["merged_high_iops"]
        interval = f" ({low:,} to {high:,} in {confidence * 100:g} % of resamples)"
    short = sorted(one for one in shares if one[0] < fraction - 1e-9)
    said = f"{together['merged_iops']:,} IOPS{interval} answer {percent(fraction)} of all requests, regardless of the volume"
    if not short:
        return [f"{said}."]
    verb = "gets" if len(short) == 1 else "get"
    return [f"{said}; then {plural(len(short), 'volume')} {verb} less, and volume {short[0][1]} the least: {percent(short[0][0])}."]


def _most(rows: list[Row]) -> list[str]:
    """Returns how many volumes account for half of the total need."""
    total, so_far, count = sum(row["alone_iops"] for row in rows), 0, 0
    for row in rows:
        if 2 * so_far >= total:
            break
        so_far, count = so_far + row["alone_iops"], count + 1
    return [f"Half of these {total:,} IOPS {'is' if count == 1 else 'are'} for {plural(count, 'volume')}."] if len(rows) > 1 else []
