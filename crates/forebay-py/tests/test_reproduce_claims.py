"""Tests how claims are handled: read from tables, stored as data, compared, and shown on one page; and that cases are
computed once.
"""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from conftest import ROOT

from forebay import reproduce
from forebay.reproduce import cases as kept_cases
from forebay.reproduce import command, verdicts
from forebay.reproduce import page as page_module
from forebay.reproduce.tables import read

PAPERS = [ROOT / "papers" / name for name in command.PAPERS]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_committed_claims_follow_from_the_committed_table(paper):
    found = reproduce.found((paper / "table.md").read_text(), paper / "expected.toml")
    assert verdicts.written(found, paper.name) == (paper / "claims.toml").read_text()
    assert verdicts.committed(paper / "claims.toml") == found
    assert len({one.id for one in found}) == len(found)
    listed = {claim["id"] for claim in reproduce.load(paper / "expected.toml").get("claim", [])}
    assert listed <= {one.id.removeprefix("elsewhere ") for one in found}, "each claim has its verdict"
    for one in found:
        if one.verdict == verdicts.NOT:
            assert one.reason, one.id


def test_tables_are_read_back():
    text = "# T\n\n## One\n\nBefore\nit.\n\n" + reproduce.table(["a", "b c"], [["1", "x"], ["2", ""]])
    text += "\n## Two\n\n" + reproduce.table(["a"], [["3"]])
    one, two = read(text)
    assert (one.section, one.before) == ("One", "Before it.")
    assert one.rows == [{"a": "1", "b c": "x"}, {"a": "2", "b c": ""}]
    assert (two.section, two.before, two.rows) == ("Two", "", [{"a": "3"}])


EXPECTED = """tolerance = 0.1
[[claim]]
id = "range"
source = "p. 1"
says = "a range"
unit = "%"
low = 10
high = 20
[[claim]]
id = "gain"
source = "p. 2"
says = "a gain"
unit = "%"
low = 10
high = 20
more = true
[[claim]]
id = "number"
source = "p. 3"
says = "a number"
unit = "ms"
low = 100
high = 100
[[claim]]
id = "words"
source = "p. 4"
says = "words"
unit = ""
"""


def judged(tmp_path, **values):
    """Returns the claims that result from these figures of ours, by id."""
    expected = tmp_path / "expected.toml"
    expected.write_text(EXPECTED)
    claims = reproduce.claims(expected)
    rows = []
    for key, ours in values.items():
        for at, one in enumerate(ours):
            case, paper, value, deviation, cause = reproduce.Row(claims[key], f"trace {at}", one, f"why {at}").cells()
            rows.append([claims[key].source, claims[key].says, case, paper, value, deviation, claims[key].unit, cause])
    heads = ["source", "what", "case", "paper", "ours", "deviation", "unit", "cause"]
    text = "# T\n\n## S\n\n" + reproduce.table(heads, rows)
    return {one.id: one for one in reproduce.found(text, expected)}


@pytest.mark.parametrize(
    ("key", "ours", "verdict"),
    [
        ("range", [10, 20], "borne out"),
        ("range", [9.99, 15], "in part"),
        ("range", [20.1, 9], "not borne out"),
        ("gain", [20.1, 99], "borne out"),
        ("gain", [9.9], "not borne out"),
        ("number", [90, 110], "borne out"),
        ("number", [89, 111], "not borne out"),
        ("number", [None], "not tried"),
        ("number", [None, 100], "borne out"),
        ("words", [3], "no number"),
    ],
)
def test_a_verdict_follows_from_the_figures(tmp_path, key, ours, verdict):
    one = judged(tmp_path, **{key: ours})[key]
    assert one.verdict == verdict
    assert len(one.figures) == len(ours)


def test_reasons_are_those_of_what_does_not_hold(tmp_path):
    one = judged(tmp_path, range=[15, 1, 2, 3, 4])["range"]
    assert one.reason == "why 1; why 2; and 2 more"
    assert one.ours == "1.00 to 15.0 %; 1 of 5 bear it out"
    assert one.paper == "10.0 to 20.0 %"


def test_what_is_worse_or_has_moved_is_named(tmp_path):
    before = list(judged(tmp_path, range=[15, 12], number=[100]).values())
    assert verdicts.out(before, before) == []
    near = list(judged(tmp_path, range=[15.1, 12], number=[100]).values())
    assert verdicts.out(before, near) == []
    moved = list(judged(tmp_path, range=[16, 12], number=[100]).values())
    assert verdicts.out(before, moved) == ["range: trace 0 from 15.0 to 16.0"]
    worse = list(judged(tmp_path, range=[15, 9.9], number=[100]).values())
    assert verdicts.out(before, worse)[0] == "range: was borne out and is in part"
    assert verdicts.out(worse, before) == ["range: trace 1 from 9.90 to 12.0"], "better is news too, but no worse"


def doubled(case):
    Path(case[1]).open("a").write(f"{case[0]}\n")
    return case[0] * 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(kept_cases.FOLDER, str(tmp_path / "cases"))
    return tmp_path


def test_a_case_is_done_once(folder):
    done = folder / "done"
    cases = [(number, str(done)) for number in range(5)]
    assert reproduce.grid(doubled, cases[:3], 1) == [0, 2, 4]
    assert reproduce.grid(doubled, cases, 1) == [0, 2, 4, 6, 8]
    assert done.read_text().split() == list("01234")
    # Damaged results are computed again.
    first = min((folder / "cases").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    first.write_bytes(first.read_bytes()[:3])
    assert reproduce.grid(doubled, cases, 1) == [0, 2, 4, 6, 8]
    assert len(done.read_text().split()) == 6
    assert not [path for path in (folder / "cases").iterdir() if path.suffix != ".pickle"]


def test_a_case_is_another_where_a_file_is(folder):
    calls = []

    @reproduce.kept
    def length(path: Path, more: int = 0):
        calls.append(path)
        return len(path.read_bytes()) + more

    path = folder / "trace"
    path.write_text("abc")
    assert (length(path), length(path), length(path, more=1)) == (3, 3, 4)
    assert len(calls) == 2
    path.write_text("abcd")
    # A file is assumed not to change during a run, but in the next run it has changed.
    length.__wrapped__(path)
    name = kept_cases._name(length.__wrapped__, (path, 0))
    assert not name.exists()
    path.write_text("abc")
    assert kept_cases._name(length.__wrapped__, (path, 0)).exists()


def test_time_that_is_over_ends_a_grid_and_keeps_what_is_done(folder, monkeypatch):
    done = folder / "done"
    cases = [(number, str(done)) for number in range(3)]
    monkeypatch.setenv(kept_cases.UNTIL, "1")
    for count in (1, 2, 3):
        with pytest.raises(reproduce.OutOfTime):
            reproduce.grid(doubled, cases, 1)
        assert len(done.read_text().split()) == count
    assert reproduce.grid(doubled, cases, 1) == [0, 2, 4]


def test_progress_is_told(folder, capsys, monkeypatch):
    monkeypatch.setattr(kept_cases, "EVERY_S", 0.0)
    cases = [(number, str(folder / "done")) for number in range(20)]
    reproduce.grid(doubled, cases, 1)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 20 and told[1].startswith("forebay: 2 of 20 cases, 0 of them kept; about 0 min left")


def test_the_page_shows_every_claim():
    text = page_module.page(PAPERS)
    root = ElementTree.fromstring(text.split("\n", 1)[1])
    articles = [node for node in root.iter() if node.tag.rpartition("}")[2] == "article"]
    claims = [one for paper in PAPERS for one in verdicts.committed(paper / "claims.toml")]
    assert len(articles) == len(claims) > 100
    for one, article in zip(claims, articles, strict=True):
        shown = " ".join("".join(article.itertext()).split())
        assert one.verdict.lower() in shown.lower()
        for part in (one.says, one.source, one.paper, one.ours, one.reason):
            assert " ".join(part.split()) in shown, (one.id, part)
    assert "http" not in text.replace("http://www.w3.org", ""), "nothing outside itself"
    assert f"Of {len(claims)} claims of 5 papers: " in text


def run(*words, cwd=ROOT):
    words = [sys.executable, "-m", "forebay.reproduce", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd)


PAPER = """
def main(options):
    from forebay import reproduce
    from pathlib import Path
    here = Path(__file__).parent
    claim = reproduce.claims(here / "expected.toml")["number"]
    case, paper, ours, deviation, cause = reproduce.Row(claim, "c", float((here / "ours").read_text()), "because").cells()
    heads = ["source", "what", "case", "paper", "ours", "deviation", "unit", "cause"]
    rows = [[claim.source, claim.says, case, paper, ours, deviation, claim.unit, cause]]
    return "# A paper\\n\\n## S\\n\\n" + reproduce.table(heads, rows)
"""


@pytest.fixture
def paper(tmp_path):
    folder = tmp_path / "papers" / "some"
    folder.mkdir(parents=True)
    (folder / "run.py").write_text(PAPER)
    (folder / "expected.toml").write_text(EXPECTED)
    (folder / "ours").write_text("95")
    return folder


def test_a_paper_is_written_and_checked(paper, tmp_path):
    words = [paper, "--work", tmp_path / "work"]
    written = run(*words)
    assert written.returncode == 0, written.stderr
    assert 'verdict = "borne out"' in (paper / "claims.toml").read_text()
    assert run(*words, "--check").returncode == 0
    (paper / "ours").write_text("80")
    checked = run(*words, "--check")
    assert checked.returncode == 1
    said = checked.stderr.splitlines()
    assert said == [
        "forebay: some: number: was borne out and is not borne out",
        "forebay: some: number: c from 95.0 to 80.0",
        "forebay: some: table.md differs from the computed one",
        "forebay: some: claims.toml differs from the computed one",
    ]
    assert 'verdict = "borne out"' in (paper / "claims.toml").read_text(), "nothing is written"
    again = run(*words)
    assert again.returncode == 1 and "was borne out and is not" in again.stderr
    assert run(*words).returncode == 0, "what is committed is what it is now held to"
    strict = run(*words, "--strict")
    assert strict.returncode == 1 and strict.stderr.splitlines()[-1] == "forebay: some: number: not borne out"


def test_a_page_needs_no_run(paper, tmp_path):
    run(paper, "--work", tmp_path / "work")
    ended = run(paper, "--page", tmp_path / "one.html")
    assert ended.returncode == 0, ended.stderr
    text = (tmp_path / "one.html").read_text()
    assert "Of 1 claim of 1 paper: 1 borne out" in text and "A paper" in text
