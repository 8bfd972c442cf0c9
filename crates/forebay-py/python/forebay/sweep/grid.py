"""What is asked: grids and traces as cells, each with a name that says what its answer hangs on."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from .. import Error, __version__
from .verbs import VERBS, check

Grid = Mapping[str, Mapping[str, Any]]
"""By verb, its parameters: a list is an axis, anything else is one value."""


@dataclass(frozen=True)
class Cell:
    """One question.

    `trace` is a path or an fsspec address, `volume` one of a folder that `convert --partition-by volume` made, or empty;
    `parameters` are JSON, sorted by name; `likeness` says what the trace was like when it was asked.
    """

    verb: str
    trace: str
    volume: str
    file: str
    parameters: str
    likeness: str

    @property
    def name(self) -> str:
        """The hash of all its answer hangs on: 32 hexadecimal digits."""
        asked = json.dumps([__version__, *asdict(self).values()])
        return hashlib.sha256(asked.encode()).hexdigest()[:32]


def cells(
    grid: Grid | Sequence[Grid],
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    by_volume: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """The questions of a grid about traces, in order: by trace, volume, verb, parameters; each once.

    With `by_volume` the traces are folders that `forebay convert --partition-by volume` made, and each volume is asked
    about. `storage` are fsspec's options for addresses.
    """
    if isinstance(traces, (str, os.PathLike)):
        traces = [traces]
    asked = [*_questions(grid)]
    if not asked:
        raise Error("grid: got nothing to ask, expected a verb with its parameters")
    found: dict[str, Cell] = {}
    for path in traces:
        trace = os.fspath(path)
        for volume, file in _files(trace, by_volume, storage):
            likeness = _likeness(file, storage)
            for verb, parameters in asked:
                cell = Cell(verb, trace, volume, file, parameters, likeness)
                found.setdefault(cell.name, cell)
    return list(found.values())


def _questions(grid: Grid | Sequence[Grid]) -> Iterator[tuple[str, str]]:
    for one in [grid] if isinstance(grid, Mapping) else grid:
        for verb, parameters in one.items():
            if verb not in VERBS:
                raise Error(f"grid: got the verb '{verb}', expected one of: {', '.join(VERBS)}")
            check(verb, parameters)
            axes = [
                [(name, value) for value in (values if isinstance(values, list) else [values])]
                for name, values in parameters.items()
            ]
            for chosen in itertools.product(*axes):
                try:
                    yield verb, json.dumps(dict(chosen), sort_keys=True)
                except TypeError as error:
                    raise Error(f"grid: {verb}: {error}; expected what JSON can hold") from None


def is_address(trace: str) -> bool:
    """Whether a trace is fsspec's to fetch."""
    return len(urlparse(trace).scheme) > 1


def _files(
    trace: str, by_volume: bool, storage: Mapping[str, Any] | None
) -> Iterator[tuple[str, str]]:
    """A trace's volumes and their files; of one that is not parted its own."""
    if not by_volume:
        yield "", trace
        return
    try:
        parts = json.loads(_read(f"{trace.rstrip('/')}/manifest.json", storage))["parts"]
        files = [(part["volume"], part["file"]) for part in parts]
    except FileNotFoundError:
        raise Error(
            f"{trace}: got no manifest.json, expected a folder that forebay convert --partition-by volume made"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise Error(f"{trace}/manifest.json: {error!r}; make the folder anew") from None
    for volume, file in files:
        yield volume, f"{trace.rstrip('/')}/{file}"


def _read(file: str, storage: Mapping[str, Any] | None) -> bytes:
    if not is_address(file):
        return Path(file).read_bytes()
    import fsspec

    with fsspec.open(file, "rb", **(storage or {})) as opened:
        content: bytes = opened.read()
    return content


def _likeness(file: str, storage: Mapping[str, Any] | None) -> str:
    """What tells a file from another one of the same address; empty where it cannot be had: then its cells fail."""
    try:
        if not is_address(file):
            found = os.stat(file)
            return f"{found.st_size}/{found.st_mtime_ns}"
        import fsspec

        system, path = fsspec.core.url_to_fs(file, **(storage or {}))
        about = system.info(path)
        changed = about.get("ETag") or about.get("mtime") or about.get("LastModified")
        return f"{about.get('size')}/{changed}"
    except OSError:
        return ""
