"""Tests that every Python example of the documents runs, and passes a strict type checker with the stubs.

The examples of a page are one program, in their order. A new page must list the files that it needs in `files`.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import warnings

import polars as pl
import pytest
from conftest import ROOT, TERASORT

import forebay

#: Definitions that a page leaves to its reader. They are inserted in the line of its title.
GIVEN = {
    "sweep.md": 'grid: dict[str, dict[str, str]]; grid, traces = {"cache": {}}, ["day1.parquet"]',
    "python-policies.md": "from shortest_seek import ShortestSeek",
}
EXAMPLES = ROOT / "examples" / "policies"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def program(page):
    """Returns the examples of a page at their own lines, so that messages have the page's line numbers."""
    lines, inside = [], False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    if any(lines):
        lines[0] = GIVEN.get(page.name, "")
    return "\n".join(lines) + "\n"


WITH_PYTHON = [page for page in PAGES if program(page).strip()]


def test_no_example_is_missed():
    # Other kinds of code blocks are not programs, or other tests run them: the command's tests run
    # the commands in docs/*.md.
    known = {"", "python", "sh", "console", "text", "toml", "json", "ini"}
    for page in PAGES:
        fences = re.findall(r"^[ \t]*```(.*)$", page.read_text(), re.M)
        assert set(fences) <= known, page
        assert len(fences) % 2 == 0, page
        indented = re.findall(r"^[ \t]+```python", page.read_text(), re.M)
        assert not indented, page
    assert {page.name for page in WITH_PYTHON} >= {"python.md", "python-policies.md", "sweep.md", "fleet.md"}


@pytest.fixture
def files(tmp_path, monkeypatch, command):
    """Creates a folder with the files that the pages name."""
    small = tmp_path / "trace.parquet"
    forebay.convert(forebay.read(TERASORT).to_polars().head(2000), small)
    for name in ("day1.parquet", "day2.parquet"):
        (tmp_path / name).write_bytes(small.read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forebay.convert(small, tmp_path / "trace.blktrace.0", to="blktrace")
    volumes = forebay.read(small).to_polars().with_columns(volume=pl.col("stream") % 3)
    forebay.convert(volumes, tmp_path / "volumes.parquet")
    assert command("convert", tmp_path / "volumes.parquet", tmp_path / "fleet", "--partition-by", "volume").returncode == 0
    for number in range(1, 5):
        (tmp_path / f"disk{number}").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    return tmp_path


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_every_example_runs(page, files):
    text = program(page).replace('"/disk', f'"{files}/disk').replace("mb=100_000", "mb=100")
    with contextlib.ExitStack() as stack:
        if "tcp://scheduler" in text:
            distributed = pytest.importorskip("distributed", reason="no Dask for the example of a cluster")
            cluster = stack.enter_context(distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None))
            stack.callback(lambda: distributed.default_client().close())
            text = text.replace("tcp://scheduler:8786", cluster.scheduler_address)
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", forebay.TraceWarning)
        names = {"__name__": "__main__"}
        exec(compile(text, str(page), "exec"), names)
        for value in names.values():
            if isinstance(value, forebay.Store):
                value.close()


@pytest.mark.slow
def test_every_example_holds_against_the_stubs(tmp_path):
    for page in WITH_PYTHON:
        (tmp_path / (page.stem.replace("-", "_") + "_page.py")).write_text(program(page))
    # Make sure that mypy finds an error; otherwise, finding none would mean nothing.
    (tmp_path / "wrong_page.py").write_text('import forebay\nforebay.simulate("x", device="y", policy="noop")\n')
    words = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"),
             "--allow-untyped-defs", "--allow-untyped-calls", "--allow-incomplete-defs", "--no-error-summary",
             "--cache-dir", str(ROOT / "target" / "py" / "mypy"), *map(str, sorted(tmp_path.glob("*_page.py")))]
    ended = subprocess.run(words, capture_output=True, text=True, check=False,
                           env=os.environ | {"MYPYPATH": str(EXAMPLES)})
    said = [line for line in ended.stdout.splitlines() if ": error: " in line]
    assert all("wrong_page.py:2" in line for line in said), ended.stdout
    assert any('Unexpected keyword argument "policy"' in line for line in said), ended.stdout + ended.stderr


@pytest.mark.slow
def test_every_name_in_a_text_is_there_for_a_type_checker(tmp_path):
    names = set()
    for page in PAGES:
        for span in re.findall(r"`([^`\n]+)`", page.read_text()):
            names |= set(re.findall(r"(?<![-\w.])forebay\.[a-z]\w*(?:\.\w+)?(?![\w-])", span))
    names = {name for name in names if name.split(".")[1] not in {"fish", "json", "rs"}}  # file names
    assert {"forebay.sweep.report", "forebay.laws.check"} <= names
    lines = ["import forebay, forebay.reproduce, forebay.sweep", *sorted(names), "forebay.simulate.absent"]
    (tmp_path / "names.py").write_text("\n".join(lines) + "\n")
    words = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary",
             "--cache-dir", str(ROOT / "target" / "py" / "mypy"), str(tmp_path / "names.py")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    said = [line for line in ended.stdout.splitlines() if ": error: " in line]
    assert [line for line in said if f"names.py:{len(lines)}:" not in line] == [], ended.stdout
    assert any("absent" in line for line in said), ended.stdout + ended.stderr
