"""Tests that the type stubs match the module, and that everything public has a docstring."""

import inspect
import os
import subprocess
import sys

import pytest
from conftest import ROOT

import forebay
from forebay import _forebay

STUBS = ROOT / "crates/forebay-py/python/forebay/__init__.pyi"
MADE = "# Made from the declarations of the verbs: UPDATE=1 pytest tests/test_stubs.py\n"


def test_stubs_are_made_from_the_declarations():
    stubs = STUBS.read_text()
    written, _ = stubs.split(MADE)
    made = written + MADE + "\n" + _forebay.declared_stubs()
    if os.environ.get("UPDATE"):
        STUBS.write_text(made)
    assert stubs == made or os.environ.get("UPDATE")


def test_the_page_of_options_is_made_from_the_declarations():
    page = ROOT / "docs/options.md"
    beginning, _ = page.read_text().split("\n## ", 1)
    made = beginning + "\n" + _forebay.declared_options()
    if os.environ.get("UPDATE"):
        page.write_text(made)
    assert page.read_text() == made


def test_the_page_of_the_package_lists_every_verb():
    page = (ROOT / "docs/python.md").read_text()
    missing = [name for name in _forebay.VERBS if f"`{name}(" not in page and f"`{name}`" not in page]
    assert not missing, f"docs/python.md: no {missing}"


def test_stubs_match():
    pytest.importorskip("distributed", reason="a signature names its Client")
    words = [sys.executable, "-m", "mypy.stubtest", "forebay"]
    words += ["--mypy-config-file", str(ROOT / "pyproject.toml")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_everything_public_is_documented():
    for name in forebay.__all__:
        thing = getattr(forebay, name)
        assert name == "__version__" or inspect.getdoc(thing), name
        members = vars(thing).items() if inspect.isclass(thing) else []
        for member, value in members:
            if not member.startswith("_"):
                assert inspect.getdoc(value), f"{name}.{member}"
