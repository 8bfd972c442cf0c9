"""What the whole fleet needs for a promise, with intervals: each volume alone, and all on one server."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

from .. import Error
from .finding import Finding, Row
from .volumes import Asked, Traces, least, windows

_BLOCKS = 50
_DRAWS = 200


def needs(
    traces: Traces,
    *,
    output: str | os.PathLike[str],
    within: str = "10ms",
    fraction: float = 0.99,
    confidence: float = 0.95,
    window_ms: float = 1000.0,
    seed: int = 1,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """IOPS that keep `fraction` of requests `within` a time: of each volume alone, with an interval, and what of their sum
    all need on one server.

    Alone they are `forebay.plan_capacity`'s, exact, with its intervals. What sharing saves is counted in windows of
    `window_ms` (`together`), for whose requests meet does not hang on milliseconds; its interval draws blocks of the time
    anew, the same ones of all volumes. Rows: a volume each, the neediest first.
    """
    if not 0 < fraction <= 1:
        raise Error(f"fraction: got {fraction}, expected above 0 and at most 1")
    question = {"plan": {"within": within, "fraction": fraction, "confidence": confidence}}
    asked = Asked(question, traces, output=output, **options)
    counts, more = windows(traces, window_ms, output=output, **options)
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
    rows.sort(key=lambda row: (-row["alone_iops"], row["volume"]))
    known = {row["volume"] for row in rows}
    counts = {name: of for name, of in counts.items() if name in known}
    share, low, high = sharing(counts, fraction, confidence, seed)
    total = sum(row["alone_iops"] for row in rows)
    said = [
        f"{len(rows)} volumes need {total:,} IOPS for {fraction * 100:g} % within {within}, each alone and all added up; on one "
        f"server about {total * share:,.0f} ({total * low:,.0f} to {total * high:,.0f} in {confidence:.0%} of resamples).",
        f"All together need {share:.1%} of the sum in windows of {window_ms:g} ms.",
        _most(rows, total),
    ]
    cautions = [*asked.cautions, *(text for text in more if text not in asked.cautions)]
    cautions.append("Intervals cannot tell of bursts rarer than the traces.")
    heads = {
        "volume": "volume",
        "requests": "requests",
        "alone_iops": "IOPS alone",
        "low_iops": "low",
        "high_iops": "high",
    }
    whole = {
        "sum_iops": total,
        "together_iops": total * share,
        "together_low_iops": total * low,
        "together_high_iops": total * high,
        "together_share": share,
    }
    finding = Finding("What the fleet needs", said, rows, cautions=cautions, heads=heads, more=whole)
    return finding.report(report)


def _most(rows: list[Row], total: int) -> str:
    """How many volumes need half of all."""
    so_far, count = 0, 0
    for row in rows:
        if 2 * so_far >= total:
            break
        so_far, count = so_far + row["alone_iops"], count + 1
    return f"{count} of them need half of that."


def sharing(
    counts: dict[str, dict[int, int]], fraction: float, confidence: float, seed: int
) -> tuple[float, float, float]:
    """What all need together, as a share of what each needs alone, and the ends of its interval."""
    whole: Counter[int] = Counter()
    for of in counts.values():
        whole.update(of)
    share = _share(list(counts.values()), whole, fraction)
    last = max(whole, default=0) + 1
    blocks = min(_BLOCKS, last)
    if blocks < 2:
        return share, share, share
    of_block = [[window * blocks // last for window in of] for of in counts.values()]
    cut = [
        _cut(of, where, blocks) for of, where in zip(counts.values(), of_block, strict=True)
    ]
    whole_cut = _cut(whole, [window * blocks // last for window in whole], blocks)
    dice = random.Random(seed)
    draws = []
    for _ in range(_DRAWS):
        times = Counter(dice.randrange(blocks) for _ in range(blocks))
        each = sum(least(_drawn(one, times), fraction) for one in cut)
        draws.append(least(_drawn(whole_cut, times), fraction) / max(each, 1))
    draws.sort()
    tail = (1 - confidence) / 2
    low, high = draws[int(tail * (_DRAWS - 1))], draws[int((1 - tail) * (_DRAWS - 1))]
    return share, min(low, share), max(high, share)


def _share(each: list[dict[int, int]], whole: dict[int, int], fraction: float) -> float:
    alone = sum(least(of.values(), fraction) for of in each)
    return least(whole.values(), fraction) / max(alone, 1)


def _cut(of: dict[int, int], where: list[int], blocks: int) -> list[list[int]]:
    parts: list[list[int]] = [[] for _ in range(blocks)]
    for block, count in zip(where, of.values(), strict=True):
        parts[block].append(count)
    return parts


def _drawn(parts: list[list[int]], times: Counter[int]) -> list[int]:
    return [count for block, n in times.items() for count in parts[block] * n]
