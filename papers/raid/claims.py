"""Each claim of the paper: its figure, ours, ours over all that the paper leaves open, and why."""

from dataclasses import dataclass

import cases
import measured
import modelled

from forebay import reproduce

HEADER = ["source", "claim", "where", "paper", "ours", "over what is open", "holds", "why"]
RULE = "bonus-malus"


@dataclass
class Judged:
    """A claim with our figures: the one of the main setting, and all."""

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
    """Everything that was run."""

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


def occupancy(results: Results, level: str) -> list[float]:
    """By chunks: percent that throughput changes from the emptiest drives to full ones."""
    rates = [results.occupied[level, chunks] for chunks in range(1, 5)]
    return [100 * (each[-1] / each[0] - 1) for each in rates]


def layouts(results: Results) -> list[Judged]:
    """What table 1 and figure 1 say."""
    claims, judged = results.claims, []
    for device, name in ((cases.HDD, "hdd"), (cases.SSD, "ssd")):
        swept = {o: measured.crossover(rows) for o, rows in results.times[device].items()}
        judged.append(Judged(claims[f"{name}-crossover"], "simulated", swept[results.nearest[device]],
                             list(swept.values()), results.why[f"{name}-crossover"]))
    by_parity = {o: results.times[cases.HDD][o]["RAID 6"] for o in results.apart}
    swept = {o: measured.crossover({"RAID 6": by_parity[o], "RAID 10": times}) for o, times in results.apart.items()}
    o = min(swept, key=lambda o: abs(o - results.nearest[cases.HDD]))
    judged.append(Judged(claims["hdd-crossover"], "simulated, halves apart", swept[o], list(swept.values()),
                         results.why["hdd-crossover halves apart"]))

    def lead(device, o):
        rows = results.times[device][o]
        return sum(rows["RAID 6"][at] / rows["RAID 10"][at] for at in (0, 1))

    ours = lead(cases.SSD, results.nearest[cases.SSD]) / lead(cases.HDD, results.nearest[cases.HDD])
    swept = [lead(cases.SSD, o) / lead(cases.HDD, o) for o in results.times[cases.HDD]]
    judged.append(Judged(claims["ssd-more-pronounced"], "simulated", ours, swept,
                         results.why["ssd-more-pronounced"]))
    for name, level in (("mirrors", "RAID 10"), ("parity", "RAID 6")):
        changes = occupancy(results, level)
        farthest = max(changes, key=abs) if name == "parity" else sum(changes) / 4
        judged.append(Judged(claims[f"occupied-{name}"], "simulated", farthest, changes,
                             results.why[f"occupied-{name}"]))
    return judged


def figure_two(results: Results, device: str, name: str) -> list[Judged]:
    """What figure 2 says of a device, in the cost model and in simulation."""
    judged = []

    def settings(load):
        """Relative throughputs by array: in the main setting, then all others, in the model and in simulation."""
        main = modelled.paper(modelled.default(load), device, results.units)
        others = [modelled.paper(other, device, results.units)
                  for other in modelled.swept(load, results.short)]
        yield "cost model", main, others
        runs = results.simulated[device]
        o = min(runs, key=lambda pair: abs(pair[0] - results.nearest[device]))[0]
        yield "simulated", runs[o, load], [told for (_, at), told in runs.items() if at == load]
        if device == cases.SSD:
            cached = results.cached
            yield "simulated, reads cached", cached[o, load], [
                told for (_, at), told in cached.items() if at == load]

    def judge(key, loads, figure, by_first):
        for pairs in zip(*(settings(load) for load in loads), strict=True):
            where = pairs[0][0]
            firsts = cases.FIRSTS if by_first else cases.FIRSTS[:1]
            ours = figure(pairs[0][1], "raid6")
            swept = [figure(told, first) for _, _, others in pairs for told in others for first in firsts
                     if not by_first or (RULE, first) in told]
            judged.append(Judged(results.claims[key], where, ours, swept,
                                 results.why.get(f"{key} {where}", results.why.get(key, ""))))

    def ruled(told, first):
        return told[RULE, first]

    def over_both(told, first):
        return told[RULE, first] - max(told["RAID 6"], told["RAID 10"])

    if name == "hdd":
        judge("hdd-B2", ["B2"], ruled, True)
        judge("hdd-C2", ["C2"], ruled, True)
        judge("hdd-C1", ["C1"], lambda told, first: told[RULE, first] - told["RAID 10"], True)
        judge("hdd-A", ["A"], lambda told, first: told["RAID 6"] - 100, False)
    else:
        judge("ssd-C1", ["C1"], over_both, True)
        judge("ssd-C2", ["C2"], over_both, True)
        judge("ssd-C-parity", ["C1", "C2"], lambda told, first: told["RAID 6"] - told["RAID 10"], False)
        judge("ssd-B-parity", ["B1", "B2"], lambda told, first: told["RAID 6"] - 100, False)
    return judged


def table(results: Results) -> str:
    """All claims."""
    judged = layouts(results)
    judged += figure_two(results, cases.HDD, "hdd") + figure_two(results, cases.SSD, "ssd")
    return reproduce.table(HEADER, [each.cells() for each in judged])
