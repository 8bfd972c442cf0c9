"""Tests that traces and results are passed as Arrow data, complete and without copies, and can be used as traces
again.
"""

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
    """Returns the addresses of a pyarrow table's buffers."""
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
    with pytest.raises(forebay.Error, match="compressed with Brotli.*--features brotli"):
        forebay.describe(path)


def test_integers_that_pandas_made_floats_are_read(tmp_path):
    frame = pd.DataFrame({"at_ns": [0, 1000], "op": "read", "offset": [0, 4096], "len": 512})
    frame["latency_ns"] = [7_000_000, None]
    assert frame["latency_ns"].dtype == "float64"
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    assert pl.DataFrame(forebay.read(path))["latency_ns"].to_list() == [7_000_000, None]
    # Missing values are NaN, as in Polars columns created from numpy arrays.
    pl.DataFrame({name: frame[name].to_numpy() for name in frame.columns if name != "op"}).with_columns(
        op=pl.lit("read")
    ).write_parquet(path)
    assert pl.DataFrame(forebay.read(path))["latency_ns"].to_list() == [7_000_000, None]
    frame["latency_ns"] = [7_000_000, 0.5]
    frame.to_parquet(path)
    with pytest.raises(forebay.Error, match=r"row 2: got \"0.5\" in column latency_ns"):
        forebay.describe(path)


def requests(**columns):
    """Returns a table of three requests; `columns` replaces or adds columns."""
    own = {
        "at_ns": [0, 1000, 2000], "op": ["read", "write", "read"],
        "offset": [0, 4096, 8192], "len": [512, 1024, 2048],
    }
    return pa.table({name: column for name, column in (own | columns).items() if column is not None})


def rows_both_ways(table, tmp_path):
    """Returns the rows of the table directly and through pyarrow's Parquet, which are equal."""
    forebay.convert(table, tmp_path / "direct.parquet")
    pq.write_table(table, tmp_path / "file.parquet")
    direct, file = (forebay.read(tmp_path / f"{name}.parquet") for name in ("direct", "file"))
    assert pa.table(direct).to_pylist() == pa.table(file).to_pylist()
    assert (direct.streams, direct.volumes) == (file.streams, file.volumes)
    return direct


def test_columns_of_every_type_are_read(tmp_path):
    plain = pa.table(rows_both_ways(requests(), tmp_path)).to_pylist()
    ops = ["read", "write", "read"]
    unused = pa.DictionaryArray.from_arrays(pa.array([1, 2, 1], pa.int8()), ["nothing", "read", "write"])
    for texts in [
        pa.array(ops, pa.large_string()), pa.array(ops, pa.string_view()),
        pa.array(ops).dictionary_encode(), pa.array(ops).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_string())),
        unused,
    ]:
        assert pa.table(rows_both_ways(requests(op=texts), tmp_path)).to_pylist() == plain, texts.type
    for kind in [pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()]:
        lens = pa.array([512, 1024, 2048]).cast(kind) if kind != pa.float16() else pa.array([512.0, 1024.0, 2048.0], kind)
        assert pa.table(rows_both_ways(requests(len=lens), tmp_path)).to_pylist() == plain, kind
    for unit, ns in [("s", 10**9), ("ms", 10**6), ("us", 1000), ("ns", 1)]:
        for zone in (None, "Europe/Berlin"):
            times = pa.array([7, 8, 10], pa.timestamp(unit, zone))
            read = rows_both_ways(requests(at_ns=None, timestamp=times), tmp_path)
            assert pa.table(read)["at_ns"].to_pylist() == [0, ns, 3 * ns], times.type
        # Parquet has no type for durations, so their unit is stored only in Arrow's own schema.
        spans = pa.array([2, None, 3], pa.duration(unit))
        for name in ("response_time", "latency_us"):
            read = rows_both_ways(requests(**{name: spans}), tmp_path)
            assert pa.table(read)["latency_ns"].to_pylist() == [2 * ns, None, 3 * ns], (unit, name)
    writes = rows_both_ways(requests(op=None, is_write=pa.array([False, True, False])), tmp_path)
    assert pa.table(writes).to_pylist() == plain


def test_names_of_every_type_are_read_and_may_be_missing(tmp_path):
    names = ["b", None, "a"]
    of_null = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), ["b", None, "a"])
    none = pa.DictionaryArray.from_arrays(pa.array([None] * 3, pa.int8()), pa.array([], pa.string()))
    for kind, column in [
        ("plain", pa.array(names)), ("large", pa.array(names, pa.large_string())),
        ("view", pa.array(names, pa.string_view())), ("dictionary", pa.array(names).dictionary_encode()),
    ]:
        streams = rows_both_ways(requests(comm=column), tmp_path).streams
        assert [stream["name"] for stream in streams] == ["b", "", "a"], kind
    for column, expected in [(of_null, ["b", "", "a"]), (none, [""])]:
        forebay.convert(requests(comm=column), tmp_path / "t.parquet")
        assert [s["name"] for s in forebay.read(tmp_path / "t.parquet").streams] == expected


@pytest.mark.parametrize(("columns", "told"), [
    ({"op": pa.array([0, 1, 2])}, "type Int64 in column op, expected a string type"),
    ({"op": pa.array(["read", None, "read"])}, "row 2: got null in column op"),
    ({"op": pa.array(["read", "read", "rite"])}, 'row 3: got "rite" in column op'),
    ({"len": pa.array([512, -5, 512])}, 'row 2: got "-5" in column len'),
    ({"len": pa.array([512, 0.5, 512])}, 'row 2: got "0.5" in column len'),
    ({"len": pa.array([[1], [2], [3]])}, "type List.* in column len, expected an integer type"),
    ({"len": pa.array([1, 2, 3], pa.decimal128(9, 0))}, "type Decimal.* in column len, expected an integer"),
    ({"offset": pa.array([0, 1 << 63, 0], pa.uint64())}, 'row 2: got "9223372036854775808" in column offset'),
    ({"len": None}, "a column len"),
])
def test_tables_and_files_are_refused_alike(tmp_path, columns, told):
    table = requests(**columns)
    pq.write_table(table, tmp_path / "t.parquet")
    for given in (table, tmp_path / "t.parquet"):
        with pytest.raises(forebay.Error, match=told):
            forebay.describe(given)


def test_parquet_has_the_types_that_arrow_reads(trace, tmp_path):
    forebay.convert(trace, tmp_path / "t.parquet")
    text = pa.dictionary(pa.int8(), pa.string())
    u32 = pa.uint32()
    kinds = [pa.int64(), text, pa.uint64(), u32, u32, u32, pa.int64(), text]
    schema = pq.read_schema(tmp_path / "t.parquet")
    assert list(zip(schema.names, schema.types, strict=True)) == list(zip(COLUMNS, kinds, strict=True))
    assert [field.nullable for field in schema] == [name == "latency_ns" for name in COLUMNS]
    assert pl.read_parquet(tmp_path / "t.parquet").height == trace.records


def test_nothing_is_copied_on_the_way(trace):
    before = pa.total_allocated_bytes()
    table = pa.table(trace)
    assert table.nbytes > 1 << 20
    assert pa.total_allocated_bytes() == before, "pyarrow allocated: it has copied"
    result = forebay.simulate(trace, device="fixed:300", policy="noop,bid")
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
    assert forebay.convert(table, tmp_path / "out.parquet", names=trace)["requests"] == rows
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
    result = forebay.simulate(reads, device="fixed:300", policy="noop")
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
    result = forebay.simulate(trace, device="sata250", policy="noop,bid")
    frame = result.to_polars()
    for row, run in zip(frame.to_dicts(), result.runs, strict=True):
        assert row == {k: v for k, v in run.items() if not isinstance(v, list | dict)}
    streams = result.streams.to_pandas()
    assert len(streams) == sum(len(run["streams"]) for run in result.runs)
    assert list(streams)[:2] == ["policy", "stream"]
    assert pa.table(result.streams)["stream"][0].as_py() == result.runs[0]["streams"][0]["stream"]
