"""Tests a sweep's page: it counts every cell once, draws medians, names failures, and is written atomically."""

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import TERASORT

import forebay
from forebay.sweep import report
from forebay.sweep.answers import SCHEMA, Dataset
from forebay.sweep.report import _picture, _rows, _told, _flat


def row(verb, parameters, figures, *, trace="t", error=None, cell=None, notes=()):
    """Returns rows as a sweep stores them."""
    return {
        "cell": cell or json.dumps([verb, trace, parameters]),
        "version": "0",
        "verb": verb,
        "trace": trace,
        "volume": "",
        "parameters": json.dumps(parameters),
        "error": error,
        "notes": list(notes),
        "elapsed_s": 1.0,
        "processor_s": 1.0,
        "peak_mib": 1.0,
        "figures": list(figures.items()),
        "answer": None if error else json.dumps(figures),
    }


def kept(folder, rows):
    dataset = Dataset(folder)
    dataset.add(rows)
    assert pa.Table.from_pylist(rows, SCHEMA).num_rows == len(rows)
    return folder


def read(page):
    """Returns the page as a tree, and its visible text."""
    text = page.read_text(encoding="utf-8")
    tree = ET.fromstring(text.replace("<!DOCTYPE html>", ""))
    body = tree.find("body")
    return body, " ".join(" ".join(body.itertext()).split())


def cells_of(body, title):
    (section,) = [part for part in body.iter("section") if part.find("h2") is not None and part.find("h2").text == title]
    return [[cell.text for cell in line] for line in section.find(".//tbody")]


def test_a_page_of_a_sweep(tmp_path):
    grid = {
        "simulate": {"device": "fixed:300", "policy": ["none", "bfq"]},
        "plan": {"within": "20ms", "fraction": [0.9, 0.99]},
    }
    found = forebay.sweep(grid, [TERASORT, "missing.parquet"], output=tmp_path / "answers", processes=1)
    report(found, tmp_path / "sweep.html")
    body, said = read(tmp_path / "sweep.html")
    assert "8 cells about 2 traces (4 of simulate, 4 of plan): 4 have an answer, 4 failed." in said
    assert len(cells_of(body, "Results of simulate")) == len(cells_of(body, "Results of plan")) == 2
    failures = cells_of(body, "What failed")
    assert len(failures) == 4 and all(line[0] == "missing.parquet" for line in failures)
    assert found.failed()[0]["error"] in said
    # The figures equal those of the verbs. The capacity for a promise is in a list with one
    # element.
    planned = forebay.plan_capacity(TERASORT, within=["20ms"], fraction=[0.99])["rows"][0]["capacity_iops"]
    assert f"{planned:,}\u00a0IOPS".replace(",", "\u202f") in [line[-1] for line in cells_of(body, "Results of plan")]
    # A report made from the folder alone is the same.
    report(tmp_path / "answers", tmp_path / "folder.html", figure="capacity_iops", along="fraction")
    body, said = read(tmp_path / "folder.html")
    assert "8 cells about 2 traces" in said and "plan: least capacity is lowest at promised share 90 % (" in said


def test_medians_are_drawn_over_what_was_chosen(tmp_path):
    seconds = {("a", 1): [1, 3, 8], ("a", 2): [5, 6, 7], ("b", 1): [10, 10, 10], ("b", 2): [2, 2, 2]}
    rows = [
        row("simulate", {"policy": policy, "intensity": times}, {"busy_s": value, "reads": 7}, trace=f"t{at}")
        for (policy, times), values in seconds.items()
        for at, value in enumerate(values)
    ]
    flat = [_flat(one) for one in rows]
    drawn, said = _picture(flat, "simulate", "busy_s", "intensity")
    assert drawn["curve"]["lines"] == [
        {"name": "policy a", "points": [[1, 3], [2, 6]]},
        {"name": "policy b", "points": [[1, 10], [2, 2]]},
    ]
    assert said == [
        "simulate: busy time is lowest at intensity 2 (3.50\u00a0s) and highest at intensity 1 (9.00\u00a0s).",
        "Each figure is the median of at least 6 cells.",
    ]
    drawn, said = _picture(flat, "simulate", "busy_s", "policy")
    bars = {bar["name"]: bar["size"] for bar in drawn["bars"]["bars"]}
    assert bars == {"a, intensity 1": 3, "a, intensity 2": 6, "b, intensity 1": 10, "b, intensity 2": 2}
    # By default, the axis is the first parameter with several values, or else the traces.
    report(kept(tmp_path / "answers", rows), tmp_path / "page.html")
    body, text = read(tmp_path / "page.html")
    assert "simulate: busy time over policy" in text and "All 12 cells about 3 traces have an answer" in text
    # Each picture exists twice: for wide pages and for phones.
    assert len(body.findall(".//rect[@class='other']")) == 2 * 4
    # Whole numbers are shown as counts.
    report(tmp_path / "answers", tmp_path / "page.html", figure="reads", along="intensity")
    body, text = read(tmp_path / "page.html")
    assert len([line for line in body.iter("path") if (line.get("class") or "").startswith("series s")]) == 2 + 2 * 4
    assert "policy a, intensity 1.00: 7.00" in text


def test_keys_are_told_as_words_and_figures_in_their_units(tmp_path):
    answer = {"recommended": {"size_mib": 6035.0, "lru_miss_ratio": 0.657}, "accesses": 5685930, "distinct_blocks": 3}
    rows = [row("cache", {"block_kib": kib}, {}) for kib in (4, 2048)]
    for kib, one in zip((4, 2048), rows, strict=True):
        one["answer"] = json.dumps(answer | {"accesses": 5685930 * kib})
    flat = [_flat(one) for one in rows]
    (table,) = _told(flat, None, None)["tables"]
    assert table["heads"] == ["trace", "block", "recommended cache", "missed by the recommended cache", "blocks used", "different blocks"]
    assert table["rows"][0] == ["t", "4\u00a0KiB", "5.89\u00a0GiB", "65.7\u00a0%", "22\u202f743\u202f720", "3"]
    # The unit of an axis suits its largest value.
    drawn, said = _picture(flat, "cache", "recommended.size_mib", "block_kib")
    assert drawn["curve"]["along"] == "block, MiB" and drawn["curve"]["up"] == "recommended cache, GiB"
    (line,) = drawn["curve"]["lines"]
    assert line["points"] == [[4 / 1024, 6035 / 1024], [2, 6035 / 1024]]
    assert said == ["cache: recommended cache is 5.89\u00a0GiB at block 4\u00a0KiB."]
    report(kept(tmp_path / "answers", rows), tmp_path / "page.html")
    body, said = read(tmp_path / "page.html")
    assert not any(key in said for key in ("_kib", "_mib", "distinct_blocks", "lru_miss"))


def test_every_cell_counts_once_and_a_later_answer_takes_a_failure_s_place(tmp_path):
    first = row("cache", {}, {}, error="it fell over", cell="c")
    kept(tmp_path, [first, row("cache", {"block_kib": 8}, {"accesses": 3})])
    assert len(_rows(tmp_path)) == 2
    assert _told([_flat(one) for one in _rows(tmp_path)], None, None)["verdict"] == "Some cells failed"
    kept(tmp_path, [row("cache", {}, {"accesses": 2}, cell="c", notes=["a thin trace"])])
    told = _told([_flat(one) for one in _rows(tmp_path)], None, None)
    assert told["verdict"] == "All cells have an answer" and told["headline"].startswith("All 2 cells about 1 trace have")
    assert told["cautions"] == ["a thin trace (1 cell)"]
    (table,) = told["tables"]
    assert table["heads"] == ["trace", "block", "blocks used"] and len(table["rows"]) == 2


def test_parameters_of_every_kind_are_shown(tmp_path):
    kinds = {"yes": True, "none": None, "list": [64, 256], "table": {"a": 1}, "whole": 3, "part": 0.5, "text": "x"}
    rows = [row("cache", kinds | {"n": n}, {"accesses": int(n)}) for n in (False, True)]
    report(kept(tmp_path / "answers", rows), tmp_path / "page.html", along="n")
    body, said = read(tmp_path / "page.html")
    cells = dict(zip(["trace", *kinds], cells_of(body, "Results of cache")[0], strict=False))
    shown = {"yes": "true", "none": "null", "list": "[64, 256]", "table": '{"a": 1}', "whole": "3", "part": "0.5"}
    assert shown.items() <= cells.items() and "cache: blocks used over n" in said


def test_many_failures_and_hostile_names_stay_on_the_page(tmp_path):
    hostile = "<script>\"&'"
    rows = [row("cache", {"n": n}, {}, trace=hostile, error=hostile if n else "x" * 300) for n in range(60)]
    report(kept(tmp_path / "answers", rows), tmp_path / "page.html")
    body, said = read(tmp_path / "page.html")
    assert "60 cells about 1 trace" in said and "0 have an answer, 60 failed" in said
    assert len(cells_of(body, "What failed")) == 40 and "60 cells, 2 different messages; 40 are shown" in said
    assert "<script>\"" not in (tmp_path / "page.html").read_text() and hostile in said


def test_those_that_share_a_message_with_most_come_first_and_the_longest_are_told(tmp_path):
    rows = [row("cache", {"n": n}, {}, error="rare" if n == 0 else "common") for n in range(5)]
    rows += [row("cache", {"n": n}, {"accesses": n}) | {"elapsed_s": float(n)} for n in (5, 6, 10)]
    told = _told([_flat(one) for one in rows], None, None)
    (_, failures) = told["tables"]
    assert [line[-1]["said"] for line in failures["rows"]] == ["common"] * 4 + ["rare"]
    assert failures["rows"][-1][2] == "n 0" and failures["told"].startswith("5 cells, 2 different messages.")
    assert told["findings"][-1] == "Median time per cell: 6.00\u00a0s; longest: 10.0\u00a0s; total: 21.0\u00a0s."
    assert told["verdict"] == "Some cells failed"
    assert told["headline"].startswith("cache: blocks used is lowest at n 5 (")
    assert told["headline"].endswith("8 cells about 1 trace (8 of cache): 3 have an answer, 5 failed.")


def test_what_does_not_fit_is_said(tmp_path):
    rows = [row("cache", {"m": m, "n": n}, {"accesses": m * n}) for m in range(20) for n in range(12)]
    flat = [_flat(one) for one in rows]
    told = _told(flat, "accesses", "n")
    assert len(told["curve"]["lines"]) == 12 and told["curve"]["lines"][3]["points"][2] == [2, 6]
    assert "The picture shows 12 of 20 combinations of m." in told["findings"]
    (table,) = told["tables"]
    assert len(table["rows"]) == 200 and table["told"] == "240 cells. The first 200 are shown; to_pyarrow() returns all."
    words = [_flat(row("cache", {"m": f"m{n}"}, {"accesses": n + 1})) for n in range(30)]
    told = _told(words, None, None)
    assert [bar["size"] for bar in told["bars"]["bars"]] == list(range(1, 25))
    assert "The picture shows 24 of 30 bars." in told["findings"]


def test_a_parameter_that_is_nought_is_shown(tmp_path):
    (table,) = _told([_flat(row("cache", {"seed": 0, "share": 0.0}, {"accesses": 1}))], None, None)["tables"]
    assert table["heads"] == ["trace", "seed", "share", "blocks used"]
    assert table["rows"] == [["t", 0, "0\u00a0%", "1"]]


def test_figures_are_numbers_and_those_of_one_table(tmp_path):
    answer = {"ok": True, "no": None, "word": "x", "n": 1, "in": {"part": 0.5, "list": [1]}, "rows": [{"n": 2, "iops": 3}]}
    figures = _flat(row("other", {}, answer))["figures"]
    assert figures == {"n": 1, "in.part": 0.5, "iops": 3, "elapsed_s": 1.0}
    assert _flat(row("other", {}, {"rows": [{"a": 1}, {"a": 2}]}))["figures"] == {"elapsed_s": 1.0}


def test_what_cannot_be_shown_or_written_is_said(tmp_path):
    answers = kept(tmp_path / "answers", [row("cache", {}, {"accesses": 1})])
    page = tmp_path / "page.html"
    for words, why in [
        ({"figure": "nothing"}, "one of the figures accesses, elapsed_s over one of trace, volume"),
        ({"along": "nothing"}, "along='nothing'"),
    ]:
        with pytest.raises(forebay.Error, match=why):
            report(answers, page, **words)
    with pytest.raises(forebay.Error, match="got no folder"):
        report(tmp_path / "none", page)
    (tmp_path / "empty").mkdir()
    with pytest.raises(forebay.Error, match="got no answers"):
        report(tmp_path / "empty", page)
    with pytest.raises(FileNotFoundError, match="cannot write the report"):
        report(answers, tmp_path / "none" / "page.html")
    with pytest.raises(forebay.Error, match="something that is not a file"):
        report(answers, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["answers", "empty"]
    page.write_text("old")
    with pytest.raises(forebay.Error, match="an existing file that is not a report"):
        report(Path(answers), page)
    page.write_text("<!doctype html>old")
    report(Path(answers), page)
    assert "The cell has an answer" in page.read_text()
