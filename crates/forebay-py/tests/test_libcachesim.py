"""Our caches hit as often as libCacheSim's on the same stream of blocks."""

import warnings

import polars as pl
import pytest
from conftest import TERASORT

import forebay

BLOCK = 65_536
SIZES = [16, 100, 1024, 5000]

try:
    import libcachesim as lcs
except ImportError as error:
    warnings.warn(f"libcachesim is not installed, nothing is compared: {error}", stacklevel=1)
    pytest.skip("libcachesim is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """The blocks that the bundled trace uses, one after another, as a file for libCacheSim."""
    table = pl.DataFrame(forebay.read(TERASORT)).filter(pl.col("op").is_in(["read", "write"]))
    keys = []
    for offset, length in table.select("offset", "len").iter_rows():
        keys.extend(range(offset // BLOCK, (offset + length + BLOCK - 1) // BLOCK))
    path = tmp_path_factory.mktemp("blocks") / "blocks.csv"
    # libCacheSim takes no object 0.
    path.write_text("".join(f"{at},{key + 1},1\n" for at, key in enumerate(keys)))
    return path, len(keys)


def misses(cache, path):
    """Misses of one of libCacheSim's caches on all of the file."""
    reader = lcs.TraceReader(
        str(path),
        lcs.TraceType.CSV_TRACE,
        lcs.ReaderInitParam(time_field=1, obj_id_field=2, obj_size_field=3, delimiter=",",
                            has_header=False, obj_id_is_num=True),
    )
    ratio, _ = cache.process_trace(reader)
    return ratio


@pytest.mark.parametrize("size", SIZES)
def test_lru_and_s3fifo_miss_as_often(blocks, size):
    path, count = blocks
    curve = forebay.cache(TERASORT, block_kib=BLOCK // 1024, sizes_mib=[size * BLOCK / 2**20])
    assert curve["accesses"] == count
    ours = next(point for point in curve["points"] if point["size_blocks"] == size)
    assert ours["lru_miss_ratio"] == pytest.approx(misses(lcs.LRU(size), path), abs=1e-9)
    theirs = misses(lcs.S3FIFO(size), path)
    assert ours["s3fifo_miss_ratio"] == pytest.approx(theirs, abs=1e-9)
