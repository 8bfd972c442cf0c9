"""Tests that our caches have the same misses as libCacheSim's on the same stream of blocks."""

import struct
import warnings

import polars as pl
import pytest
from conftest import TERASORT

import forebay

try:
    import libcachesim as lcs
except ImportError as error:
    warnings.warn(f"libcachesim is not installed, nothing is compared: {error}", stacklevel=1)
    pytest.skip("libcachesim is not installed", allow_module_level=True)


def skewed():
    """Returns a trace of requests of 4 and 8 KiB, with some places much hotter than others."""
    state, rows = 7, []
    for at in range(120_000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        place = int((state >> 33) ** 4 / 2**93 * 40_000)
        rows.append((at, "read" if state >> 20 & 1 else "write", place * 4096, 4096 << (at % 5 == 0)))
    return pl.DataFrame(rows, schema=["at_ns", "op", "offset", "len"], orient="row")


TRACES = {"terasort": (lambda: pl.DataFrame(forebay.read(TERASORT)), 64), "skewed": (skewed, 4)}


@pytest.fixture(scope="module", params=TRACES)
def stream(request, tmp_path_factory):
    """Returns a trace, its block size in KiB, and its blocks in libCacheSim's format."""
    make, block_kib = TRACES[request.param]
    trace, block = make(), block_kib * 1024
    used = trace.filter(pl.col("op").is_in(["read", "write"])).select("offset", "len")
    keys = []
    for offset, length in used.iter_rows():
        keys.extend(range(offset // block, -(-(offset + length) // block)))
    path = tmp_path_factory.mktemp("blocks") / "blocks.oracleGeneral.bin"
    # The fields are time, object (0 means none), size, and next use, which these policies ignore.
    path.write_bytes(b"".join(struct.pack("<IQIq", 0, key + 1, 1, 0) for key in keys))
    return trace, block_kib, path, len(keys)


def miss_ratio(cache, path):
    """Returns the miss ratio of one of libCacheSim's caches on the complete file."""
    kind = lcs.TraceType.ORACLE_GENERAL_TRACE
    return cache.process_trace(lcs.TraceReader(str(path), kind, lcs.ReaderInitParam()))[0]


# With fewer than twenty blocks, the small queue of libCacheSim's S3-FIFO has a single place and
# admits nothing.
@pytest.mark.parametrize("size", [20, 1024, *(pytest.param(size, marks=pytest.mark.slow) for size in (100, 5000))])
def test_lru_and_s3fifo_miss_as_often(stream, size):
    trace, block_kib, path, count = stream
    curve = forebay.cache(trace, block_kib=block_kib, sizes_mib=[size * block_kib / 1024])
    assert curve["accesses"] == count
    ours = next(point for point in curve["points"] if point["size_blocks"] == size)
    assert ours["lru_miss_ratio"] == pytest.approx(miss_ratio(lcs.LRU(size), path), abs=1e-9)
    assert ours["s3fifo_miss_ratio"] == pytest.approx(miss_ratio(lcs.S3FIFO(size), path), abs=1e-9)
