"""Scores every scheduler as if it were the candidate, over traces, replays, loads and both disks.

*Time* is the devices' busy time in open replay, which below saturation is all that order can
change, and the time until the last completion in closed replay. A case is met if the time is within
1 % of the best of all others, the p99 of reads and that of writes are each within 10 % of the
fastest other's (the one with the best time), and no other is better in both time and read p99 ("not
beaten"). BID uses its default wait. `sptf` is a yardstick: it knows the disk's rotation, which no
scheduler does, so it is compared with the others on the plain disk, but does not count as another
scheduler. The last three columns are ratios to the fastest other, geometric mean / worst.
"""

import warnings
from math import exp, log

import forebay
from cases import DISKS, REPLAYS, SCHEDULERS, YARDSTICK, by_policy, device, total_s
from forebay.reproduce import table

#: The schedulers whose queue has 128 places for reads and writes together, as in Linux today. The others have the
#: queue of older kernels: 128 places for each, and more for a task that gets a batch.
TODAY = ["mq-deadline", "kyber", "bfq", "clook", "forebay"]
TOTAL_MOST = 1.01
TAIL_MOST = 1.10


def judge(case, each: dict, candidate: str) -> dict:
    """Compares `candidate` with the others in a case."""
    stands = {p: (total_s(case, run), *tails(run)) for p, run in each.items()}
    total, read, write = stands[candidate]
    others = {p: s for p, s in stands.items() if p not in (candidate, YARDSTICK)}
    fastest = min(others, key=lambda policy: others[policy])
    ratios = [a / b if b else 1.0 for a, b in zip(stands[candidate], others[fastest])]
    better = [p for p, (t, r, _) in others.items() if t < total and r < read]
    within = [ratios[0] <= TOTAL_MOST, ratios[1] <= TAIL_MOST, ratios[2] <= TAIL_MOST]
    return {
        "undominated": not better,
        "better": better,
        "fastest": fastest,
        **dict(zip(("total_ratio", "read_ratio", "write_ratio"), ratios)),
        **dict(zip(("total", "read", "write"), within)),
        "met": not better and all(within),
    }


def tails(run: dict) -> tuple[float, float]:
    """Returns the p99 of reads and of writes; 0 if there are none."""
    return run["read_p99_ms"] or 0.0, run["write_p99_ms"] or 0.0


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / max(len(ratios), 1))


def scores(cases, runs, among=(*SCHEDULERS, YARDSTICK)) -> dict[str, list[tuple[object, dict]]]:
    """Returns the judgments of each scheduler in `among`, compared with the others in it, in the order of the cases."""
    judged: dict[str, list[tuple[object, dict]]] = {p: [] for p in among}
    for case in cases:
        each = {p: run for p, run in by_policy(case, runs[case]).items() if p in judged}
        for policy in each:
            judged[policy].append((case, judge(case, each, policy)))
    return judged


def row(scheduler: str, judged: list[dict]) -> list[str]:
    """Returns a scheduler's row: counts, then the geometric mean and the worst value of the three ratios."""
    counts = [sum(j[key] for j in judged) for key in ("met", "undominated", *KINDS)]
    cells = []
    for kind in KINDS:
        ratios = [j[f"{kind}_ratio"] for j in judged if j[f"{kind}_ratio"] > 0]
        cells.append(f"{mean(ratios):.2f} / {max(ratios, default=1.0):.2f}")
    return [scheduler, *map(str, counts), *cells]


KINDS = ("total", "read", "write")


def board(judged, wanted) -> str:
    """Returns a table of the selected cases."""
    header = ["scheduler", "met", "not beaten", "time 1 %", "read 10 %", "write 10 %"]
    header += ["time", "read p99", "write p99"]
    picked = {p: [j for case, j in found if wanted(case)] for p, found in judged.items()}
    return table(header, [row(p, found) for p, found in picked.items() if found])


SAME_QUEUE = """The same, only among schedulers with the same queue: 128 places for reads and writes
together, as in Linux today. The others have the queue of older kernels, which is at least twice as
long: they have more requests to choose from, and tasks wait longer for a place.
"""

BEYOND = """How far is each from what no order can beat? Time as a multiple of a bound on any order, on
the plain disk, where there is one: geometric mean / worst. The bound takes for each request the
least positioning from any that could go before it, so even the best order may be above it. Closed,
requests wait for one another, of which the bound knows nothing: less of the distance can be gained.
"""


def bound(case) -> float | None:
    """Returns a lower bound in s on the time that a case's requests take in any order; None on a drive with a
    controller.
    """
    if case.disk != "plain":
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", forebay.TraceWarning)
        found = forebay.simulate(
            case.workload.path,
            device=device(case),
            policy="noop",
            replay=case.replay,
            intensity=case.intensity,
            least_time=True,
        )
    least = found.to_dict()["least_time"]
    return least and total_s(case, least)


def beyond(cases, runs, bounds) -> str:
    """Returns a row for each scheduler: its distance from the bound, by replay."""
    rows = []
    for policy in (*SCHEDULERS, YARDSTICK):
        cells = []
        for replay in REPLAYS[:2]:
            ratios = [
                total_s(case, by_policy(case, runs[case])[policy]) / bounds[case]
                for case in cases
                if case.replay == replay and bounds[case]
            ]
            cells.append(f"{mean(ratios):.2f} / {max(ratios):.2f}")
        rows.append([policy, *cells])
    return table(["scheduler", *REPLAYS[:2]], rows)


def section(cases, runs, bounds) -> str:
    """Returns the score over all cases, by disk and replay, and where `forebay` misses."""
    judged = scores(cases, runs)
    met = {p: sum(j["met"] for _, j in judged[p]) for p in SCHEDULERS}
    best = max(met, key=lambda policy: met[policy])
    parts = [
        f"Which scheduler is seldom the wrong choice? Of {len(cases)} cases `{best}` meets most: "
        f"{met[best]}.\n",
        board({p: judged[p] for p in SCHEDULERS}, lambda case: True),
        SAME_QUEUE,
        board(scores(cases, runs, TODAY), lambda case: True),
    ]
    for disk in DISKS:
        for replay in REPLAYS:
            here = [c for c in cases if (c.disk, c.replay) == (disk, replay)]
            if here:
                parts.append(f"{replay.capitalize()} replay, {disk}, {len(here)} cases:\n")
                parts.append(board(judged, lambda case, here=here: case in here))
    parts += [BEYOND, beyond(cases, runs, bounds), ""]
    parts += ["Where `forebay` does not meet the target:\n", misses(judged["forebay"])]
    return "\n".join(parts)


ELSEWHERE = """What is `forebay` worth where no parameter of it was chosen? The same score over the other
shared traces on {device}, closed replay only where they hold latencies. Targets: time 95 % of the
cases, read and write p99 90 % each, beaten at most 2 %.
"""


def share(judged: list[dict], key: str) -> str:
    """Returns how many of the cases meet one target."""
    count = sum(j[key] for j in judged)
    return f"{count} of {len(judged)} ({count / len(judged):.0%})"


def elsewhere(tuned, frozen, runs) -> str:
    """Compares `forebay` on the cases for which its parameters were chosen and on others, and then all schedulers."""
    if not frozen:
        return ""
    judged = scores(frozen, runs)
    here = [j for _, j in scores(tuned, runs)["forebay"]]
    there = [j for _, j in judged["forebay"]]
    told = {"time within 1 %": "total", "read p99 within 10 %": "read"}
    told |= {"write p99 within 10 %": "write", "not beaten": "undominated", "all four": "met"}
    rows = [[name, share(here, key), share(there, key)] for name, key in told.items()]
    device = frozen[0].workload.device
    return "\n".join(
        [
            ELSEWHERE.format(device=device),
            table(["`forebay`", "chosen on these", "the other traces"], rows),
            "All schedulers on the other traces:\n",
            board({p: judged[p] for p in SCHEDULERS}, lambda case: True),
            "Where `forebay` takes more than 1 % longer there:\n",
            misses([(c, j) for c, j in judged["forebay"] if not j["total"]]),
        ]
    )


def listed(names: list[str]) -> str:
    """Returns the first two of some names."""
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return (", ".join(names[:2]) or "-") + more


def misses(judged) -> str:
    """Returns the cases in which the candidate misses a target, with the reason."""
    rows = []
    for case, j in judged:
        if not j["met"]:
            ratios = [f"{j[f'{kind}_ratio']:.3f}" for kind in KINDS]
            rows.append([case.label, j["fastest"], *ratios, listed(j["better"])])
    header = ["trace, replay, disk, load", "best other", "times", "read p99", "write p99"]
    return table([*header, "better in both"], rows) if rows else "none\n"
