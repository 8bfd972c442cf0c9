"""Tests policies written in Python: they give the same results as ours if they decide the same, and every mistake is
reported.
"""

import importlib.util
import os
import signal
import threading
import traceback
from collections import deque

import polars as pl
import pytest
from conftest import ROOT

import forebay

EXAMPLES = ROOT / "examples" / "policies"
DISK = "st1000nm0011"


def example(name):
    """Imports a module of the examples."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Fifo:
    """noop, written in Python."""

    def __init__(self):
        self.queue = deque()

    def submit(self, now, request):
        self.queue.append(request)

    def dispatch(self, now):
        return self.queue.popleft()

    def merged(self, now, request, gone):
        if gone is not None:
            self.queue.remove(gone)


class BareFifo:
    """noop without the block layer, written in Python."""

    bare = True
    name = "bare"

    def __init__(self):
        self.queue = deque()

    def submit(self, now, request):
        self.queue.append(request)

    def dispatch(self, now):
        return self.queue.popleft() if self.queue else None

    def complete(self, now, request):
        return request


def figures(run):
    """Returns a run without its name and the simulator's speed."""
    return {key: value for key, value in run.items() if key not in ("policy", "simulated_requests_per_s")}


def plain(trace, count):
    """Returns requests that are no longer than a bio, without flushes, which bypass the queue."""
    rows = trace.to_polars()
    moves = pl.col("op").cast(str).is_in(["read", "write"])
    parted = pl.col("flags").cast(str).str.contains("P")
    return rows.filter(moves & ~parted & (pl.col("len") <= 65_536))[:count]


def simulate(policies, trace, **options):
    return forebay.simulate(trace, device=options.pop("device", DISK), policy=policies, **options)


@pytest.mark.parametrize("replay", ["open", "closed"])
@pytest.mark.parametrize("device", [DISK, "sata250:plain"])
def test_a_copy_of_noop_is_noop(trace, device, replay):
    found = simulate(["noop", Fifo], trace, device=device, replay=replay, intensity=20)
    ours, theirs = found.runs
    assert figures(ours) == figures(theirs)
    assert (ours["policy"], theirs["policy"]) == ("noop", "Fifo")
    for table in (found.streams, found.heads, found.latencies):
        rows = table.to_polars()
        assert len(rows) > 2
        assert rows.filter(policy="noop").drop("policy").equals(rows.filter(policy="Fifo").drop("policy"))


def test_lengths_follow_merging(trace):
    moved, gone = [], []

    class Summing(Fifo):
        def dispatch(self, now):
            request = super().dispatch(now)
            moved.append(request.len)
            return request

        def merged(self, now, request, other):
            super().merged(now, request, other)
            if other is not None:
                gone.append(other)

    device = simulate(Summing, trace, device="sata250:plain").runs[0]["devices"][0]
    assert gone and sum(moved) == device["read_bytes"] + device["written_bytes"]


def test_without_merging_too(trace):
    class Plain(Fifo):
        queue = "merge=no:reads-max=3"

        def __init__(self):
            self.kept = deque()

        def submit(self, now, request):
            self.kept.append(request)

        def dispatch(self, now):
            return self.kept.popleft()

    ours, theirs = simulate(["noop:merge=no:reads-max=3", Plain], trace, intensity=20).runs
    assert figures(ours) == figures(theirs)


def test_bare_is_noop_where_the_block_layer_does_nothing(trace):
    rows = plain(trace, 3000)
    noop = "noop:merge=no:reads-max=1000000:writes-max=1000000"
    ours, theirs = simulate([noop, BareFifo], rows, intensity=20).runs
    assert theirs["policy"] == "bare" and theirs["requests"] == len(rows)
    assert figures(ours) == figures(theirs)


def test_failures_reach_the_answers(trace):
    rows = plain(trace, 2000)
    noop = "noop:merge=no:reads-max=1000000:writes-max=1000000"
    for policy in (Fifo, BareFifo):
        ours, theirs = simulate(
            ["noop" if policy is Fifo else noop, policy], rows, fail=["one-in=50"]
        ).runs
        assert figures(ours) == figures(theirs)
        assert theirs["failed"] > 0


def test_an_object_or_what_makes_one(trace):
    runs = simulate([Fifo(), Fifo, lambda: Fifo(), "noop"], trace).runs
    assert [run["policy"] for run in runs] == ["Fifo", "Fifo", "Fifo", "noop"]
    assert all(figures(run) == figures(runs[3]) for run in runs)
    assert figures(simulate(Fifo, trace).runs[0]) == figures(runs[3])


def test_the_documented_class_is_noop(trace):
    text = (ROOT / "docs" / "python-policies.md").read_text().split("```python\n")[1].split("```")[0]
    names = {}
    exec(text.replace('"trace.parquet"', repr(str(trace.path))), names)
    runs = names["found"].runs
    assert [run["policy"] for run in runs] == ["noop", "mq-deadline", "Fifo"]
    # Unlike noop, this policy does not merge waiting requests with each other. It therefore needs
    # at least about as many I/Os, apart from differences in which requests wait.
    assert runs[2]["requests"] == runs[0]["requests"] and runs[2]["ios"] > 0.999 * runs[0]["ios"]


@pytest.mark.parametrize("name", ["shortest_seek:ShortestSeek", "anticipating:Anticipating"])
def test_examples_work_and_keep_the_laws(trace, name):
    module, kind = name.split(":")
    policy = getattr(example(module), kind)
    noop, run = simulate(["noop", policy], trace, intensity=10).runs
    assert run["requests"] == noop["requests"] and figures(run) != figures(noop)
    forebay.laws.check(policy, cases=8)


def test_the_documented_results_are_what_comes_out(trace):
    text = (ROOT / "docs" / "python-policies.md").read_text()
    table = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")]
    told = {row[0]: row[1:] for row in table if len(row) == 5}
    own = [example("shortest_seek").ShortestSeek, example("anticipating").Anticipating]
    runs = simulate(["noop", "deadline", "anticipatory", *own], trace, device="sata250:plain").runs
    assert list(told) == [run["policy"] for run in runs]
    for run in runs:
        found = [f"{run['busy_s']:.2f}", f"{run['head_movements']:,}"]
        found += [f"{run[key] / 1e3:.1f}" for key in ("read_p99_ms", "write_p99_ms")]
        assert found == told[run["policy"]], run["policy"]


def test_the_shortest_seek_is_chosen():
    requests = [forebay.Request("read", offset, 4096) for offset in (9 << 20, 1 << 20, 5 << 20)]
    policy = example("shortest_seek").ShortestSeek()
    for request in requests:
        policy.submit(0, request)
    assert [policy.dispatch(1).offset >> 20 for _ in requests] == [1, 5, 9]
    for request in requests:
        policy.submit(0, request)
    assert policy.dispatch(5_000_000_000) is requests[0], "the oldest, once it is due"


def test_anticipating_waits_for_a_stream_that_goes_on():
    policy = example("anticipating").Anticipating()
    first, other = forebay.Request("read", 0, 4096), forebay.Request("read", 1 << 40, 4096, stream=1)
    policy.submit(0, first)
    assert policy.dispatch(0) is first and policy.wakeup() is None
    policy.submit(1, other)
    policy.complete(10, first)
    assert policy.dispatch(10) is None and policy.wakeup() == 6_000_010
    follows = forebay.Request("read", 4096, 4096)
    policy.submit(20, follows)
    assert policy.dispatch(20) is follows
    policy.complete(30, follows)
    assert policy.dispatch(30) is None
    assert policy.dispatch(policy.wakeup()) is other


def raising(method):
    def fails(self, *_):
        raise KeyError("no such key")

    return type("Raising", (Fifo,), {method: fails})


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("submit", "with request 0 (read of "),
        ("dispatch", "after request 0 (read of "),
        ("complete", "was submitted"),
        ("wakeup", "before any request"),
    ],
)
def test_an_exception_is_itself(trace, method, said):
    with pytest.raises(KeyError, match="no such key") as raised:
        simulate(raising(method), trace)
    assert raised.traceback[-1].name == "fails"
    notes = getattr(raised.value, "__notes__", [""])
    if hasattr(raised.value, "add_note"):
        assert notes[0].startswith(f"raised in Raising.{method} at ") and said in notes[0], notes
        assert " ms of the run" in notes[0]
        assert notes[0] in "".join(traceback.format_exception(raised.value))


class Rule(Fifo):
    """Breaks a rule, as specified by each test."""

    def __init__(self):
        super().__init__()
        self.past = []


def breaking(**methods):
    return type("Breaking", (Rule,), methods)


class Bare(BareFifo):
    name = "Breaking"

    def __init__(self):
        super().__init__()
        self.past = []


def breaking_bare(**methods):
    return type("Breaking", (Bare,), methods)


def twice(self, now):
    if self.past and now > 0:
        return self.past[0]
    self.past.append(self.queue.popleft())
    return self.past[-1]


STRAY = forebay.Request("read", 0, 4096)

BROKEN = {
    "dispatch returned 7, expected a request that was submitted, or None": breaking(dispatch=lambda *_: 7),
    "dispatch returned a new request (read of 4096 bytes at 0, stream 0), which was never submitted": breaking(
        dispatch=lambda *_: STRAY
    ),
    "a second time; a request is dispatched once": breaking(dispatch=twice),
    "of its requests were never dispatched, the first of them request 0 (": breaking(dispatch=lambda *_: None),
    "which was merged into another": type("Breaking", (Fifo,), {"merged": lambda *_: None}),
    "wakeup returned 'soon', expected a whole number of nanoseconds": breaking(wakeup=lambda _: "soon"),
    "wakeup returned -1, expected": breaking(wakeup=lambda _: -1),
    "it wakes itself, or dispatches its own requests, forever": type(
        "Breaking",
        (Fifo,),
        {
            "dispatch": lambda self, now: setattr(self, "now", now),
            "wakeup": lambda self: getattr(self, "now", 0) + 1,
        },
    ),
    "dispatch returned 8, expected a request, or None": breaking_bare(dispatch=lambda *_: 8),
    "complete returned 9, expected the requests that it answers, or None": breaking_bare(complete=lambda *_: 9),
    "complete returned [None], expected the requests": breaking_bare(complete=lambda *_: [None]),
    "complete answered request 0 (": breaking_bare(complete=lambda _self, _now, it: [it, it]),
    "answered a new request (read of 4096 bytes at 0, stream 0), which is not an outstanding request": breaking_bare(
        complete=lambda *_: STRAY
    ),
    "of its requests were never answered, the first of them request 0 (": breaking_bare(complete=lambda *_: None),
    "stream 0), a second time; a request is dispatched once": breaking_bare(dispatch=twice),
    "which ends beyond the device's": breaking_bare(dispatch=lambda *_: forebay.Request("read", 1 << 60, 512)),
    "which is too long: the device accepts": breaking_bare(dispatch=lambda *_: forebay.Request("read", 0, 1 << 31)),
    "dispatches its own requests, forever": breaking_bare(
        dispatch=lambda *_: forebay.Request("read", 0, 512), complete=lambda *_: None
    ),
}


@pytest.mark.parametrize("said", BROKEN)
def test_a_broken_rule_is_named(trace, said):
    rows = trace.to_polars()[:3000].with_columns(at_ns=0, stream=0)
    with pytest.raises(forebay.Error) as raised:
        simulate(BROKEN[said], rows)
    text = str(raised.value)
    assert said in text, text
    assert text.startswith("policy Breaking broke a rule at "), text


def test_a_request_of_another_run_is_none_of_this(trace):
    kept = []
    rows = plain(trace, 100)
    for base in (Fifo, BareFifo):
        keeper = type("Keeper", (base,), {"submit": lambda self, now, it: (base.submit(self, now, it), kept.append(it)) and None})
        simulate(keeper, rows)
        thief = type("Thief", (base,), {"dispatch": lambda self, now: kept[0]})
        with pytest.raises(forebay.Error, match=r"a second time|never submitted in this run"):
            simulate(thief, rows)
        queued = []
        lazy = type(
            "Lazy",
            (base,),
            {
                "submit": lambda self, now, it: queued.append(it),
                "dispatch": lambda *_: None,
                "merged": None,
            },
        )
        with pytest.raises(forebay.Error, match="never (dispatched|answered)"):
            simulate(lazy, rows)
        thief = type("Thief", (base,), {"dispatch": lambda self, now: queued[0]})
        with pytest.raises(forebay.Error, match="never submitted in this run"):
            simulate(thief, rows)
    answers = type("Thief", (BareFifo,), {"complete": lambda self, now, it: kept[0] if it.id == 0 else it})
    with pytest.raises(forebay.Error, match=r"complete answered request 0 .* a second time"):
        simulate(answers, rows)


def test_what_is_no_policy_is_refused(trace):
    with pytest.raises(TypeError, match=r"got 7, expected a name such as"):
        simulate([7], trace)
    with pytest.raises(TypeError, match="needs a method 'dispatch'"):
        simulate(type("Half", (), {"submit": print}), trace)
    with pytest.raises(forebay.Error, match="drives one disk; got disks=2"):
        simulate(Fifo, trace, disks=2)
    with pytest.raises(forebay.Error, match="queue: 'queue:marge=no': no parameter 'marge'"):
        simulate(type("Odd", (Fifo,), {"queue": "marge=no", "__init__": lambda _: None}), trace)
    with pytest.raises(forebay.Error, match="no policy 'nop'"):
        simulate(["nop", Fifo], trace)


def test_requests_say_what_they_are():
    seen = []

    class Watching(BareFifo):
        def submit(self, now, request):
            seen.append((now, request.at_ns, request.id, request.op, request.offset, request.len, request.end))
            seen.append((request.stream, request.sync, request.flags, repr(request)))
            return super().submit(now, request)

    table = {"at_ns": [0, 5000], "op": ["read", "write"], "offset": [4096, 0], "len": [512, 1024]}
    rows = pl.DataFrame({**table, "stream": [0, 1], "flags": ["", "SF"]})
    simulate(Watching, rows, device="fixed:1000")
    assert seen[0] == (0, 0, 0, "read", 4096, 512, 4608)
    assert seen[1] == (0, True, "", "<forebay.Request: request 0 (read of 512 bytes at 4096, stream 0)>")
    assert seen[2] == (5000, 5000, 1, "write", 0, 1024, 1024)
    assert seen[3][:3] == (1, True, "FS")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("open", 0, 512), 'op: got \'open\', expected "read"'),
        (("read", 0, 0), "len: got 0, expected 1 or more"),
        (("flush", 0, 8), "len: got 8, expected 0, as a flush has no data"),
    ],
)
def test_what_is_no_request_is_refused(words, said):
    with pytest.raises(forebay.Error, match=said):
        forebay.Request(*words)
    with pytest.raises(forebay.Error, match="flags: got 'SX', expected any of the letters"):
        forebay.Request("read", 0, 512, flags="SX")


def test_a_bare_policy_may_merge_and_answer_at_once(trace):
    """Answers writes on arrival and writes them to the disk later; combines reads of neighboring blocks to one I/O."""

    class Own:
        bare = True

        def __init__(self):
            self.reads, self.writes, self.of = [], deque(), {}

        def submit(self, now, request):
            if request.op == "write":
                self.writes.append(request)
                return request
            self.reads.append(request)
            return None

        def dispatch(self, now):
            if self.reads:
                first = self.reads.pop(0)
                run, end = [first], first.end
                while self.reads and self.reads[0].offset == end and end - first.offset < 65_536:
                    run.append(self.reads.pop(0))
                    end = run[-1].end
                if len(run) == 1:
                    return first
                io = forebay.Request("read", first.offset, end - first.offset, stream=first.stream)
                self.of[io] = run
                return io
            return self.writes.popleft() if self.writes else None

        def complete(self, now, request):
            if request.op == "write":
                return None
            return self.of.pop(request, [request])

    reads = [(0, "read", 4096 * n, 4096) for n in range(8)]
    writes = [(1000, "write", 1 << 30, 4096)]
    rows = pl.DataFrame(reads + writes, schema=["at_ns", "op", "offset", "len"], orient="row")
    run = simulate(Own, rows, device="fixed:100").runs[0]
    assert run["requests"] == 9 and run["write_p99_ms"] == 0
    assert run["devices"][0]["ios"] == 2


def test_a_long_run_is_not_taken_for_an_endless_one():
    asked = []

    class Counting(BareFifo):
        def __init__(self):
            super().__init__()
            self.asked = 0
            asked.append(self)

        def dispatch(self, now):
            self.asked += 1
            return super().dispatch(now)

    count = 600_000
    rows = pl.DataFrame({"at_ns": range(0, count * 1000, 1000)}).with_columns(
        op=pl.lit("read"), offset=pl.lit(0, pl.UInt64), len=pl.lit(512, pl.UInt64)
    )
    run = simulate(Counting, rows, device="fixed:10000000").runs[0]
    assert run["requests"] == count and asked[0].asked > 1_000_000


def test_a_bare_policy_wakes():
    class Late(BareFifo):
        def __init__(self):
            super().__init__()
            self.at = None

        def submit(self, now, request):
            self.queue.append(request)
            self.at = now + 7_000_000

        def dispatch(self, now):
            return None

        def wakeup(self):
            return self.at

        def wake(self, now):
            self.at = None
            done, self.queue = list(self.queue), deque()
            return done

    rows = pl.DataFrame({"at_ns": [0], "op": ["read"], "offset": [0], "len": [512]})
    assert simulate(Late, rows).runs[0]["read_p99_ms"] == pytest.approx(7, rel=0.01)


def test_ctrl_c_ends_a_run(trace):
    asked = []

    class Endless(Fifo):
        def dispatch(self, now):
            if not asked:
                asked.append(threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)))
                asked[0].start()
            while True:
                pass

    with pytest.raises(KeyboardInterrupt):
        simulate(Endless, trace)
    asked[0].join()


def test_ctrl_c_ends_many_runs(trace):
    runs = []

    class Counting(Fifo):
        def __init__(self):
            super().__init__()
            runs.append(None)
            if len(runs) == 2:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        simulate([Counting] * 100_000, trace)
    assert len(runs) <= 3


def test_other_threads_go_on_meanwhile(trace):
    counted = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted.append(None)

    class Counted(Fifo):
        def __init__(self):
            super().__init__()
            self.first = None

        def dispatch(self, now):
            self.last = len(counted)
            self.first = self.last if self.first is None else self.first
            return super().dispatch(now)

    def goes_on():
        policy = Counted()
        simulate(policy, trace)
        return policy.last > policy.first

    thread = threading.Thread(target=count)
    thread.start()
    try:
        # The thread may have to wait for a processor during one run, but hardly during all.
        assert any(goes_on() for _ in range(50))
    finally:
        stop.set()
        thread.join()
