"""Every claim of the paper beside our result: in the main settings, and whether it holds there and in all sweeps."""

from collections.abc import Callable
from dataclasses import dataclass

import cases
from cases import ARRANGEMENTS, SETTINGS, TREES, slowed

from forebay import reproduce

#: A claim about a slowdown is supported by half the paper's value, because it is still a slowdown.
HALF = 0.5
#: Differences of up to this many percent count as equal.
ALIKE = 3.0


def took(told, arrangement, transformed):
    return told[arrangement][transformed]["execution_s"]


def longer(ours, than):
    return (ours / than - 1) * 100


def energy(told, arrangement, of=lambda row: row["energy_j"]):
    logged, transformed = told[arrangement]
    return longer(of(transformed), of(logged))


@dataclass(frozen=True)
class Judged:
    """A claim about one run of all arrangements, and whether a value of ours supports it."""

    value: Callable[[dict], float]
    holds: Callable[[float], bool]
    #: Whether runs with other disks, logs and values count, too.
    swept: bool = True


#: Claims about a single run, tested with 10 GB in the main settings and with every case of every
#: sweep.
RUN = {
    "raid0-slowed": Judged(lambda told: slowed(told["raid0"]), lambda value: value >= HALF * 55.7),
    "shift-slowed": Judged(lambda told: slowed(told["enhanced"]), lambda value: value <= 2.7),
    "shift-quicker": Judged(lambda told: longer(took(told, "raid0", 1), took(told, "enhanced", 1)), lambda value: value > 0),
    "raid0-alone": Judged(lambda told: longer(took(told, "raid0", 0), took(told, "enhanced", 0)), lambda value: value > ALIKE),
    "enhanced": Judged(lambda told: slowed(told["basic"]) - slowed(told["enhanced"]), lambda value: value > 0.5),
    "energy-less": Judged(lambda told: (1 - told["enhanced"][1]["energy_j"] / told["raid0"][1]["energy_j"]) * 100,
                          lambda value: value > 0),
    "energy-shift": Judged(lambda told: slowed(told["enhanced"]), lambda value: value <= 2.65),
    "energy-shift-stages": Judged(lambda told: energy(told, "enhanced", cases.active_s), lambda value: value <= 2.65, False),
    "energy-shift-drawn": Judged(lambda told: energy(told, "enhanced"), lambda value: value <= 2.65),
    "energy-raid0": Judged(lambda told: slowed(told["raid0"]), lambda value: value >= HALF * 55.69),
    "energy-raid0-drawn": Judged(lambda told: energy(told, "raid0"), lambda value: value >= HALF * 55.69),
}


def ends(by, arrangement, of):
    """Returns the same figure of a sweep's first and last case."""
    listed = list(by.values())
    return of(listed[0][arrangement]), of(listed[-1][arrangement])


def fewer(by):
    first, last = ends(by, "raid0", lambda pair: pair[1]["execution_s"])
    return -longer(last, first)


def grown(by):
    first, last = ends(by, "enhanced", lambda pair: pair[1]["execution_s"])
    return longer(last, first)


def less(by):
    first, last = ends(by, "raid0", slowed)
    return first - last


def spread(by, arrangement):
    times = [told[arrangement][1]["execution_s"] for told in by.values()]
    return longer(max(times), min(times))


def small_ones(by):
    """Returns how much more values of 1 KB are slowed down than those of 100 KB."""
    return slowed(by["1"]["raid0"]) - slowed(by["100"]["raid0"])


#: Claims about a sweep, tested for each setting and tree.
SWEEP = {
    "disks-raid0": ("disks", fewer, lambda value: value > ALIKE),
    "disks-shift": ("disks", grown, lambda value: abs(value) <= ALIKE),
    "disks-slowed": ("disks", less, lambda value: value > 1),
    "logs-raid0": ("logs", lambda by: spread(by, "raid0"), lambda value: value <= ALIKE),
    "logs-shift": ("logs", lambda by: spread(by, "enhanced"), lambda value: value <= ALIKE),
    "values-raid0": ("values", small_ones, lambda value: value > 1),
    "values-shift": ("values", lambda by: max(slowed(told["enhanced"]) for told in by.values()), lambda value: value <= 2.7),
    "sequential": ("keys", lambda by: slowed(by["sequential"]["raid0"]), lambda value: value <= ALIKE),
    **{f"rate-{kb}": ("values", lambda by, kb=kb: by[kb]["enhanced"][1]["throughput_mb_per_s"],
                      lambda value, rate=rate: abs(value / rate - 1) <= 0.2)
       for kb, rate in (("1000", 38.6), ("100", 31.1), ("10", 6.3))},
}


def columns():
    return [(tree, setting) for tree in TREES for setting in SETTINGS]


def verdict(held) -> str:
    held = list(held)
    if not held:
        return "-"
    if all(held):
        return "borne out"
    return f"depends: {sum(held)} of {len(held)}" if any(held) else "not borne out"


class Results:
    """The runs that the claims need."""

    def __init__(self, runs, mb, main_mb, short):
        self.runs, self.mb, self.main_mb = runs, mb, main_mb
        self.listed = cases.sweeps(mb, short)
        self.periods = {}

    def main(self, tree, setting):
        """Returns a main run at the paper's size, with its stages."""
        return self.runs(**TREES[tree], **SETTINGS[setting], total_mb=self.main_mb, stages=True)

    def is_about(self, name, tree, setting):
        """Returns whether a sweep covers that tree and those puts."""
        return tree in self.listed[name][2] and (setting != "flushed" or name in cases.FLUSHED)

    def of(self, name, tree, setting):
        """Returns a sweep's runs by label; none for a tree or puts that it does not cover."""
        _, _, _, listed = self.listed[name]
        if not self.is_about(name, tree, setting):
            return {}
        return {label: self.runs(**TREES[tree], **SETTINGS[setting], **case) for label, case in listed}

    def ask(self):
        """Runs everything."""
        for tree, setting in columns():
            self.runs.ask(**TREES[tree], **SETTINGS[setting], total_mb=self.main_mb, stages=True)
            for name, (_, _, _, listed) in self.listed.items():
                for _, case in listed if self.is_about(name, tree, setting) else ():
                    self.runs.ask(**TREES[tree], **SETTINGS[setting], **case)
        self.runs.go()

    def every(self):
        """Yields every run of every sweep, except where we merge and keys need no sorting."""
        for tree, setting in columns():
            for name in self.listed:
                for label, told in self.of(name, tree, setting).items():
                    if name != "merging" and label != "sequential":
                        yield told


def table(results, claims, why) -> str:
    rows = []
    for key, claim in claims.items():
        values, held, more = {}, [], []
        if key in RUN:
            judged = RUN[key]
            values = {at: judged.value(results.main(*at)) for at in columns()}
            held = [judged.holds(value) for value in values.values()]
            if judged.swept:
                more = [judged.holds(judged.value(told)) for told in results.every()]
        elif key in SWEEP:
            name, value, holds = SWEEP[key]
            values = {at: _tried(value, results.of(name, *at)) for at in columns()}
            held = [holds(value) for value in values.values() if value is not None]
        elif key in results.periods:
            values, holds = results.periods[key]
            held = [holds(value) for value in values.values() if value is not None]
        else:
            arrangement, state = key.split("-")
            values = {at: cases.scaled(results.main(*at)["enhanced" if arrangement == "shift" else arrangement]
                                       [state == "sorted"], results.main_mb) for at in columns()}
        cells = [reproduce.number(values.get(at)) for at in columns()]
        low = claim.text() if claim.low is not None or claim.high is not None else "yes"
        rows.append([f"{claim.says}, {claim.unit}", claim.source, low, *cells, verdict(held), verdict(more), why[key]])
    heads = [f"{tree}, {setting}" for tree, setting in columns()]
    return reproduce.table(["claim", "where", "paper", *heads, "verdict", "in all sweeps", "why"], rows)


def _tried(value, by):
    try:
        return value(by) if by else None
    except KeyError:
        # A short run does not include every value.
        return None


def swept(results, name) -> str:
    """Returns one row per case, setting and tree: each arrangement's time, and its slowdown."""
    _, header, _, listed = results.listed[name]
    rows = []
    for label, case in listed:
        for tree, setting in columns():
            if not results.is_about(name, tree, setting):
                continue
            told, mb = results.of(name, tree, setting)[label], case.get("total_mb", results.mb)
            cells = [text for arrangement in ARRANGEMENTS for text in
                     (reproduce.number(cases.scaled(told[arrangement][0], mb)),
                      reproduce.number(slowed(told[arrangement])))]
            ours = told["enhanced"][1]
            rows.append([label, tree, setting, *cells, reproduce.number(ours["throughput_mb_per_s"]),
                         str(ours["overlaps"])])
    heads = [text for label in ARRANGEMENTS.values() for text in (f"{label}, s", "slowed %")]
    return reproduce.table([header, "tree", "puts", *heads, "Workload Shifting, MB/s", "overlaps"], rows)
