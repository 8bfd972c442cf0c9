"""Figure 7 and Table VII: SSD caches in front of the disk, and how requests concentrate in a few states."""

from pathlib import Path

import forebay
import workloads
from forebay.reproduce import kept

#: The numbers of caches to try.
CACHES = [0, 1, 2, 3, 4]
#: The size of a cache as a share of the trace's footprint. The paper's caches are 8 GB each, for
#: traces of a day; ours are shorter or smaller.
CACHE_SHARE = 0.25


def cache_mib(workload) -> float:
    """Returns the size of one cache."""
    return forebay.describe(workload.path)["footprint_bytes"] * CACHE_SHARE / 2**20


@kept
def busy_s(trace: Path, mib: float, caches: int, flash: str) -> float:
    """Returns the busy time of the disk or the flash, whichever is longer, at recorded times with this many caches of
    this size. The storage can serve a load that is faster by this factor, and no more.
    """
    policy = f"cache:size-mib={max(round(mib * caches), 1)}:disk=noop" if caches else "noop"
    run = workloads.simulate(trace, policy, intensity=1, flash=flash)
    return max(device["busy_s"] for device in run["devices"])


def speedups(workload, trace: Path, flash: str) -> list[float]:
    """Returns the speedup in percent for each number of caches."""
    mib = cache_mib(workload)
    times = [busy_s(trace, mib, caches, flash) for caches in CACHES]
    return [(times[0] / max(time, 1e-9) - 1) * 100 for time in times]


def gathered(card: dict) -> dict[int, float]:
    """Returns the share of the requests in the busiest quarter of the states, by number of states."""
    heat = card["heat"]["a"]
    shares = {}
    for states in (4, 16, 64, 256):
        width = len(heat) // states
        weights = sorted((sum(heat[i * width:(i + 1) * width]) for i in range(states)), reverse=True)
        shares[states] = sum(weights[:states // 4])
    return shares


def misses(card: dict) -> float:
    """Returns the mean error of the miss ratio over all cache sizes."""
    return card["mrc_mean_error"]
