"""Table VIII, figures 8 and 9: the gain from placing blocks in the order in which they are read."""

import warnings
from pathlib import Path

import forebay
import workloads
from forebay.reproduce import kept


@kept
def study(trace: Path) -> dict:
    """Simulates an arrangement that was learned on the first half under noop, at the recorded load."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", forebay.TraceWarning)
        found = forebay.simulate(trace, device=workloads.DISK, policy="noop", defragment=True)
    return found.to_dict()["defragmentation"][0]


def speedup(effect: dict | None) -> float:
    """Returns the speedup of the disk's own time in percent; 0 if nothing is to be moved."""
    if not effect or not effect["total_after_s"]:
        return 0.0
    return (effect["total_before_s"] / effect["total_after_s"] - 1) * 100


def rise(effect: dict | None) -> float:
    """Returns the rise of the sequential share in percentage points."""
    if not effect:
        return 0.0
    return (effect["sequential_after_share"] - effect["sequential_before_share"]) * 100
