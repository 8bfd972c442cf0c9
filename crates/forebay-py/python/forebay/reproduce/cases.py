"""Caches completed cases in the work folder under a hash of their dependencies.

A case depends on its function, on all programs in its paper's folder, on its arguments, on the files that these name,
and on this build of Forebay. Files of up to 64 MB are hashed by content, larger ones by size and modification time.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, is_dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from .. import _forebay

T = TypeVar("T")
U = TypeVar("U")
F = TypeVar("F", bound=Callable[..., Any])

#: The names of environment variables that pass these settings to worker processes.
FOLDER, UNTIL = "FOREBAY_REPRODUCE_CASES", "FOREBAY_REPRODUCE_UNTIL"
_BYTES_MAX = 64_000_000
#: The number of seconds between progress lines if standard error is not a terminal.
EVERY_S = 10.0
_NONE = object()
#: Digests of files, which are assumed not to change while a program runs.
_DIGESTS: dict[Path, str] = {}


class OutOfTime(Exception):
    """The time limit has expired; completed cases are stored."""


def grid(function: Callable[[T], U], cases: Sequence[T], processes: int) -> list[U]:
    """Applies `function` to each of `cases` on the given number of processes, preserving their order; stored results
    are not recomputed.
    """
    names = [_name(function, (case,)) for case in cases]
    done: dict[int, Any] = {at: answer for at, name in enumerate(names) if (answer := _get(name)) is not _NONE}
    missing = [at for at in range(len(cases)) if at not in done]
    told = _Told(len(cases), len(done))
    for at, answer in zip(missing, _answers(function, [cases[at] for at in missing], processes)):
        _put(names[at], answer)
        done[at] = answer
        told.one_more()
        _in_time()
    return [done[at] for at in range(len(cases))]


def _answers(function: Callable[[T], U], cases: list[T], processes: int) -> Any:
    if processes <= 1 or len(cases) < 2:
        yield from map(function, cases)
        return
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield from pool.map(function, cases)
    finally:
        # When time is up, skip the cases that have not begun.
        pool.shutdown(cancel_futures=True)


def kept(function: F) -> F:
    """Caches results like `functools.cache`, but across runs. Arguments are plain values, paths, and data classes of
    these.
    """

    @functools.cache
    def once(*arguments: Any) -> Any:
        name = _name(function, arguments)
        answer = _get(name)
        if answer is _NONE:
            _in_time()
            answer = function(*arguments)
            _put(name, answer)
        return answer

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        bound = inspect.signature(function).bind(*arguments, **options)
        bound.apply_defaults()
        return once(*bound.args)

    return called  # type: ignore[return-value]


def _in_time() -> None:
    until = os.environ.get(UNTIL)
    if until and time.time() > float(until):
        raise OutOfTime


def _name(function: Callable[..., Any], arguments: Sequence[Any]) -> Path | None:
    """Returns the path of a stored result, or None if results are not stored."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    about = [_build(), _programs(Path(inspect.getfile(function)).parent), function.__module__, function.__qualname__]
    text = "\n".join([*about, *map(_likeness, arguments)])
    return Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.pickle"


def _likeness(value: Any) -> str:
    if isinstance(value, Path):
        return f"{value.name} {_file(value)}" if value.is_file() else str(value)
    if is_dataclass(value) and not isinstance(value, type):
        inner = (f"{field.name}={_likeness(getattr(value, field.name))}" for field in fields(value))
        return f"{type(value).__name__}({', '.join(inner)})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_likeness, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_likeness(key)}: {_likeness(value[key])}' for key in value)}}}"
    if isinstance(value, str) and value.endswith(".toml") and Path(value).is_file():
        return _file(Path(value))
    if isinstance(value, functools.partial):
        return f"{value.func.__qualname__}{_likeness(value.args)}{_likeness(value.keywords)}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    # Pickle works for arrays and tables too.
    return hashlib.sha256(pickle.dumps(value)).hexdigest()


def _build() -> str:
    library = Path(_forebay.__file__)
    return _DIGESTS.get(library) or _DIGESTS.setdefault(library, _bytes(library))


def _programs(folder: Path) -> str:
    return " ".join(f"{path.name}:{_bytes(path)}" for path in sorted(folder.glob("*.py")))


def _file(path: Path) -> str:
    stat = path.stat()
    if stat.st_size > _BYTES_MAX:
        return f"{stat.st_size} {stat.st_mtime_ns}"
    return _bytes(path)


def _bytes(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _get(name: Path | None) -> Any:
    try:
        return _NONE if name is None else pickle.loads(name.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
        return _NONE


def _put(name: Path | None, answer: Any) -> None:
    if name is None:
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    # Rename the file only when it is complete.
    part = name.with_suffix(f".{os.getpid()}")
    part.write_bytes(pickle.dumps(answer))
    part.replace(name)


class _Told:
    """Shows the progress of a grid: continuously on a terminal, otherwise at intervals."""

    def __init__(self, of: int, kept: int) -> None:
        self._of, self._kept, self._done = of, kept, kept
        self._begun = self._last = time.monotonic()

    def one_more(self) -> None:
        self._done += 1
        now, is_terminal = time.monotonic(), sys.stderr.isatty()
        if not is_terminal and now - self._last < EVERY_S:
            return
        self._last = now
        left = (now - self._begun) / (self._done - self._kept) * (self._of - self._done)
        text = f"{self._done} of {self._of} cases, {self._kept} of them kept; about {left / 60:.0f} min left"
        end = "" if is_terminal and self._done < self._of else "\n"
        print(f"\r{text}" if is_terminal else f"forebay: {text}", end=end, file=sys.stderr)
