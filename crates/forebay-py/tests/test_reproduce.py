"""Tests the reproduction of the bid paper: every figure has its row, and every number comes from a run."""

import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from conftest import ROOT, TERASORT

import forebay
from forebay import reproduce

PAPER = ROOT / "papers" / "bid"


@pytest.fixture(scope="module")
def bid():
    """Imports the paper's modules, as its own command does."""
    sys.path.insert(0, str(PAPER))
    yield
    sys.path.remove(str(PAPER))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Returns the bundled trace's first 4000 requests as a separate trace."""
    path = tmp_path_factory.mktemp("reproduce") / "start.parquet"
    pq.write_table(pq.read_table(TERASORT).slice(0, 4000), path)
    return path


def figure_runs(start, device):
    import cases

    workload = cases.Workload("terasort", start, str(device))
    listed = cases.figure_cases([workload], "samsung-830", short=True)
    return listed, {case: cases.run(case) for case in listed}


def rows(start, device):
    import claims

    listed, runs = figure_runs(start, device)
    paper = reproduce.claims(PAPER / "expected.toml")
    tracks = reproduce.load(PAPER / "expected.toml")["example"]["tracks"]
    return paper, claims.section(paper, listed, runs, tracks)[1]


@pytest.fixture(scope="module")
def usual(bid, start):
    return rows(start, "sata250")


def test_every_figure_of_the_paper_has_a_row(usual):
    paper, found = usual
    assert {row.claim.id for row in found} == set(paper)
    for row in found:
        assert row.cause and (row.ours is not None or row.deviation is None)


def test_deviations_follow_from_the_numbers(usual):
    for row in usual[1]:
        if row.ours is None or (row.claim.low is None and row.claim.high is None):
            assert row.deviation is None
            continue
        low = row.claim.low if row.claim.low is not None else row.ours
        high = row.claim.high if row.claim.high is not None else row.ours
        nearest = min(max(row.ours, low), high)
        assert row.deviation == pytest.approx(row.ours - nearest)


def test_a_slower_disk_changes_the_rows(usual, start, tmp_path):
    slow = tmp_path / "slow.toml"
    text = (ROOT / "devices" / "sata250.toml").read_text()
    assert "rpm = 7200" in text
    slow.write_text(text.replace("rpm = 7200", "rpm = 5400"))
    fast, slowed = usual[1], rows(start, slow)[1]
    changed = {
        before.claim.id
        for before, after in zip(fast, slowed, strict=True)
        if before.ours != after.ours
    }
    # All claims that depend on the disk change, as far as there is something to compare.
    assert {"bid-best", "hybrid-bid", "hybrid-best", "noop-cfq"} <= changed
    # The worked example has its own disk.
    assert not any(name.startswith("example") for name in changed)


def test_the_worked_example_is_added_up_afresh(usual):
    ours = {row.claim.id: row for row in usual[1]}
    assert ours["example-distance"].ours == 275
    assert ours["example-distance"].deviation == 275 - 203
    assert ours["example-movements"].deviation == 0


def test_a_score_counts_what_the_target_says(bid):
    import score

    case = type("Case", (), {"replay": "open"})()
    each = {
        "a": {"busy_s": 100.0, "read_p99_ms": 50.0, "write_p99_ms": 10.0},
        "b": {"busy_s": 100.9, "read_p99_ms": 54.9, "write_p99_ms": 10.9},
        "c": {"busy_s": 101.1, "read_p99_ms": 10.0, "write_p99_ms": 11.1},
    }
    best, near, far = (score.judge(case, each, name) for name in "abc")
    assert best["met"] and best["total_ratio"] < 1
    # This policy is within every limit, but "a" is better in both respects.
    assert near["total"] and near["read"] and near["write"] and near["better"] == ["a"]
    assert near["fastest"] == "a" and near["total_ratio"] == pytest.approx(1.009)
    assert not near["met"]
    assert far["undominated"] and far["read"] and not far["total"] and not far["write"]
    # The yardstick itself is judged, but does not count as another scheduler.
    yard = {**each, score.YARDSTICK: {"busy_s": 1.0, "read_p99_ms": 1.0, "write_p99_ms": 1.0}}
    assert score.judge(case, yard, "a") == best
    assert score.judge(case, yard, score.YARDSTICK)["total_ratio"] == pytest.approx(0.01)


@pytest.fixture(scope="module")
def bundled(bid):
    """Returns the cases of the bundled trace in open and closed replay on the plain disk, with every wait."""
    import cases

    policies = ("cfq", "noop", *map(cases.bid, cases.WAITS_MS))
    workload = cases.Workload("terasort", TERASORT, "sata250")
    listed = [cases.Case(workload, replay, 1, policies) for replay in ("open", "closed")]
    return listed, dict(zip(listed, reproduce.grid(cases.run, listed, 2)))


def test_the_bundled_traces_figures_are_held(bundled):
    import held

    entries = reproduce.load(PAPER / "held.toml")["held"]
    found = held.rows(entries, *bundled)
    assert [entry["replay"] for entry, _, _ in found] == ["open", "closed"]
    assert all(holds and len(pairs) == 6 for _, pairs, holds in found)
    moved = [{**entry, "within": 0.001} for entry, _, _ in found]
    assert not any(holds for _, _, holds in held.rows(moved, *bundled))


def test_the_default_wait_is_bids(bid, start):
    import cases

    assert "bid" in cases.SCHEDULERS
    policies = ["bid", cases.bid(cases.DEFAULT_MS), cases.bid(cases.DEFAULT_MS + 1)]
    asked = forebay.simulate(start, device="sata250", policy=policies, replay="closed").runs
    default, same, other = (
        [run[figure] for figure in ("busy_s", "makespan_s", "read_mean_ms", "head_movements")]
        for run in asked
    )
    assert default == same != other


def of(busy_s, **more):
    return {"busy_s": busy_s, "makespan_s": 100.0, **more}


def verdict(replay, runs_of, sweeps=()):
    """Returns the verdict on BID-HDD's saving over traces with these runs."""
    import cases
    import verdicts

    paper = reproduce.claims(PAPER / "expected.toml")["bid-best"]
    listed, runs = [], {}
    for index, each in enumerate(runs_of):
        workload = cases.Workload(f"t{index}", PAPER, "sata250")
        listed.append(cases.Case(workload, replay, 1, tuple(each)))
        runs[listed[-1]] = list(each.values())
    for index, each in enumerate(sweeps):
        sweep = cases.Case(listed[index].workload, replay, 1, tuple(each), "flash")
        runs[sweep] = list(each.values())
    swept = [case for case in runs if case not in listed]
    return verdicts.word(paper, "bid-best", listed, runs, swept)


def test_a_verdict_needs_every_setting_and_both_readings(bid):
    rivals = {"cfq": of(100.0), "noop": of(120.0)}
    # The paper claims at least 28 %: here, this is reached with wait-ms=50 in `some` but not in
    # `none`.
    some = {**rivals, "bid:wait-ms=5": of(99.0), "bid:wait-ms=50": of(72.0)}
    none = {**rivals, "bid:wait-ms=5": of(99.0), "bid:wait-ms=50": of(72.1)}
    assert verdict("open", [some, some]) == "borne out"
    assert verdict("open", [some, none]) == "in part"
    assert verdict("open", [none]) == "not borne out"
    # With another k, the gain is reached.
    deeper = {**rivals, "bid:wait-ms=50:history=32": of(70.0)}
    assert verdict("open", [none], [deeper]) == "in part: history=32"
    # The time of the last completion reaches it, but in open replay this does not count as the
    # total time.
    sooner = {**rivals, "bid:wait-ms=5": {**of(99.0), "makespan_s": 70.0}}
    assert verdict("closed", [sooner]) == "in part: last"
    assert verdict("open", [sooner]) == "not borne out"


def test_grid_keeps_the_order():
    assert reproduce.grid(abs, [-3, 2, -1], 2) == reproduce.grid(abs, [-3, 2, -1], 1) == [3, 2, 1]


def test_heads_and_latencies_are_tables(start):
    result = forebay.simulate(start, device="sata250:plain", policy="noop,bid")
    heads, run = result.heads.to_pyarrow(), result.runs[0]
    noop = heads.filter(pc.equal(heads["policy"], "noop"))
    # Neither requested flushes nor those before a write move the heads.
    flushes = run["ios"] - noop.num_rows
    assert run["flushes"] <= flushes < 0.01 * run["ios"]
    cylinders = noop["cylinder"].to_pylist()
    moved = sum(a != b for a, b in zip(cylinders, cylinders[1:]))
    assert 0 < moved <= run["head_movements"] * 1.5
    shares = result.latencies.to_pyarrow().to_pylist()
    reads = [row for row in shares if (row["policy"], row["op"]) == ("noop", "read")]
    assert [row["latency_ms"] for row in reads] == sorted(row["latency_ms"] for row in reads)
    median = next(row["latency_ms"] for row in reads if row["share"] == 0.5)
    assert median == run["read_p50_ms"]


def test_offline_limit_is_below_every_scheduler(start):
    asked = {"device": "sata250:plain", "policy": "noop,forebay", "windows": 4}
    windows = forebay.offline(start, ios=6, **asked)["rows"]
    assert len(windows) == 4
    for window in windows:
        assert window["transfer_bound_s"] < window["best_s"] <= min(window["makespan_s"])
    with pytest.raises(forebay.Error, match="ios: got '13', expected a number from 1 to 12"):
        forebay.offline(start, ios=13, **asked)


def test_no_scheduler_beats_the_bound_on_any_order(start):
    asked = {"policy": "noop,clook,sptf,forebay", "least_time": True}
    for replay in ("open", "closed"):
        found = forebay.simulate(start, device="sata250:plain", replay=replay, **asked)
        least = found.to_dict()["least_time"]
        for run in found.runs:
            assert run["busy_s"] >= least["busy_s"] > 0
            assert run["makespan_s"] >= least["makespan_s"] >= least["busy_s"]
    found = forebay.simulate(start, device="sata250", policy="noop", least_time=True)
    assert found.to_dict()["least_time"] is None


def test_the_table_is_not_written_over_what_is_read(tmp_path, capsys):
    (tmp_path / "expected.toml").write_text("kept")
    (tmp_path / "table.md").write_text("old")
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path / "expected.toml")
    for output in (tmp_path / "expected.toml", link):
        with pytest.raises(SystemExit) as ended:
            reproduce.main([str(tmp_path), "-o", str(output)])
        assert ended.value.code == 2 and "an input file" in capsys.readouterr().err
    for output in (tmp_path / "table.md", tmp_path / "new"):
        assert reproduce.arguments([str(tmp_path), "-o", str(output)]).output == output
    assert (tmp_path / "expected.toml").read_text() == "kept"


def test_no_line_of_the_table_is_wider_than_120_columns():
    lines = (PAPER / "table.md").read_text().splitlines()
    assert len(lines) > 1000 and max(map(len, lines)) <= 120


def test_what_cannot_be_reproduced_is_told(tmp_path, capsys):
    for words, said in (
        (["nosuch"], "has no run.py"),
        ([str(tmp_path)], "has no run.py"),
        (["--page", str(tmp_path / "no/folder.html")], "No such file"),
    ):
        assert reproduce.main(words) == 2
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error, error
    for words in (["--minutes", "nan"], ["--minutes", "-1"], ["--processes", "0"]):
        with pytest.raises(SystemExit):
            reproduce.main(words)
