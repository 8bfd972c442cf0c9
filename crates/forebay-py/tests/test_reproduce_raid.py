"""Tests the reproduction of the adaptive-RAID paper: every claim has its rows, and ours come from runs."""

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from conftest import ROOT

from forebay import reproduce

PAPER = ROOT / "papers" / "raid"
SHARED = ("cases", "claims", "measured", "modelled", "simulated", "run", "recorded", "replayed", "traces_tables", "traces")


@pytest.fixture(scope="module")
def paper():
    """Imports the paper's run.py, in addition to another paper's."""
    kept = {name: sys.modules.pop(name) for name in SHARED if name in sys.modules}
    sys.path.insert(0, str(PAPER))
    spec = importlib.util.spec_from_file_location("raid_run", PAPER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(PAPER))
    for name in SHARED:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


def test_a_write_lies_within_its_unit(paper):
    units, chunks = paper.modelled.default("A").drawn(20)
    table = paper.cases.trace(units, chunks, 4)
    first = table["offset"].to_numpy() // paper.cases.UNIT
    last = (table["offset"].to_numpy() + table["len"].to_numpy() - 1) // paper.cases.UNIT
    assert (first == units).all() and (last == units).all()
    assert np.bincount(table["stream"].to_numpy()).max() == -(-len(units) // 4)


def test_mirrors_win_small_writes_and_lose_whole_units(paper):
    units = np.arange(40)

    def ms(level, chunks):
        ran = paper.cases.run(units, np.full(40, chunks), 1, paper.cases.HDD, f"level={level}", 40 * paper.cases.UNIT)
        assert ran["writes"] == 40
        return paper.cases.each_ms(ran)

    assert ms("raid10x3", 1) < ms("raid6", 1)
    assert ms("raid6", 4) < ms("raid6", 1)


def test_runs_of_few_units_are_under_way_at_a_time(paper):
    (units, chunks), (few, small) = (paper.cases.Load("C1", active=active).drawn(40) for active in (None, 4))
    assert all((chunks[units == unit] == small[few == unit]).all() for unit in range(40))

    def at_a_time(order):
        return np.mean([len(set(order[at:at + 16])) for at in range(0, len(order) - 16, 16)])

    assert at_a_time(few) < 8 < at_a_time(units)
    repeated = paper.cases.Load("A", active=4).drawn(40)[0]
    assert (repeated == paper.cases.Load("A").drawn(40)[0]).all(), "A has no runs"


def test_claims_are_judged_together(paper):
    claims = importlib.import_module("claims")
    results = SimpleNamespace(claims=reproduce.claims(PAPER / "expected.toml"))

    def setting(label, b2, c1):
        told = {"RAID 6": 90, "RAID 10": 90, ("bonus-malus", "raid6"): 85}
        loads = {name: dict(told) for name in paper.cases.LOADS}
        loads["B2"]["bonus-malus", "raid6"], loads["C1"]["RAID 10"] = b2, c1
        return claims.Setting(label, "raid6", loads)

    listed = [setting("neither", 80, 80), setting("one", 96, 80), setting("other", 80, 90)]
    text = claims.joint(results, {paper.cases.HDD: {"cost model": listed}})
    cells = [cell.strip() for cell in text.splitlines()[-1].split("|")[1:-1]]
    assert cells[2:] == ["3", "one", "hdd-B2, hdd-gain-B2", "hdd-C1", "hdd-C2, hdd-gain-C2, hdd-A",
                         "hdd-B2 and hdd-C1, hdd-gain-B2 and hdd-C1"]
    assert "hdd-C1" in claims.joint(results, {paper.cases.HDD: {"cost model": [setting("both", 96, 90)]}}).split("|")[-5]


@pytest.mark.slow
def test_every_claim_has_a_row_and_every_row_a_reason(paper, tmp_path, monkeypatch):
    monkeypatch.setattr(paper.measured, "WRITES", 400)
    monkeypatch.setattr(paper.measured, "OCCUPIED", [0.25, 1.0])
    monkeypatch.setattr(paper.cases, "every", lambda options: 128)
    monkeypatch.setattr(paper.modelled, "WRITES", [24])
    monkeypatch.setattr(paper.modelled, "RUNS", [8])
    options = SimpleNamespace(short=True, full=False, processes=1, work=tmp_path, pictures=None)
    text = paper.main(options)
    for claim in reproduce.claims(PAPER / "expected.toml").values():
        assert claim.says in text, claim.id
    rows = [line.split("|") for line in text.splitlines() if line.startswith(("| Figure", "| section"))]
    assert len(rows) == 11 + 2 * 6 + 4 * 4 + 2 * 2
    assert all(row[-2].strip() for row in rows), "a reason for each"
    assert "nan" not in text and "inf" not in text
    assert "papers/raid --short`" in text


def test_sections_change_places_and_requests_stay_whole(paper):
    recorded = importlib.import_module("recorded")
    trace = recorded.Recorded(*recorded.BUNDLED, most=5000)
    rows, laid = trace.rows(), trace.laid(3)

    def used(table):
        first = table["offset"].to_numpy().astype(np.int64)
        return np.sort(first), np.sort(first + table["len"].to_numpy().astype(np.int64))

    assert laid["len"].equals(rows["len"]) and not laid["offset"].equals(rows["offset"])
    assert used(laid)[1].max() <= trace.span
    # Units are moved as a whole: the number of writes to each unit and the sizes of the writes stay
    # the same.
    counts = [np.sort(np.unique(recorded.writes(table)[0], return_counts=True)[1]) for table in (rows, laid)]
    assert (counts[0] == counts[1]).all()
    assert (np.sort(recorded.writes(rows)[1]) == np.sort(recorded.writes(laid)[1])).all()
    assert laid.equals(trace.laid(3)) and not laid.equals(trace.laid(4))


def test_a_write_over_units_is_a_write_of_each(paper):
    recorded = importlib.import_module("recorded")
    table = pa.table({"op": ["write", "read"], "offset": [3 * paper.cases.CHUNK + 5, 0],
                      "len": [paper.cases.UNIT, 1]})
    units, chunks = recorded.writes(table)
    assert (units.tolist(), chunks.tolist()) == ([0, 1], [1, 4])


def test_gain_is_told_from_noise(paper):
    tables = importlib.import_module("traces_tables")
    told = [tables.verdict(np.array(gains)) for gains in ([9, 10, 11], [1, 1, 1], [2, 4, 9], [-9, -8, -9])]
    assert told == ["pays", "noise", "noise", "loses"]


@pytest.mark.slow
def test_the_page_on_traces_answers_first(paper, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["recorded"], "SHORT", 500)
    traces = importlib.import_module("traces")
    traces.main(["--short", "--processes", "1", "-o", str(tmp_path / "traces.md")])
    text = (tmp_path / "traces.md").read_text()
    assert "Adapting" in text.splitlines()[2]
    assert "nan" not in text and "inf" not in text
    assert all(len(line) <= 100 for line in text.splitlines())
