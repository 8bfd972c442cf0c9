"""Reproduces the **model** paper: its tables and figures on our traces.

    make reproduce PAPER=model    # or: python -m forebay.reproduce papers/model
    python -m forebay.reproduce papers/model --short -o t.md    # the bundled trace alone

The traces are those that `workloads.py` lists, in the folder that `--traces` names.
"""

import warnings
from pathlib import Path

import caching
import defragmentation
import fidelity
import held_out
import intensity
import levels
import numpy as np
import patterns
import rearranged
import workloads

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent

HEAD = """# The storage workload model: the paper's figures and ours

C. Delimitrou and others, "Decoupling Datacenter Studies from Access to Large-Scale Applications: A
Modeling Approach for Storage Workloads" (IISWC 2011). Written by `{command}` with forebay {version};
nothing here is typed in but the paper's own figures ([expected.toml](expected.toml)).

The paper's traces are not to be had; ours are {traces}. The *twin* is what `forebay generate` (seed 1) makes
of the model that `forebay fit` makes of the whole trace. IOMeter's place is taken by the *locality-free*
load: as many requests, the same mix of sizes and of reads, the same share of sequential requests, the
same mean inter-arrival time, everything else uniform, as fio's random job has it. The disk is
{disk} in simulation, noop, queue depth 1, beside it {flash}. *Throughput* is that of the disk with all requests
at hand at once, since at recorded times it only echoes the arrivals. Deviations are
ours less the nearer end of the paper's range, in the row's unit.
"""

HEADER = ["source", "what", "case", "paper", "ours", "deviation", "unit", "cause"]


class Study:
    """Rows of claims, as they are found."""

    def __init__(self, claims):
        self.claims = claims
        self.rows = []

    def add(self, claim: str, case: str, ours: float | None, cause: str) -> None:
        """One figure of ours beside the paper's; the cause is for those that deviate."""
        row = reproduce.Row(self.claims[claim], case, ours, cause)
        kept = "" if row.deviation == 0 else cause
        self.rows.append(reproduce.Row(row.claim, case, ours, kept))

    def told(self) -> str:
        """The table of what came since it was last told."""
        cells = []
        for row in self.rows:
            case, paper, ours, deviation, cause = row.cells()
            claim = row.claim
            cells.append([claim.source, claim.says, case, paper, ours, deviation, claim.unit, cause])
        self.rows = []
        return reproduce.table(HEADER, cells)


def main(options) -> str:
    """The text of the tables."""
    warnings.simplefilter("ignore", forebay.TraceWarning)
    listed = workloads.workloads(options)
    study = Study(reproduce.claims(HERE / "expected.toml"))
    words = ["python -m forebay.reproduce papers/model", *(["--short"] if options.short else [])]
    parts = [HEAD.format(command=" ".join(words), version=forebay.__version__,
                         traces=", ".join(workload.name for workload in listed),
                         disk=workloads.DISK, flash=options.flash)]
    sections = {
        "Table I: states and transitions": lambda: table_one(study),
        "Table IV: features, original against twin": lambda: features(study, listed),
        "Table V: what each generator can stand in for": lambda: supported(listed),
        "Figure 4: throughput of original and twin": lambda: throughput(study, listed),
        "Figure 5: activity over time": lambda: activity(study, listed),
        "Figure 6: throughput by levels, hierarchical and flat": lambda: by_level(study, listed),
        "Table VI: patterns without locality": lambda: simple(study, options),
        "Figure 3: intensity": lambda: turned_up(listed, options),
        "Table VII: how requests gather in states": lambda: gathered(listed),
        "Figure 7: SSD caching": lambda: caches(study, listed, options),
        "Table VIII, figures 8 and 9: defragmentation": lambda: defragmented(study, listed),
        "Which of the two pays more": lambda: pays(listed, options),
        "Beyond the paper: fitted on a part, held against the rest": lambda: held_out.section(listed),
    }
    for title, section in sections.items():
        parts += [f"## {title}\n", section()]
    if options.pictures:
        import model_pictures

        model_pictures.draw(listed, options)
    return "\n".join(parts)


def figure(value: float | None, digits: int = 1) -> str:
    """A number of a table."""
    return "-" if value is None else f"{value:,.{digits}f}"


def table_one(study: Study) -> str:
    study.add("transitions-2", "counted one by one", levels.counted(2), "")
    study.add("transitions-2-flat", "16 to the power of the levels", 16**2, "")
    header = ["levels", "states", "transitions, hierarchical", "transitions, flat"]
    return study.told() + "\n" + reproduce.table(header, levels.table_one())


def features(study: Study, listed) -> str:
    first = listed[min(1, len(listed) - 1)]
    card = workloads.card(first.path, first.twin())
    rows = []
    for feature in fidelity.features(card):
        unit = "%" if feature["deviation_kind"] == "relative" else "points"
        low, high = (figure(feature[end], 4) for end in ("a_low", "a_high"))
        rows.append([feature["name"], figure(feature["a"], 4), figure(feature["b"], 4),
                     f"{figure(fidelity.deviation(feature), 2)} {unit}", f"{low} to {high}"])
    for workload in listed:
        card = workloads.card(workload.path, workload.twin())
        name, deviation = fidelity.worst(card)
        study.add("features", f"{workload.name}: {name}", deviation, FEATURES)
        name, deviation = fidelity.worst(card, weights=True)
        study.add("weights", f"{workload.name}: {name}", deviation, WEIGHTS)
    header = ["feature", "original", "twin", "deviation", "original's own interval (95 %)"]
    return f"All features of {first.name}:\n\n{reproduce.table(header, rows)}\n{study.told()}"


WEIGHTS = "weights of transitions are kept, those of streams follow; without names streams go by rank"
FEATURES = "runs of several streams interleave, and a state remembers one request: some runs are broken"
IOPS = "a queue merges neighbours at hand: runs that are broken merge less"


def supported(listed) -> str:
    """The paper's Table V lists knobs; here what comes of them, on how many of the traces."""
    names = list(fidelity.aspects(workloads.card(listed[0].path, listed[0].path)))
    rows = []
    for name in names:
        holds = []
        for other in ("twin", "free"):
            cards = [workloads.card(w.path, getattr(w, other)()) for w in listed]
            found = [fidelity.aspects(card).get(name) for card in cards]
            held = sum(bool(each) for each in found)
            holds.append(f"{held} of {sum(each is not None for each in found)}")
        rows.append([name, *holds])
    return TABLE_FIVE + reproduce.table(["may stand in for the original in", "twin", "locality-free"],
                                        rows)


TABLE_FIVE = """The paper lists which knobs each tool has. Here is what they come to: on how many of
the traces `forebay compare` finds that the load may stand in for the original ([its
bounds](../../docs/compare.md)).

"""


def throughput(study: Study, listed) -> str:
    rows, errors = [], []
    for workload in listed:
        twin, free = workload.twin(), workload.free()
        rates = [workloads.iops(path) for path in (workload.path, twin, free)]
        rows.append([workload.name, *(figure(rate) for rate in rates),
                     str(levels.chosen(workload))])
        study.add("iops", workload.name, fidelity.iops_difference(workload, twin), IOPS)
        study.add("runs", workload.name, fidelity.runs_difference(workload), RUNS)
        for device, mean, _ in fidelity.responses(workloads.card(workload.path, twin)):
            errors.append((abs(mean), f"{workload.name} on {device}"))
    most = max(errors)
    study.add("performance-worst", f"mean response: {most[1]}", most[0], RESPONSES)
    mean = sum(error for error, _ in errors) / len(errors)
    study.add("performance-mean", "mean responses of all traces on three devices", mean, RESPONSES)
    header = ["workload", "original, IOPS", "twin, IOPS", "locality-free, IOPS", "level chosen"]
    return reproduce.table(header, rows) + "\n" + responses(listed) + "\n" + study.told()


RUNS = "all requests at once: a run is as long as its requests, and other draws need other seeks"
RESPONSES = "open replay: near saturation a little more seeking is a great deal more waiting"


def responses(listed) -> str:
    rows = []
    for workload in listed:
        cards = [workloads.card(workload.path, path) for path in (workload.twin(), workload.free())]
        for twin, free, at in zip(*map(fidelity.responses, cards), cards[0]["responses"], strict=True):
            p99 = at["p99_ms"]
            own = [(p99[end] / p99["a"] - 1) * 100 for end in ("a_low", "a_high")]
            load = "overloaded" if at["a_overloaded"] else ""
            rows.append([workload.name, twin[0], *(figure(n) for n in (twin[1], free[1], twin[2], free[2])),
                         f"{figure(own[0])} to {figure(own[1])}", load])
    header = ["workload", "device", "mean response: twin, %", "locality-free, %", "p99: twin, %",
              "locality-free, %", "the original's own p99 (95 %), %", ""]
    return "Deviation of responses at recorded times:\n\n" + reproduce.table(header, rows)


def activity(study: Study, listed) -> str:
    for workload in listed:
        free = fidelity.fluctuation(workload, workload.free())
        study.add("fluctuation", f"{workload.name}, twin",
                  fidelity.fluctuation(workload, workload.twin()), "")
        study.add("fluctuation", f"{workload.name}, locality-free", free,
                  "a means-only load has no peaks of the original's")
    return f"Requests in {fidelity.STRETCHES} stretches of the trace's time.\n\n" + study.told()


def by_level(study: Study, listed) -> str:
    rows = []
    for workload in listed:
        rates = levels.throughput(workload)
        original = workloads.iops(workload.path)
        rows.append([workload.name, *(figure(rate) for rate in rates), figure(original)])
        study.add("levels", workload.name, levels.enough(rates), LEVELS)
        study.add("flat", f"{workload.name}, {levels.FLAT_LEVEL} levels",
                  levels.flat_difference(workload), "")
    header = ["workload", *(f"{level} levels" for level in levels.LEVELS), "original"]
    return "Throughput of the twins, IOPS:\n\n" + reproduce.table(header, rows) + "\n" + study.told()


LEVELS = "a later level, or none of those tried: the finest states are visited too seldom to be known"


def simple(study: Study, options) -> str:
    rows = []
    for name, plain, twin in patterns.rows(options.work / "model"):
        rows.append([name, figure(plain), figure(twin)])
        study.add("simple", name, abs(twin / plain - 1) * 100, "")
    header = ["pattern", "locality-free generator, IOPS", "model's twin, IOPS"]
    return reproduce.table(header, rows) + "\n" + study.told()


def turned_up(listed, options) -> str:
    workload = intensity.middling(listed)
    disk, flash = (intensity.achieved(workload.twin(), device)
                   for device in (workloads.DISK, options.flash))
    rows = [[f"{times:g}", figure(on_disk[0], 0), figure(on_disk[1], 0), figure(on_flash[1], 0)]
            for times, on_disk, on_flash in zip(intensity.TIMES, disk, flash, strict=True)]
    header = ["times as fast", "asked for, IOPS", f"{workloads.DISK} serves", f"{options.flash} serves"]
    return (f"The twin of {workload.name}: the disk's throughput levels off, the solid-state drive's "
            f"does so later.\n\n{reproduce.table(header, rows)}")


def gathered(listed) -> str:
    rows = []
    for workload in listed:
        found = [caching.gathered(workloads.card(workload.path, path))
                 for path in (workload.path,)][0]
        twin = caching.gathered(workloads.card(workload.twin(), workload.twin()))
        rows.append([workload.name, *(f"{found[n] * 100:.1f} ({twin[n] * 100:.1f})" for n in found)])
    header = ["workload", *(f"{states} states" for states in (4, 16, 64, 256))]
    return ("Share of the requests in the busiest quarter of the states, %, of the original (and the "
            f"twin): more states confine them to less of the disk.\n\n{reproduce.table(header, rows)}")


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
        study.add("cache-free", f"{workload.name}, locality-free", found["locality-free"][-1], FREE)
    study.add("cache-mean", "originals, four caches", float(np.mean([gain for gain, _ in gains])), SIZES)
    study.add("cache-most", f"{max(gains)[1]}, four caches", max(gains)[0], SIZES)
    wrong = " and ".join(f"{figure(float(np.mean(found)))} points for the {of}"
                         for of, found in errors.items())
    header = ["workload", "load", *(f"{n} caches, %" for n in caching.CACHES[1:]),
              "mean error of the miss ratio"]
    return (f"Speedup of storage (time of the busier of disk and flash) by LRU write-back caches of 4 KiB "
            f"blocks, at recorded times; "
            f"each holds {caching.CACHE_SHARE:.0%} of what the original touches.\n\n"
            f"{reproduce.table(header, rows)}\nMean error of the speedup with four caches: {wrong}.\n\n"
            f"{study.told()}")


FREE = "a write-back cache spares the disk writes whatever their place"
SIZES = "other workloads; caches in proportion to what minutes to a week of them touch"


def defragmented(study: Study, listed) -> str:
    rows, gains = [], []
    for workload in listed:
        for of, path in (("original", workload.path), ("twin", workload.twin())):
            ways = [rearranged.study(path, held_out) for held_out in (False, True)]
            cells = [figure(way[key]) for way in ways for key in ("before", "after", "speedup")]
            rows.append([workload.name, of, *cells])
        found = rearranged.study(workload.path, False)
        gains.append(found["speedup"])
        study.add("sequential", workload.name, found["rise"], FILES)
        study.add("defragmentation-range", workload.name, found["speedup"], FILES)
    study.add("defragmentation-mean", "all", float(np.mean(gains)), FILES)
    header = ["workload", "load", "in-sample: sequential before, %", "after, %", "speedup, %",
              "held out: before, %", "after, %", "speedup, %"]
    return "\n".join([DEFRAGMENTATION, reproduce.table(header, rows), study.told(), LEARNT,
                      learnt(listed)])


FILES = "other workloads; the order of first use stands for the files' order"

DEFRAGMENTATION = """The paper lays the blocks of each file in order and replays the same trace. Ours
name no files: the order in which a stream first uses its blocks stands for theirs. *In-sample*
the whole trace is known beforehand, as in the paper; *held out* the order is learnt on the first
half and measured on the rest. Speedup is of the disk's own time, noop, at recorded times. Claims are of
the originals, in-sample.
"""

LEARNT = """What Forebay's own defragmentation makes of it (`simulate --defragment`), which moves only
what streams read in the same scattered order more than once, and is held out:
"""


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


#: Per cent below which neither pays.
LITTLE = 1


def more(cached: float, laid: float) -> str:
    """Which of the two speedups is the greater."""
    if max(cached, laid) < LITTLE:
        return "neither"
    return "caching" if cached > laid else "defragmentation"
