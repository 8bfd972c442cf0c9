"""Runs sweeps: distributes unanswered cells in batches, and stores rows as they arrive."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .. import Error
from .answers import Answers, Dataset
from .grid import Cell, Grid, cells
from .engines import Processes, drive, leave_if_begun_by_sweep

if TYPE_CHECKING:
    from distributed import Client

Progress = Callable[[int, int, int], None]
"""Called with the number of answered cells, the number of all cells, and the number of failed cells."""

# Rows are written when there are this many, or when the oldest has waited this long.
_ROWS_A_PART = 512
_SECONDS_A_PART = 2.0
# Cells are divided into about this many batches, each with at most this many cells.
_BATCHES = 512
_CELLS_A_BATCH = 32
# The timeout for connecting to a Dask scheduler, in seconds.
_SCHEDULER_S = 10


def sweep(
    grid: Grid | Sequence[Grid],
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    output: str | os.PathLike[str],
    by_volume: bool | None = False,
    executor: Executor | None = None,
    client: Client | str | None = None,
    processes: int | None = None,
    shard: tuple[int, int] | None = None,
    retry: bool = False,
    storage: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Answers:
    """Asks every question of `grid` about every trace, and stores the answers in the folder `output`.

    `grid` maps the verbs simulate, plan, describe, fit, compare, advise, cache and windows to their parameters; a list
    of values is an axis of the grid. `traces` are paths, or fsspec addresses with options in `storage`. With
    `by_volume`, they are folders created by `forebay convert --partition-by volume`; with None, such folders are
    detected. Cells that have an answer in `output` are skipped, and so are failed cells unless `retry` is set. The
    sweep runs on `processes` processes of this machine (by default one per processor), on an `executor`, or on the Dask
    cluster of `client`, which may be the address of its scheduler. `shard=(2, 8)` runs only the second of eight parts.

    A cell fails if its trace cannot be read or its worker dies twice; its row then has an `error`. Ctrl-C preserves all
    answers so far. Raises `forebay.Error` if nothing can be run.
    """
    leave_if_begun_by_sweep()
    _check(executor, processes, shard)
    if executor is not None and client is not None:
        raise Error("sweep: got an executor and a client, expected one of them")
    asked = cells(grid, traces, by_volume=by_volume, storage=storage)
    if shard is not None:
        asked = _shard(asked, shard)
    dataset = Dataset(output)
    answered = dataset.answered(retry)
    missing = [cell for cell in asked if cell.name not in answered]
    with ExitStack() as stack:
        engine = _engine(stack, executor, client, processes, len(missing))
        keeping = stack.enter_context(_Keeping(dataset, len(missing), progress))
        drive(engine, _batches(missing), keeping.add, storage)
    return Answers(dataset, asked, len(missing))


def _check(executor: Any, processes: Any, shard: Any) -> None:
    if executor is not None and not isinstance(executor, Executor):
        raise Error(f"executor: got {executor!r}, expected a concurrent.futures.Executor")
    if processes is not None and (not isinstance(processes, int) or processes < 1):
        raise Error(f"processes: got {processes!r}, expected 1 or more")
    is_pair = isinstance(shard, Sequence) and not isinstance(shard, str) and len(shard) == 2
    if shard is not None and not (is_pair and all(isinstance(one, int) for one in shard)):
        raise Error(f"shard: got {shard!r}, expected a part and the number of parts, such as (2, 8)")


def _engine(
    stack: ExitStack,
    executor: Executor | None,
    client: Client | str | None,
    processes: int | None,
    count: int,
) -> Executor | Processes:
    if executor is not None:
        return executor
    if client is None:
        most = processes or os.cpu_count() or 1
        return stack.enter_context(Processes(max(1, min(most, count))))
    connected: Any = client
    if isinstance(client, str):
        import distributed

        try:
            reached = distributed.Client(client, timeout=_SCHEDULER_S)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise Error(f"client: got no scheduler at '{client}' within {_SCHEDULER_S} s: {error}") from None
        connected = stack.enter_context(reached)
    dask: Executor = stack.enter_context(connected.get_executor(pure=False))
    return dask


def _shard(asked: list[Cell], shard: tuple[int, int]) -> list[Cell]:
    part, parts = shard
    if not 1 <= part <= parts:
        raise Error(f"shard: got {part}/{parts}, expected 1/{parts} to {parts}/{parts}")
    return [cell for cell in asked if int(cell.name, 16) % parts == part - 1]


def _batches(missing: list[Cell]) -> list[list[Cell]]:
    size = max(1, min(_CELLS_A_BATCH, len(missing) // _BATCHES))
    return [missing[at : at + size] for at in range(0, len(missing), size)]


class _Keeping:
    """Writes rows as parts, and reports progress."""

    def __init__(self, dataset: Dataset, total: int, progress: Progress | None) -> None:
        self.dataset, self.total = dataset, total
        self.rows: list[dict[str, Any]] = []
        self.since = self.told = self.begun = time.monotonic()
        self.done = self.failed = 0
        self.progress = progress or (self._show if sys.stderr.isatty() else None)
        self.shows = progress is None and self.progress is not None

    def __enter__(self) -> _Keeping:
        return self

    def add(self, rows: list[dict[str, Any]]) -> None:
        if not self.rows:
            self.since = time.monotonic()
        self.rows += rows
        self.done += len(rows)
        self.failed += sum(row["error"] is not None for row in rows)
        if len(self.rows) >= _ROWS_A_PART or time.monotonic() - self.since > _SECONDS_A_PART:
            self._write()
        if self.progress:
            self.progress(self.done, self.total, self.failed)

    def _write(self) -> None:
        rows, self.rows = self.rows, []
        self.dataset.add(rows)

    def _show(self, done: int, total: int, failed: int) -> None:
        now = time.monotonic()
        if now - self.told < 0.25 and done < total:
            return
        self.told = now
        rate = done / max(now - self.begun, 1e-3)
        left = (total - done) / max(rate, 1e-9)
        failures = f", {failed:,} failed" if failed else ""
        line = f"{done:,} of {total:,} cells{failures}, {rate:.3g}/s, {left:.0f} s left"
        print(f"\r{line:<70}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        self._write()
        if self.shows and self.done:
            print(file=sys.stderr)
