"""Figure 2 in the paper's cost model: throughput in hundredths of the offline optimum's."""

import functools
import itertools
from dataclasses import replace

import cases

import forebay

RULES = ["bonus-malus", "best"]
UNITS = 2000
#: Parameters that the paper leaves open: writes per unit, the length of a run, and what a run is.
WRITES = [12, 24, 32, 240]
RUNS = [2, 4, 8, 16]
KINDS = [("repeats", "same-bias"), ("repeats", "opposite-bias"), ("draws", "opposite-bias")]


def relative(load: cases.Load, costs, units: int, seed: int = 1) -> dict:
    """By rule and first layout, and for static arrays: percent of the optimum whose first layout is free."""
    at, chunks = (column.tolist() for column in load.drawn(units, seed))
    told = {}
    for first in cases.FIRSTS:
        for row in forebay.adapt(at, chunks, rules=RULES, costs=costs, first=first):
            best = row["free_optimum_ms"]
            told[row["rule"], first] = 100 * best / row["paid_ms"]
            told["RAID 6"], told["RAID 10"] = 100 * best / row["raid6_ms"], 100 * best / row["raid10_ms"]
            told["optimum_ms"], told["requests"] = best, row["requests"]
    return told


@functools.cache
def paper(load: cases.Load, device: str, units: int) -> dict:
    """With the paper's costs."""
    return relative(load, cases.COSTS[device], units)


def swept(name: str, short: bool) -> list[cases.Load]:
    """A load with everything that the paper leaves open."""
    runs = RUNS if name != "A" else RUNS[:1]
    kinds = KINDS if name != "A" else KINDS[:1]
    writes = [None, *(WRITES[-1:] if short else WRITES)]
    return [cases.Load(name, run, count, *kind)
            for count, run, kind in itertools.product(writes, runs[-2:] if short else runs, kinds)]


def default(name: str) -> cases.Load:
    """Runs of 8 and 32 writes of one size, as many writes as 200 GB are."""
    return replace(cases.Load(name))
