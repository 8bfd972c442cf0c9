"""What the paper claims, beside what our runs say, with the cause of each difference."""

import tempfile
from pathlib import Path

from cases import INTENSITIES, REPLAYS, by_policy, main_cases

import forebay
from forebay.reproduce import ROW_HEADER, Row, table

#: The paper's three headline figures: who saves against whom.
HEADLINES = {
    "bid-best": ("bid", ("cfq", "noop")),
    "hybrid-bid": ("bid-hybrid", ("bid",)),
    "hybrid-best": ("bid-hybrid", ("cfq", "noop")),
}


def saved(each: dict, ours: str, others: tuple[str, ...]) -> float:
    """Share of device time that `ours` saves against the best of `others`, in percent."""
    best = min(each[other]["busy_s"] for other in others)
    return 100 * (1 - each[ours]["busy_s"] / best)


def why(deviation: float, each: dict) -> str:
    """The likely cause of a saving beyond the paper's range, from the runs' own figures."""
    if deviation == 0:
        return "within the paper's range"
    noop = each["noop"]
    busy = noop["busy_s"] / noop["makespan_s"]
    floor = noop["transfer_bound_s"] / noop["busy_s"]
    split = each["cfq"]["ios"] / noop["ios"]
    if deviation > 0:
        text = f"noop moves the heads {noop['head_movements'] / each['bid']['head_movements']:.1f}"
        return f"{text} times as often as BID-HDD: more interleaved than the paper's"
    if floor > 0.75:
        return f"moving the bytes is {floor:.0%} of noop's time: little to save"
    if busy < 0.3:
        return f"the disk works {busy:.0%} of the time: few requests wait together"
    if split > 1.1:
        text = f"files are read by several threads (CFQ, by process, needs {split:.2f} x noop's I/Os)"
        return f"{text}; staging by process parts them"
    offloaded = each["bid-hybrid"]["placement"].get("offloaded_requests", 0)
    share = offloaded / max(each["bid-hybrid"]["writes"], 1)
    return f"flash takes {share:.0%} of the writes, the disk works {busy:.0%} of the time"


def headline_rows(claims, cases, runs) -> list[Row]:
    """The three headline claims in every case."""
    rows = []
    for name, (ours, others) in HEADLINES.items():
        for case in cases:
            each = by_policy(case, runs[case])
            value = saved(each, ours, others)
            cause = why(claims[name].deviation(value), each)
            rows.append(Row(claims[name], case.label, value, cause))
    return rows


def verdicts(claims, cases, runs) -> str:
    """For each headline claim, replay and load: which traces bear it out."""
    rows = []
    for name in HEADLINES:
        for replay in REPLAYS:
            for intensity in INTENSITIES:
                chosen = [c for c in cases if (c.replay, c.intensity) == (replay, intensity)]
                if chosen:
                    rows.append(verdict(claims[name], chosen, runs, name))
    header = ["claim", "replay", "load", "within", "more", "less, but a saving", "no saving"]
    return table(header, rows)


def verdict(claim, cases, runs, name) -> list[str]:
    """The traces of one replay at one load, sorted by how they stand to a claim."""
    found = {"within": [], "more": [], "less": [], "none": []}
    for case in cases:
        value = saved(by_policy(case, runs[case]), *HEADLINES[name])
        off = claim.deviation(value)
        kind = "within" if off == 0 else "more" if off > 0 else "less" if value >= 1 else "none"
        found[kind].append(f"{case.workload.name} {value:.0f}")
    first = [f"{claim.says}: {claim.text()} %", cases[0].replay, f"{cases[0].intensity:g} x"]
    return first + [", ".join(traces) or "-" for traces in found.values()]


def ratio_rows(claims, cases, runs) -> list[Row]:
    """Claims about figures 15 to 17 in the cases at which the figures are drawn."""
    rows = []
    for case in main_cases(cases):
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
    return sorted(rows, key=lambda row: row.claim.id)


def ratio_cause(name: str, value: float, each: dict) -> str:
    """Why a ratio is what it is."""
    if name == "spread":
        return "distances are either short or long, as the paper says" if value > 1 else "-"
    if value <= 1:
        return "as the paper says"
    if name == "cfq-distance":
        moves = each["cfq"]["head_movements"] / each["noop"]["head_movements"]
        return f"CFQ makes {moves:.2f} times noop's movements, too few short ones to lower the mean"
    return f"the disk works {each['noop']['busy_s'] / each['noop']['makespan_s']:.0%} of the time"


def named_rows(claims, cases, runs) -> list[Row]:
    """Claims about a named workload, or about the count of workloads."""
    mains = {case.workload.name: (case, by_policy(case, runs[case])) for case in main_cases(cases)}
    saving = {
        "bid-cfq": ("grep", lambda each: 100 - saved(each, "bid", ("cfq",))),
        "hybrid-wordcount": ("wordcount", lambda each: saved(each, "bid-hybrid", ("bid",))),
        "hybrid-movements": ("terasort", movements_saved),
        "grep-sweeps": ("grep", lambda each: each["cfq"]["seek_sweeps"]),
        "writer-reads": ("randomtextwriter", lambda each: slower(each, "read_mean_ms")),
    }
    rows = []
    for name, (workload, value) in saving.items():
        if workload in mains:
            case, each = mains[workload]
            rows.append(Row(claims[name], case.label, value(each), named_cause(name, each)))
        else:
            rows.append(Row(claims[name], workload, None, "not among these traces"))
    rows.append(Row(claims["stdev-writes"], "-", None, "we have no WordStandardDeviation"))
    for case, each in mains.values():
        cause = f"CFQ needs {each['cfq']['ios'] / each['noop']['ios']:.2f} times noop's I/Os here"
        rows.append(Row(claims["noop-cfq"], case.label, saved(each, "noop", ("cfq",)), cause))
    return rows + latency_rows(claims, mains)


def movements_saved(each: dict) -> float:
    """Head movements that BID-Hybrid saves, in percent."""
    return 100 * (1 - each["bid-hybrid"]["head_movements"] / each["bid"]["head_movements"])


def slower(each: dict, figure: str) -> float | None:
    """BID-HDD's mean over CFQ's."""
    bid, cfq = each["bid"][figure], each["cfq"][figure]
    return bid / cfq if bid is not None and cfq else None


def named_cause(name: str, each: dict) -> str:
    """Why a figure of a named workload differs."""
    noop, hybrid = each["noop"], each["bid-hybrid"]
    if name == "grep-sweeps":
        read_gb = hybrid["devices"][0]["read_bytes"] / 1e9
        return f"another trace: {noop['requests']:,} requests, {read_gb:.1f} GB read, 40 GiB in use"
    if name.startswith("hybrid"):
        share = hybrid["placement"].get("offloaded_requests", 0) / max(hybrid["writes"], 1)
        writes = hybrid["writes"] / hybrid["requests"]
        return f"writes are {writes:.0%} of the requests, flash takes {share:.0%} of them"
    if name == "writer-reads":
        return f"{noop['reads']} reads in all; the rest is write-back of kernel workers"
    return f"the disk works {noop['busy_s'] / noop['makespan_s']:.0%} of the time under noop"


def latency_rows(claims, mains) -> list[Row]:
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
        cause = f"{sum(won)} of {len(won)}; other traces"
        share = 100 * sum(won) / max(len(won), 1)
        rows.append(Row(claims[name], "all, open, load of the figures", share, cause))
    return rows


DISK = """kind = "hdd"
name = "example"
description = "The disk of the paper's worked example: 100 tracks of 100 sectors"
[geometry]
heads = 1
rpm = 7200
[[zone]]
first_cylinder = 0
last_cylinder = 99
sectors_per_track = 100
[seek]
track_to_track_ms = 1
average_ms = 5
full_stroke_ms = 10
write_settle_ms = 0
[switch]
head_ms = 1
cylinder_ms = 1
[command]
overhead_ms = 0
[power]
idle_w = 1
seek_w = 1
transfer_w = 1
"""


def example_rows(claims, tracks: list[list[int]]) -> list[Row]:
    """The worked example's distances, in the order the paper gives."""
    import pyarrow

    sector = 512
    first = [visit[0] * 100 + (99 if len(visit) > 1 else 10 + 5 * i) for i, visit in enumerate(tracks)]
    count = [2 if len(visit) > 1 else 1 for visit in tracks]
    trace = pyarrow.table(
        {
            "at_ns": [i * 10**9 for i in range(len(tracks))],
            "op": ["read"] * len(tracks),
            "offset": pyarrow.array([sector * at for at in first], pyarrow.uint64()),
            "len": pyarrow.array([sector * n for n in count], pyarrow.uint32()),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        disk = Path(folder) / "example.toml"
        disk.write_text(DISK)
        run = forebay.simulate(trace, device=disk, policies="noop").runs[0]
    flat = [track for visit in tracks for track in visit]
    terms = " + ".join(str(abs(b - a)) for a, b in zip(flat, flat[1:]) if a != b)
    crossed = run["avg_seek_tracks"] * run["head_movements"]
    cause = f"the paper's own terms, {terms}, make {crossed:.0f}"
    return [
        Row(claims["example-distance"], "example", crossed, cause),
        Row(claims["example-movements"], "example", run["head_movements"], "-"),
        Row(claims["example-mean"], "example", run["avg_seek_tracks"], "follows from the sum"),
        Row(claims["example-sweeps"], "example", run["seek_sweeps"], "follows from the sum"),
    ]


def section(claims, cases, runs, example) -> tuple[str, list[Row]]:
    """The verdicts and every row."""
    rows = headline_rows(claims, cases, runs) + ratio_rows(claims, cases, runs)
    rows += named_rows(claims, cases, runs) + example_rows(claims, example["tracks"])
    parts = [
        "### Which of the headline claims our traces bear out\n",
        "Savings in percent of device time, by trace.\n",
        verdicts(claims, cases, runs),
        "### Every figure the paper's text gives\n",
        table(ROW_HEADER, [row.cells() for row in rows]),
    ]
    return "\n".join(parts), rows
