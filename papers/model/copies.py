"""Is a twin drawn, or is it a copy of its trace?

There are two conditions, because a model whose seeds are copies of each other would meet the first by itself: the
twin agrees with the trace no more than two seeds agree, and two seeds agree no more than the trace does with itself,
shuffled within each of 256 parts, which is as much as a model knows about when things happen.
"""

from itertools import combinations
from statistics import median

import numpy as np
import workloads

#: Differences in agreement of up to this many percentage points may be due to chance.
POINTS = 3.0
#: The largest shift of one sequence against the other, in requests, and the step between shifts.
SHIFTS, STEP = 1000, 1
#: The number of parts of the trace within which requests are shuffled.
PARTS = 256
#: The length of a run of requests that must occur in both.
RUN = 8


def seen(path) -> dict[str, np.ndarray]:
    """Returns the operation, size, place and octave of the gap of each request."""
    columns = workloads.columns(workloads.rows(path))
    gaps = np.diff(columns["at_ns"], prepend=0)
    return {"op": columns["reads"].astype(np.int64), "size": columns["len"], "place": columns["offset"],
            "gap": np.log2(np.maximum(gaps, 1)).astype(np.int64)}


def shuffled(of: dict, seed: int = 1) -> dict:
    """Returns the same sequence with requests shuffled within parts."""
    draw, count = np.random.default_rng(seed), len(of["op"])
    edges = np.linspace(0, count, min(PARTS, count) + 1).astype(int)
    order = np.concatenate([draw.permutation(np.arange(a, b)) for a, b in zip(edges, edges[1:], strict=False)])
    return {name: values[order] for name, values in of.items()}


def same(name: str, a: np.ndarray, b: np.ndarray) -> float:
    """Returns the percentage of requests on which two sequences agree."""
    alike = np.abs(a - b) < 2**20 if name == "place" else a == b
    return float(np.mean(alike)) * 100


def agreement(a: dict, b: dict, shifts: int = SHIFTS) -> dict[str, tuple[float, float]]:
    """Returns for each property the agreement request by request, and with the best shift."""
    count = min(len(a["op"]), len(b["op"]))
    shifts = min(shifts, count // 4)
    found = {}
    for name in a:
        x, y = a[name][:count], b[name][:count]
        moved = [same(name, x[max(by, 0):count + min(by, 0)], y[max(-by, 0):count - max(by, 0)])
                 for by in range(-shifts, shifts + 1, STEP)]
        found[name] = (same(name, x, y), max(moved))
    return found


def runs(of: dict) -> set:
    """Returns runs of operation, size and gap outside sequential runs."""
    starts = np.flatnonzero(np.concatenate(
        [[True], of["place"][1:] != of["place"][:-1] + of["size"][:-1]]))
    rows = np.stack([of["op"][starts], of["size"][starts], of["gap"][starts]], axis=1)
    return {rows[n:n + RUN].tobytes() for n in range(len(rows) - RUN + 1)}


def excess(a: dict, b: dict) -> float:
    """Returns the number of points by which one agreement exceeds another, at most."""
    return max(x - y for name in a for x, y in zip(a[name], b[name], strict=True))


def judged(trace, *twins, shifts: int = SHIFTS) -> dict:
    """Returns both conditions, and by how much each holds or fails: the agreement of the first two seeds, and the
    shared runs as the median of all seeds and of all pairs of them.
    """
    trace, *twins = map(seen, (trace, *twins))
    one, two = twins[:2]
    seeds = agreement(one, two, shifts)
    copied = excess(agreement(trace, one, shifts), seeds)
    alike = excess(seeds, agreement(trace, shuffled(trace), shifts))
    own, drawn = runs(trace), [runs(twin) for twin in twins]
    shared = [median(len(own & each) for each in drawn),
              median(len(a & b) for a, b in combinations(drawn, 2))]
    few = shared[0] <= shared[1] * 1.1 + 5
    return {"copied": copied, "seeds": alike, "runs_shared": shared,
            "is_drawn": copied <= POINTS and few, "seeds_differ": alike <= POINTS}
