"""Whether the paper's claims hold on other traces."""

from capacity import least
from energy import disks, saving
from forebay.reproduce import Claim, number, table
from recombined import alone, ratio, shaped
from sharing import error, together
from workloads import Workload

#: Where a claim is tried, as the paper mostly does.
WITHIN_MS, POWER_WITHIN_MS, RECOMBINED_WITHIN_MS = 10, 20, 50
PERCENT = 90

#: What counts as the claim holding: the paper's own range, and what its words can be held to.
CLAIMS = {
    "knee": Claim("knee", "Section 4.2", "100 % over 99 % within 10 ms", "times", 1.5, None),
    "steps": Claim("steps", "Section 4.2", "99 % over 90 % within 10 ms", "times"),
    "fcfs": Claim("fcfs", "Section 4.4.1", "FCFS within 10 ms where RTT answers 90 %", "%", None, 80),
    "miser mean": Claim("miser mean", "Figure 4.4(c)", "Miser's secondary mean over fair queueing's, "
                        "90 % within 50 ms", "times", 0.85, 0.90),
    "miser longest": Claim("miser longest", "Figure 4.4(c)", "its longest, likewise", "times", None,
                           0.95),
    "split mean": Claim("split mean", "Section 4.4.2", "Split's, likewise", "times", 10, None),
    "unshaped": Claim("unshaped", "Section 4.5", "needed over the sum, 100 %, 1 s later", "%", None, 90),
    "error 90": Claim("error 90", "Section 4.5", "error of the sum, 90 %, 1 s later", "%", None, 5),
    "error 95": Claim("error 95", "Section 4.5", "error of the sum, 95 %, 1 s later", "%", None, 5),
    "power": Claim("power", "Section 4.3", "power of 100 % over 99 % within 20 ms", "times", 1.9, 2.9),
}


def figures(workload: Workload) -> dict[str, float | None]:
    """Ours, by claim."""
    own = least(workload, PERCENT, WITHIN_MS)
    runs = shaped(workload, PERCENT, RECOMBINED_WITHIN_MS)
    pair = together((workload, workload), ("1s",), WITHIN_MS)
    return {
        "knee": least(workload, 100, WITHIN_MS) / least(workload, 99, WITHIN_MS),
        "steps": least(workload, 99, WITHIN_MS) / own,
        "fcfs": 100 * alone(workload, own, WITHIN_MS).within_bound,
        "miser mean": ratio(runs, "miser", "mean_ms"),
        "miser longest": ratio(runs, "miser", "longest_ms"),
        "split mean": ratio(runs, "split", "mean_ms"),
        "unshaped": 100 * pair[1.0, 1.0],
        "error 90": error(pair[1.0, 0.9]),
        "error 95": error(pair[1.0, 0.95]),
        "power": saving(workload, POWER_WITHIN_MS),
    }


def section(listed: list[Workload]) -> str:
    """A line a trace, a column a claim: what does not hold is marked."""
    lines = []
    for workload in listed:
        found = figures(workload)
        cells = [verdict(CLAIMS[key], value) for key, value in found.items()]
        lines.append([workload.name, number(workload.mean_iops), *cells,
                      disks(workload, POWER_WITHIN_MS)])
    paper = ["the paper", "", *(claim.text() for claim in CLAIMS.values()), ""]
    heads = [f"{claim.says}, {claim.unit}" for claim in CLAIMS.values()]
    return table(["trace", "mean IOPS", *heads, "disks"], [paper, *lines])


def verdict(claim: Claim, ours: float | None) -> str:
    """The figure, marked where the claim fails."""
    fails = ours is not None and claim.deviation(ours) != 0
    return f"{number(ours)}{' fails' if fails else ''}"


def grid(listed: list[Workload]) -> str:
    """Table 4.1 for every trace, and the burst of figure 3.2."""
    lines = []
    for workload in listed:
        for within in (5, 10, 20, 50):
            cells = [least(workload, percent, within) for percent in (90, 95, 99, 99.5, 99.9, 100)]
            lines.append([workload.name, f"{within} ms", *map(number, cells)])
    heads = [f"{percent} %" for percent in (90, 95, 99, 99.5, 99.9, 100)]
    return table(["trace", "within", *heads], lines)
