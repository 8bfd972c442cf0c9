"""Table VI: patterns without locality, from the generator without it and from our model of them."""

from pathlib import Path

import forebay
import numpy as np
import pyarrow.parquet as pq
import workloads

REQUESTS = 6000
SPAN = 64 << 30

#: The name of each pattern, its request size in bytes, its share of reads, and whether it is
#: sequential.
PATTERNS = [
    ("4 KiB random reads", 4096, 1.0, False),
    ("4 KiB random writes", 4096, 0.0, False),
    ("8 KiB random, 70 % reads", 8192, 0.7, False),
    ("64 KiB random reads", 65536, 1.0, False),
    ("64 KiB sequential reads", 65536, 1.0, True),
    ("64 KiB sequential writes", 65536, 0.0, True),
]


def pattern(size: int, reads: float, sequential: bool):
    """Returns the requests of a simple test, 200 per second."""
    draw = np.random.default_rng(1)
    at_ns = np.cumsum(draw.exponential(5e6, REQUESTS))
    ordered = np.arange(REQUESTS) % (SPAN // size)
    offset = (ordered if sequential else draw.integers(0, SPAN // size, REQUESTS)) * size
    return workloads.requests(at_ns, offset, np.full(REQUESTS, size),
                              draw.random(REQUESTS) < reads)


def rows(work: Path) -> list[tuple[str, float, float]]:
    """Returns the pattern, the IOPS of the simple generator, and the IOPS of the twin."""
    found = []
    for name, size, reads, sequential in PATTERNS:
        stem = name.replace(" ", "-").replace("%", "").replace(",", "").lower()
        trace, model, twin = (work / f"{stem}{end}" for end in (".parquet", ".model", "-twin.parquet"))
        pq.write_table(pattern(size, reads, sequential), trace)
        forebay.fit(trace, model, no_verdict=True)
        forebay.generate(model, twin, seed=1)
        found.append((name, workloads.iops(trace), workloads.iops(twin)))
    return found
