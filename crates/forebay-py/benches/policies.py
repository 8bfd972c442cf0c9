"""The cost of a policy in Python compared with the same built-in policy: `make bench-policies`.

Prints, for the bundled trace repeated as often as requested, microseconds of processor time per request for the
built-in noop, for its copy in Python with and without the block layer, and for the examples. Each figure is the
minimum of several runs.
"""

import sys
import time
from collections import deque
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import forebay

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples" / "policies"))

from anticipating import Anticipating  # noqa: E402
from shortest_seek import ShortestSeek  # noqa: E402

ROUNDS = 5


class Fifo:
    """noop."""

    def __init__(self):
        self.queue = deque()

    def submit(self, now, request):
        self.queue.append(request)

    def dispatch(self, now):
        return self.queue.popleft()


class BareFifo(Fifo):
    """noop without the block layer."""

    bare = True

    def dispatch(self, now):
        return self.queue.popleft() if self.queue else None


def repeated(times):
    """Returns the bundled trace, repeated this many times."""
    rows = forebay.read(ROOT / "traces" / "terasort.parquet").to_pyarrow()
    span = pc.max(rows["at_ns"]).as_py() + 1_000_000_000
    at = rows.schema.get_field_index("at_ns")
    return pa.concat_tables(
        [rows.set_column(at, "at_ns", pc.add(rows["at_ns"], span * time)) for time in range(times)]
    )


def each_us(rows, policy):
    """Returns the processor time per request."""
    took = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        forebay.simulate(rows, device="fixed:1000", policy=[policy] if policy else ["noop"])
        took.append(time.process_time() - begun)
    return min(took) / len(rows) * 1e6


def main():
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    rows = repeated(times)
    print(f"{len(rows):,} requests on a server of 1000 I/Os a second; the least of {ROUNDS} runs")
    base = each_us(rows, None)
    print(f"{'noop, built in, reading and figures included':50} {base:6.2f} us a request")
    for name, policy in [
        ("Fifo, in the block layer", Fifo),
        ("Fifo, bare", BareFifo),
        ("examples/policies/shortest_seek.py", ShortestSeek),
        ("examples/policies/anticipating.py", Anticipating),
    ]:
        took = each_us(rows, policy)
        print(f"{name:50} {took:6.2f} us a request, {took - base:5.2f} more")


if __name__ == "__main__":
    main()
