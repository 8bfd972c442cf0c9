"""Tests the store in virtual time, from Python."""

import forebay
import pytest


def simulated(**inputs):
    return forebay.store_simulate(**inputs)["rows"]


def test_sorting_costs_nothing_with_one_job_a_disk():
    rows = simulated(total_mb=60, arrangement=["enhanced", "raid0"], no_merging=True)
    assert [row["arrangement"] for row in rows] == ["enhanced", "enhanced", "raid0", "raid0"]
    assert [row["transformation"] for row in rows] == [False, True, False, True]
    logged, sorted_, _, raid0 = rows
    assert logged["slowed_percent"] is None and abs(sorted_["slowed_percent"]) < 2.7
    assert raid0["slowed_percent"] > sorted_["slowed_percent"]
    assert raid0["put_p99_ms"] > 1.5 * sorted_["put_p99_ms"]
    # The same seed gives the same run.
    again = simulated(total_mb=60, arrangement=["enhanced", "raid0"], no_merging=True)
    assert again == rows
    cached = simulated(total_mb=60, arrangement=["enhanced"], to_cache=True)
    assert cached[0]["put_p50_ms"] <= logged["put_p50_ms"]


def test_a_tree_updated_in_place_slows_puts_on_striped_disks_alone():
    how = dict(total_mb=60, arrangement=["enhanced", "raid0"], no_merging=True)
    runs = simulated(**how)
    trees = {sync: simulated(**how, tree="in-place", tree_sync=sync) for sync in ("record", "log", "close")}
    slowed = {sync: [rows[1]["slowed_percent"], rows[3]["slowed_percent"]] for sync, rows in trees.items()}
    assert all(abs(enhanced) < 2.7 for enhanced, _ in slowed.values())
    assert slowed["record"][1] > slowed["log"][1] > runs[3]["slowed_percent"]
    # A page is written more often if it is written after each record than if it is written after
    # each log.
    pages = {sync: rows[1]["pages_written"] for sync, rows in trees.items()}
    assert pages["record"] > pages["log"] > pages["close"] > 0 and runs[1]["pages_written"] == 0
    # Without memory for leaves, they must be read.
    few = simulated(**how, value_bytes=1000, tree="in-place", tree_memory_mb=1)
    assert few[1]["leaves_read"] > 1000 and trees["log"][1]["leaves_read"] == 0


def test_stages_follow_each_other():
    rows = simulated(total_mb=60, arrangement=["enhanced"], no_merging=True, read_log=True, stages=True)
    stages = rows[1]["stages"]
    assert {change["stage"] for change in stages} == {"idle", "log", "read-log", "write-tree"}
    assert {change["disk"] for change in stages} == {0, 1, 2, 3}
    assert all(a["at_s"] <= b["at_s"] for a, b in zip(stages, stages[1:]))
    assert "stages" not in simulated(total_mb=20, arrangement=["basic"])[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"disks": 3}, "disks: got '3', expected a number from 4 to 64"),
        ({"device": "none"}, "none"),
        ({"arrangement": ["raid1"]}, "raid1"),
        ({"keys": "odd"}, "keys: got 'odd'"),
        ({"host": "2.6"}, "host: got '2.6', expected a time with its unit"),
        ({"total_mb": 0}, "total_mb"),
        ({"tree": "b"}, "tree: got 'b', expected one of runs, in-place"),
        ({"tree": "in-place", "page_kib": 6}, "page_kib: got '6', expected a multiple of 4"),
        ({"tree": "in-place", "tree_sync": "never"}, "tree_sync"),
        ({"tree": "in-place", "tree_depth": 0}, "tree_depth"),
        ({"tree_depth": 4}, "tree_depth: has an effect only with tree"),
    ],
)
def test_what_cannot_be_is_said(options, said):
    with pytest.raises((ValueError, forebay.Error), match=said):
        simulated(**options)
