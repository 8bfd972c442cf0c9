"""The volumes of a fleet and a sweep's answers about them, with consistent names and on a common clock."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import Error
from ..sweep.ask import sweep
from ..sweep.grid import Cell, _read
from .finding import plural, shown

Traces = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


# The maximum number of reasons to list for missing answers.
_REASONS = 3


class Asked:
    """A question about each volume: maps names to answers in the order of the cells; `missing` describes volumes
    without an answer.
    """

    def __init__(self, question: Mapping[str, Mapping[str, Any]], traces: Traces, **options: Any) -> None:
        if isinstance(traces, (str, os.PathLike)):
            traces = [traces]
        self.traces = [os.fspath(trace) for trace in traces]
        # Each folder contains one trace per volume.
        options.setdefault("by_volume", None)
        found = sweep(question, self.traces, **options)
        self._short = short(self.traces)
        self.storage = options.get("storage")
        self.answers: list[tuple[str, Cell, dict[str, Any]]] = []
        for cell, answer in found.whole():
            if answer is not None:
                self.answers.append((self._name(cell), cell, answer))
        failed = found.failed()
        self.missing = []
        if failed:
            self.missing.append(self._without(failed))
        if not self.answers:
            raise Error(self.missing[0] if failed else "traces: got no volume, expected at least one")

    def _name(self, cell: Cell) -> str:
        return self._named(cell.trace, cell.volume)

    def _named(self, trace: str, volume: str) -> str:
        called = self._short[trace]
        if not volume:
            return called
        return volume if len(self._short) == 1 else f"{called}/{volume}"

    def _without(self, failed: list[dict[str, Any]]) -> str:
        """Lists the volumes without an answer, and the reasons."""
        volumes: dict[str, list[str]] = {}
        named = set()
        for row in failed:
            name = self._named(row["trace"], row["volume"])
            if name not in named:
                # If reasons differ only in the name of the trace, list one of them.
                files = {row["trace"], row["trace"].rstrip("/") + "/" + row["volume"] + ".parquet"}
                why = row["error"]
                for file in sorted(files, key=len, reverse=True):
                    why = why.removeprefix(f"{file}: ")
                volumes.setdefault(why, []).append(name)
                named.add(name)
        told = [f"{shown('names', names)}: {why}" for why, names in list(volumes.items())[:_REASONS]]
        more = "; and for other reasons" if len(volumes) > _REASONS else ""
        every = named | {name for name, _, _ in self.answers}
        reasons = "; ".join(told) + more
        if named == every:
            return f"no volume has an answer: {reasons}"
        verbs = "has no answer and is" if len(named) == 1 else "have no answer and are"
        return f"{len(named):,} of {plural(len(every), 'volume')} {verbs} left out: {reasons}"

    def began_ns(self) -> dict[str, int]:
        """Returns when each volume's first request arrived, on its folder's clock; 0 for a single trace."""
        begun: dict[tuple[str, str], int] = {}
        for trace in {cell.trace for _, cell, _ in self.answers if cell.volume}:
            manifest = json.loads(_read(f"{trace.rstrip('/')}/manifest.json", self.storage))
            begun |= {(trace, part["volume"]): part["first_ns"] for part in manifest["parts"]}
        return {name: begun.get((cell.trace, cell.volume), 0) for name, cell, _ in self.answers}


def short(traces: Sequence[str]) -> dict[str, str]:
    """Shortens each trace's path to the shortest suffix that distinguishes it from the others."""
    parts = {trace: trace.rstrip("/").split("/") for trace in traces}
    names: dict[str, str] = {}
    for count in range(1, max(map(len, parts.values()), default=0) + 1):
        ends = {trace: "/".join(of[-count:]) for trace, of in parts.items()}
        others = Counter("/".join(of[-count:]) for of in set(map(tuple, parts.values())))
        for trace, end in ends.items():
            # If one path is a suffix of another, show the shorter one in full.
            if trace not in names and (others[end] == 1 or count >= len(parts[trace])):
                names[trace] = end or trace
        if len(names) == len(parts):
            break
    return names


def windows(traces: Traces, window_ms: float, **options: Any) -> tuple[dict[str, dict[int, int]], list[str]]:
    """Returns the number of requests of each volume in each non-empty window, on a common clock, and a description of
    what is missing.

    A volume's own windows begin with its first request; they are shifted to the common clock by whole windows.
    """
    asked = Asked({"windows": {"window_ms": window_ms}}, traces, **options)
    begun = asked.began_ns()
    counts = {}
    for name, _, answer in asked.answers:
        shift = round(begun[name] / (window_ms * 1e6))
        pairs = zip(answer["windows"], answer["counts"], strict=True)
        counts[name] = {window + shift: count for window, count in pairs}
    return counts, asked.missing


def least(counts: Iterable[int], fraction: float) -> int:
    """Returns the least number of requests per window that leaves out at most 1 - `fraction` of all requests. Excess
    requests of a window are dropped and do not wait for the next one.
    """
    falling = sorted(counts, reverse=True)
    total = sum(falling)
    # The small constant compensates for rounding, so that 0.9 of 10 is 9.
    spare = total - -int(-(fraction * total - 1e-9) // 1)
    if not falling:
        return 0
    # From the highest level down, count the requests above each level.
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
