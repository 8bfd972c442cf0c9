"""Expands grids and traces to cells, each named by a hash of everything that its answer depends on."""

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
"""Verbs with their parameters: a list is an axis, anything else is a single value."""


@dataclass(frozen=True)
class Cell:
    """One question.

    `trace` is a path or an fsspec address. `volume` is a volume in a folder created by `convert --partition-by volume`,
    or empty. `parameters` is JSON, sorted by name. `likeness` identifies the version of the trace, and `files` the
    versions of files that parameters name (a device, another trace).
    """

    verb: str
    trace: str
    volume: str
    file: str
    parameters: str
    likeness: str
    files: str = ""

    @property
    def name(self) -> str:
        """The hash of everything that the answer depends on, as 32 hexadecimal digits."""
        asked = json.dumps([__version__, *asdict(self).values()])
        return hashlib.sha256(asked.encode()).hexdigest()[:32]


def cells(
    grid: Grid | Sequence[Grid],
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    by_volume: bool | None = False,
    storage: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """Returns the distinct questions of a grid about traces, ordered by trace, volume, verb and parameters.

    With `by_volume`, the traces are folders created by `forebay convert --partition-by volume`, and each question is
    asked about each volume; with None, such folders are detected. `storage` contains fsspec options for addresses.
    """
    paths = _paths(traces)
    asked = [(verb, parameters, _files_named(parameters)) for verb, parameters in _questions(grid)]
    if not asked:
        raise Error("grid: got no questions, expected a verb with its parameters")
    found: dict[str, Cell] = {}
    for trace in paths:
        is_parted = _is_parted(trace, storage) if by_volume is None else by_volume
        for volume, file in _files(trace, is_parted, storage):
            likeness = _likeness(file, storage)
            for verb, parameters, files in asked:
                cell = Cell(verb, trace, volume, file, parameters, likeness, files)
                found.setdefault(cell.name, cell)
    return list(found.values())


def _paths(traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    if isinstance(traces, (str, os.PathLike)):
        traces = [traces]
    try:
        paths = [os.fspath(path) for path in traces]
    except TypeError:
        raise Error(f"traces: got {traces!r}, expected a path or an address, or several") from None
    if not paths:
        raise Error("traces: got none, expected at least one")
    return paths


def _files_named(parameters: str) -> str:
    """Identifies the versions of files that are values of parameters."""
    likenesses = {}
    left = [*json.loads(parameters).values()]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, str) and os.path.isfile(value):
            likenesses[value] = _likeness(value, None)
    return json.dumps(likenesses, sort_keys=True) if likenesses else ""


def _questions(grid: Grid | Sequence[Grid]) -> Iterator[tuple[str, str]]:
    grids = [grid] if isinstance(grid, Mapping) else grid
    if isinstance(grids, str) or not isinstance(grids, Iterable) or not all(isinstance(one, Mapping) for one in grids):
        raise Error(f"grid: got {grid!r}, expected verbs with their parameters, such as {{'simulate': {{'device': ['hc550']}}}}")
    for one in grids:
        for verb, parameters in one.items():
            if not isinstance(parameters, Mapping):
                raise Error(f"grid: {verb}: got {parameters!r}, expected a mapping of parameter names to values")
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
                    raise Error(f"grid: {verb}: {error}; expected values that JSON can represent") from None


def is_address(trace: str) -> bool:
    """Returns whether a trace is fetched through fsspec."""
    return len(urlparse(trace).scheme) > 1


def _is_parted(trace: str, storage: Mapping[str, Any] | None) -> bool:
    """Returns whether a trace is a folder of volumes."""
    if not is_address(trace):
        return os.path.isdir(trace)
    try:
        _read(f"{trace.rstrip('/')}/manifest.json", storage)
    # The cells of the trace will report the error.
    except Exception:
        return False
    return True


def _files(
    trace: str, by_volume: bool, storage: Mapping[str, Any] | None
) -> Iterator[tuple[str, str]]:
    """Returns the volumes of a trace and their files, or the trace's own file if it is not a folder of volumes."""
    if not by_volume:
        yield "", trace
        return
    try:
        parts = json.loads(_read(f"{trace.rstrip('/')}/manifest.json", storage))["parts"]
        files = [(part["volume"], part["file"]) for part in parts]
    except FileNotFoundError:
        raise Error(
            f"{trace}: got no manifest.json, expected a folder created by forebay convert --partition-by volume"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise Error(
            f"{trace}/manifest.json: got an invalid manifest ({type(error).__name__}: {error}), expected one written by "
            "forebay convert; create the folder again"
        ) from None
    except Exception as error:
        raise Error(f"{trace}/manifest.json: {error}") from None
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
    """Identifies the version of a file at an address; empty if that fails, in which case its cells fail too."""
    try:
        if not is_address(file):
            found = os.stat(file)
            return f"{found.st_size}/{found.st_mtime_ns}"
        import fsspec

        system, path = fsspec.core.url_to_fs(file, **(storage or {}))
        about = system.info(path)
        changed = about.get("ETag") or about.get("mtime") or about.get("LastModified")
        return f"{about.get('size')}/{changed}"
    # The cells of the file will report the error.
    except Exception:
        return ""
