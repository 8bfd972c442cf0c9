"""Adaptation of RAID levels in the cost model, from Python."""

import pytest

import forebay

PAPER_HDD = {
    "writes_ms": [[5.6, 5.5, 5.6, 5.4], [2.9, 5.3, 7.2, 9.4]],
    "to_mirrors_ms": 9.9,
    "to_parity_ms": 6.5,
}


def columns(*words, **options):
    table = forebay.adapt_writes(*words, **options).to_pyarrow()
    return table["unit"].to_pylist(), table["chunks"].to_pylist()


def test_writes_are_as_many_and_as_biased_as_asked_for():
    units, chunks = columns("c", units=500, writes_per_unit=40, run=4, seed=3)
    assert len(units) == len(chunks) == 500 * 40
    assert set(chunks) == {1, 2, 3, 4} and max(units) == 499
    assert sum(size <= 2 for size in chunks) / len(chunks) == pytest.approx(0.9, abs=0.02)
    few = columns("b", units=500, writes_per_unit=40, run=4, seed=3, bias=0.6)[1]
    assert sum(size > 2 for size in few) / len(few) == pytest.approx(0.6, abs=0.02)
    assert (units, chunks) == columns("c", units=500, writes_per_unit=40, run=4, seed=3)
    assert (units, chunks) != columns("c", units=500, writes_per_unit=40, run=4, seed=4)


def test_what_is_paid_by_hand():
    rows = forebay.adapt([0] * 5, [1] * 5, rules=["never", "bonus-malus"], first="raid6")
    never, paper = rows
    assert never["paid_ms"] == pytest.approx(5 * 5.6) and never["switches"] == 0
    # With the fourth write, the score reaches 108, above the threshold of 100, so mirrors serve the
    # fifth.
    assert paper["paid_ms"] == pytest.approx(4 * 5.6 + 9.9 + 2.9) and paper["switches"] == 1
    for row in rows:
        assert row["free_optimum_ms"] == pytest.approx(5 * 2.9)
        assert row["optimum_ms"] == pytest.approx(5.6 + 9.9 + 4 * 2.9)
        assert (row["raid6_ms"], row["raid10_ms"]) == pytest.approx((5 * 5.6, 5 * 2.9))


def test_costs_of_ones_own():
    units, chunks = columns("b", units=50, run=32)
    rules = ["never", "work-function", "best"]
    named = forebay.adapt(units, chunks, rules=rules, costs="hdd", first="write")
    given = forebay.adapt(units, chunks, rules=rules, costs=PAPER_HDD, first="write")
    assert named == given
    for row in given:
        assert row["free_optimum_ms"] <= row["paid_ms"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rules": ["best", "worst"]}, "worst"),
        ({"rules": ["best"], "first": "raid5"}, "raid5"),
        ({"rules": ["best"], "costs": "tape"}, "tape"),
        ({"rules": ["best"], "costs": {}}, "writes_ms"),
        ({"rules": ["best"], "costs": {**PAPER_HDD, "to_parity_ms": -1}}, "-1"),
        ({"rules": ["best"], "costs": {**PAPER_HDD, "writes_ms": [[1]]}}, "two rows"),
    ],
)
def test_what_is_wrong_is_named(options, says):
    with pytest.raises(forebay.Error, match=says):
        forebay.adapt([0], [1], **options)


def test_wrong_workloads_are_named():
    for options in ({"kind": "d"}, {"kind": "a", "units": 0}, {"kind": "a", "run": 0},
                    {"kind": "b", "within": "x"}, {"kind": "b", "after": "x"}, {"kind": "b", "bias": 0.3},
                    {"kind": "b", "bias": float("nan")}):
        with pytest.raises(forebay.Error):
            forebay.adapt_writes(**options)
    with pytest.raises(forebay.Error, match="chunks"):
        forebay.adapt([0, 1], [1], rules=["never"])
    with pytest.raises(forebay.Error, match="units"):
        forebay.adapt([2**31], [1], rules=["never"])
