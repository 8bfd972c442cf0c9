"""Which volumes should share a server because their bursts do not coincide, and which should not.

The need of a volume is the least number of requests per window that leaves out at most `1 - fraction` of its requests
(`asked.least`). The need of a pair is that of the sum of both volumes. The *saving* of a pair is the share of their
separate needs that sharing avoids: 0 if their bursts always coincide, at most one half.
"""

from __future__ import annotations

import os
from typing import Any

from .. import Error
from .finding import Finding, Row, number, percent, plural
from .asked import Traces, least, windows

Counts = dict[int, int]

# With at most this many volumes, the best pairs are found exactly; with more, by local exchange.
_EXACT = 14
# In a large fleet, the number of partners considered for each volume.
_NEAR = 48
_ALL_PAIRS = 160
# If a pair saves less than this share, its bursts coincide and it should not share a server.
_NEVER = 0.05

_WINDOWED = "IOPS are those of whole windows; forebay.fleet.needs computes those of a promise in milliseconds."


def together(
    traces: Traces,
    *,
    output: str | os.PathLike[str],
    fraction: float = 0.99,
    window_ms: float = 1000.0,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """Finds the pairs of volumes that share a server best, with each volume in at most one pair, and pairs that should
    never share one.

    `fraction` of each volume's requests must fit into their window of `window_ms`. Each row is a pair: first those to
    put together (`advice` "together"), then those with the smallest saving (`advice` "never"). All other options are
    those of a sweep.
    """
    if not 0 < fraction <= 1:
        raise Error(f"fraction: got {fraction}, expected above 0 and at most 1")
    counts, missing = windows(traces, window_ms, output=output, **options)
    names = sorted(counts)
    alone = {name: least(counts[name].values(), fraction) for name in names}
    pairs = {pair: _pair(counts, pair, fraction) for pair in _candidates(counts, names)}
    saved = {(a, b): alone[a] + alone[b] - need for (a, b), need in pairs.items()}
    chosen = matching(names, saved)
    shares = {pair: saved[pair] / max(alone[pair[0]] + alone[pair[1]], 1) for pair in pairs}
    worst = sorted((pair for pair in pairs if shares[pair] < _NEVER), key=lambda pair: (shares[pair], pair))
    per_s = 1000.0 / window_ms

    def row(pair: tuple[str, str], advice: str) -> Row:
        a, b = pair
        return {
            "advice": advice,
            "volume_a": a,
            "volume_b": b,
            "alone_iops": (alone[a] + alone[b]) * per_s,
            "together_iops": pairs[pair] * per_s,
            "saving_share": shares[pair],
        }

    chosen.sort(key=lambda pair: (-saved[pair], pair))
    rows = [row(pair, "together") for pair in chosen] + [row(pair, "never") for pair in worst[:200]]
    total, less = sum(alone.values()), sum(saved[pair] for pair in chosen)
    said = [
        f"Of {plural(len(names), 'volume')}, {2 * len(chosen)} should share servers in {plural(len(chosen), 'pair')}: this requires "
        f"{number((total - less) * per_s)} IOPS instead of {number(total * per_s)} on separate servers, "
        f"{percent(less / max(total, 1))} less.",
        f"{len(worst):,} of the {plural(len(pairs), 'pair')} that were examined should never share: together they need as much as "
        f"both need alone, within {_NEVER * 100:g} %.",
        _how(len(names), fraction, window_ms),
    ]
    heads = {
        "advice": "advice",
        "volume_a": "volume",
        "volume_b": "with",
        "alone_iops": "alone IOPS",
        "together_iops": "together",
        "saving_share": "saved share",
    }
    more = {"volumes": len(names), "pairs": len(pairs), "alone_iops": total * per_s, "saved_iops": less * per_s}
    finding = Finding("Which volumes should share a server", said, rows, missing=missing, cautions=[_WINDOWED], of="Pairs", heads=heads, more=more)
    return finding.report(report)


def _how(volumes: int, fraction: float, window_ms: float) -> str:
    best = "no other choice of pairs saves more" if volumes <= _EXACT else "another choice of pairs may save a little more"
    return (
        f"{fraction * 100:g} % of each volume's requests are served within their window of {window_ms:g} ms; none waits for the "
        f"next window. Among the pairs that were examined, {best}."
    )


def _pair(counts: dict[str, Counts], pair: tuple[str, str], fraction: float) -> int:
    """Returns the need of a pair in which each volume is promised the same share of its own requests: that of the sum,
    and no less than either volume's own need.
    """
    a, b = (counts[name] for name in pair)
    both = dict(a)
    for window, count in b.items():
        both[window] = both.get(window, 0) + count
    each = max(least(a.values(), fraction), least(b.values(), fraction))
    return max(least(both.values(), fraction), each)


def _candidates(counts: dict[str, Counts], names: list[str]) -> list[tuple[str, str]]:
    """Returns all pairs; in a large fleet, for each volume those whose busy times overlap the least and the most."""
    if len(names) <= _ALL_PAIRS:
        return [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]
    last = max(max(of, default=0) for of in counts.values()) + 1
    coarse = {}
    for name in names:
        shape = [0.0] * 64
        for window, count in counts[name].items():
            shape[window * 64 // last] += count
        size = sum(part * part for part in shape) ** 0.5 or 1.0
        coarse[name] = [part / size for part in shape]
    found = set()
    for a in names:
        others = [(sum(x * y for x, y in zip(coarse[a], coarse[b], strict=True)), b) for b in names if b != a]
        others.sort()
        near = others[: _NEAR * 3 // 4] + others[-_NEAR // 4 :]
        found |= {(min(a, b), max(a, b)) for _, b in near}
    return sorted(found)


def matching(names: list[str], saved: dict[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Finds disjoint pairs with the largest total saving: exhaustively for few names, and otherwise by taking the best
    pair first and then exchanging partners while that increases the saving.
    """
    worth = {pair: gain for pair, gain in saved.items() if gain > 0}
    if len(names) <= _EXACT:
        return _best(tuple(names), worth, {})[1]
    chosen: list[tuple[str, str]] = []
    free = set(names)
    for pair in sorted(worth, key=lambda pair: (-worth[pair], pair)):
        if free.issuperset(pair):
            chosen.append(pair)
            free -= set(pair)
    improved = True
    while improved:
        improved = False
        for i in range(len(chosen)):
            for j in range(i):
                (a, b), (c, d) = chosen[i], chosen[j]
                now = worth[chosen[i]] + worth[chosen[j]]
                for one, two in (((a, c), (b, d)), ((a, d), (b, c))):
                    one, two = (min(one), max(one)), (min(two), max(two))
                    if one in worth and two in worth and worth[one] + worth[two] > now:
                        chosen[i], chosen[j] = one, two
                        now = worth[one] + worth[two]
                        improved = True
                        (a, b), (c, d) = one, two
    return chosen


def _best(
    names: tuple[str, ...],
    worth: dict[tuple[str, str], int],
    known: dict[tuple[str, ...], tuple[int, list[tuple[str, str]]]],
) -> tuple[int, list[tuple[str, str]]]:
    if len(names) < 2:
        return 0, []
    if names not in known:
        first, rest = names[0], names[1:]
        best = _best(rest, worth, known)
        for at, other in enumerate(rest):
            pair = (min(first, other), max(first, other))
            if pair in worth:
                gain, pairs = _best(rest[:at] + rest[at + 1 :], worth, known)
                if gain + worth[pair] > best[0]:
                    best = gain + worth[pair], [pair, *pairs]
        known[names] = best
    return known[names]
