"""Runs batches on any executor, or on processes of this machine that are replaced when they die."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from .. import Error
from .grid import Cell
from .work import Row, answer_all

Batch = list[Cell]
Keep = Callable[[list[Row]], None]

# The maximum number of batches submitted to an executor at a time.
_IN_FLIGHT = 256
# The number of times that a cell may crash its worker before it is given up.
_DEATHS = 2


def drive(
    engine: Executor | Processes,
    batches: list[Batch],
    keep: Keep,
    storage: Mapping[str, Any] | None = None,
) -> None:
    """Runs all batches, and passes each batch's rows to `keep` as they arrive.

    If a worker dies, the cells that it may have been running are retried one at a time. If an executor breaks
    permanently, its exception is raised.
    """
    waiting = batches[::-1]
    deaths: dict[str, int] = {}
    flying: dict[Future[list[Row]], Batch] = {}
    try:
        while waiting or flying:
            # A cell that may have killed a worker runs alone, to find out whether it is the cause.
            alone = bool(waiting) and waiting[-1][0].name in deaths
            while waiting and len(flying) < (1 if alone else _IN_FLIGHT):
                batch = waiting.pop()
                try:
                    flying[engine.submit(answer_all, batch, storage)] = batch
                except BrokenExecutor:
                    # A worker has died, which the submitted batches will report.
                    waiting.append(batch)
                    if not isinstance(engine, Processes):
                        raise
                    if not flying:
                        engine.renew()
                    break
                if alone:
                    break
            if not flying:
                continue
            ended, _ = wait(flying, return_when=FIRST_COMPLETED)
            lost: list[Batch] = []
            why: Exception | None = None
            for future in ended:
                batch = flying.pop(future)
                error = future.exception()
                if error is None:
                    keep(future.result())
                elif isinstance(error, Exception):
                    lost.append(batch)
                    why = why if isinstance(why, BrokenExecutor) else error
                else:
                    raise error
            if why is None:
                continue
            if isinstance(why, BrokenExecutor):
                # The other submitted batches are lost as well.
                lost += flying.values()
                flying.clear()
                if not isinstance(engine, Processes):
                    raise why
                engine.renew()
            singles = [cell for batch in lost for cell in batch]
            for cell in reversed(singles):
                # If several cells were running, it is unknown which one crashed the worker.
                deaths[cell.name] = deaths.get(cell.name, 0) + (len(singles) == 1)
                if deaths[cell.name] >= _DEATHS:
                    keep([_died(cell, why)])
                else:
                    waiting.append([cell])
    except BaseException:
        # A pool of ours cancels its own futures when it ends: until Python 3.12, cancelling them from another thread
        # crashes the pool's thread if a process dies at that moment.
        if not isinstance(engine, Processes):
            for future in flying:
                future.cancel()
        raise


def _died(cell: Cell, why: Exception) -> Row:
    from .. import __version__

    said = f"its worker died {_DEATHS} times ({type(why).__name__}): did memory run out?"
    row: Row = {"cell": cell.name, "version": __version__, "verb": cell.verb, "trace": cell.trace}
    row |= {"volume": cell.volume, "parameters": cell.parameters, "error": said, "notes": []}
    return row


class Processes:
    """Processes of this machine, each started in a fresh interpreter. They leave Ctrl-C to their parent.

    Python starts such processes by importing the main script. A script that sweeps without a `__main__` guard would
    start another sweep in each of them, so these processes exit; then nothing can be run, and `renew` reports the
    reason.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.pool = self._begun()

    def _begun(self) -> ProcessPoolExecutor:
        fresh = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.count, fresh, _begin_worker)

    def __enter__(self) -> Processes:
        return self

    def submit(self, work: Callable[..., list[Row]], *what: Any) -> Future[list[Row]]:
        return self.pool.submit(work, *what)

    def renew(self) -> None:
        """Replaces dead processes."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.pool = self._begun()
        try:
            self.pool.submit(os.getpid).result()
        except BrokenExecutor:
            raise Error(
                "sweep: its processes exit at once; in a script, put the call below "
                "if __name__ == '__main__': (each process imports the script)"
            ) from None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # Otherwise, running cells would continue although nobody needs their results.
            for process in list((getattr(self.pool, "_processes", None) or {}).values()):
                process.terminate()
        self.pool.shutdown(cancel_futures=True)


def leave_if_begun_by_sweep() -> None:
    """Exits if this process was started by a sweep and is importing a script that sweeps; the parent reports the
    problem.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


def _begin_worker() -> None:
    """Ignores Ctrl-C, and exits when the parent ends for any reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=[parent.sentinel], daemon=True).start()


def _end_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
