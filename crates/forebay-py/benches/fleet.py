"""The cost of the fleet's questions for various numbers of synthetic volumes: `make bench-fleet`, or with numbers of
volumes as arguments.

Prints for each question: cells, seconds for the first run and when all cells are already answered (which leaves only
the work on all volumes together), bytes stored per cell, and the peak memory of a worker and of this process, which
never decreases.
"""

import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from forebay import fleet

REQUESTS = 2000


def volume(path, seed):
    """Returns reads and writes in bursts, at the volume's own time within each minute, for ten minutes."""
    dice = random.Random(seed)
    phase, span = dice.uniform(0, 60), dice.randrange(1000, 100_000)
    at = sorted(dice.randrange(10) * 60 + phase + dice.uniform(0, 5) for _ in range(REQUESTS))
    lines = ["at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name"]
    for moment in at:
        op = "write" if dice.random() < 0.3 else "read"
        lines.append(f"{round(moment * 1e9)},{op},{dice.randrange(span) * 4096},4096,0,disk,,,1,,")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


QUESTIONS = {
    "schedulers": lambda paths, output: fleet.schedulers(paths, device="st1000nm0011", output=output, processes=2),
    "flash": lambda paths, output: fleet.flash(paths, output=output, processes=2),
    "together": lambda paths, output: fleet.together(paths, output=output, processes=2),
    "needs": lambda paths, output: fleet.needs(paths, within="100ms", output=output, processes=2),
}


def main(counts):
    print("| question | volumes | cells | first, s | again, s | kept a cell, KB | worker, MiB | here, MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            paths = [volume(Path(folder) / f"{count}-{n}.csv", n) for n in range(count)]
            for name, question in QUESTIONS.items():
                output = Path(folder) / f"{name}{count}"
                begun = time.perf_counter()
                question(paths, output)
                first = time.perf_counter() - begun
                begun = time.perf_counter()
                question(paths, output)
                again = time.perf_counter() - begun
                parts = list(output.glob("*.parquet"))
                cells = sum(pq.read_metadata(part).num_rows for part in parts)
                kept = sum(part.stat().st_size for part in parts) / cells / 1000
                worker = max(max(pq.read_table(part, columns=["peak_mib"])["peak_mib"].to_pylist()) for part in parts)
                here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                print(
                    f"| {name} | {count} | {cells} | {first:.1f} | {again:.1f} | {kept:.2f} | {worker:.0f} | {here:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1, 10, 100])
