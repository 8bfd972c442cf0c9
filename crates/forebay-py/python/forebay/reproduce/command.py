"""The command: runs papers one after another, each in its own process."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .. import Error
from .verdicts import BORNE_OUT, committed, found, out, written
from .cases import FOLDER, UNTIL, OutOfTime
from .page import page

#: The papers, in the order in which the page lists them.
PAPERS = ("bid", "model", "shaping", "raid", "shift")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses the command-line options."""
    parser = argparse.ArgumentParser(
        prog="python -m forebay.reproduce",
        description="Reproduces the papers' tables and claims, and compares our results with theirs. The exit status is "
        "1 if a figure or a verdict differs from the committed one, and 3 if the time was over.",
    )
    parser.add_argument("paper", type=Path, nargs="?", help="a paper's folder, such as papers/bid; by default, all five")
    parser.add_argument("--short", action="store_true", help="use only the bundled trace")
    parser.add_argument("--full", action="store_true", help="scale nothing down")
    parser.add_argument("--check", action="store_true", help="write nothing, but compare the results with the committed ones")
    parser.add_argument("--strict", action="store_true", help="also exit with status 1 if a claim is not borne out")
    parser.add_argument("--minutes", type=float, help="stop after this many minutes; completed cases are kept for the next run")
    parser.add_argument("--page", type=Path, help="write the page of all claims from the committed results, without running a paper")
    parser.add_argument("--traces", type=Path, help="the folder of the traces; see the head of a table")
    parser.add_argument("--device", help="the disk to use for every trace, instead of the chosen ones")
    parser.add_argument("--flash", default="samsung-830", help="the flash device to use in addition to the disk")
    parser.add_argument("--work", type=Path, default=Path("target/reproduce"), help="the folder for temporary files and completed cases")
    parser.add_argument("--pictures", type=Path, help="the folder for the figures (needs matplotlib)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="the output file, instead of table.md next to run.py, or of NAME-part.md in --work with --short, --full or --device; without a paper, the file of the page")
    options = parser.parse_args(words)
    output = options.output
    if output is not None and options.paper is not None and _is_read(output, options):
        parser.error(f"{output}: got an input file, expected another file")
    if options.minutes is not None and not 0 < options.minutes < 1e6:
        parser.error(f"--minutes: got {options.minutes}, expected more than 0")
    if options.processes < 1:
        parser.error(f"--processes: got {options.processes}, expected 1 or more")
    return options


def _is_read(output: Path, options: argparse.Namespace) -> bool:
    """Returns whether a path refers to an input: a file of the paper or of the traces."""
    folders = [folder for folder in (options.paper, options.traces) if folder is not None]
    read = (path for folder in folders for path in folder.rglob("*") if path.name != "table.md")
    return output.is_file() and any(path.is_file() and path.samefile(output) for path in read)


def main(words: Sequence[str] | None = None) -> int:
    """Reproduces the papers named on the command line."""
    try:
        return _reproduced(arguments(words), words)
    except (Error, OSError) as error:
        print(f"forebay: {error}", file=sys.stderr)
        return 2


def _reproduced(options: argparse.Namespace, words: Sequence[str] | None) -> int:
    for folder in _folders(options):
        if not (folder / "run.py").is_file():
            raise Error(f"{folder}: has no run.py; expected a paper's folder of the repository, such as papers/bid")
    if options.page is not None:
        return _write_page(options.page, _folders(options))
    if options.paper is None:
        return _all(options, list(sys.argv[1:] if words is None else words))
    os.environ[FOLDER] = str((options.work / "cases").resolve())
    if options.minutes is not None:
        os.environ.setdefault(UNTIL, str(time.time() + 60 * options.minutes))
    sys.path.insert(0, str(options.paper.resolve()))
    try:
        text = importlib.import_module("run").main(options)
    except OutOfTime:
        print(f"forebay: {options.paper}: the time is over; completed cases are kept, and another run continues from there", file=sys.stderr)
        return 3
    return _ended(options, text)


def _ended(options: argparse.Namespace, text: str) -> int:
    """Writes the results of a paper or compares them with the committed ones."""
    paper, claims = options.paper, []
    if (paper / "expected.toml").is_file():
        claims = found(text, paper / "expected.toml")
    is_whole = not options.short and not options.full and options.device is None
    said = out(committed(paper / "claims.toml"), claims) if is_whole else []
    said += [f"{one.id}: {one.verdict}" for one in claims if options.strict and one.verdict != BORNE_OUT]
    if options.check:
        if is_whole and (paper / "table.md").read_text() != text:
            said.append("table.md differs from the computed one")
        if is_whole and (paper / "claims.toml").read_text() != written(claims, paper.name):
            said.append("claims.toml differs from the computed one")
    else:
        # Incomplete results must never replace committed ones.
        own = paper / "table.md" if is_whole else options.work / f"{paper.name}-part.md"
        output = options.output or own
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)
        print(f"forebay: wrote {output}", file=sys.stderr)
        if options.output is None and is_whole:
            (paper / "claims.toml").write_text(written(claims, paper.name))
    for sentence in said:
        print(f"forebay: {paper.name}: {sentence}", file=sys.stderr)
    return 1 if said else 0


def _folders(options: argparse.Namespace) -> list[Path]:
    """Returns the papers' folders in the repository that contains the current directory."""
    if options.paper is not None:
        return [options.paper]
    return [Path("papers") / name for name in PAPERS]


def _all(options: argparse.Namespace, words: list[str]) -> int:
    """Runs each paper in its own process, because their modules have the same names, then builds the page."""
    worst = 0
    if options.minutes is not None:
        os.environ[UNTIL] = str(time.time() + 60 * options.minutes)
    output = options.output
    if output is not None:
        at = next(at for at, word in enumerate(words) if word in ("-o", "--output") or word.startswith("--output="))
        del words[at : at + (1 if "=" in words[at] else 2)]
    for folder in _folders(options):
        print(f"forebay: {folder}", file=sys.stderr)
        ended = subprocess.run([sys.executable, "-m", "forebay.reproduce", str(folder), *words], check=False)
        worst = max(worst, ended.returncode) if ended.returncode >= 0 else 130
        if ended.returncode not in (0, 1):
            return worst
    options.work.mkdir(parents=True, exist_ok=True)
    _write_page(output or options.work / "claims.html", _folders(options))
    return worst


def _write_page(path: Path, folders: list[Path]) -> int:
    path.write_text(page(folders), encoding="utf-8")
    print(f"forebay: wrote {path}", file=sys.stderr)
    return 0
