"""Whether the paper's claims hold on other traces."""

from capacity import least
from energy import disks, saving
from forebay.reproduce import Claim, number, table
from recombined import alone, ratio, shaped
from sharing import OWN, error, together
from workloads import Workload

#: The bounds in ms for which claims are tested, which are those that the paper mostly uses.
WITHIN_MS, POWER_WITHIN_MS, RECOMBINED_WITHIN_MS = 10, 20, 50
PERCENT = 90


def figures(workload: Workload) -> dict[str, float | None]:
    """Returns our figures by claim."""
    iops = least(workload, PERCENT, WITHIN_MS)
    runs = shaped(workload, PERCENT, RECOMBINED_WITHIN_MS)
    pair = together((workload, workload), ("1s",), WITHIN_MS)
    own = together((workload, workload), ("1s",), WITHIN_MS, OWN)
    return {
        "knee": least(workload, 100, WITHIN_MS) / least(workload, 99, WITHIN_MS),
        "steps": least(workload, 99, WITHIN_MS) / iops,
        "fcfs": 100 * alone(workload, iops, WITHIN_MS).within_bound,
        "miser mean": ratio(runs, "miser", "mean_ms"),
        "miser longest": ratio(runs, "miser", "longest_ms"),
        "same mean": ratio(runs, "miser-rate", "mean_ms"),
        "same longest": ratio(runs, "miser-rate", "longest_ms"),
        "split mean": ratio(runs, "split", "mean_ms"),
        "unshaped": 100 * pair[1.0, 1.0],
        "error 90": error(pair[1.0, 0.9]),
        "error 95": error(pair[1.0, 0.95]),
        "own error 90": error(own[1.0, 0.9]),
        "own error 95": error(own[1.0, 0.95]),
        "power": saving(workload, POWER_WITHIN_MS),
    }


def section(claims: dict[str, Claim], listed: list[Workload]) -> str:
    """Returns how often each claim holds; then a row per trace and a column per claim, with failures marked."""
    lines, by_trace = [], {workload.name: figures(workload) for workload in listed}
    for workload in listed:
        found = by_trace[workload.name]
        cells = [verdict(claims[key], value) for key, value in found.items()]
        lines.append([workload.name, number(workload.mean_iops), *cells,
                      disks(workload, POWER_WITHIN_MS)])
    paper = ["the paper", "", *(claim.text() for claim in claims.values()), ""]
    heads = [f"{claim.says}, {claim.unit}" for claim in claims.values()]
    each = table(["trace", "mean IOPS", *heads, "disks"], [paper, *lines])
    return f"{held(claims, by_trace)}\n{each}"


def held(claims: dict[str, Claim], by_trace: dict[str, dict[str, float | None]]) -> str:
    """Returns a row per claim: on how many traces it holds, and on which it does not."""
    lines = []
    for key, claim in claims.items():
        ours = {name: found[key] for name, found in by_trace.items() if found[key] is not None}
        fails = [name for name, value in ours.items() if claim.deviation(value) != 0]
        ends = [number(end(ours.values())) for end in (min, max)] if ours else ["-", "-"]
        count = f"{len(ours) - len(fails)} of {len(ours)}" if claim.text() != "no number" else "-"
        lines.append([claim.source, claim.says, claim.text(), claim.unit, *ends, count,
                      ", ".join(fails)])
    heads = ["source", "claim", "paper", "unit", "ours, least", "most", "holds on", "fails on"]
    return table(heads, lines)


def verdict(claim: Claim, ours: float | None) -> str:
    """Formats the figure, with a mark if the claim fails."""
    fails = ours is not None and claim.deviation(ours) != 0
    return f"{number(ours)}{' fails' if fails else ''}"


def grid(listed: list[Workload]) -> str:
    """Returns table 4.1 for every trace, and the burst of figure 3.2."""
    lines = []
    for workload in listed:
        for within in (5, 10, 20, 50):
            cells = [least(workload, percent, within) for percent in (90, 95, 99, 99.5, 99.9, 100)]
            lines.append([workload.name, f"{within} ms", *map(number, cells)])
    heads = [f"{percent} %" for percent in (90, 95, 99, 99.5, 99.9, 100)]
    return table(["trace", "within", *heads], lines)
