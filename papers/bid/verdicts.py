"""Whether the paper's three headline claims hold: a verdict for each replay and disk.

A trace confirms a claim if the saving reaches the low end of the paper's range at any default wait
of the sweep. A claim is borne out if every trace confirms it, borne out in part if some do, and not
borne out only if none does at any setting of the sweep, including k and the packing threshold, in
either reading of "time": the time that the devices are busy (which figure 12 adds up) or, in closed
and dependent replay, the time until the last completion. In open replay below saturation, the
latter is the length of the recording, not a total.
"""

from textwrap import fill

from cases import BID as PAPER_BID
from cases import DISKS, PAPER_MS, REPLAYS, WAITS_MS, bid, by_policy, chosen, hybrid
from forebay.reproduce import number, table

RIVALS = ("cfq", "noop")
#: The headline claims as functions of the default wait: which policy saves time, compared with
#: which.
CLAIMS = {
    "bid-best": lambda wait: (bid(wait), RIVALS),
    "hybrid-bid": lambda wait: (hybrid(wait), (bid(wait),)),
    "hybrid-best": lambda wait: (hybrid(wait), RIVALS),
}
ALL_LIGHT = """A threshold of 512 KiB calls every write light: the flash takes them all, which is
not what the paper proposes.
"""
QUESTIONS = {
    "bid-best": "Does BID-HDD save {range} % of the time that the better of CFQ and noop takes?",
    "hybrid-bid": "Does BID-Hybrid save {range} % of BID-HDD's time?",
    "hybrid-best": "Does BID-Hybrid save {range} % against the better of CFQ and noop?",
}


def wrapped(text: str) -> str:
    """Wraps a paragraph to lines of at most 100 columns."""
    return fill(text, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def saved(each: dict, ours: str, others: tuple[str, ...], figure: str = "busy_s") -> float:
    """Returns the percentage of disk busy time (or another figure) that `ours` saves compared with the best."""
    best = min(each[other][figure] for other in others)
    return 100 * (1 - each[ours][figure] / best)


def most(name: str, each: dict) -> tuple[float, int]:
    """Returns the highest saving with any wait, and that wait."""
    waits = [wait for wait in WAITS_MS if bid(wait) in each]
    return max((saved(each, *CLAIMS[name](wait)), -wait) for wait in waits)


def readings(name: str, case, runs, sweeps) -> list[tuple[float, str]]:
    """Returns the claim's savings in a case with every setting of the sweep, for both readings of time."""
    each = by_policy(case, runs[case])
    waits = [wait for wait in WAITS_MS if bid(wait) in each]
    figures = (
        [("busy_s", "")] if case.replay == "open" else [("busy_s", ""), ("makespan_s", "last")]
    )
    values = [(saved(each, *CLAIMS[name](w), key), told) for w in waits for key, told in figures]
    for sweep in sweeps:
        if (sweep.workload, sweep.replay, sweep.disk) != (case.workload, case.replay, case.disk):
            continue
        if sweep.intensity != case.intensity or sweep.change is not None:
            continue
        found = by_policy(sweep, runs[sweep])
        kind = CLAIMS[name](PAPER_MS)[0].split(":")[0] + ":"
        others = (PAPER_BID,) if name == "hybrid-bid" else RIVALS
        if all(other in found for other in others):
            ours = [policy for policy in found if policy.startswith(kind)]
            values += [
                (saved(found, policy, others, key), told or setting(policy))
                for policy in ours
                for key, told in figures
            ]
    return values


def setting(policy: str) -> str:
    """Returns the parameters of a policy other than its wait."""
    said = policy.split(":")[-1]
    return f"{said.partition('=')[2]} KiB" if said.startswith("packing-kib") else said


def word(claim, name: str, cases, runs, sweeps) -> str:
    """Returns the verdict over the traces of one replay on one disk."""
    firm = [most(name, by_policy(case, runs[case]))[0] >= claim.low for case in cases]
    if all(firm):
        return "borne out"
    if any(firm):
        return "in part"
    every = [found for case in cases for found in readings(name, case, runs, sweeps)]
    best, how = max(every)
    return f"in part: {how}" if best >= claim.low else "not borne out"


def rows(claims, name: str, cases, runs, sweeps) -> list[list[str]]:
    """Returns a row for each replay and disk: the verdict, then each trace's best saving and its wait."""
    found = []
    for disk in DISKS:
        for replay in REPLAYS:
            picked = chosen(cases, replay, disk)
            if not picked:
                continue
            best = [most(name, by_policy(case, runs[case])) for case in picked]
            cells = [f"{value:.1f}@{-wait}" for value, wait in best]
            found.append([replay, disk, word(claims[name], name, picked, runs, sweeps), *cells])
    return found


def as_saturated(cases, runs) -> str:
    """Returns what BID-HDD saves if requests arrive faster than the disk serves them."""
    loads = sorted({(c.intensity, c.replay) for c in cases if c.intensity != 1})
    lines = []
    for intensity, replay in loads:
        picked = chosen(cases, replay, "plain", intensity)
        values = [saved(by_policy(case, runs[case]), PAPER_BID, RIVALS) for case in picked]
        lines.append([f"{intensity:g} x", replay, *map(number, values)])
    names = list(dict.fromkeys(case.workload.name for case in cases))
    return table(["load", "replay", *names], lines)


def section(claims, cases, runs, sweeps) -> str:
    """Returns the three verdicts and their contrast."""
    names = list(dict.fromkeys(case.workload.name for case in cases))
    told = (__doc__ or "").split("\n", 2)[2].strip()
    parts = [told + "\n"]
    for name, question in QUESTIONS.items():
        found = rows(claims, name, cases, runs, sweeps)
        words = [row[2] for row in found]
        ends = f"{claims[name].low:g} to {claims[name].high:g}"
        counts = [
            f"{kind} in {sum(word.startswith(kind) for word in words)}"
            for kind in ("borne out", "in part", "not borne out")
        ]
        parts.append(
            wrapped(
                f"**{question.format(range=ends)}** Of {len(found)} replays and disks: "
                f"{', '.join(counts)}. The most that each trace saves at recorded speed, % of disk "
                "busy time, at which default wait (ms):"
            )
        )
        parts.append(table(["replay", "disk", "verdict", *names], found))
        if any("KiB" in word for word in words):
            parts.append(ALL_LIGHT)
    if any(case.intensity != 1 for case in cases):
        parts.append(
            wrapped(
                f"**And where the disk is busy all the time?** No timer acts there. `{PAPER_BID}` "
                "against the better of CFQ and noop on the plain disk, saved disk busy time, %:"
            )
        )
        parts.append(as_saturated(cases, runs))
    return "\n".join(parts)
