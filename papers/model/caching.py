"""Figure 7 and Table VII: SSD caches in front of the disk, and how requests gather in few states."""

from functools import cache
from pathlib import Path

import forebay
import workloads

#: Caches that are turned on one after another.
CACHES = [0, 1, 2, 3, 4]
#: The four together hold this share of what the original touches: our traces are minutes to a week
#: of what would be terabytes, so the paper's 8 GB each would hold all of most.
ALL_CACHES_SHARE = 0.2


def cache_mib(workload) -> float:
    """The size of one cache."""
    footprint = forebay.describe(workload.path)["footprint_bytes"]
    return max(footprint * ALL_CACHES_SHARE / CACHES[-1] / 2**20, 1)


@cache
def throughput(trace: Path, mib: float, caches: int, flash: str) -> float:
    """IOPS with so many caches of this size."""
    if caches == 0:
        return workloads.iops(trace)
    policy = f"cache:size-mib={max(round(mib * caches), 1)}:disk=noop"
    run = workloads.simulate(trace, policy, flash=flash)
    return run["requests"] / run["makespan_s"]


def speedups(workload, trace: Path, flash: str) -> list[float]:
    """Of each number of caches, in per cent."""
    mib = cache_mib(workload)
    rates = [throughput(trace, mib, caches, flash) for caches in CACHES]
    return [(rate / rates[0] - 1) * 100 for rate in rates]


def gathered(card: dict) -> dict[int, float]:
    """Share of the original's requests in the busiest quarter of the states, by number of states."""
    heat = card["heat"]["a"]
    shares = {}
    for states in (4, 16, 64, 256):
        width = len(heat) // states
        weights = sorted((sum(heat[i * width:(i + 1) * width]) for i in range(states)), reverse=True)
        shares[states] = sum(weights[:states // 4])
    return shares


def misses(card: dict) -> float:
    """Mean error of the miss ratio over all cache sizes."""
    return card["mrc_mean_error"]
