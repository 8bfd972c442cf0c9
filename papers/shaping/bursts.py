"""Figure 3.2 on our traces: the load in windows of 100 ms, before and after RTT."""

from capacity import least
from forebay.reproduce import number, table
from workloads import Workload

WINDOW_NS = 100_000_000
PERCENT, WITHIN_MS = 90, 10


def admitted(times_ns: list[int], capacity_iops: int, within_ms: int) -> list[int]:
    """Returns the arrivals that RTT admits to its first class: a request joins it if it would be done in time."""
    free, kept = 0, []
    for at in times_ns:
        # Times are in units of 1/capacity ns, so that they are whole numbers.
        done = max(free, at * capacity_iops) + 1_000_000_000
        if done <= (at + within_ms * 1_000_000) * capacity_iops:
            free = done
            kept.append(at)
    return kept


def windows(times_ns: list[int]) -> dict[int, float]:
    """Returns the IOPS of each window that has arrivals."""
    counts: dict[int, int] = {}
    for at in times_ns:
        counts[at // WINDOW_NS] = counts.get(at // WINDOW_NS, 0) + 1
    return {window: count * 1e9 / WINDOW_NS for window, count in counts.items()}


def section(listed: list[Workload]) -> str:
    """A line a trace."""
    lines = []
    for workload in listed:
        times = workload.table()["at_ns"].to_pylist()
        capacity = least(workload, PERCENT, WITHIN_MS)
        kept = admitted(times, capacity, WITHIN_MS)
        peaks = [max(windows(part).values()) for part in (times, kept)]
        cells = [workload.mean_iops, peaks[0], 100 * len(kept) / len(times), peaks[1], capacity,
                 least(workload, 100, WITHIN_MS)]
        lines.append([workload.name, *map(number, cells)])
    heads = ["trace", "mean IOPS", "peak IOPS", "in Q1, %", "peak of Q1, IOPS",
             "90 % within 10 ms, IOPS", "100 %, IOPS"]
    return table(heads, lines)
