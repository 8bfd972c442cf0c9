"""Figures 4.2 to 4.4: FCFS, Split, fair queueing and Miser on a server of constant rate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from capacity import least
from forebay.reproduce import Claim, Row, kept
from workloads import Workload, missing, of

import forebay

#: The paper's fair queueing is implemented as WF2Q+; SFQ is added for comparison.
POLICIES = ("fcfs", "split", "wf2q", "sfq", "miser", "miser-rate")

#: Algorithm 2 decides admission by the length of its queue; RTT itself decides by its rate.
ADMISSION = {"miser": "length", "miser-rate": "rate"}

#: Because the other shapers admit by rate, `miser` has a different Q1 than fair queueing does.
NAMED = {"miser": "miser", "miser-rate": "miser (RTT's admission, as all)"}

SECOND_MS = 1000.0


@dataclass(frozen=True)
class Run:
    """The results of a policy on a trace."""

    policy: str
    #: The results by class: `all` and, if the policy decomposes requests, `q1` and `q2`.
    classes: Mapping[str, Mapping] = field(repr=False)
    figures: Mapping = field(repr=False)
    #: For each direction, response times in ms and the shares of requests that do not exceed them.
    points: Mapping[str, list[tuple[float, float]]] = field(repr=False)

    def within(self, ms: float) -> float:
        """Returns the share answered within `ms`, from distributions of 400 points."""
        counts = {op: self.figures[f"{op}s"] for op in ("read", "write")}
        shares = sum(counts[op] * _share(self.points.get(op, []), ms) for op in counts)
        return shares / max(1, sum(counts.values()))

    def quantile_ms(self, share: float) -> float:
        """Returns the lowest time of the distributions within which `share` of the requests are answered."""
        times = sorted(time for points in self.points.values() for time, _ in points)
        return next(time for time in times if self.within(time) >= share)

    @property
    def within_bound(self) -> float:
        """Returns the exact share answered within the bound."""
        return self.classes["all"]["within_bound_share"]

    def secondary(self, figure: str) -> float | None:
        """Returns a figure of the secondary class; None if it is empty."""
        return self.classes.get("q2", {}).get(figure)


def _share(points: list[tuple[float, float]], ms: float) -> float:
    before = (0.0, 0.0)
    for point in points:
        if point[0] > ms:
            return before[1]
        before = point
    return before[1]


def spec(policy: str, cmin: int, within_ms: float, dependencies: bool = False) -> str:
    """Returns a policy spec for `simulate`. The paper does not consider dependencies between requests."""
    follow = "yes" if dependencies else "no"
    if policy == "fcfs":
        return f"fcfs:delta-ms={within_ms:g}:dependencies={follow}"
    if policy in ADMISSION:
        policy = f"miser:admission={ADMISSION[policy]}"
    return f"{policy}:cmin={cmin}:delta-ms={within_ms:g}:dependencies={follow}"


def simulated(trace, device: str, policies: dict[str, str]) -> dict[str, Run]:
    """Returns runs by the names in `policies`."""
    result = forebay.simulate(trace, device=device, policy=list(policies.values()))
    points: dict[str, dict[str, list]] = {}
    for row in result.latencies.to_pyarrow().to_pylist():
        by_op = points.setdefault(row["policy"], {})
        by_op.setdefault(row["op"], []).append((row["latency_ms"], row["share"]))
    runs = {run["policy"]: run for run in result.runs}
    return {
        name: Run(
            name,
            {one["class"]: one for one in runs[text].get("classes", [])},
            runs[text],
            points.get(text, {}),
        )
        for name, text in policies.items()
    }


def extra(within_ms: float) -> int:
    """Returns the capacity in addition to Cmin: one request per bound."""
    return -int(-1000 // within_ms)


@kept
def alone(workload: Workload, capacity: int, within_ms: float) -> Run:
    """Runs FCFS on a server of exactly that rate."""
    policies = {"fcfs": spec("fcfs", capacity, within_ms)}
    return simulated(workload.table(), f"fixed:{capacity}", policies)["fcfs"]


@kept
def shaped(workload: Workload, percent: float, within_ms: float) -> dict[str, Run]:
    """Runs every policy on a server of Cmin plus one request per bound."""
    cmin = least(workload, percent, within_ms)
    policies = {policy: spec(policy, cmin, within_ms) for policy in POLICIES}
    return simulated(workload.table(), f"fixed:{cmin + extra(within_ms)}", policies)


def rows(expected: dict, listed: list[Workload], short: bool) -> list[Row]:
    """Returns the results of FCFS at the capacities of table 4.1."""
    found = []
    for figure in expected["fcfs"]:
        percent, within = figure["percent"], figure["within_ms"]
        for name in ("WebSearch", "FinTrans", "OpenMail"):
            says = f"answered within {within} ms, where RTT answers {percent} %"
            key = f"fcfs {name} {percent} {within}"
            claim = Claim(key, figure["source"], says, "%", figure[name], figure[name])
            workload = of(listed, name)
            if workload is None:
                found.append(Row(claim, name, None, missing(name, short)))
                continue
            column = expected["capacity"]["percent"].index(percent)
            paper = expected["capacity"][name][str(within)][column]
            own = least(workload, percent, within)
            for whose, iops in (("our", own), ("the paper's", paper)):
                ours = 100 * alone(workload, iops, within).within_bound
                case = f"{workload.name}, {whose} {iops} IOPS"
                found.append(Row(claim, case, ours, load(workload, iops)))
    return found + compliance(expected, listed, short)


def load(workload: Workload, iops: int) -> str:
    """Returns how busy the server is, which causes most of the deviations of FCFS."""
    busy = 100 * workload.mean_iops / iops
    return f"prefix of {workload.duration_s:.0f} s: {workload.mean_iops:.0f} IOPS, {busy:.0f} % busy"


def compliance(expected: dict, listed: list[Workload], short: bool) -> list[Row]:
    """Returns the time within which FCFS answers the share that RTT answers in time."""
    given, found = expected["compliance"], []
    for name in ("WebSearch", "OpenMail"):
        says = f"time within which FCFS answers {given['percent']} %"
        claim = Claim(
            f"compliance {name}", given["source"], says, "ms", given[name], given[name]
        )
        workload = of(listed, name)
        if workload is None:
            found.append(Row(claim, name, None, missing(name, short)))
            continue
        own = least(workload, given["percent"], given["within_ms"])
        run = alone(workload, own, given["within_ms"])
        ours = run.quantile_ms(given["percent"] / 100)
        found.append(Row(claim, f"{workload.name}, our {own} IOPS", ours, load(workload, own)))
    return found


def recombined(expected: dict, listed: list[Workload], short: bool) -> list[Row]:
    """Returns figure 4.4: every policy at the same total capacity."""
    found = []
    within = expected["secondary"]["within_ms"]
    name = expected["secondary"]["workload"]
    workload = of(listed, name)
    for figure in expected["recombined"]:
        percent = figure["percent"]
        for kind, says in (
            ("within_bound", f"answered within {within} ms, promise {percent} %"),
            ("beyond_second", f"not answered within a second, promise {percent} %"),
        ):
            for policy, paper in figure[kind].items():
                key = f"{kind} {percent} {policy}"
                claim = Claim(key, figure["source"], f"{policy}: {says}", "%", paper, paper)
                if workload is None:
                    found.append(Row(claim, name, None, missing(name, short)))
                    continue
                run = shaped(workload, percent, within)[policy]
                share = run.within_bound if kind == "within_bound" else 1 - run.within(SECOND_MS)
                total = least(workload, percent, within) + extra(within)
                case = f"{workload.name}, {total} IOPS"
                found.append(Row(claim, case, 100 * share, load(workload, total)))
    return found + secondary(expected, listed, short)


def ratio(runs: Mapping[str, Run], policy: str, figure: str) -> float | None:
    """Returns the secondary class's figure divided by that of fair queueing."""
    ours, fair = runs[policy].secondary(figure), runs["wf2q"].secondary(figure)
    return ours / fair if ours is not None and fair else None


def secondary(expected: dict, listed: list[Workload], short: bool) -> list[Row]:
    """Returns figure 4.4(c), and the text's statements about Split."""
    given, found = expected["secondary"], []
    name = given["workload"]
    workload = of(listed, name)
    kinds = [
        ("miser", "mean_ms", "mean", *given["miser_mean"]),
        ("miser", "longest_ms", "longest", *given["miser_longest"]),
        ("miser-rate", "mean_ms", "mean", *given["miser_mean"]),
        ("miser-rate", "longest_ms", "longest", *given["miser_longest"]),
        ("split", "mean_ms", "mean", given["split_mean"], None),
        ("split", "longest_ms", "longest", given["split_longest"], None),
    ]
    for percent in given["percents"]:
        for policy, figure, word, low, high in kinds:
            who = NAMED.get(policy, policy)
            says = f"{who}'s {word} of the secondary class over fair queueing's, {percent} %"
            key = f"secondary {policy} {word} {percent}"
            claim = Claim(key, given["source"], says, "times", low, high)
            if workload is None:
                found.append(Row(claim, name, None, missing(name, short)))
                continue
            ours = ratio(shaped(workload, percent, given["within_ms"]), policy, figure)
            total = least(workload, percent, given["within_ms"]) + extra(given["within_ms"])
            found.append(Row(claim, workload.name, ours, load(workload, total)))
    return found
