"""Traces and results cross as Arrow, whole, without copies, and come back as traces."""

import itertools

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from conftest import TERASORT

import forebay

COLUMNS = ["at_ns", "op", "offset", "len", "stream", "volume", "latency_ns", "flags"]


def addresses(table):
    """Where the buffers of a pyarrow table lie."""
    chunks = itertools.chain.from_iterable(column.chunks for column in table.columns)
    return [b.address for chunk in chunks for b in chunk.buffers() if b is not None]


def test_columns_are_the_canonical_ones(trace):
    table = pa.table(trace)
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    text = pa.dictionary(pa.int8(), pa.string())
    u32, u64 = pa.uint32(), pa.uint64()
    kinds = [pa.int64(), text, u64, u64, u32, u32, pa.int64(), text]
    assert list(types.items()) == list(zip(COLUMNS, kinds, strict=True))


def test_every_library_has_the_same_rows(trace):
    expected = pa.table(trace).to_pylist()
    assert len(expected) == trace.records
    assert pl.DataFrame(trace).to_dicts() == expected
    assert trace.to_polars().to_dicts() == expected
    assert trace.to_pyarrow().to_pylist() == expected
    assert trace.to_pandas().astype(object).to_dict("records") == expected
    assert pa.RecordBatchReader.from_stream(trace).read_all().to_pylist() == expected
    assert pl.from_arrow(trace).struct.unnest().to_dicts() == expected


def test_rows_are_those_of_the_parquet_file(trace):
    read = pq.read_table(TERASORT).select(COLUMNS)
    assert pa.table(trace).to_pylist() == read.to_pylist()


def test_lengths_add_up_beyond_32_bits(tmp_path):
    path = tmp_path / "big.spc"
    path.write_text("".join(f"0,{n},1073741824,R,{n}.0\n" for n in range(5)))
    trace = forebay.read(path)
    assert pl.DataFrame(trace)["len"].sum() == 5 << 30
    assert pa.compute.sum(pa.table(trace)["len"]).as_py() == 5 << 30
    assert int(trace.to_pandas()["len"].to_numpy().sum()) == 5 << 30
    numbers = pl.DataFrame(trace)["len"].to_numpy()
    assert int(numbers.cumsum(dtype=numbers.dtype)[-1]) == 5 << 30
    forebay.convert(trace, tmp_path / "big.parquet")
    assert pq.read_schema(tmp_path / "big.parquet").field("len").type == pa.uint32()


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "zstd", "none"])
def test_parquet_of_every_codec_is_read(trace, tmp_path, codec):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(trace), path, compression=codec)
    assert pa.table(forebay.read(path)).to_pylist() == pa.table(trace).to_pylist()


def test_parquet_in_brotli_is_refused_by_its_name(trace, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(trace), path, compression="brotli")
    with pytest.raises(forebay.Error, match="packed with Brotli.*--features brotli"):
        forebay.describe(path)


def test_integers_that_pandas_made_floats_are_read(tmp_path):
    frame = pd.DataFrame({"at_ns": [0, 1000], "op": "read", "offset": [0, 4096], "len": 512})
    frame["latency_ns"] = [7_000_000, None]
    assert frame["latency_ns"].dtype == "float64"
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    assert pl.DataFrame(forebay.read(path))["latency_ns"].to_list() == [7_000_000, None]
    # With NaN itself, as Polars writes what came through numpy.
    pl.DataFrame({name: frame[name].to_numpy() for name in frame.columns if name != "op"}).with_columns(
        op=pl.lit("read")
    ).write_parquet(path)
    assert pl.DataFrame(forebay.read(path))["latency_ns"].to_list() == [7_000_000, None]
    frame["latency_ns"] = [7_000_000, 0.5]
    frame.to_parquet(path)
    with pytest.raises(forebay.Error, match=r"row 2: got \"0.5\" in column latency_ns"):
        forebay.describe(path)


def test_nothing_is_copied_on_the_way(trace):
    before = pa.total_allocated_bytes()
    table = pa.table(trace)
    assert table.nbytes > 1 << 20
    assert pa.total_allocated_bytes() == before, "pyarrow allocated: it has copied"
    result = forebay.simulate(trace, device="fixed:300", policies="noop,bid")
    for answer in (result, result.streams):
        assert addresses(pa.table(answer)) == addresses(pa.table(answer))


def test_a_trace_comes_in_batches(trace):
    reader = pa.RecordBatchReader.from_stream(trace)
    assert 60_000 < reader.read_next_batch().num_rows < trace.records
    lengths = [len(batch) for batch in trace.batches()]
    assert len(lengths) > 1 and sum(lengths) == trace.records
    assert lengths[0] == len(pl.DataFrame(next(trace.batches())))


@pytest.mark.parametrize(
    "opened",
    [pa.table, lambda t: pa.table(t).to_batches()[0], pl.DataFrame, pd.DataFrame.from_arrow]
    if hasattr(pd.DataFrame, "from_arrow")
    else [pa.table, pl.DataFrame],
)
def test_tables_are_traces(trace, tmp_path, opened):
    table = opened(trace)
    rows = len(table)
    described = forebay.describe(table, names=trace)
    assert described["records"] == rows
    if rows == trace.records:
        assert described == forebay.describe(trace)
    assert forebay.convert(table, tmp_path / "out.parquet", names=trace) == rows
    back = forebay.read(tmp_path / "out.parquet")
    assert back.streams == trace.streams and back.records == rows


def test_pandas_keeps_what_it_was_given(trace):
    assert forebay.describe(trace.to_pandas(), names=trace) == forebay.describe(trace)


def test_a_filtered_frame_is_simulated_and_advised(trace):
    reads = pl.DataFrame(trace).filter(pl.col("op") == "read")
    described = forebay.describe(reads, names=trace)
    assert (described["writes"], described["reads"]) == (0, reads.height)
    names = {row["label"] for row in forebay.describe(trace)["by_stream"]["rows"]}
    assert names & {row["label"] for row in described["by_stream"]["rows"]}
    result = forebay.simulate(reads, device="fixed:300", policies="noop")
    assert result.runs[0]["requests"] == reads.height
    advice = forebay.advise(reads, device="fixed:300", names=trace)
    assert advice.to_dict()["description"]["reads"] == reads.height


def test_names_cross_with_the_schema_or_are_numbers(trace):
    table = pa.table(trace)
    assert forebay.describe(table) == forebay.describe(trace)
    bare = forebay.describe(table.replace_schema_metadata(None))
    assert bare["by_stream"]["rows"][0]["label"].isdigit()


def test_names_of_a_text_are_found_by_reading_it(tmp_path):
    spc = tmp_path / "trace.spc"
    spc.write_text("3,5,512,R,0.0\n4,5,512,W,0.5\n")
    trace = forebay.read(spc)
    assert (trace.format, trace.records, len(trace.volumes)) == ("spc", 2, 2)
    assert pl.DataFrame(trace)["at_ns"].to_list() == [0, 500_000_000]
    assert forebay.describe(pl.DataFrame(trace), names=trace)["volumes"] == 2


def test_results_are_tables(trace):
    result = forebay.simulate(trace, device="sata250", policies="noop,bid")
    frame = result.to_polars()
    for row, run in zip(frame.to_dicts(), result.runs, strict=True):
        assert row == {k: v for k, v in run.items() if not isinstance(v, list | dict)}
    streams = result.streams.to_pandas()
    assert len(streams) == sum(len(run["streams"]) for run in result.runs)
    assert list(streams)[:2] == ["policy", "stream"]
    assert pa.table(result.streams)["stream"][0].as_py() == result.runs[0]["streams"][0]["stream"]
