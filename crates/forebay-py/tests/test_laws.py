"""Tests that each law detects a policy that breaks it, and accepts policies that do not."""

import itertools
import subprocess
import sys

import pytest
from conftest import ROOT
from test_policies import BareFifo, Fifo

import forebay

EXAMPLE = ROOT / "examples" / "policies" / "shortest_seek.py"


class Cutting(BareFifo):
    """Keeps every law: requests longer than 96 KiB, the limit of the laws' device, are split."""

    most = 96 * 1024

    def __init__(self):
        super().__init__()
        self.left, self.whose = {}, {}

    def submit(self, now, request):
        pieces = self.pieces(request)
        self.left[request] = len(pieces)
        self.queue.extend(pieces)
        for piece in pieces:
            self.whose[piece] = request

    def pieces(self, request):
        if request.op in ("flush", "trim") or request.len <= self.most:
            return [request]
        starts = range(request.offset, request.end, self.most)
        return [forebay.Request(request.op, at, min(self.most, request.end - at)) for at in starts]

    def complete(self, now, request):
        whole = self.whose.pop(request)
        self.left[whole] -= 1
        return whole if self.left[whole] == 0 else None


class Forgets(Cutting):
    """Never answers the third request."""

    def complete(self, now, request):
        answered = super().complete(now, request)
        return None if answered is not None and answered.id == 2 else answered


class Shortens(Cutting):
    """Transfers all but the last sector of requests that it splits."""

    def pieces(self, request):
        pieces = super().pieces(request)
        if len(pieces) == 1:
            return pieces
        last = pieces[-1]
        return [*pieces[:-1], forebay.Request(last.op, last.offset, last.len - 512)]


class Hasty(Cutting):
    """Answers reads before they are complete."""

    def submit(self, now, request):
        super().submit(now, request)
        return request if request.op == "read" else None

    def complete(self, now, request):
        answered = super().complete(now, request)
        return None if answered is None or answered.op == "read" else answered


class Sleepy(Fifo):
    """Requests a wakeup in the past."""

    def __init__(self):
        super().__init__()
        self.now = None

    def dispatch(self, now):
        if self.now is None:
            self.now = now
            return None
        return super().dispatch(now)

    def wakeup(self):
        return self.now


class Dice(Fifo):
    """Depends on more than its calls."""

    turns = itertools.count()

    def dispatch(self, now):
        return self.queue.pop() if next(self.turns) % 3 else self.queue.popleft()


class Nearest(Fifo):
    """Shortest seek first without a bound on waiting."""

    head = 0

    def dispatch(self, now):
        chosen = min(self.queue, key=lambda request: abs(request.offset - self.head))
        self.queue.remove(chosen)
        self.head = chosen.end
        return chosen


BROKEN = [
    (Forgets, "each request is answered exactly once"),
    (Shortens, "I/Os transfer exactly the requested bytes; "),
    (Hasty, "no read or write is answered before an I/O could have served it; "),
    (Sleepy, "after a policy declines to dispatch, its wakeup is in the future; at "),
    (Dice, "the same calls return the same results; dispatch at "),
    (Nearest, "no request starves while others overtake it; "),
]


@pytest.mark.parametrize(("policy", "law"), BROKEN)
def test_a_law_catches_who_breaks_it(policy, law):
    with pytest.raises(forebay.Error) as raised:
        forebay.laws.check(policy)
    text = str(raised.value)
    assert text.startswith(f"policy {getattr(policy, 'name', policy.__name__)} breaks a law "), text
    assert law in text, text


def test_a_length_is_refused_before_any_law():
    # Every run checks that no I/O is longer than the device accepts, so laws need not.
    with pytest.raises(forebay.Error, match="which is too long: the device accepts 98304 bytes at a time"):
        forebay.laws.check(BareFifo)


@pytest.mark.parametrize("policy", [Fifo, Cutting])
def test_who_keeps_them_passes(policy):
    forebay.laws.check(policy, cases=12)


def test_what_is_raised_comes_through():
    class Raising(Fifo):
        def dispatch(self, now):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        forebay.laws.check(Raising)
    with pytest.raises(forebay.Error, match="each run needs a new one"):
        forebay.laws.check(Fifo())


def run(*words):
    words = [sys.executable, "-m", "forebay.laws", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_from_a_shell(tmp_path):
    kept = run(f"{EXAMPLE}:ShortestSeek", "--cases", 4)
    assert (kept.returncode, kept.stderr) == (0, "")
    assert kept.stdout.endswith("keeps every law, on 4 workloads and together with a greedy stream\n")
    path = tmp_path / "last.py"
    path.write_text(
        "class Last:\n"
        "    def __init__(self): self.queue = []\n"
        "    def submit(self, now, request): self.queue.append(request)\n"
        "    def dispatch(self, now): return self.queue.pop()\n"
    )
    broken = run(f"{path}:Last", "--cases", 2)
    assert broken.returncode == 1 and "no request starves" in broken.stderr, broken.stderr
    assert "Traceback" not in broken.stderr
    no_policy = tmp_path / "none.py"
    no_policy.write_text("class No:\n    def submit(self, now, request): pass\n")
    wrong = run(f"{no_policy}:No")
    assert (wrong.returncode, wrong.stderr) == (2, "forebay.laws: No: a policy needs a method 'dispatch'\n")
    raising = path.read_text().replace("self.queue.pop()", "self.queue.pop(1, 2)")
    path.write_text(raising)
    raised = run(f"{path}:Last")
    assert raised.returncode == 1 and raised.stderr.count("  File ") == 1, raised.stderr
    assert "pop expected at most 1 argument" in raised.stderr and "with request" not in raised.stdout
    for word, said in [(EXAMPLE, "expected MODULE:CLASS"), (f"{EXAMPLE}:None", "has no 'None'"), ("no.such:X", "No module")]:
        wrong = run(word)
        assert wrong.returncode == 2 and said in wrong.stderr, wrong.stderr
