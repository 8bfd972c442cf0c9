"""The offline limit: how much a better order alone could gain, by search in small windows, on the plain disk."""

import warnings

import forebay
from cases import DISKS, SCHEDULERS
from forebay.reproduce import table

IOS = 9
WINDOWS = 60

HEAD = f"""How far is each scheduler from the best order there is, on the plain disk? Windows of
{IOS} I/Os (neighbours joined) that are all there from the start: time in the best order, found by
search, and as multiples of it the floor (moving the bytes) and the time each scheduler takes until
the last is done.
"""


def found(workload) -> dict:
    """Returns the totals over all windows of a trace."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", forebay.TraceWarning)
        return forebay.offline(
            workload.path,
            device=DISKS["plain"](workload.device),
            policy=SCHEDULERS,
            windows=WINDOWS,
            ios=IOS,
        )


def column(found: dict) -> list[str]:
    """Returns a trace's figures: the best order's time, and the lower bound and each scheduler as multiples of it."""
    best, floor = found["best_s"], found["transfer_bound_s"]
    each = [policy["over_best_ratio"] for policy in found["policies"]]
    return [f"{best:.2f} s", f"{floor / best:.2f}", *(f"{ratio:.2f}" for ratio in each)]


def section(workloads, windows: list[dict]) -> str:
    """Returns a table with a row for each scheduler and a column for each trace."""
    columns = [column(found) for found in windows]
    names = ["best order", "floor", *SCHEDULERS]
    return table(["", *(w.name for w in workloads)], zip(names, *columns))
