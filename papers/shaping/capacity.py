"""Table 4.1 and figures 3.2 and 3.6: the capacity that a promise needs.

The paper's FinTrans may be either of two traces, Financial1 and Financial2; the paper does not say which.
"""

from forebay.reproduce import Claim, Row, kept, number, table
from workloads import Workload, missing, of

import forebay

#: Deviations from the paper's figure up to this share need no explanation.
SAME = 0.02


def least(trace, percent: float, within_ms: float) -> int:
    """Returns the IOPS at which a server answers this percentage of `trace` in time."""
    if isinstance(trace, Workload):
        return _grid(trace)[within_ms, percent]
    return grid_of(trace, [percent], [within_ms])[within_ms, percent]


@kept
def _grid(workload: Workload) -> dict[tuple[float, float], int]:
    return grid_of(workload.table(), [90, 95, 99, 99.5, 99.9, 100], [5, 10, 20, 50])


def grid_of(trace, percents, within) -> dict[tuple[float, float], int]:
    """Returns IOPS by bound in ms and percentage."""
    texts = {f"{percent / 100:.6g}": percent for percent in percents}
    bounds = [f"{ms}ms" for ms in within]
    found = forebay.plan_capacity(trace, within=bounds, fraction=list(texts))
    return {
        (row["within_ms"], texts[f"{row['fraction']:.6g}"]): row["capacity_iops"]
        for row in found["rows"]
    }


def most_mean_iops(expected: dict, name: str) -> float:
    """The mean of the paper's whole trace cannot be higher, because a server that answers 90 % serves at most its
    capacity.
    """
    percents = expected["capacity"]["percent"]
    lines = [line for within, line in expected["capacity"][name].items() if within.isdigit()]
    return min(100 * iops / percent for line in lines for iops, percent in zip(line, percents))


def cause(expected: dict, workload: Workload, paper: float, ours: float) -> str:
    """Returns why our figure differs from the paper's."""
    if abs(ours - paper) <= SAME * paper:
        return "the prefix holds the burst that decides"
    mean, most = workload.mean_iops, most_mean_iops(expected, workload.twin)
    if ours > paper and mean > most:
        return f"prefix busier ({mean:.0f} IOPS) than the whole trace ({most:.0f} at most)"
    if ours > paper:
        return f"prefix idler ({mean:.0f} IOPS) than the whole may be ({most:.0f}), but in bursts"
    return f"{workload.duration_s:.0f} s of it only, {mean:.0f} IOPS: larger bursts come later"


def rows(expected: dict, listed: list[Workload], short: bool) -> list[Row]:
    """Returns a row for each cell of table 4.1."""
    found = []
    for name in ("WebSearch", "FinTrans", "OpenMail"):
        workload = of(listed, name)
        for within, line in expected["capacity"][name].items():
            for percent, paper in zip(expected["capacity"]["percent"], line):
                claim = Claim(
                    id=f"capacity {name} {within} ms {percent} %",
                    source=expected["capacity"]["source"],
                    says=f"{percent} % within {within} ms",
                    unit="IOPS",
                    low=paper,
                    high=paper,
                )
                if workload is None:
                    found.append(Row(claim, name, None, missing(name, short)))
                    continue
                ours = least(workload, percent, float(within))
                why = cause(expected, workload, paper, ours)
                found.append(Row(claim, workload.name, ours, why))
    return found


def knees(expected: dict, listed: list[Workload], short: bool) -> list[Row]:
    """Returns the ratio of the capacity for all requests to that for fewer of them."""
    found = []
    for knee in expected["knee"]:
        name, start = knee["workload"], knee["from"]
        workload = of(listed, name)
        for within, paper in zip(knee["within_ms"], knee["times"]):
            claim = Claim(
                id=f"knee {knee['source']} {name} {start} {within}",
                source=knee["source"],
                says=f"100 % over {start} % within {within} ms",
                unit="times",
                low=paper,
                high=paper,
            )
            if workload is None:
                found.append(Row(claim, name, None, missing(name, short)))
                continue
            ours = least(workload, 100, within) / least(workload, start, within)
            why = "follows from the capacities above"
            found.append(Row(claim, workload.name, ours, why))
    return found


def bursts(expected: dict, short: bool) -> list[Row]:
    """Figure 3.2: the paper shows it for OpenMail only."""
    burst = expected["burst"]
    says = {
        "peak_iops": f"peak in windows of {burst['window_ms']} ms",
        "mean_iops": "mean",
        "capacity_90_iops": f"90 % within {burst['within_ms']} ms",
        "capacity_100_iops": f"100 % within {burst['within_ms']} ms",
    }
    name = burst["workload"]
    return [
        Row(
            Claim(f"burst {key}", burst["source"], text, "IOPS", burst[key], burst[key]),
            name,
            None,
            missing(name, short),
        )
        for key, text in says.items()
    ]


def truncation(expected: dict, listed: list[Workload]) -> str:
    """Returns the capacities of increasingly long beginnings, and the paper's for the whole trace."""
    lines = []
    for workload in listed:
        if workload.twin is None:
            continue
        rows = workload.table()
        for parts in (8, 4, 2, 1):
            start = rows.slice(0, workload.requests // parts)
            grid = grid_of(start, [90, 99, 100], [10, 50])
            seconds = start["at_ns"][-1].as_py() / 1e9
            cells = [grid[within, percent] for within in (10, 50) for percent in (90, 99, 100)]
            head = [workload.name, f"{start.num_rows:,}", number(start.num_rows / seconds)]
            lines.append([*head, *map(number, cells)])
        paper, percents = expected["capacity"][workload.twin], expected["capacity"]["percent"]
        cells = [paper[w][percents.index(p)] for w in ("10", "50") for p in (90, 99, 100)]
        mean = f"at most {most_mean_iops(expected, workload.twin):.0f}"
        lines.append([f"{workload.twin}, the paper", "all", mean, *map(number, cells)])
    heads = [f"{percent} % in {within} ms" for within in (10, 50) for percent in (90, 99, 100)]
    return table(["trace", "first requests", "mean IOPS", *heads], lines)


def reference(expected: dict, listed: list[Workload]) -> list[Row]:
    """Returns the results that somebody else computed from the same prefix."""
    workload = of(listed, "WebSearch")
    if workload is None:
        return []
    given = expected["reference"]
    found = []
    for within, iops in zip(given["within_ms"], given["capacity_iops"]):
        says = f"100 % within {within} ms"
        claim = Claim(f"reference {within}", "reference", says, "IOPS", iops, iops)
        found.append(Row(claim, workload.name, least(workload, 100, within), "the same requests"))
    return found
