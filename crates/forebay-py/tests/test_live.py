"""Tests `play`, `capture` and `device_*`: they do what the command does, and reject the same. No test depends on the
speed of the machine.
"""

import json
import os
import signal
import subprocess
import threading
import time

import polars as pl
import pytest
from conftest import ROOT, TERASORT

import forebay

ROWS = 40


@pytest.fixture
def small():
    """Returns some reads and writes of 4 KiB, a millisecond apart."""
    return pl.DataFrame({
        "at_ns": [n * 1_000_000 for n in range(ROWS)],
        "op": ["write" if n % 3 == 0 else "read" for n in range(ROWS)],
        "offset": [n * 7919 % 512 * 4096 for n in range(ROWS)],
        "len": [4096] * ROWS,
    })


def test_a_trace_is_played_on_a_file_as_the_command_does(small, tmp_path, command):
    trace = tmp_path / "trace.parquet"
    forebay.convert(small, trace)
    with pytest.warns(forebay.TraceWarning, match="the extent of the trace, and is empty"):
        told = forebay.play(trace, target=tmp_path / "ours")
    theirs = command("play", trace, "--target", tmp_path / "theirs", "--format", "json")
    theirs = json.loads(theirs.stdout)
    assert set(told) == set(theirs) - {"schema_version"}
    for key in ("requests", "reads", "writes", "ios", "policy", "replay", "result", "trace"):
        assert told[key] == theirs[key], key
    assert (told["requests"], told["writes"], told["result"]) == (ROWS, 14, "measured")
    assert (tmp_path / "ours").stat().st_size == (tmp_path / "theirs").stat().st_size


def test_what_is_there_is_kept(small, tmp_path, command):
    there = tmp_path / "there"
    there.write_bytes(b"mine" * (1 << 20))
    trace = tmp_path / "trace.csv"
    forebay.convert(small, trace)
    said = command("play", trace, "--target", there).stderr
    with pytest.raises(forebay.Error, match="overwrite=True") as caught:
        forebay.play(trace, target=there)
    assert said.replace("--overwrite", "overwrite=True") == f"forebay: {caught.value}\n"
    assert there.read_bytes() == b"mine" * (1 << 20)
    # Playing only reads needs no permission to overwrite.
    reads = small.filter(pl.col("op") == "read")
    assert forebay.play(reads, target=there)["writes"] == 0
    assert there.read_bytes() == b"mine" * (1 << 20)
    assert forebay.play(trace, target=there, overwrite=True)["writes"] == 14
    assert there.read_bytes() != b"mine" * (1 << 20)
    # Make the file of the trace long enough to be a target.
    long = pl.concat([small.with_columns(pl.col("at_ns") + n * 10**9) for n in range(10)])
    forebay.convert(long, trace)
    before = trace.read_bytes()
    with pytest.raises(forebay.Error, match="the trace itself"):
        forebay.play(trace, target=trace, overwrite=True)
    assert trace.read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: needs root")
def test_a_mounted_device_is_refused(small, tmp_path):
    image, place = tmp_path / "image", tmp_path / "mounted"
    image.write_bytes(b"\0" * (4 << 20))
    place.mkdir()

    def run(*words):
        return subprocess.run(words, capture_output=True, text=True, check=False)

    loop = run("losetup", "--find", "--show", image).stdout.strip()
    mounted = loop and run("mkfs.ext4", "-q", loop).returncode == 0 and run("mount", loop, place).returncode == 0
    try:
        if not mounted:
            pytest.skip("SKIPPED: nothing can be mounted here")
        for device in (loop, image):
            with pytest.raises(forebay.Error, match="in use|mounted"):
                forebay.play(small, target=device, overwrite=True)
    finally:
        if mounted:
            run("umount", place)
        if loop:
            run("losetup", "--detach", loop)


def test_volumes_go_where_they_are_told(small, tmp_path):
    trace = tmp_path / "trace.csv"
    forebay.convert(small.with_columns(volume=pl.int_range(ROWS, dtype=pl.UInt32) % 2), trace)
    names = forebay.read(trace).volumes
    targets = {name: tmp_path / f"disk{number}" for number, name in enumerate(names)}
    with pytest.warns(forebay.TraceWarning):
        told = forebay.play(trace, map_volume=targets)
    assert [target["target"] for target in told["targets"]] == [str(path) for path in targets.values()]
    with pytest.raises(forebay.Error, match="no volume 'nowhere'"):
        forebay.play(trace, map_volume={"nowhere": tmp_path / "x"})


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({}, "got nothing to play on"),
        ({"target": "x", "emulate": "sata250"}, "target: cannot be combined with emulate; leave one of them out"),
        ({"emulate": "sata250", "driver": "threads"}, "emulate: cannot be combined with driver"),
        ({"target": "x", "driver": "tape"}, "driver: got 'tape', expected io_uring or threads"),
        ({"target": "x", "fail": ["one-in=3"]}, "fail: has an effect only with emulate; add it"),
        ({"target": "x", "depth": 5000}, "depth: got '5000'"),
        ({"emulate": "sata25"}, "sata25"),
        ({"emulate": "sata250", "policy": "nop"}, "nop"),
        ({"emulate": "sata250", "for_": "soon"}, "for_: got 'soon'"),
    ],
)
def test_bad_words_are_named_and_nothing_is_begun(small, tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(forebay.Error, match=text):
        forebay.play(small, **words)
    assert list(tmp_path.iterdir()) == []


def test_without_a_trace_nothing_is_played():
    with pytest.raises(forebay.Error, match="trace: missing"):
        forebay.play(emulate="sata250")


def test_ctrl_c_ends_a_run_and_other_threads_go_on(small):
    slow = small.with_columns(pl.col("at_ns") * 100_000)
    counted = [0, False]

    def count():
        while not counted[1]:
            counted[0] += 1
            time.sleep(0.001)
            if counted[0] == 50:
                os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=count)
    try:
        with pytest.raises(KeyboardInterrupt):
            other.start()
            forebay.play(slow, emulate="sata250")
    finally:
        counted[1] = True
        other.join()
    assert counted[0] >= 50


def test_capture_refuses_what_is_no_device(tmp_path, command):
    output = tmp_path / "x.parquet"
    said = command("capture", TERASORT, "-o", output, "--for", "1s").stderr
    with pytest.raises(forebay.Error) as caught:
        forebay.capture(TERASORT, output, for_="1s")
    assert said == f"forebay: {caught.value}\n" and not output.exists()
    with pytest.raises(forebay.Error, match="via: got 'air', expected any, blktrace or tracefs"):
        forebay.capture(TERASORT, output, for_="1s", via="air")
    with pytest.raises(forebay.Error, match="for_: got '0s'|for_"):
        forebay.capture(TERASORT, output, for_="0s")


def test_a_device_is_imported_and_validated(tmp_path, answer):
    text = (ROOT / "fuzz" / "seeds" / "disksim" / "beside").read_text()
    specs, drive = tmp_path / "x.diskspecs", tmp_path / "x.toml"
    specs.write_text(text)
    (tmp_path / "m.model").write_text(text)
    told = forebay.device_import(specs, drive)
    assert any("Oddity = 7 is not modeled" in note for note in told["notes"])
    assert drive.read_text() == told["text"] == forebay.device_import(specs)["text"]
    trace = tmp_path / "x.trace"
    trace.write_text("R Hit 10 4 5000.0 2000.0\nW Hit 14 4 900.0 20000.0\n")
    validation = forebay.device_validate(drive, trace)
    assert validation == answer("device", "validate", drive, trace) and validation["requests"] == 2
    assert forebay.device_validate(drive, trace, arrivals="measured")["arrivals"] == "measured"
    with pytest.raises(forebay.Error, match="an input file"):
        forebay.device_import(specs, specs)
    with pytest.raises(forebay.Error, match="arrivals: got 'x', expected simulated or measured"):
        forebay.device_validate(drive, trace, arrivals="x")


def test_a_fit_says_what_is_missing_and_writes_nothing(tmp_path, command):
    output = tmp_path / "mine.toml"
    said = command("device", "fit", tmp_path, "--capacity", 10**12, "-o", output).stderr
    with pytest.raises(forebay.Error, match="measure-a-drive") as caught:
        forebay.device_fit(tmp_path, output, capacity=10**12)
    assert said == f"forebay: {caught.value}\n" and not output.exists()
    with pytest.raises(FileNotFoundError) as caught:
        forebay.device_fit(tmp_path / "nowhere", output, capacity=10**12)
    assert isinstance(caught.value, forebay.Error)


def test_a_sweep_is_fitted_and_compared_as_the_command_does(tmp_path, answer):
    def job(depth, iops, mean, p50, p99):
        latency = {"mean": mean * 1e3, "max": p99 * 3e3, "percentile": {"50.000000": p50 * 1e3, "99.000000": p99 * 1e3}}
        options = {"rw": "randread", "bs": "4k", "iodepth": str(depth), "ioengine": "libaio"}
        return {"jobname": "a", "groupid": depth, "job options": options, "read": {"iops": iops, "clat_ns": latency}}

    # An Intel D3-S4610 (fio-plot, benchmark_data/SERVER/IBM_M1015).
    rows = [(1, 7816.3, 125.4, 110.1, 146.4), (4, 29526.56, 133.5, 119.3, 203.8), (32, 63110.33, 505.4, 505.9, 692.2)]
    results, output = tmp_path / "depth.json", tmp_path / "mine.toml"
    results.write_text(json.dumps({"jobs": [job(*row) for row in rows]}))
    with pytest.warns(match="capacity"):
        fitted = forebay.device_fit([results], output, kind="ssd")
    assert fitted["kind"] == "ssd" and len(fitted["rows"]) == 3 and fitted["iops_error_share"] < 0.1
    validation = forebay.device_validate(output, [results])
    assert validation == answer("device", "validate", output, results) and validation["rows"] == fitted["rows"]
    assert forebay.devices(output)["rows"][0]["evidence"]["basis"] == "fitted"
    with pytest.raises(forebay.Error, match="kind: got 'tape', expected hdd or ssd"):
        forebay.device_fit(results, output, kind="tape")
