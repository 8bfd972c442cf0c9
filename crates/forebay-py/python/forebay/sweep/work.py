"""A worker's part of a sweep: turns questions into rows. A question that fails becomes a row with the reason and does
not affect others.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import TraceWarning, __version__
from .grid import Cell, is_address
from .verbs import VERBS, figures

Row = dict[str, Any]


def answer_all(batch: list[Cell], storage: Mapping[str, Any] | None = None) -> list[Row]:
    """Returns the rows of a batch; `storage` contains fsspec options for addresses."""
    return [answer(cell, storage) for cell in batch]


def answer(cell: Cell, storage: Mapping[str, Any] | None = None) -> Row:
    """Returns the row of a cell."""
    begun, used = time.perf_counter(), time.process_time()
    found: dict[str, Any] | None = None
    trace, error, notes = cell.file, None, []
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", TraceWarning)
            trace = fetch(cell.file, cell.likeness, storage)
            found = VERBS[cell.verb](trace, **json.loads(cell.parameters))
        notes = [str(one.message) for one in said if issubclass(one.category, TraceWarning)]
    # Any exception becomes the answer of the cell.
    except Exception as wrong:
        # Messages must contain the original address instead of the local copy.
        error = (str(wrong) or type(wrong).__name__).replace(trace, cell.file)
    return {
        "cell": cell.name,
        "version": __version__,
        "verb": cell.verb,
        "trace": cell.trace,
        "volume": cell.volume,
        "parameters": cell.parameters,
        "error": error,
        "notes": notes,
        "elapsed_s": time.perf_counter() - begun,
        "processor_s": time.process_time() - used,
        "peak_mib": peak_mib(),
        "figures": list(figures(found).items()),
        "answer": None if found is None else json.dumps(found),
    }


def peak_mib() -> float | None:
    """Returns the peak memory of this process, or None if the system does not report it (`getrusage` would report the
    parent's).
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return None


class _Copy:
    """A local copy of the trace that this worker fetched last. Cells are ordered by trace, so one copy is enough."""

    def __init__(self) -> None:
        self.of: tuple[str, str] | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def path(self, file: str, likeness: str, storage: Mapping[str, Any] | None) -> str:
        import fsspec

        if self.folder is not None and self.of == (file, likeness):
            return f"{self.folder.name}/trace"
        if self.folder is not None:
            self.folder.cleanup()
        self.of, self.folder = None, tempfile.TemporaryDirectory(prefix="forebay-sweep-")
        system, path = fsspec.core.url_to_fs(file, **(storage or {}))
        system.get_file(path, f"{self.folder.name}/trace")
        self.of = (file, likeness)
        return f"{self.folder.name}/trace"


_copies = threading.local()


def fetch(file: str, likeness: str, storage: Mapping[str, Any] | None) -> str:
    """Returns a local path of the trace: its own, or that of a copy of the data at its address."""
    if not is_address(file):
        return file
    if not hasattr(_copies, "last"):
        _copies.last = _Copy()
    path: str = _copies.last.path(file, likeness, storage)
    return path
