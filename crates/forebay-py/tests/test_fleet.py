"""Tests the questions about a fleet on volumes whose correct answers are known by construction, and optima against
exhaustive search.
"""

import itertools
import json
import random
import subprocess

import pyarrow as pa
import pytest
from conftest import ROOT

import forebay
from forebay import fleet
from forebay.fleet.flash import hull
from forebay.fleet.finding import shown
from forebay.fleet.schedulers import _Volume, choose, grouped
from forebay.fleet.together import matching
from forebay.fleet.asked import least, short


def trace_of(path, volumes):
    """Writes a trace as CSV; maps volumes to (seconds, offset in blocks, operation)."""
    rows = [(at, volume, block, op) for volume, of in volumes.items() for at, block, op in of]
    rows.sort()
    lines = ["at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name"]
    lines += [f"{round(at * 1e9)},{op},{block * 4096},4096,0,{volume},,,,," for at, volume, block, op in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def parted(tmp_path, volumes):
    """Writes the same trace as a folder of volumes."""
    trace = trace_of(tmp_path / "fleet.csv", volumes)
    folder = tmp_path / "fleet"
    binary = ROOT / "target/debug/forebay"
    subprocess.run([binary, "convert", trace, folder, "--partition-by", "volume"], check=True, capture_output=True)
    return folder


def bursts(at_s, count=50, every=10, times=10):
    """Returns bursts of this many reads within half a second, at this interval."""
    return [
        (at_s + turn * every + one / (2 * count), (turn * count + one) % 64, "read")
        for turn in range(times)
        for one in range(count)
    ]


def test_bursts_that_never_meet_share_and_those_that_always_do_never(tmp_path):
    # Two pairs: a and b burst in the same seconds, as do c and d.
    folder = parted(tmp_path, {"a": bursts(0), "b": bursts(0.1), "c": bursts(5), "d": bursts(5.1)})
    found = fleet.together(folder, output=tmp_path / "answers", fraction=1.0, report=tmp_path / "together.html")
    pairs = {tuple(sorted((row["volume_a"], row["volume_b"]))): row for row in found.rows if row["advice"] == "together"}
    never = {tuple(sorted((row["volume_a"], row["volume_b"]))) for row in found.rows if row["advice"] == "never"}
    assert never == {("a", "b"), ("c", "d")}
    assert len(pairs) == 2 and not never & set(pairs)
    assert all(row["saving_share"] == pytest.approx(0.5) for row in pairs.values())
    assert all(row["together_iops"] == 50 for row in pairs.values())
    assert found.more["saved_iops"] == 100 and "50.0 % less" in found.said[0]
    is_whole(found, tmp_path / "together.html")


def is_whole(found, page):
    """Checks the table, JSON, Arrow data and page of a finding."""
    told = json.loads(found.to_json())
    assert told["schema_version"] == 4 and told["rows"] == found.rows and told["said"] == found.said
    assert found.to_pyarrow().num_rows == len(found.rows)
    assert all(len(line) <= 100 for line in str(found).splitlines()), str(found)
    assert str(found).splitlines()[0] in found.said[0]
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")


def test_pairs_are_the_best_there_are():
    dice = random.Random(3)
    for count in (2, 3, 4, 5, 6, 7):
        for _ in range(30):
            names = [str(at) for at in range(count)]
            saved = {pair: dice.randrange(-2, 12) for pair in itertools.combinations(names, 2)}

            def best(left):
                if len(left) < 2:
                    return 0
                first, rest = left[0], left[1:]
                with_one = [saved[first, other] + best([o for o in rest if o != other]) for other in rest]
                return max(best(rest), *with_one)

            chosen = matching(names, saved)
            used = [name for pair in chosen for name in pair]
            assert len(used) == len(set(used))
            assert sum(saved[pair] for pair in chosen) == best(names), saved


def test_many_pairs_are_nearly_the_best():
    """Compares exchange with exhaustive search, for more volumes than are normally searched exhaustively."""
    dice = random.Random(5)
    names = [f"{at:02}" for at in range(20)]
    saved = {pair: dice.randrange(1, 100) for pair in itertools.combinations(names, 2)}
    chosen = matching(names, saved)
    assert len({name for pair in chosen for name in pair}) == 20
    # Exchanging partners between any two pairs never saves more.
    for (a, b), (c, d) in itertools.combinations(chosen, 2):
        now = saved[a, b] + saved[c, d]
        for one, two in (((a, c), (b, d)), ((a, d), (b, c))):
            assert saved[tuple(sorted(one))] + saved[tuple(sorted(two))] <= now


def test_the_least_that_leaves_out_no_more_is_the_least():
    dice = random.Random(1)
    for _ in range(400):
        counts = [dice.choice([0, 1, dice.randrange(30)]) for _ in range(dice.randrange(1, 12))]
        fraction = dice.choice([1.0, 0.99, 0.9, 0.75, 0.5, 0.1])
        total = sum(counts)
        tried = next(n for n in range(31) if sum(min(n, one) for one in counts) >= fraction * total - 1e-9)
        assert least(counts, fraction) == tried, (counts, fraction)
    assert least([], 0.9) == 0


def test_flash_goes_where_a_gibibyte_finds_most(tmp_path):
    # Volume "a" reads 100 blocks repeatedly, "b" reads ten times as many blocks a tenth as often,
    # and "c" never repeats a block.
    again = lambda blocks, times: [  # noqa: E731
        (turn + block / blocks / 2, block, "read") for turn in range(times) for block in range(blocks)
    ]
    once = [(at / 10, at, "read") for at in range(1000)]
    folder = parted(tmp_path, {"a": again(100, 100), "b": again(1000, 10), "c": once})
    kept = {"output": tmp_path / "answers"}
    found = fleet.flash(folder, **kept, budgets_gib=[0.0005, 1], report=tmp_path / "flash.html")
    assert [row["volume"] for row in found.rows] == ["a", "b"]
    a, b = found.rows
    assert a["its_gib"] == pytest.approx(100 * 4096 / 2**30, rel=0.2)
    assert b["its_gib"] == pytest.approx(1000 * 4096 / 2**30, rel=0.2)
    assert a["found_per_gib_s"] > 5 * b["found_per_gib_s"]
    # In 100 s, there are 10000 reads of a, 10000 of b and 1000 of c. The cache holds 99 % of those
    # of a and 90 % of those of b.
    assert b["found_per_s"] == pytest.approx((9900 + 9000) / 100, rel=0.02)
    small, large = found.more["budgets"]
    assert set(small["volumes"]) == {"a", "b"} and large["found_per_s"] == pytest.approx(b["found_per_s"])
    # The rest of the budget holds 31 of b's 1000 blocks. As b reads them in turn, LRU finds none of
    # them.
    assert small["found_per_s"] == pytest.approx(a["found_per_s"])
    is_whole(found, tmp_path / "flash.html")
    assert "<svg" in (tmp_path / "flash.html").read_text()


def test_a_hull_is_the_best_straight_line_between_points():
    dice = random.Random(2)
    for _ in range(200):
        curve = sorted((dice.randrange(1, 20), dice.randrange(20)) for _ in range(6))
        corners = hull(curve)
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(corners)]
        assert slopes == sorted(slopes, reverse=True) and all(slope > 0 for slope in slopes)
        # No point lies above the hull.
        for x, y in curve:
            below = [c for c in corners if c[0] <= x]
            above = [c for c in corners if c[0] >= x]
            if not above:
                assert y <= corners[-1][1]
                continue
            (x0, y0), (x1, y1) = below[-1], above[0]
            at = y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
            assert y <= at + 1e-9


def test_the_whole_needs_what_bursts_that_meet_need(tmp_path):
    folder = parted(tmp_path, {"a": bursts(0), "b": bursts(5)})
    kept = {"output": tmp_path / "answers"}
    found = fleet.needs(folder, **kept, within="100ms", fraction=0.9, report=tmp_path / "needs.html")
    parts = json.loads((folder / "manifest.json").read_text())["parts"]
    files = {part["volume"]: folder / part["file"] for part in parts}
    assert sorted(row["volume"] for row in found.rows) == ["a", "b"]
    for row in found.rows:
        alone = forebay.plan_capacity(files[row["volume"]], within=["100ms"], fraction=[0.9], confidence=0.95)["rows"][0]
        assert row["alone_iops"] == alone["capacity_iops"] and row["low_iops"] == alone["capacity_low_iops"]
    assert found.more["sum_iops"] == sum(row["alone_iops"] for row in found.rows)
    assert found.more["together_share"] == pytest.approx(0.5, abs=0.01)
    is_whole(found, tmp_path / "needs.html")
    # The result equals that of `plan consolidate` for the separate files, which keep the folder's
    # clock.
    one = {"within": ["100ms"], "fraction": [0.9], "confidence": 0.95}
    verb = forebay.plan_consolidate(list(files.values()), keep_times=True, **one)["rows"][0]
    by_volume = forebay.plan_consolidate(folder, by="volume", **one)["rows"][0]
    for row in (verb, by_volume):
        assert row["merged_iops"] == found.more["together_iops"]
        assert row["merged_low_iops"] == found.more["together_low_iops"] <= found.more["together_iops"]
        assert row["merged_high_iops"] == found.more["together_high_iops"] >= found.more["together_iops"]
        assert row["every_client_iops"] == found.more["every_volume_iops"]
    # Without a common clock, all volumes begin at the same time, so their bursts coincide.
    meet = forebay.plan_consolidate(list(files.values()), **one)["rows"][0]
    assert meet["merged_iops"] > 1.5 * verb["merged_iops"]


def test_clients_that_contradict_are_refused(tmp_path):
    folder = parted(tmp_path, {"a": bursts(0), "b": bursts(5)})
    files = sorted(folder.glob("*.parquet"))
    for options, said in (
        ({"by": "volume", "keep_times": True}, "in common"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.9, "cost_us": "100"}, "cost_us"),
    ):
        with pytest.raises(forebay.Error, match=said):
            forebay.plan_consolidate(files, **options)
    with pytest.raises(forebay.Error, match="clients: cannot be combined with by"):
        forebay.plan_consolidate(folder, by="volume", clients=2)
    with pytest.raises(forebay.Error, match="got one volume"):
        forebay.plan_consolidate(files[0], by="volume")


def test_small_fleets_have_fewer_groups():
    def volume(name, policy, busy_s, reads):
        base = {"busy_s": busy_s, "makespan_s": 100.0, "reads": reads, "writes": 100 - reads, "requests": 100}
        return _Volume(name, policy, 0.1, base)

    kinds = [(5, 100), (50, 100), (80, 0), (99, 50)]
    of = lambda each: [volume(f"{k}.{n}", "none", *kind) for n in range(each) for k, kind in enumerate(kinds)]  # noqa: E731
    assert sorted(grouped(of(1))) == [("none", "any", "any")]
    assert len(grouped(of(2))) == 4
    # If kinds would make too many groups, volumes are grouped only by load.
    two = [volume(f"{k}", "none", 5, reads) for k, reads in enumerate((100, 50, 0))] + [volume("3", "none", 99, 0)]
    assert sorted((key, len(each)) for key, each in grouped(two).items()) == [
        (("none", "idle", "any"), 3),
        (("none", "overloaded", "any"), 1),
    ]


def test_figures_are_shown_as_readers_take_them():
    assert shown("volumes", 1) == "1" and shown("requests", 77570) == "77,570"
    assert shown("found_per_s", 77570.4) == "77,570" and shown("all_gib", 0.012345) == "12.6 MiB"
    assert shown("gain_share", 0.1234) == "12.3 %" and shown("all_gib", 0.0) == "0 KiB" and shown("all_gib", 2048.0) == "2 TiB"
    assert shown("low_iops", None) == "-" and shown("found_per_s", 14.0) == "14.0" and shown("found_per_s", 100.0) == "100"


def test_volumes_of_one_behaviour_are_one_group(tmp_path):
    # Three similar volumes that a scheduler might help, and two idle ones.
    dice = random.Random(7)
    busy = lambda: [(at / 140, dice.randrange(10**7), "read") for at in range(1500)]  # noqa: E731
    idle = [(at * 2.0, 0, "read") for at in range(20)]
    volumes = {"a": busy(), "b": busy(), "c": busy(), "d": idle, "e": [(at + 0.7, b, op) for at, b, op in idle]}
    folder = parted(tmp_path, volumes)
    found = fleet.schedulers(
        folder,
        device="st1000nm0011",
        policies=["none", "noop", "sptf"],
        output=tmp_path / "answers",
        report=tmp_path / "schedulers.html",
    )
    assert sum(row["volumes"] for row in found.rows) == 5 == len(found.more["of_volume"])
    quiet = [row for row in found.rows if row["load"] == "idle"]
    assert [(row["policy"], row["volumes"], sorted(row["names"])) for row in quiet] == [("none", 2, ["d", "e"])]
    assert quiet[0]["gain_share"] == 0
    is_whole(found, tmp_path / "schedulers.html")


def test_traces_of_one_name_are_told_apart(tmp_path):
    paths = [tmp_path / day / "x.csv" for day in ("day1", "day2")]
    for path, at_s in zip(paths, (0, 5), strict=True):
        path.parent.mkdir()
        trace_of(path, {"a": bursts(at_s)})
    found = fleet.together(paths, output=tmp_path / "answers", fraction=1.0)
    assert found.more["volumes"] == 2
    named = fleet.needs(paths, output=tmp_path / "answers", within="100ms", fraction=0.9).rows
    assert sorted(row["volume"] for row in named) == ["day1/x.csv", "day2/x.csv"]
    assert short(["a/x", "b/x", "c/y/", "s3://d/x"]) == {"a/x": "a/x", "b/x": "b/x", "c/y/": "y", "s3://d/x": "d/x"}
    assert short(["x", "a/x"]) == {"x": "x", "a/x": "a/x"}


def test_folders_and_traces_go_together(tmp_path):
    folder = parted(tmp_path, {"a": bursts(0), "b": bursts(5)})
    alone = trace_of(tmp_path / "alone.csv", {"c": bursts(2)})
    found = fleet.needs([folder, alone], output=tmp_path / "answers", within="100ms", fraction=0.9)
    assert sorted(row["volume"] for row in found.rows) == ["alone.csv", "fleet/a", "fleet/b"]


def test_what_fails_is_told_and_left_out(tmp_path):
    good = trace_of(tmp_path / "good.csv", {"a": bursts(0)})
    bad = tmp_path / "bad.csv"
    bad.write_text("nothing\n")
    found = fleet.together([good, bad], output=tmp_path / "answers")
    assert found.more["volumes"] == 1 and found.said[1].startswith("1 of 2 volumes has no answer and is left out: bad.csv: ")
    with pytest.raises(forebay.Error, match="no volume has an answer: bad.csv: "):
        fleet.together(bad, output=tmp_path / "others")
    with pytest.raises(forebay.Error, match="fraction"):
        fleet.needs(good, output=tmp_path / "answers", fraction=0)
    for budget in (-1, 0, float("nan"), "1"):
        with pytest.raises(forebay.Error, match="budgets_gib"):
            fleet.flash(good, output=tmp_path / "answers", budgets_gib=[budget])


def test_a_finding_is_a_table_for_arrow():
    heads = {"a": "a", "names": "names"}
    found = fleet.Finding("t", ["said"], [{"a": 1.5, "names": ["x"] * 9}], of="Things", heads=heads)
    assert found.to_pyarrow().schema.field("names").type == pa.list_(pa.string())
    assert "x and others" in str(found) and "x and others" in found.page()


def test_a_scheduler_is_chosen_that_helps_and_harms_nothing():
    def run(read_ms, write_ms, busy_s=10.0, **more):
        return {
            "reads": 500,
            "writes": 500,
            "read_p99_ms": read_ms,
            "write_p99_ms": write_ms,
            "busy_s": busy_s,
            "makespan_s": 100.0,
        } | more

    def chosen(**runs):
        return choose({"none": run(10, 10)} | runs, ["none", "a", "b"])

    assert chosen(a=run(9.8, 10)) == ("none", 0.0), "less than 3 %"
    assert chosen(a=run(5, 10.4)) == ("none", 0.0), "writes are harmed"
    assert chosen(a=run(9, 10), b=run(8, 10.2)) == ("b", pytest.approx(1 - (0.8 * 1.02) ** 0.5))
    # Busy time counts only if the disk is saturated, and a tail only if there are enough requests.
    assert chosen(a=run(10, 10, 5.0))[0] == "none"
    few = {"none": run(10, 10, reads=99), "a": run(5, 10)}
    assert choose(few, ["none", "a"])[0] == "none"
    full = {"none": run(10, 10, 99.0), "a": run(10, 10, 80.0)}
    assert choose(full, ["none", "a"])[0] == "a"


def test_each_volume_gets_the_cloud_volume_that_its_bursts_need(tmp_path):
    # Every second, a thousand reads arrive at once. Answering half of them within 9.3 ms requires
    # 53,700 IOPS, or 4,570 IOPS if a tenth of the rate is available as a burst.
    busy = [(second, block, "read") for second in range(20) for block in range(1000)]
    quiet = [(second, second, "read") for second in range(20)]
    folder = parted(tmp_path, {"busy": busy, "quiet": quiet})
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\non = "2026-11"\n[volume.ebs-gp3]\ngib = 0.1\niops = 0.01\nmibps = [[125, 0], [2000, 0.04]]\n[volume.ebs-gp2]\ngib = 1\n')
    ask = {"type": "gp3", "prices": prices, "trust_times": True, "output": tmp_path / "answers"}
    now = {"busy": "gp2:gib=100", "quiet": "gp2:gib=100"}
    found = fleet.volumes(folder, fraction=0.5, current=now, report=tmp_path / "volumes.html", **ask)
    rows = {row["volume"]: row for row in found.rows}
    assert [row["volume"] for row in found.rows] == ["busy", "quiet"]
    assert (rows["busy"]["advice"], rows["quiet"]["advice"]) == ("faster", "cheaper")
    assert rows["quiet"]["iops"] == 3000 and rows["busy"]["iops"] > 50_000
    assert rows["busy"]["month_low"] < rows["busy"]["month"]
    for row in found.rows:
        low, high = row["month_interval"]
        assert low <= row["month"] <= high
    for key in ("month", "month_low"):
        assert found.more[key] == pytest.approx(sum(row[key] for row in found.rows))
        ends = [sum(row[f"{key}_interval"][end] for row in found.rows) for end in (0, 1)]
        assert found.more[f"{key}_interval"] == pytest.approx(ends)
    assert "in 95 % of resamples" in found.said[0]
    assert rows["quiet"]["month"] == pytest.approx(40)
    assert found.more["current_month"] == pytest.approx(200)
    assert "1 can be cheaper, and 1 are too slow" in found.said[2]
    is_whole(found, tmp_path / "volumes.html")
    alone = fleet.volumes(folder, fraction=0.5, **ask)
    assert {row["advice"] for row in alone.rows} == {"buy"} and len(alone.said) == 2
    # Answering all thousand within 5 ms requires more than gp3 offers, unless a tenth of the rate
    # is available as a burst.
    deep = fleet.volumes(folder, fraction=1.0, within="5ms", **ask)
    rows = {row["volume"]: row for row in deep.rows}
    busy = rows["busy"]
    assert (busy["type"], busy["month"], busy["create"], busy["advice"]) == (None, None, None, "none")
    assert busy["low_type"] == "ebs-gp3" and 9_000 < busy["low_iops"] < 10_000
    assert deep.more["month"] == rows["quiet"]["month"]
    assert deep.more["month_low"] == pytest.approx(busy["month_low"] + rows["quiet"]["month_low"])
    assert "1 of 2 volumes can answer" in deep.said[0] and "pass at once, 2 can" in deep.said[1]
    with pytest.raises(forebay.Error, match="current: got no volume"):
        fleet.volumes(folder, fraction=0.5, current={"other": "gp2:gib=100"}, **ask)
