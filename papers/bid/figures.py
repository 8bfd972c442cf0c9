"""Figures 12 and 15 to 19 and table 2: our numbers, every policy, on our traces."""

from cases import POLICIES, REPLAYS, by_policy, main_cases

import forebay
from forebay.reproduce import number, table


def seek(run: dict) -> str:
    """A mean with its standard deviation, as figure 16's error bars have it."""
    return f"{run['avg_seek_tracks']:.0f} ± {run['seek_stddev_tracks']:.0f}"


#: A figure's heading, and how a run says it.
FIGURES = [
    ("Figure 15. Head movements", lambda run: f"{run['head_movements']:,}"),
    ("Figure 16. Cylinders a head movement, mean ± standard deviation", seek),
    ("Figure 17. Cumulative head movement, full sweeps", lambda run: number(run["seek_sweeps"])),
    ("Figure 18. Mean read time, ms", lambda run: number(run["read_mean_ms"])),
    ("Figure 19. Mean write time, ms", lambda run: number(run["write_mean_ms"])),
]


def of_all(cases, runs, show) -> str:
    """A row for each case, a column for each policy."""
    rows = [
        [case.label, *(show(by_policy(case, runs[case])[policy]) for policy in POLICIES)]
        for case in cases
    ]
    return table(["trace, replay, load", *POLICIES], rows)


def completion(cases, runs) -> str:
    """Figure 12 in every replay and at every load, with what bounds it."""

    def row(case):
        each = by_policy(case, runs[case])
        noop = each["noop"]
        busy = noop["busy_s"] / noop["makespan_s"]
        bound = number(noop["transfer_bound_s"])
        return [case.label, f"{busy:.0%}", bound, *(number(each[p]["busy_s"]) for p in POLICIES)]

    header = ["trace, replay, load", "disk busy, noop", "transfer floor", *POLICIES]
    return table(header, [row(case) for case in cases])


def makespan(cases, runs) -> str:
    """Time to the last completion in closed replay."""
    closed = [case for case in cases if case.replay == "closed"]
    return of_all(closed, runs, lambda run: number(run["makespan_s"]))


def characteristics(workloads) -> str:
    """Table 2 for our workloads."""

    def row(workload):
        told = forebay.describe(workload.path)
        shares = [
            told["reads"] / max(told["requests"], 1),
            told["read_bytes"] / max(told["read_bytes"] + told["write_bytes"], 1),
            told["sequential_share"],
        ]
        return [
            workload.name,
            workload.device,
            number(told["duration_s"]),
            f"{told['requests']:,}",
            number(told["read_bytes"] / 1e9),
            number(told["write_bytes"] / 1e9),
            *(f"{share:.0%}" for share in shares),
            f"{told['sequential_share_by_thread']:.0%}",
            f"{told['write_back_share'] or 0:.0%}",
            f"{told['read_size']['mean_kib'] or 0:.0f} / {told['write_size']['mean_kib'] or 0:.0f}",
            f"{told['threads'] or told['streams']}",
        ]

    header = ["trace", "disk", "duration s", "requests", "read GB", "written GB"]
    header += ["reads of requests", "reads of bytes", "sequential", "sequential by thread"]
    header += ["written by write-back", "mean read / write KiB", "threads"]
    return table(header, [row(workload) for workload in workloads])


BEHIND = """Where open replay keeps the disk busy all the time, requests come faster than it serves them:
latencies then tell how far it falls behind, and closed replay says more.
"""


def section(cases, runs, workloads) -> str:
    """All figures as tables."""
    parts = ["### Table 2. The workloads\n", characteristics(workloads)]
    parts += [
        "### Figure 12. Cumulative I/O completion time, s\n",
        "Time the device worked (with BID-Hybrid: disk and flash together), first to last I/O.\n",
        completion(cases, runs),
        "### Beside figure 12: time to the last completion in closed replay, s\n",
        makespan(cases, runs),
    ]
    parts.append(BEHIND)
    for heading, show in FIGURES:
        parts += [f"### {heading}\n", of_all(main_cases(cases, *REPLAYS), runs, show)]
    return "\n".join(parts)
