"""Figures 7 to 9 and Table VIII: the sections on caches and defragmentation, and which pays more."""

import caching
import causes
import defragmentation
import numpy as np
import rearranged
import workloads
from study import Study, figure

from forebay import reproduce


def beside(study: Study, claim: str, case: str, found: list[float], of) -> None:
    """Returns a figure over all our workloads beside the paper's."""
    ours = float(of(found))
    unit = study.claims[claim].unit
    cause = causes.other_workloads(study.deviation(claim, ours), found, unit)
    study.add(claim, case, ours, cause)


def caches(study: Study, listed, options) -> str:
    rows, errors, gains = [], {"twin": [], "locality-free": []}, []
    for workload in listed:
        loads = {"original": workload.path, "twin": workload.twin(), "locality-free": workload.free()}
        found = {of: caching.speedups(workload, path, options.flash) for of, path in loads.items()}
        for of, speedups in found.items():
            miss = "" if of == "original" else figure(
                caching.misses(workloads.card(workload.path, loads[of])), 3)
            rows.append([workload.name, of, *(figure(s) for s in speedups[1:]), miss])
        for of in errors:
            errors[of].append(abs(found[of][-1] - found["original"][-1]))
        gains.append((found["original"][-1], workload.name))
        study.add("cache-free", f"{workload.name}, locality-free", found["locality-free"][-1],
                  causes.cached_writes(workloads.card(workload.path, loads["locality-free"])))
    beside(study, "cache-mean", "originals, four caches", [gain for gain, _ in gains], np.mean)
    beside(study, "cache-most", f"{max(gains)[1]}, four caches", [gain for gain, _ in gains], max)
    wrong = " and ".join(f"{figure(float(np.mean(found)))} points for the {of}"
                         for of, found in errors.items())
    header = ["workload", "load", *(f"{n} caches, %" for n in caching.CACHES[1:]),
              "mean error of the miss ratio"]
    return (f"Speedup of storage (time of the busier of disk and flash) by LRU write-back caches of 4 KiB "
            f"blocks, at recorded times; "
            f"each holds {caching.CACHE_SHARE:.0%} of what the original touches.\n\n"
            f"{reproduce.table(header, rows)}\nMean error of the speedup with four caches: {wrong}.\n\n"
            f"{study.told()}")


DEFRAGMENTATION = """The paper lays the blocks of each file in order and replays the same trace. Ours
name no files: the order in which a stream first uses its blocks stands for theirs. *In-sample*
the whole trace is known beforehand, as in the paper; *held out* the order is learnt on the first
half and measured on the rest. Speedup is of the disk's own time, noop, at recorded times. Claims are of
the originals, in-sample.
"""

LEARNT = """What Forebay's own defragmentation makes of it (`simulate --defragment`), which moves only
what streams read in the same scattered order more than once, and is held out:
"""


def defragmented(study: Study, listed) -> str:
    rows, gains, rises = [], [], []
    for workload in listed:
        for of, path in (("original", workload.path), ("twin", workload.twin())):
            ways = [rearranged.study(path, held_out) for held_out in (False, True)]
            cells = [figure(way[key]) for way in ways for key in ("before", "after", "speedup")]
            rows.append([workload.name, of, *cells])
        found = rearranged.study(workload.path, False)
        gains.append(found["speedup"])
        rises.append(found["rise"])
    for workload, rise, gain in zip(listed, rises, gains, strict=True):
        beside(study, "sequential", workload.name, rises, lambda _, rise=rise: rise)
        beside(study, "defragmentation-range", workload.name, gains, lambda _, gain=gain: gain)
    beside(study, "defragmentation-mean", "all", gains, np.mean)
    header = ["workload", "load", "in-sample: sequential before, %", "after, %", "speedup, %",
              "held out: before, %", "after, %", "speedup, %"]
    return "\n".join([DEFRAGMENTATION, reproduce.table(header, rows), study.told(), LEARNT,
                      learnt(listed)])


def learnt(listed) -> str:
    rows = []
    for workload in listed:
        found = defragmentation.study(workload.path)
        held = found["held_out"]
        rows.append([workload.name, f"{found['repeated_jumps']:,}", f"{found['moved_extents']:,}",
                     figure(defragmentation.rise(held)), figure(defragmentation.speedup(held)),
                     figure(found["cost_s"])])
    header = ["workload", "jumps made more than once", "pieces moved", "sequential share rises by, points",
              "speedup, %", "moving takes, s"]
    return reproduce.table(header, rows)


def pays(listed, options) -> str:
    rows, right = [], [0, 0]
    for workload in listed:
        gains = []
        for path in (workload.path, workload.twin(), workload.free()):
            cached = caching.speedups(workload, path, options.flash)[-1]
            laid = rearranged.study(path, False)["speedup"]
            gains.append((cached, laid, more(cached, laid)))
        says = [answer for *_, answer in gains]
        right = [count + (answer == says[0]) for count, answer in zip(right, says[1:], strict=True)]
        rows.append([workload.name, figure(gains[0][0]), figure(gains[0][1]), *says])
    header = ["workload", "four caches, %", "defragmentation (in-sample), %", "pays more",
              "says the twin", "says the locality-free"]
    return ("The paper: defragmentation for Email and Display Ads, caches for the others. Of ours "
            f"the twin is right on {right[0]} of {len(listed)}, the locality-free load on {right[1]}.\n\n"
            + reproduce.table(header, rows))


#: If both speedups are below this many percent, neither remedy pays.
LITTLE = 1


def more(cached: float, laid: float) -> str:
    """Returns which of the two speedups is greater."""
    if max(cached, laid) < LITTLE:
        return "neither"
    return "caching" if cached > laid else "defragmentation"
