#!/usr/bin/env python3
"""Writes the tables of `../others.rs` with the packages that people use: pandas (with pyarrow and fastparquet), Polars and DuckDB.

All are the same 300 requests. The files are committed; run this again for a new release of one of them:
pip install pandas pyarrow fastparquet polars duckdb && python3 make.py
"""

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl

HERE = Path(__file__).resolve().parent
COUNT = 300

numbers = range(COUNT)
at_us = [1_700_000_000_000_000 + 1_500 * n for n in numbers]
op = ["Read" if n % 3 else "Write" for n in numbers]
sector = [(n * 7919) % 100_000 * 8 for n in numbers]
size = [4096 * (1 + n % 4) for n in numbers]
latency_ms = [None if n % 10 == 0 else 0.25 * (n % 8) for n in numbers]
disk = ["sda" if n % 2 else "sdb" for n in numbers]
pid = [100 + n % 5 for n in numbers]


def of_pandas():
    frame = pd.DataFrame({
        "timestamp": pd.to_datetime(at_us, unit="us", utc=True).tz_convert("Europe/Berlin"),
        "operation": pd.Categorical(op),
        "lba": sector,
        "size": pd.array(size, dtype="UInt32"),
        "latency_ms": latency_ms,
        "disk": disk,
        "pid": pd.array([None if n == 7 else p for n, p in zip(numbers, pid)], dtype="Int64"),
    })
    frame.to_parquet(HERE / "pandas.parquet", index=False)
    frame.head(9).to_parquet(HERE / "brotli.parquet", index=False, compression="brotli")
    # This file has the index as a column, and times in whole milliseconds.
    late = frame.assign(timestamp=frame.timestamp.astype("datetime64[ms, UTC]"))
    late.set_index("timestamp").to_parquet(HERE / "pandas-index.parquet", compression="gzip")
    plain = frame.assign(
        timestamp=frame.timestamp.dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[ns]"),
        operation=frame.operation.astype(str), size=[float(bytes) for bytes in size],
        pid=[float("nan") if n == 7 else float(p) for n, p in zip(numbers, pid)],
    )
    plain.to_parquet(HERE / "fastparquet.parquet", engine="fastparquet", index=False)


def of_polars():
    frame = pl.DataFrame({
        "Time": pl.Series(at_us, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
        "is_write": [word == "Write" for word in op],
        "Offset": [512 * first for first in sector],
        "Length": pl.Series(size, dtype=pl.UInt16),
        "latency": pl.Series([None if ms is None else int(ms * 1000) for ms in latency_ms], dtype=pl.Duration("us")),
        "Device": pl.Series(disk, dtype=pl.Enum(["sda", "sdb"])),
        "tid": pl.Series(pid, dtype=pl.UInt32),
        "comm": [None if n == 7 else f"worker {n % 5}" for n in numbers],
    })
    frame.write_parquet(HERE / "polars.parquet")
    words = frame.with_columns(pl.Series("op", op, dtype=pl.Categorical)).drop("is_write")
    words.write_parquet(HERE / "polars-categorical.parquet", compression="lz4")


def of_duckdb():
    asked = """
        copy (select epoch_ns(make_timestamp({at}::bigint)) // 1000 as time_us,
              case when n % 3 = 0 then 'W' else 'R' end as rw,
              (n * 7919) % 100000 * 8 as sector, ((1 + n % 4) * 8)::utinyint as sectors,
              case when n % 10 = 0 then null else (0.00025 * (n % 8))::double end as latency_s,
              (n % 2)::hugeint::ubigint as volume
              from range({count}) rows(n) order by n) to '{to}' (format parquet)
    """
    at = "1700000000000000 + 1500 * n"
    duckdb.sql(asked.format(at=at, count=COUNT, to=HERE / "duckdb.parquet"))
    zoned = """
        copy (select to_timestamp((1700000000000000 + 1500 * n) / 1e6) as ts,
              (case when n % 3 = 0 then 'WRITE' else 'READ' end)::enum('READ', 'WRITE') as io_type,
              (n * 7919) % 100000 * 8 * 512 as byte_offset, (1 + n % 4) * 4096 as length
              from range({count}) rows(n) order by n) to '{to}' (format parquet, codec zstd)
    """
    duckdb.sql(zoned.format(count=COUNT, to=HERE / "duckdb-zoned.parquet"))


of_pandas()
of_polars()
of_duckdb()
