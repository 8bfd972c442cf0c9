"""Figures 13 and 14 in numbers: long and short head movements between I/Os."""

import warnings

import forebay
from cases import BID, chosen, device
from forebay.reproduce import Row

#: The traces whose head positions are shown, best first. We lack the paper's WordStandardDeviation.
TRACES = ["wordcount", "terasort"]
#: A move is long if it exceeds this share of the cylinders that the trace uses.
LONG_SHARE = 0.1


def shown(cases):
    """Returns the case whose head positions are shown."""
    ours = {case.workload.name: case for case in chosen(cases, "open", "plain")}
    return next(ours[name] for name in TRACES if name in ours)


def simulate(case, policies):
    """Returns the runs of `policies` with their head positions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", forebay.TraceWarning)
        options = {"device": device(case), "flash": case.flash, "replay": case.replay}
        options["intensity"] = case.intensity
        return forebay.simulate(case.workload.path, policy=policies, **options)


def moves(heads: list[dict], policy: str) -> tuple[int, int]:
    """Returns the numbers of long and short movements between a policy's I/Os."""
    at = [row["cylinder"] for row in heads if row["policy"] == policy]
    long = LONG_SHARE * (max(at) - min(at))
    distances = [abs(b - a) for a, b in zip(at, at[1:]) if a != b]
    return sum(d > long for d in distances), sum(d <= long for d in distances)


def rows(claims, cases) -> list[Row]:
    """Returns BID-HDD's movements compared with CFQ's and noop's."""
    case = shown(cases)
    policies = [BID, "cfq", "noop"]
    heads = simulate(case, policies).heads.to_pyarrow().to_pylist()
    counts = {policy: moves(heads, policy) for policy in policies}
    found = []
    for other in ("cfq", "noop"):
        for index, kind in enumerate(("long", "short")):
            ours, theirs = counts[BID][index], counts[other][index]
            cause = f"{ours:,} beside {theirs:,}"
            ratio = ours / theirs if theirs else None
            found.append(Row(claims[f"{kind}-{other}"], case.label, ratio, cause))
    return found
