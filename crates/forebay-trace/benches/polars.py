"""Reads a text into columns with Polars, once for each line on standard input.

Arguments: the file, the types of its columns (u8, u32, u64, f64, str), the byte between them.

Prints the seconds of each read. The readers bench starts it, in turns with its own runs:
    python3 -m venv target/polars
    target/polars/bin/pip install -r crates/forebay-trace/benches/requirements.txt
"""

import sys
import time

# The folder of this file is first on the path, where its own name would hide the package.
sys.path.pop(0)
import polars as pl

TYPES = {"u8": pl.UInt8, "u32": pl.UInt32, "u64": pl.UInt64, "f64": pl.Float64, "str": pl.String}

path, types, separator = sys.argv[1:]
schema = {f"column_{n}": TYPES[name] for n, name in enumerate(types.split(","))}
for _ in sys.stdin:
    begun = time.perf_counter()
    table = pl.read_csv(path, has_header=False, schema=schema, separator=separator)
    print(time.perf_counter() - begun, flush=True)
    del table
