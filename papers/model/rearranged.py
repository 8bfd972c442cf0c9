"""Blocks arranged as in the paper: with the whole trace known, each stream's blocks in the order of first use.

The paper knows the file of each request and arranges files in order. Our traces do not name files, so the order in
which a stream first uses blocks serves as a substitute. What is known beforehand is either in-sample (the whole
trace) or held out (learned on the first half and measured on the rest, whose new blocks are not moved).
"""

from pathlib import Path

import numpy as np
import workloads
from forebay.reproduce import kept

BLOCK = 4096


def blocks_of(trace: dict) -> tuple[np.ndarray, np.ndarray]:
    """Returns every block used, in the order of the trace, and the stream that uses it."""
    first = trace["offset"] // BLOCK
    count = (trace["offset"] + trace["len"] - 1) // BLOCK - first + 1
    starts = np.repeat(first, count)
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return starts + within, np.repeat(trace["stream"], count)


def laid(trace: dict, known: slice):
    """Returns requests at the new places of their first blocks, with places learned from the requests `known`: the
    blocks of a stream lie together, in order of first use.
    """
    seen = {name: column[known] for name, column in trace.items()}
    blocks, streams = blocks_of(seen)
    order, first = np.unique(blocks, return_index=True)
    places = np.empty(len(order), dtype=np.int64)
    places[np.lexsort((first, streams[first]))] = np.arange(len(order))
    wanted = trace["offset"] // BLOCK
    found = np.minimum(np.searchsorted(order, wanted), len(order) - 1)
    moved = order[found] == wanted
    # Blocks that were not seen before keep their order, after the rearranged ones.
    offset = np.where(moved, places[found] * BLOCK + trace["offset"] % BLOCK,
                      len(order) * BLOCK + trace["offset"])
    return {**trace, "offset": offset}


def sequential(trace: dict) -> float:
    """Returns the share of the requests that start where their stream's previous request in the same direction ended.
    """
    key = trace["stream"] * 2 + trace["reads"]
    order = np.argsort(key, kind="stable")
    ends = (trace["offset"] + trace["len"])[order]
    same = key[order][1:] == key[order][:-1]
    return float(np.mean(np.append(same & (trace["offset"][order][1:] == ends[:-1]), False)))


@kept
def study(path: Path, held_out: bool) -> dict:
    """Returns the sequential shares in percent before and after, and the speedup of the disk's own time."""
    trace = workloads.columns(workloads.rows(path))
    half = len(trace["len"]) // 2
    known, measured = (slice(0, half), slice(half, None)) if held_out else (slice(None),) * 2
    after = laid(trace, known)
    before, after = ({name: column[measured] for name, column in of.items()}
                     for of in (trace, after))
    busy = [workloads.simulate(workloads.requests(**of), intensity=1)["devices"][0]["busy_s"]
            for of in (before, after)]
    shares = [sequential(of) * 100 for of in (before, after)]
    return {"before": shares[0], "after": shares[1], "rise": shares[1] - shares[0],
            "speedup": (busy[0] / max(busy[1], 1e-9) - 1) * 100}
