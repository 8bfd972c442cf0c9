"""Which scheduler suits which volumes, in groups of volumes with similar behavior.

Each policy is simulated on each volume. A policy is *better* in a figure if its value is at least 3 % lower. It is
chosen for a volume if it is better than the baseline in at least one relevant figure, at least 3 % worse in none, and
has the lowest product of all relevant figures. Relevant figures are the 99th percentiles of reads and of writes, each
if there are at least 100, and busy time if the disk is busy for at least 95 % of the time. Unlike `forebay advise`,
this does not use resampling to detect chance differences, because a group contains several volumes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from .. import Error
from .finding import Finding, Row, plural
from .asked import Asked, Traces

_MATTERS = 0.03
_NAMED = 20
# The minimum average number of volumes per group.
_EACH = 2
# The name of a load or kind that does not separate groups.
_ANY = "any"


def schedulers(
    traces: Traces,
    *,
    device: str,
    output: str | os.PathLike[str],
    policies: Sequence[str] = ("none", "mq-deadline", "bfq", "kyber"),
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """Groups volumes by load for which the same scheduler is best.

    The first of `policies` is the baseline. Each row is a group, the one with the most requests first: its `policy`,
    `load` and `kind`, the numbers of volumes and requests, the median, least and largest gain in the relevant figures,
    and the names of its busiest volumes. `more["of_volume"]` contains each volume's policy.
    """
    question = {"simulate": {"device": device, "policy": list(policies)}}
    asked = Asked(question, traces, output=output, **options)
    by_volume: dict[str, dict[str, dict[str, Any]]] = {}
    for name, _, answer in asked.answers:
        by_volume.setdefault(name, {})[answer["policy"]] = answer
    volumes: list[_Volume] = []
    for name, runs in by_volume.items():
        if policies[0] not in runs:
            continue
        policy, gain = choose(runs, policies)
        volumes.append(_Volume(name, policy, gain, runs[policies[0]]))
    if not volumes:
        raise Error(f"policies: got no volume that {policies[0]} could be simulated on: {asked.missing[0]}")
    chosen = {volume.name: volume.policy for volume in volumes}
    rows = [_row(key, of) for key, of in grouped(volumes).items()]
    rows.sort(key=lambda row: (-row["requests"], row["policy"], row["load"], row["kind"]))
    stay = sum(policy == policies[0] for policy in chosen.values())
    said = [_headline(rows, chosen, policies[0], stay)]
    heads = {
        "policy": "policy",
        "load": "load",
        "kind": "kind",
        "volumes": "volumes",
        "requests": "requests",
        "gain_share": "gain",
        "gain_low_share": "least gain",
        "gain_high_share": "most gain",
        "names": "such as",
    }
    cautions = [f"Simulated on a model of {device}, open replay, with each volume alone on a device."]
    finding = Finding(
        "Which scheduler for which volumes",
        said,
        rows,
        missing=asked.missing,
        cautions=cautions,
        of="Groups of volumes, the one with the most requests first",
        heads=heads,
        more={"device": device, "of_volume": chosen},
    )
    return finding.report(report)


def _headline(rows: list[Row], chosen: dict[str, str], baseline: str, stay: int) -> str:
    others = sorted({policy for policy in chosen.values() if policy != baseline})
    if not others:
        return f"All of {plural(len(chosen), 'volume')} may keep {baseline}: no other scheduler improves a figure without making another one worse."
    counts = [f"{sum(of == policy for of in chosen.values()):,} with {policy}" for policy in others]
    better = len(chosen) - stay
    return (
        f"{better:,} of {plural(len(chosen), 'volume')} {'does' if better == 1 else 'do'} better with another scheduler than "
        f"{baseline}: {', '.join(counts)}. {stay:,} may keep {baseline}. The volumes form {plural(len(rows), 'group')}."
    )


@dataclass(frozen=True)
class _Volume:
    """The result for one volume: the chosen policy, its gain, and the baseline's run."""

    name: str
    policy: str
    gain: float
    base: dict[str, Any]


Key = tuple[str, str, str]


def grouped(volumes: Sequence[_Volume]) -> dict[Key, list[_Volume]]:
    """Groups volumes by policy, load and kind, or by fewer of these if the average group would have fewer than two
    volumes.
    """
    tells: list[Callable[[_Volume], Key]] = [
        lambda of: (of.policy, _load(of.base), _kind(of.base)),
        lambda of: (of.policy, _load(of.base), _ANY),
        lambda of: (of.policy, _ANY, _ANY),
    ]
    groups: dict[Key, list[_Volume]] = {}
    for tell in tells:
        groups = {}
        for volume in volumes:
            groups.setdefault(tell(volume), []).append(volume)
        if _EACH * len(groups) <= len(volumes):
            break
    return groups


def counting(run: dict[str, Any]) -> dict[str, float]:
    """Returns the relevant figures of a run, according to the baseline's run."""
    figures: dict[str, float] = {}
    if run["reads"] >= 100 and run["read_p99_ms"]:
        figures["read_p99_ms"] = run["read_p99_ms"]
    if run["writes"] >= 100 and run["write_p99_ms"]:
        figures["write_p99_ms"] = run["write_p99_ms"]
    if run["busy_s"] >= 0.95 * run["makespan_s"]:
        figures["busy_s"] = run["busy_s"]
    return figures


def choose(runs: dict[str, dict[str, Any]], policies: Sequence[str]) -> tuple[str, float]:
    """Returns a volume's policy, and by how much it lowers the geometric mean of the relevant figures compared with the
    baseline.
    """
    base = counting(runs[policies[0]])
    best, least = policies[0], 1.0
    for policy in policies[1:]:
        if policy not in runs or not base:
            continue
        ratios = [runs[policy][figure] / value for figure, value in base.items()]
        is_better = min(ratios) <= 1 - _MATTERS and max(ratios) <= 1 + _MATTERS
        mean = math.prod(ratios) ** (1 / len(ratios))
        if is_better and mean < least:
            best, least = policy, mean
    return best, 1 - least


def _load(run: dict[str, Any]) -> str:
    busy = run["busy_s"] / max(run["makespan_s"], 1e-9)
    return "idle" if busy < 0.1 else "busy" if busy < 0.7 else "near its limit" if busy < 0.95 else "overloaded"


def _kind(run: dict[str, Any]) -> str:
    share = run["writes"] / max(run["reads"] + run["writes"], 1)
    return "reads" if share < 0.2 else "writes" if share > 0.8 else "both"


def _row(key: Key, of: list[_Volume]) -> Row:
    policy, load, kind = key
    gains = [volume.gain for volume in of]
    busiest = sorted(of, key=lambda volume: (-volume.base["requests"], volume.name))
    return {
        "policy": policy,
        "load": load,
        "kind": kind,
        "volumes": len(of),
        "requests": sum(volume.base["requests"] for volume in of),
        "gain_share": median(gains),
        "gain_low_share": min(gains),
        "gain_high_share": max(gains),
        "names": [volume.name for volume in busiest[:_NAMED]],
    }
