"""The reproduction of the adaptive-RAID paper: every claim has its rows, and ours come from runs."""

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT

from forebay import reproduce

PAPER = ROOT / "papers" / "raid"
SHARED = ("cases", "claims", "measured", "modelled", "simulated", "run")


@pytest.fixture(scope="module")
def paper():
    """The paper's run.py, importable beside another paper's."""
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
    assert len(rows) == 6 + 2 * 4 + 3 * 4
    assert all(row[-2].strip() for row in rows), "a reason for each"
    assert "nan" not in text and "inf" not in text
    assert "papers/raid --short`" in text
