"""What the whole fleet needs for a promise, with intervals: each volume alone, and all on one server."""

from __future__ import annotations

import os
from typing import Any

from .. import Error
from .._forebay import Together
from ..sweep.work import fetch
from .finding import Finding, Row
from .volumes import Asked, Traces


def needs(
    traces: Traces,
    *,
    output: str | os.PathLike[str],
    within: str = "10ms",
    fraction: float = 0.99,
    confidence: float = 0.95,
    seed: int = 1,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """IOPS that keep `fraction` of requests `within` a time: of each volume alone, and of all on one server, with intervals.

    Alone they are `forebay.plan_capacity`'s; together those of `forebay plan consolidate`, exactly, from every request of
    every volume on its folder's clock: this process holds 12 bytes of each. Rows: a volume each, the neediest first.
    """
    if not 0 < fraction <= 1:
        raise Error(f"fraction: got {fraction}, expected above 0 and at most 1")
    question = {"plan": {"within": within, "fraction": fraction, "confidence": confidence}}
    asked = Asked(question, traces, output=output, **options)
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
    all_together = _together(asked, within, fraction, confidence, seed)
    rows.sort(key=lambda row: (-row["alone_iops"], row["volume"]))
    said = [_headline(rows, all_together, within, fraction, confidence), _most(rows)]
    if all_together["every_client_iops"] > all_together["merged_iops"]:
        said.append(
            f"One volume then gets only {min(all_together['client_fractions']):.2%} of its requests in time; "
            f"{all_together['every_client_iops']:,} IOPS keep the promise to each."
        )
    heads = {
        "volume": "volume",
        "requests": "requests",
        "alone_iops": "IOPS alone",
        "low_iops": "low",
        "high_iops": "high",
    }
    whole = {
        "sum_iops": all_together["sum_iops"],
        "together_iops": all_together["merged_iops"],
        "together_low_iops": all_together.get("merged_low_iops"),
        "together_high_iops": all_together.get("merged_high_iops"),
        "together_share": all_together["ratio"],
        "every_volume_iops": all_together["every_client_iops"],
        "shaped_iops": all_together["shaped_iops"],
    }
    cautions = [*asked.cautions, "Intervals cannot tell of bursts rarer than the traces."]
    finding = Finding("What the fleet needs", said, rows, cautions=cautions, of="Each volume alone", heads=heads, more=whole)
    return finding.report(report)


def _together(asked: Asked, within: str, fraction: float, confidence: float, seed: int) -> dict[str, Any]:
    """What all need on one server."""
    all_of = Together(within, fraction, confidence, seed)
    begun = asked.began_ns()
    for name, cell, answer in asked.answers:
        path = fetch(cell.file, cell.likeness, asked.storage)
        all_of.add(path, begun[name], answer["rows"][0]["capacity_iops"])
    found: dict[str, Any] = all_of.answer()
    return found


def _headline(
    rows: list[Row], together: dict[str, Any], within: str, fraction: float, confidence: float
) -> str:
    promise = f"for {fraction * 100:g} % within {within}"
    if len(rows) == 1:
        return f"{rows[0]['volume']} needs {rows[0]['alone_iops']:,} IOPS {promise}."
    interval = ""
    if together.get("merged_low_iops") is not None:
        interval = (
            f" ({together['merged_low_iops']:,} to {together['merged_high_iops']:,} in {confidence:.0%} of resamples)"
        )
    return (
        f"{len(rows)} volumes need {together['sum_iops']:,} IOPS {promise} if each has a server of its own; on one server "
        f"all need {together['merged_iops']:,}{interval}, {together['ratio']:.1%} of that."
    )


def _most(rows: list[Row]) -> str:
    """How many volumes need half of all."""
    total, so_far, count = sum(row["alone_iops"] for row in rows), 0, 0
    for row in rows:
        if 2 * so_far >= total:
            break
        so_far, count = so_far + row["alone_iops"], count + 1
    return f"{count} of them {'needs' if count == 1 else 'need'} half of that sum." if len(rows) > 1 else (
        "It is alone: nothing is shared."
    )
