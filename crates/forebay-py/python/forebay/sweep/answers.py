"""Answers as a Parquet dataset: a folder of parts, each written atomically, with one row per cell."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from .. import Error
from .grid import Cell, is_address

if TYPE_CHECKING:
    import polars

SCHEMA = pa.schema(
    [
        pa.field("cell", pa.string(), nullable=False),
        pa.field("version", pa.string(), nullable=False),
        pa.field("verb", pa.string(), nullable=False),
        pa.field("trace", pa.string(), nullable=False),
        pa.field("volume", pa.string(), nullable=False),
        pa.field("parameters", pa.string(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("notes", pa.list_(pa.string())),
        pa.field("elapsed_s", pa.float64()),
        pa.field("processor_s", pa.float64()),
        pa.field("peak_mib", pa.float64()),
        pa.field("figures", pa.map_(pa.string(), pa.float64())),
        pa.field("answer", pa.string()),
    ]
)
"""The columns of a row. `peak_mib` is the peak memory of its worker so far; `answer` is the complete answer as JSON."""


class Dataset:
    """A folder of parts."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not isinstance(folder, (str, os.PathLike)) or is_address(os.fspath(folder)):
            raise Error(f"output: got {folder!r}, expected a folder on this machine")
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(f"output: {folder}: {error.strerror}; expected a folder that can be written into") from None

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Writes a part; it gets its name when it is complete."""
        if not rows:
            return
        name = uuid.uuid4().hex
        part = self.folder / f".{name}.writing"
        try:
            pq.write_table(pa.Table.from_pylist(rows, SCHEMA), part, compression="zstd")
            part.replace(self.folder / f"{name}.parquet")
        finally:
            part.unlink(missing_ok=True)

    def parts(self) -> list[Path]:
        """Returns the complete parts."""
        return sorted(part for part in self.folder.glob("*.parquet") if part.name[0] != ".")

    def answered(self, again: bool) -> set[str]:
        """Returns the names of cells that have a row, excluding failed ones if these are to be retried."""
        found: set[str] = set()
        for part in self.parts():
            table = _read(part, ["cell", "error"])
            rows = zip(table["cell"].to_pylist(), table["error"].to_pylist(), strict=True)
            found |= {cell for cell, error in rows if not (again and error is not None)}
        return found

    def rows(self, names: set[str]) -> pa.Table:
        """Returns one row for each of these cells, preferring an answer to a failure."""
        tables = [_read(part) for part in self.parts()]
        if not tables:
            return SCHEMA.empty_table()
        table = pa.concat_tables(tables)
        best: dict[str, tuple[bool, int]] = {}
        pairs = zip(table["cell"].to_pylist(), table["error"].to_pylist(), strict=True)
        for at, (cell, error) in enumerate(pairs):
            if cell in names:
                best[cell] = min(best.get(cell, (True, at)), (error is not None, at))
        return table.take(pa.array([at for _, at in best.values()], pa.int64()))


def _read(part: Path, columns: list[str] | None = None) -> pa.Table:
    try:
        return pq.read_table(part, columns=columns, partitioning=None)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise Error(f"{part}: {error}; it is not part of a sweep: remove it") from None


class Answers:
    """The answers to a sweep's cells."""

    def __init__(self, dataset: Dataset, asked: Sequence[Cell], fresh: int) -> None:
        self._dataset = dataset
        self._asked = asked
        self.fresh = fresh
        """Cells that were answered by this call; the others were answered before."""

    def __len__(self) -> int:
        return len(self._asked)

    def __repr__(self) -> str:
        asked = {cell.name for cell in self._asked}
        done = len(asked & self._dataset.answered(again=True))
        failed = len(asked & self._dataset.answered(again=False)) - done
        return f"forebay.sweep.Answers({len(asked)} cells, {done} done, {failed} failed, in {str(self._dataset.folder)!r})"

    def to_pyarrow(self) -> pa.Table:
        """Returns one row per cell, in the order of the sweep: verb, trace, volume, each parameter, error, elapsed_s,
        processor_s, peak_mib, each figure.
        """
        names = {cell.name: at for at, cell in enumerate(self._asked)}
        rows = self._dataset.rows(set(names)).to_pylist()
        rows.sort(key=lambda row: names[row["cell"]])
        return pa.Table.from_pylist([_wide(row) for row in rows], _columns(rows))

    def to_polars(self) -> polars.DataFrame:
        """Returns the same table as a Polars frame."""
        import polars

        frame = polars.from_arrow(self.to_pyarrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_pandas(self) -> Any:
        """Returns the same table as a pandas frame."""
        return self.to_pyarrow().to_pandas()

    def failed(self) -> list[dict[str, Any]]:
        """Returns the failed cells: verb, trace, volume, parameters, error."""
        kept = ("verb", "trace", "volume", "parameters", "error")
        rows = self._dataset.rows({cell.name for cell in self._asked}).select(kept).to_pylist()
        return [row for row in rows if row["error"] is not None]

    def whole(self) -> Iterable[tuple[Cell, dict[str, Any] | None]]:
        """Returns each cell with its whole answer, or None if it failed."""
        rows = self._dataset.rows({cell.name for cell in self._asked})
        pairs = zip(rows["cell"].to_pylist(), rows["answer"].to_pylist(), strict=True)
        found = dict(pairs)
        for cell in self._asked:
            answer = found.get(cell.name)
            yield cell, None if answer is None else json.loads(answer)


_FIXED = ("verb", "trace", "volume", "error", "elapsed_s", "processor_s", "peak_mib")


def _wide(row: dict[str, Any]) -> dict[str, Any]:
    wide = {name: row[name] for name in _FIXED}
    parameters = {name: _plain(value) for name, value in json.loads(row["parameters"]).items()}
    return {**dict(row["figures"] or []), **parameters, **wide}


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else json.dumps(value)


def _columns(rows: list[dict[str, Any]]) -> pa.Schema:
    """Builds columns. Parameters with values of one type keep that type, others become text; figures are numbers."""
    kinds: dict[str, set[pa.DataType]] = {}
    for row in rows:
        for name, value in json.loads(row["parameters"]).items():
            kinds.setdefault(name, set()).add(pa.scalar(_plain(value)).type)
    figures = {name: None for row in rows for name, _ in row["figures"] or []}
    fixed = {name: SCHEMA.field(name).type for name in _FIXED}
    named = {
        **{name: fixed[name] for name in ("verb", "trace", "volume")},
        **{name: _joint(of) for name, of in kinds.items() if name not in fixed},
        **{name: fixed[name] for name in _FIXED[3:]},
        **{name: pa.float64() for name in figures if name not in kinds and name not in fixed},
    }
    return pa.schema(list(named.items()))


def _joint(kinds: set[pa.DataType]) -> pa.DataType:
    known = kinds - {pa.null()}
    if known == {pa.int64(), pa.float64()}:
        return pa.float64()
    return known.pop() if len(known) == 1 else pa.string()
