"""The overhead of sweeps, and how it grows: `make bench-sweep`.

Prints, for tiny cells on this machine: the processor time of a cell beyond its own work, the time of two workers
compared with two plain processes that do the same work, and a model of both (cells, bytes, memory per worker) at 1,
10, 100 and 1000 synthetic volumes.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import forebay
from forebay.sweep.grid import cells
from forebay.sweep.work import answer_all

REQUESTS = 2000


def trace(path, seed):
    """Returns reads and writes of a volume."""
    lines = ["at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name"]
    state = seed + 1
    for at in range(REQUESTS):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        op = "write" if state >> 60 < 5 else "read"
        lines.append(f"{at * 1_000_000},{op},{(state >> 33) % 100_000 * 4096},4096,0,disk,,,1,,")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def processor_s():
    """Returns the processor time of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def overhead(folder, count, client):
    """Returns the seconds of processor time per cell beyond its work."""
    path = trace(folder / "tiny.csv", 1)
    grid = {"cache": {"sizes_mib": [[1 + n / 1000] for n in range(count)]}}
    begun = processor_s()
    found = forebay.sweep(grid, path, output=folder / "tiny", processes=2, client=client)
    table = found.to_pyarrow()
    assert len(found) == count and not found.failed(), found.failed()[:1]
    return (processor_s() - begun - sum(table["processor_s"].to_pylist())) / count


def plain(part):
    """Answers a part of the cells without a sweep."""
    asked, which = json.loads(Path(part).read_text())
    answer_all([cell for cell in cells(asked, which)])


def against_plain(folder):
    """Returns the time of two plain processes divided by that of a sweep with two."""
    paths = [trace(folder / f"{n}.csv", n) for n in range(2)]
    grid = {"simulate": {"device": ["st1000nm0011"], "intensity": [1 + n / 500 for n in range(400)]}}
    begun = time.perf_counter()
    forebay.sweep(grid, paths, output=folder / "swept", processes=2)
    swept = time.perf_counter() - begun
    running = []
    begun = time.perf_counter()
    for n, path in enumerate(paths):
        part = folder / f"part{n}.json"
        part.write_text(json.dumps([grid, [path]]))
        running.append(subprocess.Popen([sys.executable, __file__, "plain", str(part)]))
    assert all(one.wait() == 0 for one in running)
    return (time.perf_counter() - begun) / swept


def volumes(folder, count):
    """Returns the seconds, the bytes stored per cell and a worker's MiB for a sweep of this many volumes."""
    paths = [trace(folder / f"v{n}.csv", n) for n in range(count)]
    grid = {"simulate": {"device": ["st1000nm0011"], "policy": ["none", "mq-deadline", "bfq"]}}
    output = folder / f"of{count}"
    begun = time.perf_counter()
    found = forebay.sweep(grid, paths, output=output, processes=2)
    took = time.perf_counter() - begun
    table = found.to_pyarrow()
    kept = sum(part.stat().st_size for part in output.glob("*.parquet"))
    return len(found), took, kept / len(found), max(table["peak_mib"].to_pylist())


def main():
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in (1000, 10_000):
            beyond_ms = overhead(folder, count, None) * 1e3
            print(f"{count} tiny cells on two processes: {beyond_ms:.2f} ms of processor time each beyond their work")
        print(f"two workers do {against_plain(folder):.2f} of what two plain processes do")
        print(f"{'volumes':>8} {'cells':>6} {'seconds':>8} {'ms a cell':>10} {'bytes a cell':>13} {'MiB a worker':>13}")
        for count in (1, 10, 100, 1000):
            asked, took, kept, peak_mib = volumes(folder, count)
            print(f"{count:>8} {asked:>6} {took:>8.1f} {took / asked * 1e3:>10.1f} {kept:>13.0f} {peak_mib:>13.0f}")


if __name__ == "__main__":
    plain(sys.argv[2]) if sys.argv[1:2] == ["plain"] else main()
