"""Which scheduler for which volumes, in groups of like behaviour.

Each policy is simulated on each volume. A policy is *better* in a figure if that is 3 % less or more; it is chosen for a
volume if it is better than the baseline in one figure that counts and 3 % worse in none, and its product of all is the
least. Figures that count: the 99th percentile of reads and of writes, from 100 of them on, and busy time where the disk is
busy for 95 % or more. Unlike `forebay advise` no resamples tell chance: a group of volumes does.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from statistics import median
from typing import Any

from .finding import Finding, Row
from .volumes import Asked, Traces

_MATTERS = 0.03
_NAMED = 20


def schedulers(
    traces: Traces,
    *,
    device: str,
    output: str | os.PathLike[str],
    policies: Sequence[str] = ("none", "mq-deadline", "bfq", "kyber"),
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Finding:
    """Groups of volumes for which the same scheduler does best, and that are alike in load.

    The first of `policies` is the baseline. Rows: a group each, that with most requests first: its `policy`, `load` and
    `kind`, how many volumes and requests, the median gain in what counts, with the least and the most of any volume, and
    the names of its busiest volumes. `more["of_volume"]` has each volume's policy.
    """
    question = {"simulate": {"device": device, "policy": list(policies)}}
    asked = Asked(question, traces, output=output, **options)
    by_volume: dict[str, dict[str, dict[str, Any]]] = {}
    for name, _, answer in asked.answers:
        by_volume.setdefault(name, {})[answer["policy"]] = answer
    groups: dict[tuple[str, str, str], list[tuple[str, dict[str, Any], float]]] = {}
    chosen = {}
    for name, runs in by_volume.items():
        if policies[0] not in runs:
            continue
        policy, gain = choose(runs, policies)
        chosen[name] = policy
        base = runs[policies[0]]
        groups.setdefault((policy, _load(base), _kind(base)), []).append((name, base, gain))
    rows = [_row(key, of) for key, of in groups.items()]
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
        "gain_low_share": "least",
        "gain_high_share": "most",
        "names": "such as",
    }
    cautions = [*asked.cautions, f"Simulated on a model of {device}, open replay, each volume alone on it."]
    finding = Finding(
        "Which scheduler for which volumes",
        said,
        rows,
        cautions=cautions,
        heads=heads,
        more={"device": device, "of_volume": chosen},
    )
    return finding.report(report)


def _headline(rows: list[Row], chosen: dict[str, str], baseline: str, stay: int) -> str:
    others = sorted({policy for policy in chosen.values() if policy != baseline})
    if not others:
        return f"All {len(chosen)} volumes may keep {baseline}: no other scheduler gains anything without harm."
    counts = [f"{policy} for {sum(of == policy for of in chosen.values())}" for policy in others]
    return (
        f"Of {len(chosen)} volumes, {stay} may keep {baseline}; {', '.join(counts)} do better with another scheduler. "
        f"They fall into {len(rows)} groups."
    )


def counting(run: dict[str, Any]) -> dict[str, float]:
    """The figures that count in a run, by the baseline's."""
    figures: dict[str, float] = {}
    if run["reads"] >= 100 and run["read_p99_ms"]:
        figures["read_p99_ms"] = run["read_p99_ms"]
    if run["writes"] >= 100 and run["write_p99_ms"]:
        figures["write_p99_ms"] = run["write_p99_ms"]
    if run["busy_s"] >= 0.95 * run["makespan_s"]:
        figures["busy_s"] = run["busy_s"]
    return figures


def choose(runs: dict[str, dict[str, Any]], policies: Sequence[str]) -> tuple[str, float]:
    """A volume's policy, and how much less its figures are in the geometric mean than the baseline's."""
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


def _row(key: tuple[str, str, str], of: list[tuple[str, dict[str, Any], float]]) -> Row:
    policy, load, kind = key
    gains = [gain for _, _, gain in of]
    busiest = sorted(of, key=lambda one: (-one[1]["requests"], one[0]))
    return {
        "policy": policy,
        "load": load,
        "kind": kind,
        "volumes": len(of),
        "requests": sum(run["requests"] for _, run, _ in of),
        "gain_share": median(gains),
        "gain_low_share": min(gains),
        "gain_high_share": max(gains),
        "names": [name for name, _, _ in busiest[:_NAMED]],
    }
