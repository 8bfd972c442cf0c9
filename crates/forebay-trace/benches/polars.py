"""Reads an MSR CSV file into columns with Polars, once for each line on standard input.

Prints the seconds of each read. The readers bench starts it, in turns with its own runs:
    python3 -m venv target/polars
    target/polars/bin/pip install -r crates/forebay-trace/benches/requirements.txt
"""

import sys
import time

# The folder of this file is first on the path, where its own name would hide the package.
sys.path.pop(0)
import polars as pl

SCHEMA = {
    "Timestamp": pl.UInt64,
    "Hostname": pl.String,
    "DiskNumber": pl.UInt32,
    "Type": pl.String,
    "Offset": pl.UInt64,
    "Size": pl.UInt32,
    "ResponseTime": pl.UInt64,
}

for _ in sys.stdin:
    begun = time.perf_counter()
    table = pl.read_csv(sys.argv[1], has_header=False, schema=SCHEMA)
    print(time.perf_counter() - begun, flush=True)
    del table
