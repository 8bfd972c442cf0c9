"""The volumes of a fleet and what a sweep knows of each, by one name and on one clock."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from .. import Error
from ..sweep.ask import sweep
from ..sweep.grid import Cell, _read
from .finding import plural

Traces = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


# Volumes without an answer that are named.
_FAILED_NAMED = 3


class Asked:
    """A question about each volume: name to answer, in the order of the cells; `cautions` tell what failed."""

    def __init__(self, question: Mapping[str, Mapping[str, Any]], traces: Traces, **options: Any) -> None:
        if isinstance(traces, (str, os.PathLike)):
            traces = [traces]
        self.traces = [os.fspath(trace) for trace in traces]
        by_volume: bool | None = options.pop("by_volume", None)
        if by_volume is None:
            # A folder is one of volumes.
            by_volume = all(os.path.isdir(trace) for trace in self.traces)
        found = sweep(question, self.traces, by_volume=by_volume, **options)
        self.storage = options.get("storage")
        self.answers: list[tuple[str, Cell, dict[str, Any]]] = []
        for cell, answer in found.whole():
            if answer is not None:
                self.answers.append((self._name(cell), cell, answer))
        failed = found.failed()
        self.cautions = []
        if failed:
            self.cautions.append(self._without(failed))
        if not self.answers:
            raise Error(self.cautions[0] if failed else "traces: got no volume, expected at least one")

    def _name(self, cell: Cell) -> str:
        return self._named(cell.trace, cell.volume)

    def _named(self, trace: str, volume: str) -> str:
        short = os.path.basename(trace.rstrip("/")) or trace
        if not volume:
            return short
        return volume if len(self.traces) == 1 else f"{short}/{volume}"

    def _without(self, failed: list[dict[str, Any]]) -> str:
        """Which volumes have no answer, and why."""
        why: dict[str, str] = {}
        for row in failed:
            name = self._named(row["trace"], row["volume"])
            why.setdefault(name, row["error"])
        named = "; ".join(f"{name}: {error}" for name, error in list(why.items())[:_FAILED_NAMED])
        more = f"; and {len(why) - _FAILED_NAMED} more" if len(why) > _FAILED_NAMED else ""
        return f"{plural(len(why), 'volume')} without an answer, left out: {named}{more}"

    def began_ns(self) -> dict[str, int]:
        """When each volume's first request came, on the clock of its folder; of a trace by itself, 0."""
        begun: dict[tuple[str, str], int] = {}
        for trace in {cell.trace for _, cell, _ in self.answers if cell.volume}:
            manifest = json.loads(_read(f"{trace.rstrip('/')}/manifest.json", self.storage))
            begun |= {(trace, part["volume"]): part["first_ns"] for part in manifest["parts"]}
        return {name: begun.get((cell.trace, cell.volume), 0) for name, cell, _ in self.answers}


def windows(traces: Traces, window_ms: float, **options: Any) -> tuple[dict[str, dict[int, int]], list[str]]:
    """Requests of each volume in each window that has any, on one clock, and cautions.

    A volume's windows begin with its first request; they are moved to the clock by whole windows.
    """
    asked = Asked({"windows": {"window_ms": window_ms}}, traces, **options)
    begun = asked.began_ns()
    counts = {}
    for name, _, answer in asked.answers:
        shift = round(begun[name] / (window_ms * 1e6))
        pairs = zip(answer["windows"], answer["counts"], strict=True)
        counts[name] = {window + shift: count for window, count in pairs}
    return counts, asked.cautions


def least(counts: Iterable[int], fraction: float) -> int:
    """The least number of requests a window that leaves out no more than 1 - `fraction` of all: what is beyond it in a
    window is put aside, nothing waits for the next one."""
    falling = sorted(counts, reverse=True)
    total = sum(falling)
    # Of floats: 0.9 of 10 is 9.
    spare = total - -int(-(fraction * total - 1e-9) // 1)
    if not falling:
        return 0
    # From the highest level down: how many requests lie above it.
    above, level = 0, falling[0]
    for at in range(len(falling)):
        below = falling[at + 1] if at + 1 < len(falling) else 0
        width = at + 1
        room = (spare - above) // width
        if level - room > below:
            return level - room
        above += (level - below) * width
        level = below
    return level
