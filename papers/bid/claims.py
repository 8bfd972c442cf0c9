"""Every figure in the paper's text beside ours, with the cause of each difference.

In two settings, at recorded speed: open replay on the plain disk, which is the paper's, and closed replay on the
drive with its controller, which is closest to a user's.
"""

import example
import strokes
from cases import BID, HYBRID, SETTINGS, by_policy, chosen
from forebay.reproduce import Row, number, signed, table
from verdicts import RIVALS, saved, wrapped

LINUX = (*RIVALS, "deadline", "anticipatory", "mq-deadline", "bfq", "kyber")

#: The paper's three headline claims, then other readings of two of them: which policy saves time
#: compared with which.
HEADLINES = {
    "bid-best": (BID, RIVALS),
    "hybrid-bid": (HYBRID, (BID,)),
    "hybrid-best": (HYBRID, RIVALS),
    "bid-noop": (BID, ("noop",)),
    "bid-paper": (BID, ("cfq:form=paper", "noop")),
    "bid-linux": (BID, LINUX),
    "hybrid-linux": (HYBRID, LINUX),
}


def why(name: str, case, each: dict, claim) -> str:
    """Returns the likely cause of a saving outside the paper's range, according to the figures of the runs."""
    value = saved(each, *HEADLINES[name])
    if claim.deviation(value) == 0:
        return "within the paper's range"
    if name.endswith("linux"):
        best = min(LINUX, key=lambda policy: each[policy]["busy_s"])
        return f"the best is {best}, which saves {saved(each, best, ('noop',)):.0f} % against noop"
    if name == "hybrid-bid":
        return offloaded(each)
    if name == "hybrid-best":
        gain = saved(each, HYBRID, (BID,))
        own = saved(each, BID, HEADLINES[name][1])
        return f"BID-HDD saves {own:.1f} %, the flash {gain:.1f} % of the rest"
    return why_bid(name, case, each)


def why_bid(name: str, case, each: dict) -> str:
    """Returns the likely cause for BID-HDD by itself."""
    noop, ours = each["noop"], each[BID]
    rival = min(HEADLINES[name][1], key=lambda policy: each[policy]["busy_s"])
    moves = ours["head_movements"] / max(each[rival]["head_movements"], 1)
    floor = noop["transfer_bound_s"] / noop["busy_s"]
    joined = ours["ios"] / max(noop["ios"], 1)
    if floor > 0.75:
        return f"moving the bytes is {floor:.0%} of noop's time: little to save"
    if case.replay == "open" and joined < 0.8:
        return f"held reads join: {joined:.2f} of noop's I/Os, {moves:.2f} of its rival's moves"
    if rival == "cfq" and moves > 1.05:
        return f"CFQ idles for its reader: BID-HDD moves {moves:.1f} times as often"
    if rival == "cfq:form=paper" and moves > 1.05:
        return f"that CFQ sorts its turns: BID-HDD moves {moves:.1f} times as often"
    if case.replay != "open":
        return f"readers ask one by one: {joined:.2f} of noop's I/Os"
    gain = saved(each, rival, ("noop",))
    if rival != "noop":
        return f"{rival} saves {gain:.0f} % against noop; in the paper it loses"
    least = saved(each, "deadline", ("noop",))
    if least > saved(each, BID, ("noop",)) + 5:
        return f"flushed one by one: deadline, which sorts all, saves {least:.0f} %"
    return f"even deadline, which sorts all, saves {least:.0f} % against noop"


def offloaded(each: dict) -> str:
    """Returns the share of the writes that goes to the flash."""
    disk, flash = each[HYBRID]["devices"][0], each[HYBRID]["devices"][-1]
    written = disk["written_bytes"] + flash["written_bytes"]
    share = flash["written_bytes"] / max(written, 1)
    ios = flash["ios"] / max(flash["ios"] + disk["ios"], 1)
    return f"the flash takes {ios:.1%} of the I/Os, {share:.1%} of the written bytes"


def settled(cases):
    """Returns the cases of both settings."""
    return [case for replay, disk in SETTINGS for case in chosen(cases, replay, disk)]


def headline_rows(claims, cases, runs) -> list[Row]:
    """Returns the headline claims with the default wait as we read the paper."""
    rows = []
    for name, (ours, others) in HEADLINES.items():
        for case in settled(cases):
            each = by_policy(case, runs[case])
            value = saved(each, ours, others)
            cause = why(name, case, each, claims[name])
            rows.append(Row(claims[name], case.label, value, cause))
    return rows


def ratio_rows(claims, cases, runs) -> list[Row]:
    """Returns claims about figures 15 to 17, for the cases for which the figures are drawn."""
    rows = []
    for case in settled(cases):
        each = by_policy(case, runs[case])

        def least(figure, policies, each=each):
            return min(each[policy][figure] for policy in policies) or 1

        bid = each[BID]
        others = ("noop", BID, HYBRID)
        values = {
            "movements": bid["head_movements"] / least("head_movements", ("cfq", "noop")),
            "sweeps": bid["seek_sweeps"] / least("seek_sweeps", ("cfq", "noop")),
            "cfq-distance": each["cfq"]["avg_seek_tracks"] / least("avg_seek_tracks", others),
            "spread": bid["seek_stddev_tracks"] / (bid["avg_seek_tracks"] or 1),
        }
        rows += [Row(claims[n], case.label, v, ratio_cause(n, v, each)) for n, v in values.items()]
    return rows


def ratio_cause(name: str, value: float, each: dict) -> str:
    """Returns the cause of a ratio."""
    if name == "spread":
        return "distances are either short or long, as the paper says" if value > 1 else "-"
    if value <= 1:
        return "as the paper says"
    noop = each["noop"]["head_movements"]
    cfq, bid = (each[policy]["head_movements"] / noop for policy in ("cfq", BID))
    if name == "cfq-distance":
        return f"CFQ makes {cfq:.2f} of noop's movements; in the paper more"
    return f"CFQ, which idles: {cfq:.2f} of noop's movements, BID-HDD {bid:.2f}"


def named_rows(claims, cases, runs) -> list[Row]:
    """Returns claims about a named workload, or about a number of workloads."""
    mains = {
        setting: {c.workload.name: (c, by_policy(c, runs[c])) for c in chosen(cases, *setting)}
        for setting in SETTINGS
    }
    saving = {
        "bid-cfq": ("grep", lambda each: 100 - saved(each, BID, ("cfq",))),
        "hybrid-wordcount": ("wordcount", lambda each: saved(each, HYBRID, (BID,))),
        "hybrid-movements": ("terasort", movements_saved),
        "grep-sweeps": ("grep", lambda each: each["cfq"]["seek_sweeps"]),
        "writer-reads": ("writer", lambda each: slower(each, "read_mean_ms")),
    }
    rows = []
    for name, (workload, value) in saving.items():
        found = [named[workload] for named in mains.values() if workload in named]
        for case, each in found:
            rows.append(Row(claims[name], case.label, value(each), named_cause(name, each)))
        if not found:
            rows.append(Row(claims[name], workload, None, "not among these traces"))
    rows.append(Row(claims["stdev-writes"], "-", None, "we have no WordStandardDeviation"))
    for case, each in (pair for named in mains.values() for pair in named.values()):
        ratio = each["noop"]["head_movements"] / max(each["cfq"]["head_movements"], 1)
        cause = f"noop moves the heads {ratio:.2f} times as often as CFQ"
        rows.append(Row(claims["noop-cfq"], case.label, saved(each, "noop", ("cfq",)), cause))
    return rows + [
        row for setting in SETTINGS for row in latency_rows(claims, setting, mains[setting])
    ]


def movements_saved(each: dict) -> float:
    """Returns the percentage of head movements that BID-Hybrid saves."""
    return 100 * (1 - each[HYBRID]["head_movements"] / each[BID]["head_movements"])


def slower(each: dict, figure: str) -> float | None:
    """Returns BID-HDD's mean divided by CFQ's."""
    bid, cfq = each[BID][figure], each["cfq"][figure]
    return bid / cfq if bid is not None and cfq else None


def named_cause(name: str, each: dict) -> str:
    """Returns why a figure of a named workload differs."""
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


def latency_rows(claims, setting, mains) -> list[Row]:
    """Returns figures 18 and 19 as counts, as in the paper."""
    figures = ["read_mean_ms", "write_mean_ms"]
    pairs = [
        (each[policy][figure], each["cfq"][figure], policy)
        for _, each in mains.values()
        for figure in figures
        for policy in (BID, "noop")
        if each[policy][figure] is not None
    ]
    rows = []
    for name, policy in (("bid-latency", BID), ("noop-latency", "noop")):
        won = [ours < cfq for ours, cfq, who in pairs if who == policy]
        cause = f"{sum(won)} of {len(won)}; other traces, and CFQ as Linux has it"
        share = 100 * sum(won) / max(len(won), 1)
        rows.append(Row(claims[name], f"all traces, {', '.join(setting)}", share, cause))
    return rows


def section(claims, cases, runs, tracks) -> tuple[str, list[Row]]:
    """Returns every figure in the paper's text: a list of tables with their rows."""
    rows = headline_rows(claims, cases, runs) + ratio_rows(claims, cases, runs)
    rows += named_rows(claims, cases, runs) + example.rows(claims, tracks)
    rows += strokes.rows(claims, cases)
    order = list(claims)
    rows.sort(key=lambda row: order.index(row.claim.id))
    told = (__doc__ or "").split("\n", 2)[2].strip()
    parts = [
        wrapped(f"{told} BID is `{BID}` and `{HYBRID}`."),
        *(of_claim(claim, rows) for claim in claims.values()),
    ]
    return "\n".join(parts), rows


def of_claim(claim, rows: list[Row]) -> str:
    """Returns the rows of one claim under its text."""
    cells = [
        [row.case, number(row.ours), signed(row.deviation), row.cause]
        for row in rows
        if row.claim is claim
    ]
    said = f"**{claim.text()}** {claim.unit}, says the paper ({claim.source}): {claim.says}."
    return f"{wrapped(said)}\n{table(['case', 'ours', 'deviation', 'cause'], cells)}"
