"""Every claim of the paper: its figure, ours, the range of ours over everything that the paper leaves open, and why;
and which claims hold together.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import cases
import measured
import modelled

from forebay import reproduce

HEADER = ["source", "claim", "where", "paper", "ours", "over what is open", "holds", "why"]
JOINT_HEADER = ["drives", "where", "settings", "setting that meets most", "meets", "misses", "met by no setting",
                "met, but never together"]
RULE = "bonus-malus"


@dataclass
class Judged:
    """A claim with our figures: that of the main setting, and all."""

    claim: reproduce.Claim
    where: str
    ours: float
    swept: list[float]
    why: str

    def cells(self) -> list[str]:
        low, high = min(self.swept), max(self.swept)
        span = reproduce.number(low) if low == high else f"{reproduce.number(low)} to {reproduce.number(high)}"
        kept = [self.claim.deviation(value) == 0 for value in self.swept]
        holds = "yes" if self.claim.deviation(self.ours) == 0 else "no"
        if any(kept) != all(kept):
            holds += f" ({sum(kept)} of {len(kept)})"
        return [self.claim.source, self.claim.says, self.where, self.claim.text(), reproduce.number(self.ours),
                span, holds, self.why]


class Results:
    """The results of all runs."""

    def __init__(self, options, expected: dict):
        self.short, self.paper = options.short, expected
        outstanding = [8] if self.short else cases.OUTSTANDING
        self.times = {device: measured.table_one(device, options, outstanding)
                      for device in cases.COSTS}
        self.switches = {device: measured.switches(device, options, outstanding)
                         for device in cases.COSTS}
        self.nearest = {device: measured.nearest(self.times[device], expected["times"][device])
                        for device in cases.COSTS}
        self.apart = measured.apart(options)
        self.occupied = measured.by_occupancy(options, self.nearest[cases.SSD])


@dataclass
class Setting:
    """One choice of the parameters that the paper leaves open, with the results by load."""

    label: str
    first: str
    told: dict
    #: In simulation: the results without a read cache, and the figures that depend only on the
    #: number of outstanding writes.
    uncached: dict = field(default_factory=dict)
    beside: dict = field(default_factory=dict)

    def rule(self, load: str) -> float:
        return self.told[load][RULE, self.first]

    def over_both(self, load: str) -> float:
        """Returns the number of points by which the rule exceeds the better static layout."""
        return self.rule(load) - max(self.told[load]["RAID 6"], self.told[load]["RAID 10"])

    def gap(self, load: str) -> float:
        """Returns the number of points by which RAID 6 exceeds RAID 10."""
        return self.told[load]["RAID 6"] - self.told[load]["RAID 10"]

    def off_model(self, load: str) -> float:
        """Returns the percentage by which RAID 6 differs from its price or, in the cost model, from the optimum."""
        ours = self.told[load]["RAID 6"]
        price = ours - self.told[load]["model"]["RAID 6"] if "model" in self.told[load] else 100
        return 100 * (ours / price - 1)

    def cache_gain(self, load: str) -> float:
        """Returns the percentage by which caching speeds up RAID 6."""
        return 100 * (self.told[load]["RAID 6"] / self.uncached[load]["RAID 6"] - 1)

    def widened(self, load: str) -> float:
        """Returns the number of points by which caching widens the gap between RAID 6 and RAID 10."""
        return self.gap(load) - (self.uncached[load]["RAID 6"] - self.uncached[load]["RAID 10"])


#: Returns the statements of figure 2 about a device, as figures of a setting.
FIGURE_TWO: dict[str, dict[str, Callable[[Setting], float]]] = {
    cases.HDD: {
        "hdd-B2": lambda at: at.rule("B2"),
        "hdd-C2": lambda at: at.rule("C2"),
        "hdd-gain-B2": lambda at: at.over_both("B2"),
        "hdd-gain-C2": lambda at: at.over_both("C2"),
        "hdd-C1": lambda at: at.rule("C1") - at.told["C1"]["RAID 10"],
        "hdd-A": lambda at: at.off_model("A"),
    },
    cases.SSD: {
        "ssd-C1": lambda at: at.over_both("C1"),
        "ssd-C2": lambda at: at.over_both("C2"),
        "ssd-C-parity": lambda at: min(at.gap("C1"), at.gap("C2")),
        "ssd-B-parity": lambda at: min(at.told["B1"]["RAID 6"], at.told["B2"]["RAID 6"]) - 100,
    },
}
#: Returns its statements about caching.
CACHING: dict[str, Callable[[Setting], float]] = {
    "ssd-caching-A": lambda at: min(map(at.cache_gain, cases.LOADS[1:])) - at.cache_gain("A"),
    "ssd-caching-B": lambda at: min(at.widened("B1"), at.widened("B2")),
}
#: Claims about static layouts, which do not depend on the first layout.
STATIC = {"hdd-A", "ssd-C-parity", "ssd-B-parity", *CACHING}


def beside(results: Results, device: str, name: str) -> dict[str, dict[int, float]]:
    """Returns the statements of table 1 and section 4.1, by claim and number of outstanding writes."""
    there, back = ({o: pair[at] for o, pair in results.switches[device].items()} for at in (0, 1))
    return {
        f"{name}-crossover": {o: measured.crossover(rows) for o, rows in results.times[device].items()},
        f"{name}-to-mirrors": there,
        f"{name}-to-parity": back,
    }


def settings(results: Results, device: str, name: str) -> dict[str, list[Setting]]:
    """Returns all settings by the source of their figures, the main one first."""
    model = [
        Setting(label(load, first), first,
                {each: results.modelled[device][modelled.named(load, each)] for each in cases.LOADS})
        for load, first in itertools.product(modelled.swept(results.short), cases.FIRSTS)
    ]
    near, others = results.nearest[device], beside(results, device, name)

    def simulated(runs, uncached=None):
        outstanding = sorted({o for o, _ in runs}, key=lambda o: (abs(o - near), o))
        return [
            Setting(f"{o} outstanding, first {first}", first, {load: runs[o, load] for load in cases.LOADS},
                    {load: uncached[o, load] for load in cases.LOADS} if uncached else {},
                    {key: values[o] for key, values in others.items()})
            for o, first in itertools.product(outstanding, cases.FIRSTS[:2])
        ]

    told = {"cost model": model, "simulated": simulated(results.simulated[device])}
    if device == cases.SSD:
        told["simulated, reads cached"] = simulated(results.cached, results.simulated[device])
        told[f"simulated, {cases.ACTIVE} active units, {cases.CACHE_MIB} MiB cached"] = simulated(results.recurring, results.uncached)
    return told


def label(load: cases.Load, first: str) -> str:
    """Describes a setting of the cost model."""
    return (f"{load.writes or '200 GB of'} writes, runs of {load.run}/{4 * load.run}, {load.within}, {load.after}, "
            f"bias {load.bias}, first {first}")


def occupancy(results: Results, level: str) -> list[float]:
    """Returns the percentage by which throughput changes from the emptiest to full drives, by number of chunks."""
    rates = [results.occupied[level, chunks] for chunks in range(1, 5)]
    return [100 * (each[-1] / each[0] - 1) for each in rates]


def layouts(results: Results) -> list[Judged]:
    """Returns the statements of table 1, section 4.1 and figure 1."""
    claims, judged = results.claims, []

    def judge(key, where, ours, swept, why=None):
        judged.append(Judged(claims[key], where, ours, list(swept), results.why[why or key]))

    for device, name in ((cases.HDD, "hdd"), (cases.SSD, "ssd")):
        for key, values in beside(results, device, name).items():
            judge(key, "simulated", values[results.nearest[device]], values.values())
    by_parity = {o: results.times[cases.HDD][o]["RAID 6"] for o in results.apart}
    swept = {o: measured.crossover({"RAID 6": by_parity[o], "RAID 10": times}) for o, times in results.apart.items()}
    o = min(swept, key=lambda o: abs(o - results.nearest[cases.HDD]))
    judge("hdd-crossover", "simulated, halves apart", swept[o], swept.values(), "hdd-crossover halves apart")

    def lead(device, o):
        rows = results.times[device][o]
        return sum(rows["RAID 6"][at] / rows["RAID 10"][at] for at in (0, 1))

    ours = lead(cases.SSD, results.nearest[cases.SSD]) / lead(cases.HDD, results.nearest[cases.HDD])
    # Nothing says that both devices had the same number of outstanding writes.
    outstanding = itertools.product(results.times[cases.SSD], results.times[cases.HDD])
    judge("ssd-more-pronounced", "simulated", ours,
          [lead(cases.SSD, on_ssd) / lead(cases.HDD, on_hdd) for on_ssd, on_hdd in outstanding])
    mirrors, parity = (occupancy(results, level) for level in ("RAID 10", "RAID 6"))
    judge("occupied-mirrors", "simulated", sum(mirrors) / 4, mirrors)
    judge("occupied-parity", "simulated", max(parity, key=abs), parity)
    more = [of_mirrors - of_parity for of_mirrors, of_parity in zip(mirrors, parity, strict=True)]
    judge("occupied-steps", "simulated", sum(more) / 4, more)
    return judged


def figure_two(results: Results, device: str, by_where: dict[str, list[Setting]]) -> list[Judged]:
    """Returns the statements of figure 2 about a device, in the cost model and in simulation."""
    judged = []
    for key, figure in (FIGURE_TWO[device] | (CACHING if device == cases.SSD else {})).items():
        for where, listed in by_where.items():
            if key in CACHING and not listed[0].uncached:
                continue
            swept = [figure(at) for at in listed if key not in STATIC or at.first == cases.FIRSTS[0]]
            why = results.why.get(f"{key} {where}", results.why.get(key, ""))
            judged.append(Judged(results.claims[key], where, figure(listed[0]), swept, why))
    return judged


def joint(results: Results, by_device: dict[str, dict[str, list[Setting]]]) -> str:
    """Returns the setting that meets the most claims at once, and the claims that no setting meets, or not at the
    same time.
    """
    lines = []
    model = {}
    for device, by_where in by_device.items():
        for where, listed in by_where.items():
            met = {at.label: met_by(results, device, at) for at in listed}
            lines.append(joint_line(device, where, met))
            if where == "cost model":
                model[device] = met
    # The paper wrote the same loads to both devices.
    if len(model) == 2:
        on_hdd, on_ssd = model.values()
        both = {label: on_hdd[label] | on_ssd[label] for label in on_hdd if label in on_ssd}
        lines.append(joint_line("both", "cost model", both))
    return reproduce.table(JOINT_HEADER, lines)


def met_by(results: Results, device: str, at: Setting) -> dict[str, bool]:
    """Returns for each claim about a device whether a setting meets it."""
    figures = FIGURE_TWO[device] | (CACHING if at.uncached else {})
    values = at.beside | {key: figure(at) for key, figure in figures.items()}
    return {key: results.claims[key].deviation(value) == 0 for key, value in values.items()}


def joint_line(drives: str, where: str, met: dict[str, dict[str, bool]]) -> list[str]:
    """Returns the row about settings by label, each with the claims that it meets or not."""
    best = max(met, key=lambda label: sum(met[label].values()))
    keys = list(met[best])
    never = [key for key in keys if not any(kept[key] for kept in met.values())]
    apart = [f"{one} and {other}" for one, other in itertools.combinations(keys, 2)
             if one not in never and other not in never
             and not any(kept[one] and kept[other] for kept in met.values())]
    misses = [key for key in keys if not met[best][key] and key not in never]
    kept = [key for key in keys if met[best][key]]
    return [drives, where, str(len(met)), best, *(", ".join(keys) or "-" for keys in (kept, misses, never, apart))]


def table(results: Results, by_device: dict[str, dict[str, list[Setting]]]) -> str:
    """All claims."""
    judged = layouts(results)
    for device, by_where in by_device.items():
        judged += figure_two(results, device, by_where)
    return reproduce.table(HEADER, [each.cells() for each in judged])
