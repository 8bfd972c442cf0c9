"""Table VIII, figures 8 and 9: what laying blocks in the order in which they are read brings."""

import warnings
from pathlib import Path

import forebay
import workloads
from forebay.reproduce import kept


@kept
def study(trace: Path) -> dict:
    """Learnt on the first half under noop, at the recorded load."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", forebay.TraceWarning)
        found = forebay.simulate(trace, device=workloads.DISK, policy="noop", defragment=True)
    return found.to_dict()["defragmentation"][0]


def speedup(effect: dict | None) -> float:
    """Of the disk's own time, in per cent; 0 where nothing is to be moved."""
    if not effect or not effect["total_after_s"]:
        return 0.0
    return (effect["total_before_s"] / effect["total_after_s"] - 1) * 100


def rise(effect: dict | None) -> float:
    """Of the sequential share, in points."""
    if not effect:
        return 0.0
    return (effect["sequential_after_share"] - effect["sequential_before_share"]) * 100
