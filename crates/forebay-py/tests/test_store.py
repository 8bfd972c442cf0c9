"""The store in virtual time, from Python."""

import forebay
import pytest


def test_sorting_costs_nothing_with_one_job_a_disk():
    rows = forebay.store_simulate(total_mb=60, arrangements=["enhanced", "raid0"], merges=False)
    assert [row["arrangement"] for row in rows] == ["enhanced", "enhanced", "raid0", "raid0"]
    assert [row["transformation"] for row in rows] == [False, True, False, True]
    logged, sorted_, _, raid0 = rows
    assert logged["slowed_percent"] is None and abs(sorted_["slowed_percent"]) < 2.7
    assert raid0["slowed_percent"] > sorted_["slowed_percent"]
    assert raid0["put_p99_ms"] > 2 * sorted_["put_p99_ms"]
    # The same seed, the same run.
    again = forebay.store_simulate(total_mb=60, arrangements=["enhanced", "raid0"], merges=False)
    assert again == rows
    cached = forebay.store_simulate(total_mb=60, arrangements=["enhanced"], to_media=False)
    assert cached[0]["put_p50_ms"] <= logged["put_p50_ms"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"disks": 3}, "disks: got 3, expected 4 to 64"),
        ({"device": "none"}, "none"),
        ({"arrangements": ["raid1"]}, "raid1"),
        ({"keys": "odd"}, "keys: got 'odd'"),
        ({"host_ms": float("nan")}, "host_ms"),
        ({"total_mb": 0}, "total_mb"),
    ],
)
def test_what_cannot_be_is_said(options, said):
    with pytest.raises((ValueError, forebay.Error), match=said):
        forebay.store_simulate(**options)
