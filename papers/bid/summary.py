"""The answer on one page: which claims hold, which do not, where, and at what price."""

from cases import BID, DEFAULT_MS, HYBRID, PAPER_MS, REPLAYS, WAITS_MS, bid, by_policy, chosen
from forebay.reproduce import number
from sweep import dearest, times
from verdicts import RIVALS, most, saved, word, wrapped


NOOP = ("noop",)


def each_of(cases, runs, replay: str, disk: str) -> dict[str, dict]:
    """Returns each trace's runs in a setting, by policy."""
    return {c.workload.name: by_policy(c, runs[c]) for c in chosen(cases, replay, disk)}


def shown(named: dict[str, dict]) -> list[str]:
    """Returns the traces that the sentences mention: the captures of interest, or all that are available."""
    return [name for name in ("grep", "wordcount") if name in named] or list(named)


def over_waits(each: dict) -> str:
    """Returns the percentage that BID-HDD saves with each wait from the default up."""
    waits = [wait for wait in WAITS_MS if wait >= DEFAULT_MS and bid(wait) in each]
    return " / ".join(f"{saved(each, bid(wait), RIVALS):.0f}" for wait in waits)


def waits_text(each: dict) -> str:
    """Those waits."""
    return "/".join(str(w) for w in WAITS_MS if w >= DEFAULT_MS and bid(w) in each)


def gains(claims, cases, runs, sweeps) -> list[str]:
    """Returns a sentence for each disk and replay, with its verdict."""
    lines = []
    for disk in ("plain", "drive"):
        for replay in REPLAYS:
            named = each_of(cases, runs, replay, disk)
            if not named:
                continue
            picked = chosen(cases, replay, disk)
            verdict = word(claims["bid-best"], "bid-best", picked, runs, sweeps)
            texts = [f"{name} {over_waits(named[name])} %" for name in shown(named)]
            at = waits_text(named[shown(named)[0]])
            most_of = max((most("bid-best", each)[0], name) for name, each in named.items())
            text = f"- {replay} replay, {disk}: **{verdict}**. {'; '.join(texts)} at waits of {at} "
            text += f"ms; the most is {number(most_of[0])} % ({most_of[1]})."
            lines.append(wrapped(text).replace("\n", "\n  ").rstrip())
    return lines


def price(named: dict[str, dict], wait: int) -> str:
    """Returns the mean and the p99 of reads with a wait, beside noop's."""
    texts = []
    for name in shown(named):
        noop, ours = named[name]["noop"], named[name][bid(wait)]
        mean = f"{number(noop['read_mean_ms'])} to {number(ours['read_mean_ms'])} ms"
        tail = f"{number(noop['read_p99_ms'])} to {number(ours['read_p99_ms'])} ms"
        texts.append(f"{name}'s mean read goes from {mean} and its p99 from {tail}")
    return ", ".join(texts)


def longer(cases, runs) -> str:
    """Returns how much later all requests are done with the paper's wait, if readers wait for answers."""
    found = [
        (times(each[BID], each["noop"], "makespan_s") or 1.0, case.label)
        for case in cases
        if case.intensity == 1 and case.replay != "open"
        for each in [by_policy(case, runs[case])]
    ]
    worst, where = max(found)
    return f"the last request is done up to {worst:.2f} times as late as with noop ({where})"


def hybrid_text(claims, cases, runs) -> str:
    """Returns what the flash gains, over all traces with the paper's wait."""
    values = [
        (saved(by_policy(c, runs[c]), HYBRID, (BID,)), c.label) for c in cases if c.intensity == 1
    ]
    (least, _), (best, where) = min(values), max(values)
    claim = claims["hybrid-bid"]
    return (
        f"BID-Hybrid saves {number(least)} to {number(best)} % of BID-HDD's busy time at recorded "
        f"speed, {PAPER_MS} ms (most: {where}); "
        f"the paper has {claim.low:g} to {claim.high:g} %."
    )


def default_text(cases, runs) -> str:
    """Explains the choice of the default wait."""
    swept = [w for w in WAITS_MS if any(bid(w) in case.policies for case in cases)]
    bearable = [w for w in swept if dearest(cases, runs, w)[0] <= 2]
    longest = max(bearable) if bearable else 0
    ours, where = dearest(cases, runs, DEFAULT_MS)
    beyond = [w for w in swept if w > DEFAULT_MS]
    next_text = ""
    if beyond:
        ratio, case = dearest(cases, runs, beyond[0])
        next_text = f" {beyond[0]} ms makes it {ratio:.2f} times ({case})."
    stands = f" **Here the rule gives {longest} ms.**" if longest < DEFAULT_MS else ""
    if longest > DEFAULT_MS:
        stands = f" The traces here alone would allow {longest} ms."
    tail, tail_where = dearest(cases, runs, DEFAULT_MS, "read_p99_ms")
    given_up = ""
    if beyond:
        named = each_of(cases, runs, "closed", "drive")
        texts = "; ".join(
            f"{name} {saved(named[name], bid(DEFAULT_MS), RIVALS):.0f} % instead of "
            f"{saved(named[name], bid(beyond[0]), RIVALS):.0f}"
            for name in shown(named)
        )
        given_up = f"What {beyond[0]} ms gain on the drive in closed replay is given up: {texts}."
    busy = [
        (c.workload.name, by_policy(c, runs[c]))
        for c in chosen(cases, "open", "plain")
        if runs[c][1]["busy_s"] > 0.8 * runs[c][1]["makespan_s"]
    ]
    settled = "; ".join(
        f"{name} {saved(each, bid(DEFAULT_MS), NOOP):.0f} and {saved(each, BID, NOOP):.0f} %"
        for name, each in busy
    )
    return wrapped(
        f"""**The default wait is {DEFAULT_MS} ms.** A wait is paid by whoever waits for the
answer: in closed and dependent replay a lone read takes about as much longer as the wait is long.
Open replay, where a reader sends its next request whatever became of the last, gives a wait of tens
of milliseconds back as disk busy time, and hides who would have waited. So the default is the
longest wait of the sweep that doubles no trace's mean read where readers wait: at most {ours:.2f}
times noop's at {DEFAULT_MS} ms ({where});{next_text}{stands} The p99 of reads is at most
{tail:.1f} times noop's ({tail_where}). {given_up} Little is lost where BID gains without a timer,
on a disk that is busy all the time: saved against noop at {DEFAULT_MS} and {PAPER_MS} ms in open
replay, plain: {settled or "no such trace here"}.
k = 8 and 64 KiB a request stay: k moves gain and price together, and the threshold moves little
until it calls bulky writes light. For the paper's savings say `{BID}`; `advise` judges BID at the
default."""
    )


def section(claims, cases, runs, sweeps) -> str:
    """Returns the conclusions for readers."""
    plain = each_of(cases, runs, "open", "plain")
    claim = claims["bid-best"]
    parts = [
        wrapped(
            f"The paper: BID-HDD saves {claim.low:g} to {claim.high:g} % of the time that the "
            "better of CFQ and noop takes. Ours, disk busy time at recorded speed (plain: arm and "
            "platters, one command at a time; drive: with its controller):"
        ),
        "\n".join(gains(claims, cases, runs, sweeps)) + "\n",
        wrapped(
            f"The price, open replay, plain, at {PAPER_MS} ms: {price(plain, PAPER_MS)}. In closed "
            f"and dependent replay {longer(cases, runs)}."
        ),
        wrapped(hybrid_text(claims, cases, runs)),
        default_text(cases, runs),
    ]
    return "\n".join(parts)
