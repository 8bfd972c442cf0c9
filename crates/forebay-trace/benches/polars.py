"""Reads or describes a text with Polars, once for each line on standard input: `read` or `describe`.

Arguments: the file, its columns as NAME:TYPE (types u8, u32, u64, f64, str), the byte between them.

`read` reads it into columns. `describe` reads it for those of Forebay's figures that Polars can express: counts, bytes,
sizes and latencies by operation with their quantiles, gaps between arrivals, requests, bytes and sequential share by
volume. Footprint, runs, seeks, arrivals at several scales and requests outstanding are left out, which is in Polars'
favor.

Prints the seconds of each. The readers bench starts it, in turns with its own runs:
    python3 -m venv target/polars
    target/polars/bin/pip install -r crates/forebay-trace/benches/requirements.txt
"""

import sys
import time

# Python puts the folder of this file first in the search path, where the file's own name hides the
# package.
sys.path.pop(0)
import polars as pl

TYPES = {"u8": pl.UInt8, "u32": pl.UInt32, "u64": pl.UInt64, "f64": pl.Float64, "str": pl.String}

path, columns, separator = sys.argv[1:]
schema = {name: TYPES[kind] for name, kind in (column.split(":") for column in columns.split(","))}
options = {"has_header": False, "schema": schema, "separator": separator}


def figures(column, name):
    quantiles = [column.quantile(q).alias(f"{name}_{q}") for q in (0.5, 0.9, 0.99)]
    return [column.mean().alias(f"{name}_mean"), column.max().alias(f"{name}_max"), *quantiles]


def describe():
    # Read the file once; with a lazy scan, each of the three queries would read it again.
    trace = pl.read_csv(path, **options).lazy()
    # Signed numbers, because a few rows may be out of order.
    at = pl.col("at") if schema["at"] == pl.Float64 else pl.col("at").cast(pl.Int64)
    gap = at.diff()
    span = [at.min().alias("first"), at.max().alias("last"), gap.std()]
    gaps = trace.select(pl.len().alias("requests"), *span, *figures(gap, "gap"))
    measured = [*figures(pl.col("latency"), "latency")] if "latency" in schema else []
    counts = [pl.len().alias("requests"), pl.col("len").sum().alias("bytes")]
    by_op = trace.group_by("op").agg(*counts, *figures(pl.col("len"), "len"), *measured)
    volume = [name for name in ("volume", "disk") if name in schema]
    end = (pl.col("offset") + pl.col("len")).shift(1).over(volume)
    by_volume = trace.with_columns(end.alias("end")).group_by(volume).agg(
        *counts, (pl.col("offset") == pl.col("end")).sum().alias("sequential"))
    return pl.collect_all([gaps, by_op, by_volume])


for line in sys.stdin:
    begun = time.perf_counter()
    table = describe() if line.strip() == "describe" else pl.read_csv(path, **options)
    print(time.perf_counter() - begun, flush=True)
    del table
