"""Tests the reproduction of the workload-shifting paper: every claim has its row and reason, and ours come from runs.
"""

import importlib.util
import sys
from types import SimpleNamespace

import pytest
from conftest import ROOT

from forebay import reproduce

PAPER = ROOT / "papers" / "shift"
SHARED = ("cases", "claims", "periods", "run", "shift_pictures")


@pytest.fixture(scope="module")
def paper():
    """Imports the paper's run.py, in addition to another paper's."""
    kept = {name: sys.modules.pop(name) for name in SHARED if name in sys.modules}
    sys.path.insert(0, str(PAPER))
    spec = importlib.util.spec_from_file_location("shift_run", PAPER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(PAPER))
    for name in SHARED:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


def changed(*changes):
    return [{"at_s": at, "disk": disk, "stage": stage} for at, disk, stage in changes]


def test_what_a_disk_does_is_counted_until_all_is_settled(paper):
    row = {"settled_s": 10.0, "execution_s": 8.0, "logging_ms": 4000.0,
           "stages": changed((0, 0, "log"), (4, 0, "idle"), (4, 1, "log"), (4, 0, "read-log"), (5, 0, "idle"),
                             (5, 2, "write-tree"), (7, 2, "idle"), (8, 1, "idle"), (9, 3, "write-tree"))}
    # Active times: 4 + 1 on the first disk, 4 on the second, and 2 on the third; the last period
    # extends to the end.
    assert paper.cases.active_s(row) == 4 + 1 + 4 + 2 + 1
    logging, worked = paper.cases.periods_ms(row)
    assert (logging, worked) == (4000, (1 + 2) * 1000 / 2)


def test_a_log_on_a_disk_at_work_is_told(paper):
    row = {"stages": changed((0, 0, "write-tree"), (1, 0, "log"), (2, 0, "log"), (3, 0, "idle"), (4, 0, "log"), (5, 0, "idle"))}
    over = [(begin, end, stage, over) for _, begin, end, stage, over in paper.cases.phases(row)]
    assert over == [(0, 1, "write-tree", False), (1, 2, "log", True), (2, 3, "log", False), (3, 4, "idle", False),
                    (4, 5, "log", False)]


def test_memory_is_to_data_as_in_the_paper(paper):
    runs = paper.cases.Runs(SimpleNamespace(processes=1), 1000)
    assert "('tree_memory_mb', 200)" in runs.ask() and "('tree_memory_mb', 40)" in runs.ask(total_mb=200)
    assert len(runs.cases) == 2 and runs.ask() in runs.cases


def test_verdicts_say_how_often_a_claim_holds(paper):
    verdict = paper.claims.verdict
    assert [verdict(held) for held in ([True, True], [False], [True, False, False], [])] == [
        "borne out", "not borne out", "depends: 1 of 3", "-"]


@pytest.mark.slow
def test_every_claim_has_a_row_and_a_reason(paper, tmp_path, monkeypatch):
    monkeypatch.setattr(paper.cases, "SETTINGS", dict(list(paper.cases.SETTINGS.items())[:2]))
    monkeypatch.setattr(paper.claims, "SETTINGS", paper.cases.SETTINGS)
    options = SimpleNamespace(short=True, full=False, processes=1, work=tmp_path, pictures=None)
    text = paper.main(options)
    why = reproduce.load(PAPER / "why.toml")
    expected = reproduce.claims(PAPER / "expected.toml")
    assert set(why) == set(expected) and all(len(reason) > 20 for reason in why.values())
    for claim in expected.values():
        assert claim.says in text, claim.id
    assert "nan" not in text and "inf" not in text
    assert "papers/shift --short`" in text
    # If pages are updated in place and written to media, RAID 0 becomes slower, but the arrangement
    # with one job per disk does not.
    rows = {line.split("|")[1].strip(): line.split("|") for line in text.splitlines() if line.startswith("|")}
    heads = [head.strip() for head in rows["claim"]]
    at = heads.index("in place, to media")
    assert float(rows["Log+RAID0 is slowed by, %"][at]) > 20
    assert float(rows["Workload Shifting is slowed by, %"][at]) < 2.7
