"""Tests the reproduction of the model paper: every figure has its row, and ours come from runs."""

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROOT, TERASORT

import forebay
from forebay import reproduce

PAPER = ROOT / "papers" / "model"
SHARED = ("workloads", "run")


@pytest.fixture(scope="module")
def paper():
    """Imports the paper's run.py, in addition to another paper's."""
    kept = {name: sys.modules.pop(name) for name in SHARED if name in sys.modules}
    sys.path.insert(0, str(PAPER))
    spec = importlib.util.spec_from_file_location("model_run", PAPER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(PAPER))
    sys.modules.pop("workloads")
    sys.modules.update(kept)


@pytest.fixture(scope="module")
def listed(paper, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    rows = pq.read_table(TERASORT).slice(0, 1500)
    pq.write_table(rows, folder / "start.parquet")
    return [paper.workloads.Workload("start", folder / "start.parquet", folder)]


def test_the_equation_counts_transitions(paper):
    for level in range(1, 5):
        assert paper.structure.levels.hierarchical(level) == paper.structure.levels.counted(level)
    assert paper.structure.levels.hierarchical(2) == 76


def test_without_locality_the_means_stay(paper, listed):
    kept = paper.workloads.columns(listed[0].table())
    free = paper.workloads.columns(forebay.read(listed[0].free()).to_pyarrow())
    assert sorted(free["len"]) == sorted(kept["len"])
    assert np.mean(free["reads"]) == pytest.approx(np.mean(kept["reads"]), abs=0.05)
    spans = [of["at_ns"][-1] - of["at_ns"][0] for of in (free, kept)]
    assert spans[0] == pytest.approx(spans[1], rel=0.2)
    assert free["offset"].max() <= (kept["offset"] + kept["len"]).max()


def test_blocks_are_laid_by_stream_in_the_order_of_first_use(paper):
    rearranged, n = paper.remedies.rearranged, 4096
    trace = {
        "at_ns": np.arange(6),
        "offset": np.array([80, 10, 40, 20, 80, 99]) * n,
        "len": np.array([2, 1, 1, 1, 1, 1]) * n,
        "stream": np.array([1, 0, 1, 0, 1, 0]),
        "reads": np.ones(6, dtype=bool),
    }
    whole = rearranged.laid(trace, slice(None))
    assert list(whole["offset"] // n) == [3, 0, 5, 1, 3, 2]
    assert (rearranged.sequential(trace), rearranged.sequential(whole)) == (0, 3 / 6)
    part = rearranged.laid(trace, slice(0, 3))
    assert list(part["offset"] // n) == [1, 0, 3, 4 + 20, 1, 4 + 99]


@pytest.mark.slow
def test_every_claim_has_a_row(paper, listed, tmp_path, monkeypatch):
    monkeypatch.setattr(paper.workloads, "workloads", lambda options: listed)
    monkeypatch.setattr(paper.structure.patterns, "REQUESTS", 300)
    monkeypatch.setattr(paper.structure.levels, "LEVELS", [1, 2])
    options = SimpleNamespace(short=True, work=tmp_path, flash="samsung-830", pictures=None)
    (tmp_path / "model").mkdir()
    text = paper.main(options)
    for claim in reproduce.claims(PAPER / "expected.toml").values():
        assert claim.says in text, claim.id
    assert "nan" not in text
    assert text.count("\n## ") == 13


def test_a_cause_is_told_only_where_the_figures_bear_it_out(paper):
    causes = paper.alike.causes

    def card(a, b, streams=2):
        share = {"name": "sequential_share", "a": a, "b": b}
        return {"features": [share, *[{"name": f"stream_weight:#{n}"} for n in range(streams)]]}

    assert "interleave" in causes.feature(card(0.5, 0.4), "sequential_share")
    assert causes.feature(card(0.5, 0.6), "sequential_share") == ""
    assert causes.feature(card(0.5, 0.4), "read_share") == ""
    assert causes.feature(card(0.5, 0.4, streams=1), "sequential_share") == ""
    assert causes.slower(card(0.5, 0.4), 100, 90) and not causes.slower(card(0.5, 0.4), 100, 110)
    assert causes.weight("stream_weight:#1") and not causes.weight("stream_weight:db")

    def response(busy, deviation):
        return {"a_busy_share": busy, "b_busy_share": 0.1, "a_overloaded": False,
                "b_overloaded": False, "mean_ms": {"deviation": deviation}}

    assert causes.response(response(0.9, 1)) and not causes.response(response(0.2, 1))
    assert "90%" in causes.responses([response(0.9, -0.9), response(0.1, 0.1)])
    assert causes.responses([response(0.9, 0.1), response(0.1, 0.9)]) == ""
    assert causes.level(100) and not causes.level(10**9)
    assert causes.other_workloads(20, [5, 40], "%") and not causes.other_workloads(20, [5, 10], "%")


def test_what_has_no_cause_is_unknown(paper):
    claims = reproduce.claims(PAPER / "expected.toml")
    study = paper.Study(claims)
    study.add("flat", "far", 50.0)
    study.add("flat", "near", 1.0)
    far, near = study.told().splitlines()[2:]
    assert "unknown" in far and "unknown" not in near


def test_what_the_model_is_held_to_is_printed(paper, listed, monkeypatch):
    held_to = importlib.import_module("held_to")
    text = held_to.section(listed, seeds=(1, 2))
    for target in held_to.TARGETS:
        assert target in text
    assert "| no copy of the trace" in text and "nan" not in text


def test_a_copy_is_told_from_a_draw(paper, listed, tmp_path):
    copies = importlib.import_module("copies")
    trace = listed[0].path
    twins = [listed[0].twin(seed=seed) for seed in (1, 2)]
    found = copies.judged(trace, *twins, shifts=50)
    assert found["is_drawn"] and found["seeds_differ"], found
    # For a model that copies the trace, different seeds agree perfectly. Only the second condition
    # detects this.
    copied = copies.judged(trace, trace, trace, shifts=50)
    assert copied["copied"] <= 0 and not copied["seeds_differ"], copied
    # This model copies the trace for one of its two seeds.
    half = copies.judged(trace, trace, twins[1], shifts=50)
    assert not half["is_drawn"], half
