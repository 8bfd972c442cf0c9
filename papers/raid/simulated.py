"""Figure 2 in simulation: the same loads on six drives, with throughput relative to an optimum priced with measured
times.

The array cannot follow a plan that knows the future, so the optimum is not run. Instead, the times of writes and
switches measured on the same model with the same number of outstanding writes serve as costs, for which the cheapest
sequence of layouts is computed. The difference between a static layout and its price is the model's error. All data
are written before the run, so that no unit can choose its first layout by its first write.
"""

import functools
from dataclasses import replace

import cases
import modelled

from forebay import reproduce

STATIC = {"RAID 6": "level=raid6", "RAID 10": "level=raid10x3"}


def specs(device: str, rules) -> dict:
    """Returns the arrays of figure 2 by rule and initial layout."""
    told = dict(STATIC)
    for rule in rules:
        for first, level in (("raid6", "raid6"), ("raid10", "raid10x3")):
            told[rule, first] = f"level={level}:adapt={rule}:costs={cases.COSTS[device]}"
    return told


@functools.lru_cache(8)
def _drawn(load: cases.Load, units: int):
    return load.drawn(units)


def one(case) -> dict:
    """Returns the figures of a run."""
    device, cached, load, units, outstanding, spec = case
    at, chunks = _drawn(load, units)
    ran = cases.run(cases.spread(units)[at], chunks, outstanding, cases.drive(device, cached=cached), spec, cases.DATA)
    return {"ms": cases.each_ms(ran), "switches": ran["placement"]["switches"]}


def figure(device: str, options, outstanding, times: dict, switches: dict, cached=None, active=None) -> dict:
    """Returns the percentage of the priced optimum for each array, by outstanding writes and load; only for the
    paper's rule if few units are active at a time.
    """
    every = cases.every(options)
    units = int(cases.DATA / cases.UNIT) // every
    arrays = specs(device, modelled.RULES if active is None else modelled.RULES[:1])
    loads = {name: replace(modelled.default(name), active=active) for name in cases.LOADS}
    keys = [(o, name, key) for o in outstanding for name in cases.LOADS for key in arrays]
    listed = [(device, cached, loads[name], units, o, arrays[key])
              for o, name, key in keys]
    rows = dict(zip(keys, reproduce.grid(one, listed, options.processes), strict=True))
    told = {}
    for o in outstanding:
        costs = {"writes_ms": [times[o]["RAID 6"], times[o]["RAID 10"]],
                 "to_mirrors_ms": max(0, switches[o][0]), "to_parity_ms": max(0, switches[o][1])}
        for name in cases.LOADS:
            priced = modelled.relative(modelled.default(name), costs, units)
            optimum = priced["optimum_ms"] / priced["requests"]
            told[o, name] = {key: 100 * optimum / rows[o, name, key]["ms"] for key in arrays}
            told[o, name]["model"] = {level: told[o, name][level] - priced[level] for level in STATIC}
    return told
