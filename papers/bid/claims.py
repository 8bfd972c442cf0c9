"""What the paper claims, beside what our runs say, with the cause of each difference."""

import example
import strokes
from cases import INTENSITIES, REPLAYS, by_policy, main_cases

from forebay.reproduce import ROW_HEADER, Row, table

LINUX = ("cfq", "noop", "deadline", "anticipatory", "mq-deadline", "bfq")

#: The paper's three headline figures, then other readings of two of them: who saves against whom.
HEADLINES = {
    "bid-best": ("bid", ("cfq", "noop")),
    "hybrid-bid": ("bid-hybrid", ("bid",)),
    "hybrid-best": ("bid-hybrid", ("cfq", "noop")),
    "bid-noop": ("bid", ("noop",)),
    "bid-paper": ("bid", ("cfq:form=paper", "noop")),
    "bid-linux": ("bid", LINUX),
    "hybrid-linux": ("bid-hybrid", LINUX),
}


def saved(each: dict, ours: str, others: tuple[str, ...]) -> float:
    """Share of device time that `ours` saves against the best of `others`, in percent."""
    best = min(each[other]["busy_s"] for other in others)
    return 100 * (1 - each[ours]["busy_s"] / best)


def why(name: str, case, each: dict, claim) -> str:
    """The likely cause of a saving beyond the paper's range, from the runs' own figures."""
    value = saved(each, *HEADLINES[name])
    if claim.deviation(value) == 0:
        return "within the paper's range"
    if name.endswith("linux"):
        best = min(LINUX, key=lambda policy: each[policy]["busy_s"])
        return f"the best is {best}, which saves {saved(each, best, ('noop',)):.0f} % against noop"
    if name == "hybrid-bid":
        return offloaded(each)
    if name == "hybrid-best":
        gain = saved(each, "bid-hybrid", ("bid",))
        own = saved(each, "bid", HEADLINES[name][1])
        return f"BID-HDD saves {own:.1f} %, the flash {gain:.1f} % of the rest"
    return why_bid(name, case, each)


def why_bid(name: str, case, each: dict) -> str:
    """The same of BID-HDD by itself."""
    noop, bid = each["noop"], each["bid"]
    rival = min(HEADLINES[name][1], key=lambda policy: each[policy]["busy_s"])
    moves = bid["head_movements"] / max(each[rival]["head_movements"], 1)
    busy = noop["busy_s"] / noop["makespan_s"]
    floor = noop["transfer_bound_s"] / noop["busy_s"]
    sorted_moves = bid["head_movements"] / max(each["deadline"]["head_movements"], 1)
    if floor > 0.75:
        return f"moving the bytes is {floor:.0%} of noop's time: little to save"
    if rival == "cfq" and moves > 1.05:
        return f"CFQ idles for a reader's next request; BID-HDD has {moves:.1f} times its movements"
    if rival == "cfq:form=paper" and moves > 1.05:
        return f"that CFQ sorts what it hands over; BID-HDD has {moves:.1f} times its movements"
    if busy < 0.3:
        return f"the disk works {busy:.0%} of the time: few requests wait together"
    if case.replay == "closed":
        joined = bid["ios"] / noop["ios"]
        return f"readers ask one by one, so staging joins little: {joined:.2f} times noop's I/Os"
    if sorted_moves > 1.2:
        parted = each["cfq"]["ios"] / noop["ios"]
        text = "queues flushed one by one"
        if parted > 1.1:
            text = f"threads share files (CFQ, merging by thread, needs {parted:.2f} x noop's I/Os)"
        return f"{text}: {sorted_moves:.1f} times the movements of deadline, which sorts all"
    gain = saved(each, rival, ("noop",))
    if rival != "noop":
        text = f"{rival} saves {gain:.0f} % against noop here"
        return f"{text} (in the paper it loses); little is left"
    least = saved(each, "deadline", ("noop",))
    return f"even deadline, which sorts all, saves {least:.0f} % against noop here"


def offloaded(each: dict) -> str:
    """What of the writes goes to the flash."""
    disk, flash = each["bid-hybrid"]["devices"][0], each["bid-hybrid"]["devices"][-1]
    written = disk["written_bytes"] + flash["written_bytes"]
    share = flash["written_bytes"] / max(written, 1)
    ios = flash["ios"] / max(flash["ios"] + disk["ios"], 1)
    return f"flash takes {ios:.1%} of the I/Os, {share:.1%} of the written bytes"


def headline_rows(claims, cases, runs) -> list[Row]:
    """The three headline claims in every case."""
    rows = []
    for name, (ours, others) in HEADLINES.items():
        for case in cases:
            each = by_policy(case, runs[case])
            value = saved(each, ours, others)
            cause = why(name, case, each, claims[name])
            rows.append(Row(claims[name], case.label, value, cause))
    return rows


def verdicts(claims, cases, runs) -> str:
    """For each headline claim, replay and load: which traces bear it out."""
    rows = []
    for name in list(HEADLINES)[:4]:
        for replay in REPLAYS:
            for intensity in INTENSITIES:
                chosen = [c for c in cases if (c.replay, c.intensity) == (replay, intensity)]
                if chosen:
                    rows.append(verdict(claims[name], chosen, runs, name))
    header = ["claim", "replay", "load", "within", "more", "less, but a saving", "no saving"]
    return table(header, rows)


def counted(claims, cases, runs) -> str:
    """How often each headline claim holds, a row for each replay."""

    def row(name, replay):
        chosen = [case for case in cases if case.replay == replay]
        values = [saved(by_policy(case, runs[case]), *HEADLINES[name]) for case in chosen]
        offs = [claims[name].deviation(value) for value in values]
        counts = [sum(off == 0 for off in offs), sum(off > 0 for off in offs)]
        counts.append(sum(value < 0 for value in values))
        ends = [f"{min(values):.1f}", f"{max(values):.1f}"]
        where = [f"{c.workload.name} {c.intensity:g} x" for c, off in zip(chosen, offs) if off == 0]
        first = [claims[name].says, replay, claims[name].text(), *ends]
        return [*first, *map(str, counts), str(len(values)), ", ".join(where) or "nowhere"]

    header = ["claim, %", "replay", "paper", "ours, least", "most"]
    header += ["within", "beyond", "a loss", "of cases", "within where"]
    return table(header, [row(name, replay) for name in HEADLINES for replay in REPLAYS])


def verdict(claim, cases, runs, name) -> list[str]:
    """The traces of one replay at one load, sorted by how they stand to a claim."""
    found = {"within": [], "more": [], "less": [], "none": []}
    for case in cases:
        value = saved(by_policy(case, runs[case]), *HEADLINES[name])
        off = claim.deviation(value)
        kind = "within" if off == 0 else "more" if off > 0 else "less" if value >= 1 else "none"
        found[kind].append(f"{case.workload.name} {value:.1f}")
    first = [f"{claim.says}: {claim.text()} %", cases[0].replay, f"{cases[0].intensity:g} x"]
    return first + [", ".join(traces) or "-" for traces in found.values()]


def ratio_rows(claims, cases, runs) -> list[Row]:
    """Claims about figures 15 to 17 in the cases at which the figures are drawn."""
    rows = []
    for case in main_cases(cases, *REPLAYS):
        each = by_policy(case, runs[case])

        def least(figure, policies, each=each):
            return min(each[policy][figure] for policy in policies) or 1

        bid = each["bid"]
        others = ("noop", "bid", "bid-hybrid")
        values = {
            "movements": bid["head_movements"] / least("head_movements", ("cfq", "noop")),
            "sweeps": bid["seek_sweeps"] / least("seek_sweeps", ("cfq", "noop")),
            "cfq-distance": each["cfq"]["avg_seek_tracks"] / least("avg_seek_tracks", others),
            "spread": bid["seek_stddev_tracks"] / (bid["avg_seek_tracks"] or 1),
        }
        rows += [Row(claims[n], case.label, v, ratio_cause(n, v, each)) for n, v in values.items()]
    return rows


def ratio_cause(name: str, value: float, each: dict) -> str:
    """Why a ratio is what it is."""
    if name == "spread":
        return "distances are either short or long, as the paper says" if value > 1 else "-"
    if value <= 1:
        return "as the paper says"
    noop = each["noop"]["head_movements"]
    cfq, bid = (each[policy]["head_movements"] / noop for policy in ("cfq", "bid"))
    if name == "cfq-distance":
        text = f"CFQ makes {cfq:.2f} times noop's movements"
        return f"{text}, in the paper more: short ones are missing"
    text = f"CFQ, which idles for its reader, makes {cfq:.2f} of noop's movements"
    return f"{text}, BID-HDD {bid:.2f}"


def named_rows(claims, cases, runs) -> list[Row]:
    """Claims about a named workload, or about the count of workloads."""
    mains = {
        replay: {c.workload.name: (c, by_policy(c, runs[c])) for c in main_cases(cases, replay)}
        for replay in REPLAYS
    }
    saving = {
        "bid-cfq": ("grep", lambda each: 100 - saved(each, "bid", ("cfq",))),
        "hybrid-wordcount": ("wordcount", lambda each: saved(each, "bid-hybrid", ("bid",))),
        "hybrid-movements": ("terasort", movements_saved),
        "grep-sweeps": ("grep", lambda each: each["cfq"]["seek_sweeps"]),
        "writer-reads": ("randomtextwriter", lambda each: slower(each, "read_mean_ms")),
    }
    rows = []
    for name, (workload, value) in saving.items():
        found = [mains[replay][workload] for replay in REPLAYS if workload in mains[replay]]
        for case, each in found:
            rows.append(Row(claims[name], case.label, value(each), named_cause(name, each)))
        if not found:
            rows.append(Row(claims[name], workload, None, "not among these traces"))
    rows.append(Row(claims["stdev-writes"], "-", None, "we have no WordStandardDeviation"))
    for case, each in (pair for replay in REPLAYS for pair in mains[replay].values()):
        ratio = each["noop"]["head_movements"] / max(each["cfq"]["head_movements"], 1)
        cause = f"noop moves the heads {ratio:.2f} times as often as CFQ"
        rows.append(Row(claims["noop-cfq"], case.label, saved(each, "noop", ("cfq",)), cause))
    return rows + [row for replay in REPLAYS for row in latency_rows(claims, replay, mains[replay])]


def movements_saved(each: dict) -> float:
    """Head movements that BID-Hybrid saves, in percent."""
    return 100 * (1 - each["bid-hybrid"]["head_movements"] / each["bid"]["head_movements"])


def slower(each: dict, figure: str) -> float | None:
    """BID-HDD's mean over CFQ's."""
    bid, cfq = each["bid"][figure], each["cfq"][figure]
    return bid / cfq if bid is not None and cfq else None


def named_cause(name: str, each: dict) -> str:
    """Why a figure of a named workload differs."""
    noop, cfq = each["noop"], each["cfq"]
    if name == "grep-sweeps":
        read_gb = each["cfq"]["devices"][0]["read_bytes"] / 1e9
        return f"another trace: {noop['requests']:,} requests, {read_gb:.1f} GB read"
    if name.startswith("hybrid"):
        return offloaded(each)
    if name == "writer-reads":
        return f"{noop['reads']} reads in all; the rest is write-back of kernel workers"
    gain = saved(each, "cfq", ("noop",))
    moves = cfq["head_movements"] / noop["head_movements"]
    text = f"CFQ saves {gain:.0f} % against noop ({moves:.2f} of its movements)"
    return f"{text}, in the paper it loses"


def latency_rows(claims, replay, mains) -> list[Row]:
    """Figures 18 and 19 as counts, as the paper has them."""
    figures = ["read_mean_ms", "write_mean_ms"]
    pairs = [
        (each[policy][figure], each["cfq"][figure], policy)
        for _, each in mains.values()
        for figure in figures
        for policy in ("bid", "noop")
        if each[policy][figure] is not None
    ]
    rows = []
    for name, policy in (("bid-latency", "bid"), ("noop-latency", "noop")):
        won = [ours < cfq for ours, cfq, who in pairs if who == policy]
        cause = f"{sum(won)} of {len(won)}; other traces, and CFQ as Linux has it"
        share = 100 * sum(won) / max(len(won), 1)
        rows.append(Row(claims[name], f"all traces, {replay}", share, cause))
    return rows


def section(claims, cases, runs, tracks) -> tuple[str, list[Row]]:
    """The verdicts and every row."""
    rows = headline_rows(claims, cases, runs) + ratio_rows(claims, cases, runs)
    rows += named_rows(claims, cases, runs) + example.rows(claims, tracks)
    rows += strokes.rows(claims, cases)
    order = list(claims)
    rows.sort(key=lambda row: order.index(row.claim.id))
    parts = [
        "### Which of the headline claims our traces bear out\n",
        "Over all traces and loads:\n",
        counted(claims, cases, runs),
        "By replay and load; savings in percent of device time:\n",
        verdicts(claims, cases, runs),
        "### Every figure the paper's text gives\n",
        *(of_claim(claim, rows) for claim in claims.values()),
    ]
    return "\n".join(parts), rows


def of_claim(claim, rows: list[Row]) -> str:
    """The rows of one claim under what it says."""
    cells = [row.cells() for row in rows if row.claim is claim]
    return f"{claim.source}: {claim.says}, {claim.unit}.\n\n{table(ROW_HEADER, cells)}"
