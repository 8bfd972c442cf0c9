"""Tests that the verbs return the same as the command."""

import json
import re

import polars as pl
import pytest
from conftest import TERASORT

import forebay


def timeless(runs):
    """Returns runs without the simulator's speed, which differs from run to run."""
    return [{k: v for k, v in run.items() if k != "simulated_requests_per_s"} for run in runs]


@pytest.mark.parametrize("stream_by", ["thread", "process", "name"])
def test_describe(answer, trace, stream_by):
    expected = answer("describe", TERASORT, "--stream-by", stream_by)
    assert forebay.describe(str(TERASORT), stream_by=stream_by) == expected
    described = forebay.describe(trace, stream_by=stream_by)
    assert described == expected and list(described) == list(expected)


@pytest.mark.parametrize("replay", ["open", "closed"])
def test_simulate(answer, trace, replay):
    options = ["--replay", replay, "--intensity", "10", "--map", "wrap", "--policy", "bid,noop"]
    expected = answer("simulate", TERASORT, "--device", "sata250", *options)
    result = forebay.simulate(
        trace, device="sata250", policy=["bid", "noop"], replay=replay, intensity=10, map="wrap"
    )
    assert timeless(result.runs) == timeless(expected["runs"])
    assert result.to_dict()["trace"] == expected["trace"]


def test_simulate_with_flash(answer, trace):
    options = ["--flash", "samsung-830", "--disks", "2", "--policy", "bid-hybrid,cfq"]
    expected = answer("simulate", TERASORT, "--device", "sata250", *options)
    result = forebay.simulate(
        trace, device="sata250", flash="samsung-830", disks=2, policy="bid-hybrid,cfq"
    )
    assert timeless(result.runs) == timeless(expected["runs"])
    hybrid, cfq = result.runs
    assert [device["role"] for device in hybrid["devices"]] == ["disk", "disk", "flash"]
    assert hybrid["placement"]["offloaded_requests"] > 0 and cfq["placement"] == {}
    assert hybrid["write_amplification"] >= 1 and cfq["write_amplification"] is None
    assert result.to_polars()["erases"].to_list() == [hybrid["erases"], None]
    with pytest.raises(forebay.Error, match="expected one in addition to the disk; specify it as the flash"):
        forebay.simulate(trace, device="sata250", policy="cache")
    with pytest.raises(ValueError, match="disks: got '0', expected a number from 1 to 256"):
        forebay.simulate(trace, device="sata250", policy="noop", disks=0)


def test_cache(answer, trace):
    options = ["--block-kib", "64", "--sizes-mib", "1,64.5"]
    expected = answer("cache", TERASORT, *options)
    curve = forebay.cache(trace, block_kib=64, sizes_mib=[1, 64.5])
    assert curve["points"] == expected["points"] and len(curve["points"]) > 50
    simulated = [point for point in curve["points"] if point["s3fifo_miss_ratio"] is not None]
    assert [point["size_blocks"] for point in simulated] == [16, 1032]
    with pytest.raises(forebay.Error, match="got 0 MiB"):
        forebay.cache(trace, sizes_mib=[0])


def test_describe_threads(answer, trace):
    options = ["--threads", "--limit", "3", "--period", "2s"]
    expected = answer("describe", TERASORT, *options)["by_thread"]
    found = forebay.describe(trace, threads=True, limit=3, period="2s")["by_thread"]
    assert found == expected and len(found["rows"]) == 3 and found["period_s"] == 2
    everyone = forebay.describe(trace, threads=True, limit=4096)["by_thread"]
    assert len(everyone["rows"]) == everyone["threads"] > 3
    assert "by_thread" not in forebay.describe(trace)
    with pytest.raises(forebay.Error, match="period: got 'soon'"):
        forebay.describe(trace, threads=True, period="soon")


def test_plan_capacity(answer, trace):
    options = ["--within", "5ms,20ms", "--fraction", "0.9995,1", "--by", "volume"]
    expected = answer("plan", "capacity", TERASORT, *options, "--confidence", "0.9")
    keywords = {"within": ["5ms", "20ms"], "by": "volume", "confidence": 0.9}
    found = forebay.plan_capacity(trace, fraction=[0.9995, "1"], **keywords)
    assert found["rows"] == expected["rows"] and list(found) == list(expected)
    with pytest.raises(forebay.Error, match="above 0 and at most 1"):
        forebay.plan_capacity(trace, fraction=[1.5])
    with pytest.raises(forebay.Error, match="confidence: got '2'"):
        forebay.plan_capacity(trace, confidence=2.0)
    small = forebay.plan_capacity(trace, fraction=[0.00001], within=["5ms"])["rows"]
    assert [(row["fraction"], row["capacity_iops"]) for row in small] == [(0.00001, 200)]
    for wrong in ({"fraction": []}, {"within": []}, {"fraction": [float("nan")]}):
        with pytest.raises(forebay.Error, match=next(iter(wrong))):
            forebay.plan_capacity(trace, **wrong)
    twice = forebay.plan_capacity(trace, fraction=[0.9, "0.90"], within=["10ms", "10ms"])
    assert len(twice["rows"]) == 1 and any("counts as one" in said for said in twice["cautions"])


def test_a_clock_as_coarse_as_the_promise_is_refused(tmp_path):
    coarse = tmp_path / "coarse.spc"
    coarse.write_text("".join(f"0,{k},4096,R,{k // 5 * 0.05:.6f}\n" for k in range(500)))
    for plan in (forebay.plan_capacity, forebay.plan_consolidate):
        with pytest.raises(forebay.Error, match="trust_times=True"):
            plan(coarse, within=["10ms"])
        with pytest.warns(forebay.TraceWarning, match="clock steps by 50"):
            found = plan(coarse, within=["10ms"], trust_times=True)
        assert any("clock steps by 50" in said for said in found["cautions"])


def as_called(answer):
    """Replaces names of inputs with their Python names, because each interface spells them differently."""
    return json.loads(re.sub(r"--([a-z-]+)", lambda name: name[1].replace("-", "_"), json.dumps(answer)))


def test_plan_consolidate(answer, trace):
    expected = answer("plan", "consolidate", TERASORT, "--shift", "0s,2s", "--clients", "3")
    found = forebay.plan_consolidate(trace, shift=["0s", "2s"], clients=3)
    assert found["rows"] == expected["rows"] and len(found["clients"]) == 3
    assert [client["client"] for client in found["clients"]] == [1, 2, 3]
    assert all(1 <= row["worst_client"] <= 3 for row in found["rows"])
    expected = answer("plan", "consolidate", TERASORT, TERASORT, "--fraction", "0.99")
    found = forebay.plan_consolidate([trace, TERASORT], fraction=[0.99])
    assert found["rows"] == expected["rows"]
    with pytest.raises(forebay.Error, match="clients: got '1', expected a number from 2 to 1000"):
        forebay.plan_consolidate(trace, clients=1)
    with pytest.raises(forebay.Error, match="clients: got 3 with 2 traces"):
        forebay.plan_consolidate([trace, TERASORT], clients=3)
    for wrong in ({"shift": []}, {"within": []}, {"fraction": []}):
        with pytest.raises(forebay.Error, match=f"{next(iter(wrong))}: got none"):
            forebay.plan_consolidate(trace, **wrong)
    with pytest.warns(forebay.TraceWarning, match="before the next begins"):
        forebay.plan_consolidate(trace, shift=["1h"])
    with pytest.raises(forebay.Error, match="traces: got none"):
        forebay.plan_consolidate([])
    with pytest.raises(forebay.Error, match="shift"):
        forebay.plan_consolidate(trace, shift=["soon"])


def test_plans_count_bytes_where_they_cost(answer, trace):
    tiers, cost = [(0.9, 20), (1, 500)], "100+20/KiB"
    options = ["--within", "20ms", "--fraction", "0.9,1", "--cost-us", cost]
    asked = {"within": ["20ms"], "fraction": [0.9, 1], "cost_us": cost}
    expected = answer("plan", "capacity", TERASORT, *options)
    found = forebay.plan_capacity(trace, **asked)
    assert {**found, "trace": expected["trace"]} == expected and found["cost_us"] == cost
    expected = answer("plan", "consolidate", TERASORT, *options, "--shift", "1s")
    found = forebay.plan_consolidate(TERASORT, shift=["1s"], **asked)
    assert found == expected and len(found["clients"]) == 2
    priced = forebay.plan_sla(tiers, trace, cost_us=cost)
    assert priced["floor_speed"] <= priced["fcfs_speed"] and len(priced["tiers"]) == 2
    with pytest.raises(forebay.Error, match="cost_us: got '1/MiB'"):
        forebay.plan_sla(tiers, trace, cost_us="1/MiB")
    with pytest.raises(forebay.Error, match="cost_us: cannot be combined with capacity"):
        forebay.plan_sla(tiers, trace, cost_us=cost, capacity=100)
    for other in ({"by": "volume"}, {"confidence": 0.9}, {"hold_out": 0.3}):
        with pytest.raises(forebay.Error, match=f"cost_us: cannot be combined with {next(iter(other))}"):
            forebay.plan_capacity(trace, cost_us=cost, **other)
    with pytest.raises(forebay.Error, match="no device 'wheel'"):
        forebay.plan_consolidate(trace, cost_us="wheel")


def test_plan_power(answer, trace):
    options = ["--epoch", "3s", "--off-w", "0", "--pool-disks", "2", "--history", "3"]
    options += ["--device", "travelstar-5k320"]
    expected = answer("plan", "power", TERASORT, *options, "--fraction", "0.95")
    keywords = {"epoch": "3s", "off_w": 0, "pool_disks": 2, "history": 3}
    keywords["device"] = "travelstar-5k320"
    found = forebay.plan_power(trace, fraction=0.95, **keywords)
    found["traces"][0]["trace"] = expected["traces"][0]["trace"]
    assert as_called(found) == as_called(expected)
    for wrong in ({"off_w": -1}, {"pool_disks": 0}, {"epoch": "0s"}, {"fraction": 2}):
        with pytest.raises(forebay.Error, match=next(iter(wrong))):
            forebay.plan_power(trace, **wrong)
    with pytest.raises(forebay.Error, match="50 W when off"):
        forebay.plan_power(trace, off_w=50)
    with pytest.raises(forebay.Error, match="spins up"):
        forebay.plan_power(trace, epoch="3s")
    with pytest.warns(forebay.TraceWarning, match="only one epoch"):
        forebay.plan_power(trace)


def test_plan_sla(answer, trace, tmp_path):
    promise = tmp_path / "promise.toml"
    tiers = [(0.9, 20), (0.99, 50.5), (1, 500)]
    line = "[[tier]]\nfraction = {}\nwithin_ms = {}\n".format
    promise.write_text("".join(line(*tier) for tier in tiers))
    expected = answer("plan", "sla", promise, TERASORT, "--capacity", "100")
    for given in (promise, tiers):
        found = forebay.plan_sla(given, trace, capacity=100)
        assert as_called({**found, "trace": expected["trace"]}) == as_called(expected)
    with pytest.raises(forebay.Error, match="capacity: got '0', expected a number from 1"):
        forebay.plan_sla(tiers, trace, capacity=0)
    with pytest.raises(forebay.Error, match="contradict"):
        forebay.plan_sla([(0.9, 50), (0.8, 500)], trace)
    with pytest.raises(forebay.Error, match="tier 1: got 'NaN'"):
        forebay.plan_sla([(float("nan"), 50)], trace)


def test_compare(answer, trace, tmp_path):
    command = ["--device", "990-pro,fixed:100", "--seed", "3", "--block-kib", "64"]
    expected = answer("compare", TERASORT, TERASORT, *command)
    card = tmp_path / "card.html"
    keywords = {"device": ["990-pro", "fixed:100"], "seed": 3, "block_kib": 64, "report": card}
    with pytest.warns(forebay.TraceWarning, match="backlog"):
        found = forebay.compare(trace, TERASORT, **keywords)
    assert found["verdict"]["faithful"] and card.read_text().startswith("<!DOCTYPE html>")
    for side in ("a", "b"):
        found[side]["trace"] = expected[side]["trace"]
    found["verdict"]["text"] = expected["verdict"]["text"]
    # The command and the package spell the names of inputs differently.
    found["cautions"] = expected["cautions"]
    assert found == expected
    with pytest.raises(forebay.Error, match="block_kib: got '0'"):
        forebay.compare(trace, trace, block_kib=0)


def test_fit_and_generate(trace, tmp_path):
    model, twin, other = (tmp_path / name for name in ("model.json", "a.parquet", "b.parquet"))
    said = forebay.fit(trace, model, level=2)
    assert said["ranges"] == 16 and said["model_bytes"] == len(model.read_bytes()) <= 64 << 10
    assert "the distribution of sizes" in said["stands_in"]
    assert forebay.generate(model, twin, seed=2)["requests"] == len(trace.to_pyarrow())
    assert forebay.generate(model, other, seed=2, requests=1000)["requests"] == 1000
    same = forebay.read(twin).to_pyarrow().slice(0, 1000)
    assert forebay.read(other).to_pyarrow()["offset"].equals(same["offset"])
    with pytest.raises(ValueError, match="level"):
        forebay.fit(trace, model, level=0)
    part = forebay.generate(model, other, seed=2, for_="30s")["requests"]
    late = [n for n, at in enumerate(forebay.read(twin).to_pyarrow()["at_ns"].to_pylist()) if at < 30_000_000_000]
    assert 0 < part < trace.records and len(late) == part
    for wrong, why in [
        ({"requests": 1, "for_": "30s"}, "for_: cannot be combined with requests"),
        ({"requests": 0}, "requests: got '0'"),
        ({"for_": "30"}, "for_: "),
    ]:
        with pytest.raises(forebay.Error, match=why):
            forebay.generate(model, tmp_path / "none.csv", **wrong)
    assert not (tmp_path / "none.csv").exists()
    model.write_text("{}")
    with pytest.raises(forebay.Error):
        forebay.generate(model, twin)


def test_generate_is_the_command_s(command, trace, tmp_path):
    model = tmp_path / "m.model"
    forebay.fit(trace, model, level=1, no_verdict=True)
    for name, words, options in [
        ("a.csv", ["--for", "30s", "--seed", "3"], {"for_": "30s", "seed": 3}),
        ("b.iolog", ["--requests", "500"], {"requests": 500}),
        ("c.fio", ["--requests", "500"], {"requests": 500}),
        ("d.txt", ["--to", "fio-job", "--intensity", "2"], {"to": "fio-job", "intensity": 2.0}),
        ("e.fio", ["--to", "fio", "--requests", "9"], {"to": "fio", "requests": 9}),
    ]:
        assert command("generate", model, "-o", tmp_path / f"command-{name}", *words).returncode == 0
        asked = forebay.generate(model, tmp_path / f"python-{name}", **options)["requests"]
        text = (tmp_path / f"python-{name}").read_text()
        assert text == (tmp_path / f"command-{name}").read_text(), name
        assert asked == options.get("requests", asked) and ("[volume0]" in text) == (name in ("c.fio", "d.txt"))


def test_policies_may_stand_in_one_text(trace):
    runs = forebay.simulate(trace, device="fixed:200", policy="noop,cfq:quantum=2").runs
    assert [run["policy"] for run in runs] == ["noop", "cfq:quantum=2"]


def test_advise(answer, short_path, tmp_path):
    expected = answer("advise", short_path, "-o", tmp_path / "command.html")
    advice = forebay.advise(short_path, report=tmp_path / "report.html")
    for key in ("verdict", "recommended", "headline", "cautions", "ranking"):
        assert getattr(advice, key) == expected[key] == advice.to_dict()[key]
    # Findings contain the names of options, which the command and the package spell differently.
    assert len(advice.findings) == len(expected["findings"]) > 3
    assert timeless(advice.runs) == timeless(expected["runs"])
    assert (tmp_path / "report.html").read_text() == advice.html
    assert pl.DataFrame(advice)["policy"].to_list() == [row["policy"] for row in advice.ranking]


def test_advise_says_which_redundancy_pays(answer, short_path, tmp_path):
    expected = answer("advise", short_path, "--array", "6", "-o", tmp_path / "command.html")["redundancy"]
    redundancy = forebay.advise(short_path, array=6).redundancy
    assert redundancy == expected and redundancy["drives"] == 6
    assert {one["name"]: one["regret_percent"] is not None for one in redundancy["tried"]}["adaptive"]
    with pytest.raises(ValueError, match="array: got '5', expected a number from 6 to 32"):
        forebay.advise(short_path, array=5)


def test_advise_writes_no_report_unasked(trace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forebay.advise(trace, device="fixed:300")
    assert list(tmp_path.iterdir()) == []


def test_convert_anonymized(command, trace, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(b"a secret that is long enough")
    told = command("convert", TERASORT, tmp_path / "command.csv", "--anonymize", "--key", key, "--cell-mib", 8)
    assert told.returncode == 0
    of = {"anonymize": True, "key": key, "cell_mib": 8}
    assert forebay.convert(trace, tmp_path / "python.csv", **of)["requests"] == trace.records
    text = (tmp_path / "python.csv").read_text()
    assert text == (tmp_path / "command.csv").read_text()
    assert "DataXceiver" not in text
    for wrong in [{"key": key}, {"anonymize": True, "cell_mib": 0}]:
        with pytest.raises(forebay.Error):
            forebay.convert(trace, tmp_path / "no.csv", **wrong)
    assert not (tmp_path / "no.csv").exists()


def test_convert(command, trace, tmp_path):
    assert command("convert", TERASORT, tmp_path / "command.csv").returncode == 0
    assert forebay.convert(trace, tmp_path / "python.csv")["requests"] == trace.records
    assert (tmp_path / "python.csv").read_text() == (tmp_path / "command.csv").read_text()


def test_convert_by_volume(command, trace, tmp_path):
    volumes = pl.DataFrame(trace).head(300).with_columns(volume=pl.int_range(300, dtype=pl.UInt32) % 3)
    whole = tmp_path / "whole.csv"
    forebay.convert(volumes, whole)
    assert forebay.convert(whole, tmp_path / "python", partition_by="volume")["requests"] == 300
    assert command("convert", whole, tmp_path / "command", "--partition-by", "volume").returncode == 0
    names = sorted(path.name for path in (tmp_path / "command").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "python").iterdir()) == ["0.parquet", "1.parquet", "2.parquet", "manifest.json"]
    for name in names:
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    # `convert` also accepts a Trace. Files that are already complete are not written again.
    assert forebay.convert(forebay.read(whole), tmp_path / "python", partition_by="volume")["requests"] == 300
    assert forebay.describe(tmp_path / "python")["volumes"] == 3
    for wrong, why in [
        ({"partition_by": "stream"}, "got 'stream', expected volume"),
        ({"partition_by": "volume", "to": "csv"}, "to: cannot be combined with partition_by"),
        ({"partition_by": "volume", "anonymize": True}, "cannot be combined with"),
    ]:
        with pytest.raises(forebay.Error, match=why):
            forebay.convert(whole, tmp_path / "none", **wrong)
    with pytest.raises(forebay.Error, match="got a table, expected a file"):
        forebay.convert(volumes, tmp_path / "none", partition_by="volume")
    with pytest.raises(forebay.Error, match="a folder with other files"):
        forebay.convert(whole, tmp_path, partition_by="volume")
    assert not (tmp_path / "none").exists()


def test_losses_are_warnings(command, tmp_path):
    spc = tmp_path / "trace.spc"
    spc.write_text("0,5,512,R,0.0\n0,5,0,R,0.1\n")
    with pytest.warns(forebay.TraceWarning) as told:
        forebay.convert(spc, tmp_path / "python.csv")
    said = command("convert", spc, tmp_path / "command.csv").stderr.splitlines()
    assert [f"forebay: {warning.message}" for warning in told] == said[: len(told)]
    assert "1 row without data was skipped" in str(told[0].message)


def test_plan_buy(answer, trace, tmp_path):
    options = ["--within", "50ms", "--fraction", "0.9", "--device", "990-pro,hc550", "--layout", "single"]
    with pytest.warns(forebay.TraceWarning, match="Models, not measurements"):
        found = forebay.plan_buy(
            trace,
            within="50ms",
            fraction=0.9,
            device=["990-pro", "hc550"],
            layout=["single"],
            report=tmp_path / "buy.html",
            configure=tmp_path / "conf",
        )
    assert as_called(found) == as_called(answer("plan", "buy", TERASORT, *options))
    assert (tmp_path / "buy.html").read_text().startswith("<!DOCTYPE html>")
    assert (tmp_path / "conf" / "serve.toml").read_text() == found["configuration"]["serve"]
    for wrong in (
        {"growth": 0.0},
        {"survives": 3},
        {"devices_max": 0},
        {"clients": "some"},
        {"layout": ["raid7"]},
        {"layout": []},
        {"device": []},
        {"within": "soon"},
        {"fraction": 2},
        {"promise": {"a": "5ms"}},
        {"promise": {"nobody": ("5ms", 0.9)}},
        {"prices": tmp_path / "none.toml"},
    ):
        name = next(iter(wrong)).removesuffix("s").removesuffix("e")
        with pytest.raises(forebay.Error, match=name if name != "pric" else "none.toml"):
            forebay.plan_buy(trace, **wrong)


def test_what_there_is_to_name_is_data(answer):
    assert forebay.devices() == answer("devices")
    assert forebay.policies() == answer("policies")
    assert forebay.formats() == answer("formats")
    assert forebay.formats("msr") == answer("formats", "msr")
    assert forebay.policies(["bid", "noop"]) == answer("policies", "bid", "noop")
    with pytest.raises(forebay.Error, match="no policy 'bids'"):
        forebay.policies("bids")
    [one] = forebay.devices("st1000nm0011")["rows"]
    assert one["device"] == "st1000nm0011" and one["assumed"]
    with pytest.raises(forebay.Error, match="no-such"):
        forebay.devices("no-such")


def test_a_text_is_read_by_the_columns_that_it_is_said_to_have(tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("".join(f"{n * 100} R {n * 8} 8\n" for n in range(500)))
    trace = forebay.read(text, columns="at:us,op:R/W,offset:sectors,len:sectors,sep=blank")
    assert len(trace) == trace.records == 500
    rows = trace.to_pyarrow().to_pydict()
    assert rows["offset"][3] == 3 * 8 * 512 and rows["at_ns"][3] == 300_000
    assert forebay.describe(trace)["reads"] == 500
    with pytest.raises(forebay.Error, match="got both"):
        forebay.read(text, from_="msr", columns="at:us,offset,len")
    with pytest.raises(forebay.Error, match="nonsense"):
        forebay.read(text, columns="nonsense")


def test_a_trace_shows_itself_in_notebooks_and_is_not_read_for_it(tmp_path):
    path = tmp_path / "<b>.spc"
    path.write_text("0,5,512,R,0.0\n" + 2 * "0,5,512,R,-1\n")
    trace = forebay.read(path)
    shown = trace._repr_html_()
    assert "&lt;b&gt;.spc" in shown and "the format spc" in shown
    columns = forebay.read(TERASORT).to_pyarrow().column_names
    assert [column for column in columns if f"<code>{column}</code>" not in shown] == []
    with pytest.raises(forebay.Error, match="line 2"):
        len(trace)


def test_results_show_themselves_in_notebooks(trace, short_path):
    result = forebay.simulate(trace, device="sata250", policy=["noop", "bid"])
    assert "noop" in result.headline
    shown = result._repr_html_()
    assert shown.startswith(f"<p>{result.headline}</p>") and shown.count("<tr>") == 3
    assert "<th>busy time</th>" in shown and re.search(r"<td>[\d.]+\xa0s</td>", shown), shown
    assert repr(result) == "forebay.Result(2 runs)"
    assert repr(forebay.simulate(trace, device="fixed:300", policy="noop")) == "forebay.Result(1 run)"
    advice = forebay.advise(short_path)
    assert "srcdoc=" in advice._repr_html_() and "<script" not in advice._repr_html_()
    pytest.importorskip("matplotlib")
    axes = result.plot().axes
    assert [axis.get_title() for axis in axes] == ["reads", "writes"]
    assert {line.get_label() for line in axes[0].lines} == {"noop", "bid"}
