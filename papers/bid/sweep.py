"""Parameters that the paper leaves open, swept where they matter: gain and price.

The default wait is combined with every replay and disk; k, the packing threshold and the request
queue are varied one at a time around our reading of the paper. All runs are at recorded speed.
"""

from cases import (
    BID,
    DEFAULT_MS,
    DISKS,
    HYBRID,
    PAPER_MS,
    REPLAYS,
    WAITS_MS,
    Case,
    bid,
    by_policy,
    chosen,
    hybrid,
)
from forebay.reproduce import number, table
from verdicts import RIVALS, saved

#: The traces in the tables: two that read below saturation, and one that writes beyond it.
TRACES = ["grep", "wordcount", "terasort"]
HISTORY = [1, 2, 4, 8, 16, 32]
PACKING_KIB = [8, 16, 32, 64, 128, 256, 512]
QUEUE = [16, 64, 128, 256, 1024]
DEPTHS = [1, 2, 4, 8, 16, 32]
DEPTH_POLICIES = ("noop", "deadline", "cfq", bid(DEFAULT_MS), BID, "forebay")


def with_k(k: int) -> str:
    """Returns BID-HDD with the paper's wait that remembers k gaps."""
    return f"{BID}:history={k}"


def packed(kib: int) -> str:
    """Returns BID-Hybrid with the paper's wait and a packing threshold."""
    return f"{HYBRID}:packing-kib={kib}"


def queued(policy: str, size: int | None) -> str:
    """Returns a policy with a request queue of this many reads and writes; with None, staged requests do not count."""
    return f"{policy}:reads-max={size}:writes-max={size}" if size else f"{policy}:staging-limit=no"


def cases(workloads, flash: str, short: bool) -> list[Case]:
    """Returns a case for each trace, replay and disk, with every value of k and of the threshold."""
    of_k = [with_k(k) for k in (HISTORY[::5] if short else HISTORY)]
    of_packing = [packed(kib) for kib in (PACKING_KIB[::6] if short else PACKING_KIB)]
    policies = (*RIVALS, BID, *of_k, *of_packing)
    return [
        Case(workload, replay, 1, policies, flash, disk)
        for workload in workloads
        if workload.name in TRACES
        for replay in (REPLAYS[:1] if short else REPLAYS)
        for disk in (list(DISKS)[:1] if short else DISKS)
    ]


def queue_cases(workloads, short: bool) -> list[Case]:
    """Returns a case for each trace, in open and closed replay on the plain disk."""
    sizes = [queued(BID, size) for size in [*QUEUE, None]]
    return [
        Case(workload, replay, 1, (*RIVALS, *sizes))
        for workload in workloads
        if workload.name in TRACES and not short
        for replay in REPLAYS[:2]
    ]


def depth_cases(workloads, short: bool) -> list[Case]:
    """Returns a case for each queue depth and trace."""
    return [
        Case(workload, replay, 1, DEPTH_POLICIES, None, "drive", f":queue-depth={depth}")
        for workload in workloads
        if workload.name in TRACES[:2] and not short
        for replay in REPLAYS[:2]
        for depth in DEPTHS
    ]


PRICES = ("read_mean_ms", "read_p99_ms", "write_mean_ms", "write_p99_ms")


def times(run: dict, noop: dict, figure: str) -> float | None:
    """Returns a figure as a multiple of noop's; None without one."""
    return run[figure] / noop[figure] if run[figure] and noop[figure] else None


def later(case, ours: dict, noop: dict) -> str:
    """Returns the time until all requests are done, divided by noop's; in open replay only if the disk cannot keep
    up.
    """
    idle = case.replay == "open" and noop["busy_s"] < 0.8 * noop["makespan_s"]
    return "-" if idle else f"{times(ours, noop, 'makespan_s'):.2f}"


def priced(case, each: dict, wait: int) -> list[str]:
    """Returns the savings and the cost of a wait on one disk."""
    ours, noop = each[bid(wait)], each["noop"]
    gains = [saved(each, bid(wait), RIVALS), saved(each, hybrid(wait), (bid(wait),))]
    cells = [number(gain) for gain in gains]
    return [*cells, later(case, ours, noop)] + [
        "-" if ratio is None else f"{ratio:.2f}" for ratio in (times(ours, noop, p) for p in PRICES)
    ]


def waits(of_figures, runs, replay: str, disk: str) -> str:
    """Returns a row for each trace and wait."""
    lines = []
    for case in chosen(of_figures, replay, disk):
        if case.workload.name in TRACES:
            each = by_policy(case, runs[case])
            noop = each["noop"]
            name = f"{case.workload.name} ({number(noop['read_mean_ms'])} ms)"
            for wait in WAITS_MS:
                if bid(wait) in each:
                    lines.append([name, str(wait), *priced(case, each, wait)])
                    name = ""
    header = ["trace", "wait", "saves %", "hybrid %", "time", "read", "read p99", "write"]
    return table([*header, "write p99"], lines)


def dearest(of_figures, runs, wait: int, figure: str = "read_mean_ms") -> tuple[float, str]:
    """Returns the highest mean read time relative to noop's if readers wait for answers, and where it occurs."""
    found = []
    for case in of_figures:
        each = by_policy(case, runs[case])
        if case.intensity == 1 and case.replay != "open" and bid(wait) in each:
            ratio = times(each[bid(wait)], each["noop"], figure)
            found.append((ratio or 0.0, case.label))
    return max(found)


def in_a_cell(each: dict, policy: str, others: tuple[str, ...], price: str) -> str:
    """Returns what a value saves, and its price."""
    return f"{number(saved(each, policy, others))}/{price}"


def of_k(sweeps, runs) -> str:
    """Returns a row for each trace, replay and disk, and a column for each k."""

    def row(case):
        each = by_policy(case, runs[case])
        cells = []
        for k in HISTORY:
            if with_k(k) in each:
                price = times(each[with_k(k)], each["noop"], "read_mean_ms") or 0
                cells.append(in_a_cell(each, with_k(k), RIVALS, f"{price:.1f}"))
        return [case.label, *cells]

    shown = [k for k in HISTORY if any(with_k(k) in case.policies for case in sweeps)]
    return table(["trace, replay, disk", *(f"k = {k}" for k in shown)], map(row, sweeps))


def of_packing(sweeps, runs) -> str:
    """Returns a row for each trace, replay and disk, and a column for each threshold."""

    def row(case):
        each = by_policy(case, runs[case])
        cells = []
        for kib in PACKING_KIB:
            if packed(kib) in each:
                written = each[packed(kib)]["devices"][-1]["written_bytes"] / 1e6
                cells.append(in_a_cell(each, packed(kib), (BID,), f"{written:,.0f}"))
        return [case.label, *cells]

    shown = [kib for kib in PACKING_KIB if any(packed(kib) in case.policies for case in sweeps)]
    return table(["trace, replay, disk", *(f"{kib} KiB" for kib in shown)], map(row, sweeps))


def of_queue(of_queues, runs) -> str:
    """Returns a row for each trace and replay, and a column for each size of the request queue."""

    def row(case):
        each = by_policy(case, runs[case])
        cells = []
        for size in [*QUEUE, None]:
            policy = queued(BID, size)
            price = times(each[policy], each["noop"], "read_mean_ms") or 0
            cells.append(in_a_cell(each, policy, RIVALS, f"{price:.1f}"))
        return [case.label, *cells]

    header = ["trace, replay, disk", *map(str, QUEUE), "staging off it"]
    return table(header, map(row, of_queues))


def of_depth(deep, runs) -> str:
    """Returns a row for each trace, replay and depth."""
    lines = [
        [
            f"{case.workload.name}, {case.replay}",
            (case.change or "").rpartition("=")[2],
            *(f"{number(r['busy_s'])}/{number(r['read_p99_ms'])}" for r in runs[case]),
        ]
        for case in deep
    ]
    return table(["trace, replay", "depth", *DEPTH_POLICIES], lines)


def section(of_figures, sweeps, of_queues, deep, runs) -> str:
    """Returns every sweep, each below a sentence with its result."""
    parts = [(__doc__ or "").split("\n", 2)[2].strip() + "\n", "### The default wait\n", WAIT]
    for disk in DISKS:
        for replay in REPLAYS:
            if chosen(of_figures, replay, disk):
                parts += [f"{replay.capitalize()} replay, {disk}:\n"]
                parts += [waits(of_figures, runs, replay, disk)]
    parts += ["### k, the gaps remembered\n", K, of_k(sweeps, runs)]
    parts += ["### The packing threshold\n", PACKING, of_packing(sweeps, runs)]
    if of_queues:
        parts += ["### The request queue\n", SIZES, of_queue(of_queues, runs)]
    if deep:
        parts += ["### Commands in the drive\n", DEPTH, of_depth(deep, runs)]
    return "\n".join(parts)


WAIT = """\
What does a longer wait (ms) buy, and who pays? "saves": disk busy time that BID-HDD saves against
the better of CFQ and noop, %. "hybrid": what BID-Hybrid saves of BID-HDD's, %. The rest as
multiples of noop's, whose mean read stands in brackets: time until the last completion (none in
open replay of what the disk keeps up with), mean and p99 of reads and of writes, BID-HDD's.
"""
K = f"""\
Does k matter? It sets for how many gaps of a staging queue the default wait holds before the
queue's own gaps rule: more of them save more and cost more where the default wait is long, as here
({PAPER_MS} ms). Disk busy time saved against the better of CFQ and noop, %/mean read time over
noop's:
"""
PACKING = """\
Does the packing threshold matter? Little, up to where it calls bulky writes light: then they
all go to the flash. Devices' busy time that BID-Hybrid saves of BID-HDD's, %/MB written to the
flash:
"""
SIZES = """\
Do staged requests take up the request queue? The paper leaves it open. Disk busy time saved
against the better of CFQ and noop, %/mean read time over noop's, for a queue of so many reads and
as many writes:
"""
DEPTH = """\
Does it matter how many commands the drive holds? Disk busy s/read p99 ms, at so many instead
of the bundled figure:
"""
