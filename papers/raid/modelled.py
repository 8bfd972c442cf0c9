"""Figure 2 in the paper's cost model: throughput in percent of the offline optimum's."""

import itertools
from dataclasses import replace

import cases

import forebay
from forebay import reproduce

RULES = ["bonus-malus", "best"]
UNITS = 2000
#: Parameters that the paper leaves open: writes per unit, the length of a run, and what a run is.
WRITES = [12, 24, 32, 240]
RUNS = [2, 4, 8, 16]
KINDS = [("repeats", "same-bias"), ("repeats", "opposite-bias"), ("draws", "opposite-bias")]
#: The share of large writes in B, and of small writes in C.
BIASES = [0.9, 0.8]


def relative(load: cases.Load, costs, units: int, seed: int = 1) -> dict:
    """Returns the percentage of the optimum with a free initial layout, by rule and initial layout, and for static
    arrays.
    """
    # Only tables at the paper's bias show our own rule.
    rules = RULES if load.bias == BIASES[0] else RULES[:1]
    at, chunks = (column.tolist() for column in load.drawn(units, seed))
    told = {}
    for first in cases.FIRSTS:
        for row in forebay.adapt(at, chunks, rules=rules, costs=costs, first=first):
            best = row["free_optimum_ms"]
            told[row["rule"], first] = 100 * best / row["paid_ms"]
            told["RAID 6"], told["RAID 10"] = 100 * best / row["raid6_ms"], 100 * best / row["raid10_ms"]
            told["optimum_ms"], told["requests"] = best, row["requests"]
    return told


def paper(case) -> dict:
    """Computes the results with the paper's costs."""
    load, device, units = case
    return relative(load, cases.COSTS[device], units)


def swept(short: bool) -> list[cases.Load]:
    """Returns all combinations of parameters that the paper leaves open, the main setting first, for loads of any
    name.
    """
    runs, writes = sorted(RUNS[-2:] if short else RUNS, key=lambda run: run != cases.Load.run), WRITES[-1:] if short else WRITES
    every = itertools.product([None, *writes], runs, KINDS, BIASES)
    return [cases.Load("A", run, count, *kind, bias) for count, run, kind, bias in every]


def named(load: cases.Load, name: str) -> cases.Load:
    """Returns a load with this name; A has no runs and no bias."""
    return replace(load, name=name) if name != "A" else cases.Load("A", writes=load.writes)


def every(device: str, units: int, options) -> dict:
    """Returns the percentage of the optimum for all settings, by load."""
    loads = list(dict.fromkeys(named(load, name) for load in swept(options.short) for name in cases.LOADS))
    told = reproduce.grid(paper, [(load, device, units) for load in loads], options.processes)
    return dict(zip(loads, told, strict=True))


def default(name: str) -> cases.Load:
    """Returns the main setting: runs of 8 and 32 writes of one size, and as many writes as 200 GB need."""
    return cases.Load(name)
