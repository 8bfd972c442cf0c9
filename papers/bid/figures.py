"""Figures 12 and 15 to 19 and table 2: our numbers on our traces, at recorded speed."""

import forebay
from cases import BID, DEFAULT_MS, DISKS, HYBRID, REPLAYS, SETTINGS, bid, by_policy, chosen
from forebay.reproduce import number, table

#: The policies in the order of columns, with their headings: BID with the paper's wait, then with
#: ours.
SHOWN = {
    "noop": "noop",
    "cfq": "cfq",
    "cfq paper": "cfq:form=paper",
    "BID-HDD": BID,
    "BID-Hybrid": HYBRID,
    f"BID {DEFAULT_MS} ms": bid(DEFAULT_MS),
    "clook": "clook",
    "forebay": "forebay",
}


def seek(run: dict) -> str:
    """Formats a mean with its standard deviation, like the error bars of figure 16."""
    return f"{run['avg_seek_tracks'] / 1e3:.1f}±{run['seek_stddev_tracks'] / 1e3:.1f}"


#: The heading of each figure, and how it is computed from a run.
FIGURES = [
    ("Figure 15. Head movements", lambda run: f"{run['head_movements']:,}"),
    ("Figure 16. Thousand cylinders a head movement, mean ± standard deviation", seek),
    ("Figure 17. Cumulative head movement, full sweeps", lambda run: number(run["seek_sweeps"])),
    ("Figure 18. Mean read time, ms", lambda run: number(run["read_mean_ms"])),
    ("Figure 19. Mean write time, ms", lambda run: number(run["write_mean_ms"])),
]


def of_all(cases, runs, show) -> str:
    """Returns a table with a row for each case and a column for each policy shown."""
    rows = []
    for case in cases:
        each = by_policy(case, runs[case])
        rows.append([case.workload.name, *(show(each[policy]) for policy in SHOWN.values())])
    return table(["trace", *SHOWN], rows)


def completion(cases, runs) -> str:
    """Returns figure 12, with its lower bounds."""

    def row(case):
        each = by_policy(case, runs[case])
        noop = each["noop"]
        busy = noop["busy_s"] / noop["makespan_s"]
        bound = number(noop["transfer_bound_s"])
        times = [number(each[policy]["busy_s"]) for policy in SHOWN.values()]
        return [case.workload.name, f"{busy:.0%}", bound, *times]

    return table(["trace", "busy", "floor", *SHOWN], [row(case) for case in cases])


def characteristics(workloads) -> str:
    """Returns table 2 for our workloads."""

    def row(workload):
        told = forebay.describe(workload.path)
        shares = [
            told["reads"] / max(told["requests"], 1),
            told["read_bytes"] / max(told["read_bytes"] + told["write_bytes"], 1),
            told["sequential_share"],
        ]
        return [
            workload.name,
            number(told["duration_s"]),
            f"{told['requests']:,}",
            f"{number((told['read_bytes'] + told['write_bytes']) / 1e9)}",
            *(f"{share:.0%}" for share in shares),
            f"{told['sequential_share_by_thread']:.0%}",
            f"{told['write_back_share'] or 0:.0%}",
            f"{told['read_size']['mean_kib'] or 0:.0f} / {told['write_size']['mean_kib'] or 0:.0f}",
            f"{told['threads'] or told['streams']}",
        ]

    header = ["trace", "s", "requests", "GB", "reads", "of bytes", "seq."]
    header += ["by thread", "write-back", "mean KiB", "threads"]
    return table(header, [row(workload) for workload in workloads])


BEHIND = """Where noop keeps the disk busy all the time in open replay, requests come faster than it
serves them: latencies then tell how far it falls behind, and closed replay says more.
"""
FLOOR = """How long are the devices busy, in seconds (with BID-Hybrid disk and flash together)?
"busy" is how
much of the time they are with noop, "floor" what moving the bytes takes.
"""


def section(cases, runs, workloads) -> str:
    """Returns all figures as tables."""
    parts = [
        "### Table 2. The workloads\n",
        "What kind of traces are these? Many threads read large files, but for the writer.\n",
        characteristics(workloads),
        "### Figure 12. Cumulative I/O completion time\n",
        FLOOR,
    ]
    for disk in DISKS:
        for replay in REPLAYS:
            picked = chosen(cases, replay, disk)
            if picked:
                parts += [f"{replay.capitalize()} replay, {disk}:\n", completion(picked, runs)]
    parts += ["### Beside figure 12: time to the last completion, s\n", LAST]
    for disk in DISKS:
        for replay in REPLAYS[1:]:
            picked = chosen(cases, replay, disk)
            if picked:
                parts += [f"{replay.capitalize()} replay, {disk}:\n"]
                parts += [of_all(picked, runs, lambda run: number(run["makespan_s"]))]
    parts.append(BEHIND)
    for heading, show in FIGURES:
        parts += [f"### {heading}\n"]
        for replay, disk in SETTINGS:
            parts += [f"{replay.capitalize()} replay, {disk}:\n"]
            parts += [of_all(chosen(cases, replay, disk), runs, show)]
    return "\n".join(parts)


LAST = """When is all done, where requests wait for earlier ones? (Open replay ends when the
recording did, unless the disk cannot keep up.)
"""
