"""Tests that errors are exceptions with the command's text."""

import polars as pl
import pytest
from conftest import TERASORT

import forebay


def test_bad_content_says_what_the_command_says(command, tmp_path):
    bad = tmp_path / "bad.spc"
    bad.write_text("0,5,512,R,0.0\n" + 2 * "0,5,512,R,-1\n")
    said = command("describe", bad)
    with pytest.raises(forebay.Error) as caught:
        forebay.describe(bad)
    told = str(caught.value).replace("with from_ or columns", "with --from or --columns")
    told = told.replace('bad_rows="67%"', "--bad-rows 67%")
    assert (said.returncode, said.stderr) == (2, f"forebay: {told}\n") and told != str(caught.value)
    assert isinstance(caught.value, ValueError) and "line 2" in str(caught.value)


def test_a_stream_that_breaks_off_says_why(tmp_path):
    bad = tmp_path / "bad.spc"
    bad.write_text("0,5,512,R,0.0\n" + 2 * "0,5,512,R,-1\n")
    trace = forebay.read(bad)
    with pytest.raises(forebay.Error, match="line 2"):
        trace.to_polars()
    with pytest.raises(Exception, match="line 2.* with from_ or columns"):
        pl.DataFrame(trace)


@pytest.mark.parametrize("verb", ["describe", "convert", "simulate", "advise", "read"])
def test_a_missing_file_is_a_missing_file(command, tmp_path, verb):
    absent = tmp_path / "absent.csv"
    call = {
        "describe": lambda: forebay.describe(absent),
        "convert": lambda: forebay.convert(absent, tmp_path / "out.csv"),
        "simulate": lambda: forebay.simulate(absent, device="fixed:9", policy="noop"),
        "advise": lambda: forebay.advise(absent),
        "read": lambda: forebay.read(absent),
    }[verb]
    with pytest.raises(FileNotFoundError) as caught:
        call()
    assert command("describe", absent).stderr == f"forebay: {caught.value}\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "sata25", "--policy", "noop"], {"device": "sata25", "policy": "noop"}),
        (["--device", "sata250", "--policy", "nop"], {"device": "sata250", "policy": "nop"}),
        (
            ["--device", "sata250", "--policy", "cfq:x=1"],
            {"device": "sata250", "policy": ["cfq:x=1"]},
        ),
    ],
)
def test_bad_options_say_what_the_command_says(command, options, words):
    with pytest.raises(forebay.Error) as caught:
        forebay.simulate(TERASORT, **words)
    assert command("simulate", TERASORT, *options).stderr == f"forebay: {caught.value}\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"replay": "ajar"}, "replay: got 'ajar', expected open, closed or dependent"),
        ({"map": "fold"}, "map: got 'fold', expected scale, wrap or clip"),
        ({"intensity": 0.0}, "intensity: got '0', expected a number from 1e-6 to 1e12"),
        ({"stream_by": "tenant"}, "expected thread, process or name"),
        ({"policy": []}, "policy: got none"),
        ({"from_": "elf"}, 'got the format name "elf"'),
    ],
)
def test_bad_words_are_named(trace, words, text):
    with pytest.raises(forebay.Error, match=text):
        forebay.simulate(trace, **{"device": "fixed:9", "policy": "noop"} | words)


def test_a_path_that_cannot_be_written_down_is_no_type_error():
    with pytest.raises(forebay.Error, match="expected text"):
        forebay.describe("\ud800")


def test_what_is_no_trace_is_a_type_error():
    with pytest.raises(TypeError, match="expected a path, a forebay.Trace"):
        forebay.describe(7)
    with pytest.raises(TypeError, match="collect"):
        forebay.describe(pl.LazyFrame({"at_ns": [0]}))


def test_a_table_names_the_column_and_row(trace):
    with pytest.raises(forebay.Error, match=r"^\(DataFrame\): .*column at_ns"):
        forebay.describe(pl.DataFrame({"x": [1]}))
    frame = pl.DataFrame({"at_ns": [0, -1], "op": "read", "offset": 0, "len": 512})
    with pytest.raises(forebay.Error, match=r"^\(DataFrame\), row 2: .*at_ns"):
        forebay.describe(frame)


def test_a_stream_that_is_used_up_has_no_requests(trace):
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(trace)
    assert forebay.describe(reader)["records"] == trace.records
    with pytest.raises(forebay.Error, match="got no requests"):
        forebay.describe(reader)


@pytest.mark.parametrize("by", ["name", "link", "hard link"])
def test_what_is_read_is_not_written_over(tmp_path, by):
    kept, model, output = tmp_path / "t.parquet", tmp_path / "m.json", tmp_path / "other"
    kept.write_bytes(TERASORT.read_bytes())
    forebay.fit(kept, model, level=1, no_verdict=True)
    drive = tmp_path / "d.toml"
    drive.write_text((TERASORT.parents[1] / "devices" / "sata250.toml").read_text())
    sla = tmp_path / "sla.toml"
    sla.write_text("[[tier]]\nfraction = 0.9\nwithin_ms = 20\n")
    verbs = [
        (kept, lambda to: forebay.convert(forebay.read(kept), to, to="csv")),
        (kept, lambda to: forebay.advise(kept, report=to)),
        (drive, lambda to: forebay.advise(kept, device=drive, report=to)),
        (kept, lambda to: forebay.compare(TERASORT, kept, report=to)),
        (kept, lambda to: forebay.cache(kept, report=to)),
        (kept, lambda to: forebay.simulate(kept, device="fixed:300", policy="noop", report=to)),
        (drive, lambda to: forebay.simulate(kept, device=drive, policy="noop", report=to)),
        (kept, lambda to: forebay.plan_capacity(kept, report=to)),
        (kept, lambda to: forebay.plan_consolidate([TERASORT, kept], report=to)),
        (kept, lambda to: forebay.plan_power(kept, report=to)),
        (sla, lambda to: forebay.plan_sla(sla, kept, report=to)),
        (kept, lambda to: forebay.plan_buy(kept, device=["hc550"], layout=["single"], report=to)),
        (kept, lambda to: forebay.fit(kept, to, no_verdict=True)),
        (model, lambda to: forebay.generate(model, to, to="csv")),
    ]
    for read, verb in verbs:
        output.unlink(missing_ok=True)
        if by == "link":
            output.symlink_to(read)
        elif by == "hard link":
            output.hardlink_to(read)
        before = read.read_bytes()
        with pytest.raises(forebay.Error, match="an input file"):
            verb(read if by == "name" else output)
        assert read.read_bytes() == before


def test_a_folder_that_is_not_there_is_an_os_error(trace, tmp_path):
    with pytest.raises(OSError, match="out.csv"):
        forebay.convert(trace, tmp_path / "absent" / "out.csv")
    with pytest.raises(OSError, match="cannot write the report"):
        forebay.advise(trace, device="fixed:300", report=tmp_path / "absent" / "report.html")


def test_options_in_messages_are_named_as_arguments(tmp_path):
    there = tmp_path / "there"
    there.write_bytes(bytes(4096))
    with pytest.raises(forebay.Error, match=r"or pass overwrite=True to allow this$"):
        forebay.play(TERASORT, target=there, for_="1s")
    with pytest.warns(forebay.TraceWarning, match=r"use a lower intensity or a faster device"):
        forebay.compare(TERASORT, TERASORT)
    with pytest.raises(forebay.Error, match=r'^flash="sata250": got a mechanical disk.* e.g. d7-p5520$'):
        forebay.simulate(TERASORT, device="sata250", flash="sata250", policy="noop")
