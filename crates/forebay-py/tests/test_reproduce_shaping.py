"""Tests the reproduction of the shaping paper: every figure has its row, and ours come from runs."""

import importlib.util
import sys
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from conftest import ROOT, TERASORT

import forebay
from forebay import reproduce

PAPER = ROOT / "papers" / "shaping"


@pytest.fixture(scope="module")
def paper():
    """Imports the paper's run.py, in addition to another paper's."""
    sys.path.insert(0, str(PAPER))
    spec = importlib.util.spec_from_file_location("shaping_run", PAPER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(PAPER))


@pytest.fixture(scope="module")
def expected():
    return reproduce.load(PAPER / "expected.toml")


def stand_ins(folder, start):
    """Returns two parts of the bundled trace in place of the beginnings of the paper's traces."""
    from workloads import Workload

    listed = []
    for at, twin in enumerate(("WebSearch", "FinTrans")):
        rows = pq.read_table(TERASORT).slice(start + 3000 * at, 3000)
        first = rows["at_ns"][0].as_py()
        place = rows.schema.get_field_index("at_ns")
        times = [[time - first for time in rows["at_ns"].to_pylist()]]
        path = folder / f"{twin}-{start}.parquet"
        pq.write_table(rows.set_column(place, rows.schema.field(place), times), path)
        listed.append(Workload(f"{twin} stand-in", path, None, twin))
    return listed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shaping")


@pytest.fixture(scope="module")
def sections(paper, expected, folder):
    return paper.claims_of(expected, stand_ins(folder, 0), False)


def figures(value):
    """Yields every number below a TOML value."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in figures(part)]
    if isinstance(value, list):
        return [number for part in value for number in figures(part)]
    return [value] if isinstance(value, (int, float)) else []


def test_every_figure_of_the_paper_has_a_row(sections, expected):
    by_source = {}
    for row in (row for rows in sections.values() for row in rows):
        by_source.setdefault(row.claim.source, {})[row.claim.id] = row
        assert row.cause and (row.ours is not None or row.deviation is None)
    cells = [n for name in ("WebSearch", "FinTrans", "OpenMail")
             for n in figures(expected["capacity"][name])]
    rows = by_source["Table 4.1"].values()
    assert [row.claim.low for row in rows] == cells and len(cells) == 72
    knees = [knee for knee in expected["knee"]]
    count = sum(len(by_source[source]) for source in ("Figure 3.6", "Section 4.2"))
    assert count == sum(len(knee["times"]) for knee in knees)
    late = [row.claim.low for row in by_source["Table 4.2"].values()]
    shares = [n for name in ("OpenMail", "TPC-D", "WebSearch")
              for n in figures(expected["answered"][name])]
    assert late == pytest.approx([100 - share for share in shares])
    for figure in expected["fcfs"]:
        here = by_source[figure["source"]]
        assert sum(key.startswith("fcfs") for key in here) == 3
    for figure in expected["recombined"]:
        assert len(by_source[figure["source"]]) == 8
    for pair in ("Figure 4.5", "Figure 4.6"):
        asked = [p for p in expected["shared"] if p["source"] == pair]
        assert len(by_source[pair]) == sum(len(p["shifted_100"]) + 2 for p in asked)
    assert len(by_source["Figure 4.1"]) == 3 and len(by_source["Figure 3.2"]) == 4


def test_what_we_have_has_a_figure_and_what_we_lack_says_so(sections):
    for row in (row for rows in sections.values() for row in rows):
        lacking = "OpenMail" in row.case or "TPC-D" in row.case
        assert (row.ours is None) == lacking, row
        assert ("not among the traces" in row.cause) == lacking


def test_deviations_follow_from_the_numbers(sections):
    for row in (row for rows in sections.values() for row in rows):
        if row.ours is None:
            continue
        low = row.claim.low if row.claim.low is not None else row.ours
        high = row.claim.high if row.claim.high is not None else row.ours
        assert row.deviation == pytest.approx(row.ours - min(max(row.ours, low), high))


def test_another_trace_changes_the_rows(paper, expected, folder, sections):
    others = paper.claims_of(expected, stand_ins(folder, 20000), False)
    for title, rows in sections.items():
        pairs = list(zip(rows, others[title], strict=True))
        ours = [(one.ours, other.ours) for one, other in pairs if one.ours is not None]
        changed = [one != other for one, other in ours]
        assert not changed or sum(changed) > len(changed) / 3, title


def test_rtt_by_hand_finds_the_same_capacity(paper, folder):
    from bursts import admitted
    from capacity import least
    from recombined import extra, simulated, spec

    workload = stand_ins(folder, 0)[0]
    times = workload.table()["at_ns"].to_pylist()
    capacity = least(workload, 90, 10)
    enough = -(-9 * len(times) // 10)
    kept = len(admitted(times, capacity, 10))
    assert kept >= enough > len(admitted(times, capacity - 1, 10))
    device = f"fixed:{capacity + extra(10)}"
    runs = simulated(workload.table(), device, {"wf2q": spec("wf2q", capacity, 10)})
    assert runs["wf2q"].classes["q1"]["requests"] == kept
    together = sorted(times + [time + 1_000_000_000 for time in times])
    found = forebay.plan_consolidate(workload.table(), shift=["1s"], fraction=[0.9])["rows"][0]
    need = -(-9 * len(together) // 10)
    assert len(admitted(together, found["merged_iops"], 10)) >= need
    assert len(admitted(together, found["merged_iops"] - 1, 10)) < need


def test_the_short_run_needs_the_bundled_trace_alone(paper, tmp_path):
    options = SimpleNamespace(short=True, traces=tmp_path, pictures=None)
    text = paper.main(options)
    assert "papers/shaping --short`" in text and "Hadoop terasort (bundled)" in text
    assert "not in the short run" in text


def test_who_pays_has_a_row_for_every_pair_we_have(paper, expected, folder):
    import sharing

    lines = sharing.who_pays(expected, stand_ins(folder, 0)).splitlines()[2:]
    names = {"WebSearch", "FinTrans"}
    pairs = [pair for pair in expected["shared"] if set(pair["clients"]) <= names]
    assert len(lines) == sum(3 * len(pair["shifted_100"]) for pair in pairs) > 6
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        promised, together, every = float(cells[2]), int(cells[5]), int(cells[7])
        answered = [float(share) for share in cells[6].split(" and ")]
        assert every >= together and (every > together) == (min(answered) < promised - 0.05), line
    assert sharing.who_pays(expected, []).count("\n") == 2


def test_a_coarse_clock_is_found_and_its_stamps_spread(paper, expected, folder):
    import stamps

    step = 6_553_600
    # Three requests in every other clock step. Each timestamp is off by up to its rounding.
    times = [2 * step * (index // 3) + 7_000 * (index % 3) for index in range(300)]
    assert abs(stamps.step_ns(times) - 2 * step) <= 14_000
    assert stamps.spread(times, step)[:4] == [0, step // 3, 2 * step // 3, 2 * step]
    assert stamps.step_ns([0, 10_000_000, 13_000_001, 29_123_456]) is None
    assert stamps.step_ns([0, 100_000, 200_000]) is None
    assert "None of these" in stamps.section(expected, stand_ins(folder, 0))


def test_both_readings_of_the_sum_are_told(sections):
    import sharing

    rows = sections["Figures 4.5 and 4.6: clients that share"]
    errors = [row for row in rows if row.ours is not None and "error of the sum" in row.claim.says]
    anew, own = ([row.ours for row in errors if row.case.endswith(reading)]
                 for reading in (sharing.ANEW, sharing.OWN))
    assert len(anew) == len(own) == len(errors) // 2 > 0
    # Keeping each client's own promise is harder than answering the same number of all requests in
    # time, so the sum of capacities is a closer estimate.
    assert all(mine <= other for mine, other in zip(own, anew))
