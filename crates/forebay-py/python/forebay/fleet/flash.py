"""Where flash pays most per gigabyte: distributes a budget over the miss-ratio curves of all volumes.

A volume's gain is the number of blocks per second that an LRU cache of a given size would hit, from the curve over all
sizes (`forebay.cache`). The algorithm uses each curve's upper hull, whose steps have decreasing gains per gibibyte.
Taking the steepest step of any volume first is therefore optimal, with respect to the hulls, for every budget at which
a step ends.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import Error
from .finding import Finding, Row, number, percent, plural, size
from .asked import Asked, Traces, windows

Point = tuple[float, float]


def flash(
    traces: Traces,
    *,
    output: str | os.PathLike[str],
    budgets_gib: Sequence[float] | None = None,
    block_kib: float = 4,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """Computes the gain of each gibibyte of flash, from the first to the last that gains anything, and the volume that
    gets it.

    Each row is a step, the best first: the `volume`, its flash after the step, and the total flash and hits so far. For
    each budget in `budgets_gib`, `more["budgets"]` contains the gain and the distribution.
    """
    for budget in budgets_gib or ():
        if not (isinstance(budget, (int, float)) and 0 < budget < float("inf")):
            raise Error(f"budgets_gib: got {budget!r}, expected sizes above 0")
    asked = Asked({"cache": {"block_kib": block_kib}}, traces, output=output, **options)
    # The rates of all volumes refer to the duration of the whole fleet's traces.
    counts, _ = windows(traces, 1000.0, output=output, **options)
    spans = max(max(of, default=0) + 1 for of in counts.values())
    curves: dict[str, list[Point]] = {}
    steps, all_blocks_per_s = [], 0.0
    for name, _, answer in asked.answers:
        per_s = answer["accesses"] / spans
        all_blocks_per_s += per_s
        curve = [(point["size_mib"] / 1024, per_s * (1 - point["lru_miss_ratio"])) for point in answer["points"]]
        curves[name] = curve
        for (from_gib, from_gain), (to_gib, to_gain) in _pairs(hull(curve)):
            slope = (to_gain - from_gain) / (to_gib - from_gib)
            steps.append((-slope, name, to_gib, to_gib - from_gib, to_gain - from_gain))
    steps.sort()
    rows: list[Row] = []
    flash_gib, gain = 0.0, 0.0
    for slope, name, of_volume, more_gib, more_gain in steps:
        flash_gib, gain = flash_gib + more_gib, gain + more_gain
        rows.append(
            {
                "volume": name,
                "its_gib": of_volume,
                "found_per_gib_s": -slope,
                "all_gib": flash_gib,
                "found_per_s": gain,
                "found_share": gain / max(all_blocks_per_s, 1e-12),
            }
        )
    budgets = [_budget(rows, curves, budget) for budget in budgets_gib or ()]
    return _found(asked, rows, all_blocks_per_s, budgets, block_kib).report(report)


def _found(
    asked: Asked, rows: list[Row], all_per_s: float, budgets: list[dict[str, Any]], block_kib: float
) -> Finding:
    if not rows:
        said = ["Flash has no hits: no volume uses a block twice."]
        return Finding("Where flash pays", said, [], missing=asked.missing, of=_OF, heads=_HEADS)
    whole = rows[-1]
    half = next(row for row in rows if row["found_per_s"] >= whole["found_per_s"] / 2)
    first = rows[0]
    said = [
        f"{size(half['all_gib'])} of flash have {percent(half['found_per_s'] / whole['found_per_s'])} of the maximum of hits; "
        f"the maximum requires {size(whole['all_gib'])}: {percent(whole['found_share'])} of {number(all_per_s)} blocks of "
        f"{block_kib:g} KiB a second.",
        f"It pays most on volume {first['volume']}: {number(first['found_per_gib_s'])} hits a second for each GiB of the first "
        f"{size(first['its_gib'])}; the last step, on volume {whole['volume']}, gains {number(whole['found_per_gib_s'])} a second for each GiB.",
    ]
    said += [
        f"With {size(of['budget_gib'])} of flash, {number(of['found_per_s'])} blocks a second are hits, on "
        f"{plural(len(of['volumes']), 'volume')}."
        for of in budgets
    ]
    points = [(row["all_gib"], row["found_per_s"]) for row in rows]
    step = max(1, len(points) // 400)
    curve = {
        "title": "Hits by budget of flash",
        "along": "total flash",
        "along_unit": "gib",
        "up": "hits per second",
        "points": [*points[:-1:step], points[-1]],
    }
    cautions = [
        "Hits are those of an LRU cache in flash of the volume's own; how much time a hit saves depends on the scheduler and "
        "the disk (forebay.simulate with flash).",
    ]
    return Finding(
        "Where flash pays", said, rows, missing=asked.missing, cautions=cautions, of=_OF, heads=_HEADS, curve=curve, more={"budgets": budgets}
    )


_OF = "Steps, the one with the most hits per GiB first"
_HEADS = {
    "volume": "volume",
    "its_gib": "its flash",
    "found_per_gib_s": "hits/s per GiB",
    "all_gib": "total flash",
    "found_per_s": "hits/s",
    "found_share": "share",
}


def hull(curve: Sequence[Point]) -> list[Point]:
    """Returns the upper hull of a rising curve from (0, 0), as far as it rises."""
    kept: list[Point] = [(0.0, 0.0)]
    # Among points with the same size, the highest comes first.
    for point in sorted(curve, key=lambda point: (point[0], -point[1])):
        if point[0] <= kept[-1][0] or point[1] <= kept[-1][1]:
            continue
        while len(kept) > 1 and _slope(kept[-2], kept[-1]) <= _slope(kept[-2], point):
            kept.pop()
        kept.append(point)
    return kept


def _slope(a: Point, b: Point) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


def _pairs(points: list[Point]) -> list[tuple[Point, Point]]:
    return list(zip(points[:-1], points[1:], strict=True))


def _budget(rows: list[Row], curves: dict[str, list[Point]], budget_gib: float) -> dict[str, Any]:
    """Takes the best steps that fit into the budget; the remainder pays for part of the next step.

    The hits are those of the curves rather than of their hulls: a part of a step may gain far less than its share of
    the step.
    """
    volumes: dict[str, float] = {}
    left = budget_gib
    for row in rows:
        before = volumes.get(row["volume"], 0.0)
        taken = min(row["its_gib"] - before, left)
        if taken <= 0:
            break
        volumes[row["volume"]] = before + taken
        left -= taken
    found = sum(_found_with(curves[name], gib) for name, gib in volumes.items())
    return {"budget_gib": budget_gib, "found_per_s": found, "volumes": volumes}


def _found_with(curve: list[Point], gib: float) -> float:
    """Returns the hits of the largest cache of the curve that is not larger than `gib`."""
    # Allow for rounding errors in sums of steps.
    return max((found for size_gib, found in curve if size_gib <= gib * (1 + 1e-9)), default=0.0)
