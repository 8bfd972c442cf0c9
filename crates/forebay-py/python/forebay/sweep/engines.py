"""Who does the work: any executor, or processes of this machine that are replaced when they die."""

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

# Batches that an executor is given at a time.
_IN_FLIGHT = 256
# How often a cell may take its worker with it.
_DEATHS = 2


def drive(
    engine: Executor | Processes,
    batches: list[Batch],
    keep: Keep,
    storage: Mapping[str, Any] | None = None,
) -> None:
    """Has all batches answered and each batch's rows kept as they come.

    Where a worker died, those it may have been asked for are asked again, one by one. An executor that is broken for good
    raises what it raises.
    """
    waiting = batches[::-1]
    deaths: dict[str, int] = {}
    flying: dict[Future[list[Row]], Batch] = {}
    try:
        while waiting or flying:
            # A cell that may have killed a worker flies alone, so that it is known which one it was.
            alone = bool(waiting) and waiting[-1][0].name in deaths
            while waiting and len(flying) < (1 if alone else _IN_FLIGHT):
                batch = waiting.pop()
                try:
                    flying[engine.submit(answer_all, batch, storage)] = batch
                except BrokenExecutor:
                    # A worker has died that those under way will tell of.
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
                # All that was under way is lost with it.
                lost += flying.values()
                flying.clear()
                if not isinstance(engine, Processes):
                    raise why
                engine.renew()
            singles = [cell for batch in lost for cell in batch]
            for cell in reversed(singles):
                # Of several nobody knows which one it was.
                deaths[cell.name] = deaths.get(cell.name, 0) + (len(singles) == 1)
                if deaths[cell.name] >= _DEATHS:
                    keep([_died(cell, why)])
                else:
                    waiting.append([cell])
    except BaseException:
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
    """Processes of this machine, each new one begun afresh; they leave Ctrl-C to their parent.

    Python begins them by reading the script anew. A script that sweeps without a guard would sweep in each of them, so they
    end; then nothing can be answered, and `renew` says so.
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
        """Others in place of those that died."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.pool = self._begun()
        try:
            self.pool.submit(os.getpid).result()
        except BrokenExecutor:
            raise Error(
                "sweep: its processes end before they begin; in a script, put the call below "
                "if __name__ == '__main__': (each process reads the script anew)"
            ) from None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # What is under way would go on to its end, and nobody wants it.
            for process in list((getattr(self.pool, "_processes", None) or {}).values()):
                process.terminate()
        self.pool.shutdown(cancel_futures=True)


def leave_if_begun_by_sweep() -> None:
    """Ends a process that is one of a sweep's and reads a script that sweeps: its parent says what is wrong."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


def _begin_worker() -> None:
    """Leaves Ctrl-C to the parent, and ends when that is gone, however it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=[parent.sentinel], daemon=True).start()


def _end_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
