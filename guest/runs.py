"""Results of runs: the figures of one side, and comparisons of two sides.

The text format is that of crates/forebay-guest/src/outcome.rs.
"""

import bisect
from dataclasses import dataclass, field


@dataclass
class Request:
    op: str
    offset: int
    len: int
    due: int
    submitted: int
    done: int
    accepted: int = 0
    place: int = -1


@dataclass
class Run:
    end: int = 0
    busy: int = 0
    ios: list = field(default_factory=list)
    requests: dict = field(default_factory=dict)

    def latencies_ms(self, op):
        return [(r.done - r.due) / 1e6 for r in self.requests.values() if r.op == op]


def read(text):
    """A run. A request was accepted and done when the disk says so for the I/O that contained it; if there were
    several, the last one counts.
    """
    run, known = Run(), {"read": [], "write": []}
    for line in text.splitlines():
        words = line.split()
        if words[0] == "end":
            run.end, run.busy = int(words[1]), int(words[3])
        elif words[0] == "io":
            numbers = [int(word) for word in words[2:]]
            known[words[1]].append((*numbers, len(run.ios)))
            run.ios.append((words[1], *numbers))
        elif words[0] == "req":
            numbers = [int(word) for word in words[4:]]
            run.requests[words[1], int(words[2])] = Request(words[3], *numbers)
    if not run.ios:
        raise ValueError("a run without I/Os")
    longest = max(length for _, _, length, _, _ in run.ios)
    for ios in known.values():
        ios.sort()
    for key, request in list(run.requests.items()):
        ios = known[request.op]
        at = bisect.bisect_left(ios, (request.offset - longest,))
        held = []
        while at < len(ios) and ios[at][0] < request.offset + request.len:
            if ios[at][0] + ios[at][1] > request.offset and ios[at][3] >= request.submitted:
                held.append(ios[at])
            at += 1
        if held:
            request.accepted, request.place = min((io[2], io[4]) for io in held)
            request.done = max(io[3] for io in held)
        else:
            # The request went through the page cache.
            del run.requests[key]
    return run


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def figures(runs):
    """Returns the figures of several runs together."""
    out = {
        "makespan_s": sum(run.end for run in runs) / 1e9 / len(runs),
        "idle_s": sum(run.end - run.busy for run in runs) / 1e9 / len(runs),
        "ios": sum(len(run.ios) for run in runs) / len(runs),
    }
    for op in ("read", "write"):
        all_ms = [ms for run in runs for ms in run.latencies_ms(op)]
        if all_ms:
            out[f"{op}_mean_ms"] = sum(all_ms) / len(all_ms)
            out[f"{op}_p50_ms"] = percentile(all_ms, 0.5)
            out[f"{op}_p99_ms"] = percentile(all_ms, 0.99)
    return out


def contested(kernel):
    """Returns pairs of requests that waited at the same time, in the order in which the kernel passed them to the
    disk.

    A request waits from its submission by its thread until the disk accepts it, for at least a tenth of a
    millisecond.
    """
    waiting, pairs = [], []
    for key, request in sorted(kernel.requests.items(), key=lambda item: item[1].submitted):
        waiting = [other for other in waiting if kernel.requests[other].accepted > request.submitted]
        if request.accepted - request.submitted < 100_000:
            continue
        for other in waiting:
            first, second = sorted((other, key), key=lambda each: kernel.requests[each].place)
            if kernel.requests[first].place != kernel.requests[second].place:
                pairs.append((first, second))
        waiting.append(key)
    return pairs


def same_order(pairs, run, by="place"):
    """Returns how many of `pairs` have the same order in a run, and for how many the run determines an order."""
    same = known = 0
    for first, second in pairs:
        if first in run.requests and second in run.requests:
            a, b = getattr(run.requests[first], by), getattr(run.requests[second], by)
            if a != b:
                known += 1
                same += a < b
    return same, known


def order(kernel, repeated, ours):
    """Returns the shares of contested pairs that are in the kernel's order, for first come, first served, for a
    second run of the kernel, and for the simulator; and the number of pairs.

    First come, first served is the order of submission in the kernel's second run: closed loops submit in a different
    order in each run, so the order of arrival in the first run would agree more than any other run can.
    """
    totals = {"fifo": [0, 0], "repeated": [0, 0], "ours": [0, 0]}
    count = 0
    for one, again, simulated in zip(kernel, repeated, ours):
        pairs = contested(one)
        count += len(pairs)
        for name, run, by in (("fifo", again, "submitted"), ("repeated", again, "place"), ("ours", simulated, "place")):
            same, known = same_order(pairs, run, by)
            totals[name][0] += same
            totals[name][1] += known
    shares = {name: same / known if known else None for name, (same, known) in totals.items()}
    return {"pairs": count, **shares}
