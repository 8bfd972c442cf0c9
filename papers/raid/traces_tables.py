"""Tables of the array on recorded traces."""

import cases
import numpy as np
import recorded
import replayed

from forebay import reproduce

#: Differences below this percentage of the disks' time count as noise, regardless of the spread.
MATTERS = 2.0
#: The same threshold for the 99th percentile of write latency.
TAIL_MATTERS = 10.0
NAMES = {cases.HDD: "HDD", cases.SSD: "flash"}
BEGUN = {"RAID 6": "from RAID 6", "copies": "from three copies", "write": "by first write"}
#: Arrays compared with RAID 6: the static array with copies, and the rules that begin with RAID 6.
BESIDE = {"copies": "raid10x3", **replayed.adaptive("RAID 6")}


def saved(results, trace, device, update, array, filled=True, over=("raid6",), figure="busy_s") -> np.ndarray:
    """Returns for each seed the percentage of the best array of `over`'s disk time that an array saves, with data in
    the same places.
    """
    def told(array, seed):
        return results.runs[replayed.Case(trace, device, update, array, seed, filled)][figure]

    seeds = results.seeds if filled else results.seeds[:replayed.NEW_SEEDS]
    return np.array([100 * (1 - told(array, seed) / min(told(other, seed) for other in over)) for seed in seeds])


def verdict(gains: np.ndarray, matters: float = MATTERS) -> str:
    """Returns whether a saving exceeds the spread between seeds."""
    if abs(gains.mean()) <= max(np.ptp(gains), matters):
        return "noise"
    return "pays" if gains.mean() > 0 else "loses"


def cell(gains: np.ndarray) -> str:
    """Returns the mean, half of the spread, and the verdict."""
    mark = {"noise": "", "pays": " +", "loses": " !"}[verdict(gains)]
    return f"{gains.mean():.1f} ± {np.ptp(gains) / 2:.1f}{mark}"


def verdicts(results, device, update, array, over=("raid6",)) -> dict:
    """Returns the traces by verdict, with the saving on each."""
    told = {"pays": {}, "noise": {}, "loses": {}}
    for trace in results.traces:
        gains = saved(results, trace, device, update, array, over=over)
        told[verdict(gains)][trace.name] = gains.mean()
    return told


def counted(results) -> str:
    """Returns on how many traces each array pays."""
    lines = []
    for device in cases.COSTS:
        for update in replayed.UPDATES:
            for name, array in BESIDE.items():
                told = verdicts(results, device, update, array)
                over = verdicts(results, device, update, array, ("raid6", "raid10x3")) if name != "copies" else None
                every = [gain for each in told.values() for gain in each.values()]
                lines.append([NAMES[device], update, name, *(str(len(each)) for each in told.values()),
                              f"{max(every):.1f}", f"{min(every):.1f}", str(len(over["pays"])) if over else "-"])
    return reproduce.table(["drives", "update", "array", "pays", "noise", "loses", "most, %", "least, %",
                            "pays over both"], lines)


def asked(results) -> str:
    """Returns the demands of the traces."""
    lines = []
    for trace in results.traces:
        rows = trace.rows()
        units, chunks = recorded.writes(rows)
        each = np.unique(units, return_counts=True)[1]
        bounds = [results.model[trace, device, results.seeds[0]].get(("bound", "RAID 6")) for device in cases.COSTS]
        shape = [each.mean(), each.max(), 100 * (chunks == 1).mean()] if len(each) else [None] * 3
        lines.append([trace.name, f"{rows.num_rows:,}", reproduce.number(100 * trace.writes_share), f"{len(each):,}",
                      *map(reproduce.number, [*shape, *bounds])])
    return reproduce.table(["trace", "requests", "writes, %", "units", "each", "most", "1 chunk, %",
                            "HDD, %", "flash, %"], lines)


def simulated(results, device, update) -> str:
    """Returns the disk time saved if all data exist beforehand and begin as RAID 6."""
    lines = []
    for trace in results.traces:
        busy = [results.runs[replayed.Case(trace, device, update, "raid6", seed)]["busy_s"] for seed in results.seeds]
        gains = [cell(saved(results, trace, device, update, array)) for array in BESIDE.values()]
        lines.append([trace.name, reproduce.number(float(np.mean(busy))), *gains])
    return reproduce.table(["trace", "RAID 6, s", *BESIDE], lines)


def control(results) -> float:
    """Returns the largest difference in percent between RAID 6 and itself with a longer table."""
    return max(abs(saved(results, trace, device, "fresh", replayed.CONTROL).mean())
               for trace in results.traces for device in cases.COSTS)


def from_copies(results) -> str:
    """Returns the disk time saved compared with RAID 6 by arrays whose units begin as three copies."""
    lines = []
    for trace in results.traces:
        cells = [cell(saved(results, trace, device, "in-place", array)) for device in cases.COSTS
                 for array in map(replayed.adaptive("copies").get, replayed.CHOSEN)]
        lines.append([trace.name, *cells])
    return reproduce.table(["trace", *(f"{name}, {rule}" for name in NAMES.values()
                                       for rule in replayed.CHOSEN)], lines)


def new(results) -> str:
    """Returns the disk time saved if the array is empty at the start, and units begin with the level that suits their
    first write.
    """
    arrays = ["raid10x3", *map(replayed.by_first_write().get, replayed.CHOSEN)]
    lines = [[trace.name, NAMES[device], *(cell(saved(results, trace, device, "fresh", array, False)) for array in arrays)]
             for device in cases.COSTS for trace in results.traces]
    return reproduce.table(["trace", "drives", "copies", *replayed.CHOSEN], lines)


def switched(results) -> str:
    """Returns the number of switches per hundred units used."""
    lines = []
    for trace in results.traces:
        units, cells = len(np.unique(recorded.pieces(trace.rows())[0])), []
        for device in cases.COSTS:
            for array in replayed.adaptive("RAID 6").values():
                made = [results.runs[replayed.Case(trace, device, "in-place", array, seed)]["switches"]
                        for seed in results.seeds]
                cells.append(reproduce.number(100 * float(np.mean(made)) / units))
        lines.append([trace.name, f"{units:,}", *cells])
    heads = [f"{name} {rule}." for name in NAMES.values() for rule in "pow"]
    return reproduce.table(["trace", "units used", *heads], lines)


def regret(results) -> str:
    """Returns the costs of rules beyond the optimum, in the cost model."""
    keys = ["RAID 6", "three copies", *((rule, first) for rule in replayed.CHOSEN
                                        for first in (*replayed.FIRSTS, "write"))]
    lines = []
    for trace in results.traces:
        for device in cases.COSTS:
            told = [results.model[trace, device, seed] for seed in results.seeds]
            if told[0]:
                means = [float(np.mean([each[key] for each in told])) for key in keys]
                lines.append([trace.name, NAMES[device], *(f"{mean:.1f}" for mean in means)])
    heads = ["RAID 6", "copies", *(f"{rule}. {first}" for rule in "po" for first in ("6", "10", "w"))]
    return reproduce.table(["trace", "drives", *heads], lines)


def reached(results) -> str:
    """Returns how close the paper's rule comes to the optimum, beside the paper's statement."""
    lines = []
    for key in ("hdd-B2", "hdd-C2"):
        claim = results.expected[key]
        lines.append([f"paper, {key[4:]} (its own load)", claim.text(), "-"])
    for first in (*replayed.FIRSTS, "write"):
        shares = {trace.name: 100 / (1 + np.mean([results.model[trace, cases.HDD, seed]["paper's", first]
                                                  for seed in results.seeds]) / 100)
                  for trace in results.traces if results.model[trace, cases.HDD, results.seeds[0]]}
        least = min(shares, key=shares.get)
        lines.append([f"ours, {len(shares)} traces, {BEGUN[first]}",
                      f"{reproduce.number(shares[least])} ({least}) to {reproduce.number(max(shares.values()))}",
                      f"{sum(share > 95 for share in shares.values())} of {len(shares)}"])
    return reproduce.table(["workload", "percent of the optimum", "over 95 %"], lines)


def latencies(results, device, update) -> str:
    """Returns milliseconds with RAID 6, the paper's rule and ours."""
    lines = []
    for trace in results.traces:
        cells = []
        for figure in ("read_mean_ms", "read_p99_ms", "write_mean_ms", "write_p99_ms"):
            values = []
            for array in ("raid6", "raid6:adapt=bonus-malus", "raid6:adapt=best"):
                told = [results.runs[replayed.Case(trace, device, update, array, seed)][figure]
                        for seed in results.seeds]
                values.append(None if None in told else float(np.mean(told)))
            cells.append("/".join(map(reproduce.number, values)))
        lines.append([trace.name, *cells])
    return reproduce.table(["trace", "read mean", "read p99", "write mean", "write p99"], lines)


def tails(results) -> str:
    """Returns on how many traces the tail of writes shrinks, stays and grows."""
    lines = []
    for device in cases.COSTS:
        for update in replayed.UPDATES:
            for name, array in BESIDE.items():
                gains = {trace.name: saved(results, trace, device, update, array, figure="write_p99_ms")
                         for trace in results.traces}
                told = [verdict(each, TAIL_MATTERS) for each in gains.values()]
                worst = min(gains, key=lambda name: gains[name].mean())
                lines.append([NAMES[device], update, name, *(str(told.count(each)) for each in ("pays", "noise", "loses")),
                              f"{-gains[worst].mean():+.0f} % ({worst})"])
    return reproduce.table(["drives", "update", "array", "shorter", "noise", "longer", "worst"], lines)


def less(results) -> str:
    """Returns what arrays with less redundancy save compared with RAID 6."""
    arrays = ["raid5", "raid10", "raid10x3", "raid6:adapt=bonus-malus", "raid6:adapt=best"]
    lines = []
    for device in cases.COSTS:
        for trace in results.traces:
            told = {array: results.runs[replayed.Case(trace, device, "fresh", array, results.seeds[0])]["busy_s"]
                    for array in ("raid6", *arrays)}
            lines.append([trace.name, NAMES[device],
                          *(f"{100 * (1 - told[array] / told['raid6']):.1f}" for array in arrays)])
    return reproduce.table(["trace", "drives", "RAID 5", "2 copies", "3 copies", *replayed.CHOSEN], lines)
