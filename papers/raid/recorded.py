"""The recorded traces as the array sees them: one range of bytes, whose sections each seed places differently."""

import functools
from dataclasses import dataclass
from pathlib import Path

import cases
import numpy as np
import pyarrow as pa

import forebay

ROOT = Path(__file__).resolve().parents[2]
#: The maximum number of requests to read from a trace.
REQUESTS_MAX = 50_000
#: The maximum number of requests to read from the bundled trace in a short run.
SHORT = 10_000
#: The minimum length of a section in bytes. Sections never divide a request.
SECTION = 64 << 20
GRAIN = 1 << 20

#: The name of each trace, its path within the folder of traces, and its format if that is not
#: detected.
LISTED: list[tuple[str, str, str | None]] = [
    ("Financial1", "spc/Financial1.prefix.rewritten.spc.zst", None),
    ("WebSearch1", "spc/WebSearch1.prefix.rewritten.spc.zst", None),
    ("MSR rsrch_1", "msr/rsrch_1.csv.zst", None),
    ("MSR wdev_1", "msr/wdev_1.csv", None),
    ("MSR hm_0", "msr/hm_0.sample1000.csv", None),
    ("MSR window", "heimdall/msr.cut.per_10k.rw_40_60.1370.trace.zst", "heimdall"),
    ("Hadoop wordcount", "hadoop/wordcount.parquet", None),
    ("Hadoop grep", "hadoop/grep.parquet", None),
    ("Hadoop text", "hadoop/randomtextwriter.parquet", None),
    ("CloudPhysics VM", "cloudphysics/cloudPhysicsIO.vscsi.zst", None),
    ("HP hplajw", "hp-srt/hplajw.1week.srt.zst", None),
    ("desktop PC", "disksim-ascii/desktop.trace.zst", None),
]
BUNDLED = ("Hadoop terasort", ROOT / "traces" / "terasort.parquet")


@dataclass(frozen=True)
class Recorded:
    """A trace."""

    name: str
    path: Path
    from_: str | None = None
    most: int = REQUESTS_MAX

    def rows(self) -> pa.Table:
        """The trace's data requests, with volumes one after another."""
        return _rows(self.path, self.from_, self.most)

    @property
    def is_cut(self) -> bool:
        """Whether the trace is longer than the part that is read."""
        return len(forebay.read(self.path, from_=self.from_).to_pyarrow()) > self.most

    @property
    def span(self) -> int:
        """The number of bytes in the sections that the trace uses."""
        return int(_sections(self.path, self.from_, self.most)[2].sum())

    @property
    def writes_share(self) -> float:
        """The share of writes among the trace's requests."""
        return float(_is_write(self.rows()).mean())

    def laid(self, seed: int) -> pa.Table:
        """Returns the trace's requests with the sections of the range in another order, which changes where data are
        and which units they belong to.
        """
        rows = self.rows()
        section, within, lengths = _sections(self.path, self.from_, self.most)
        order = np.random.default_rng(seed).permutation(len(lengths))
        begins = np.empty_like(lengths)
        begins[order] = np.cumsum(lengths[order]) - lengths[order]
        moved = begins[section] + within
        at = rows.schema.get_field_index("offset")
        return rows.set_column(at, "offset", [moved.astype(np.uint64)])


@functools.lru_cache(4)
def _sections(path: Path, from_: str | None, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns for each request its section and the offset in it, and the lengths of all used sections."""
    rows = _rows(path, from_, most)
    offsets, ends = rows["offset"].to_numpy().astype(np.int64), _ends(rows)
    cuts = _cuts(offsets, ends, -(-int(ends.max()) // GRAIN) * GRAIN)
    section = np.searchsorted(cuts, offsets, side="right") - 1
    touched, dense = np.unique(section, return_inverse=True)
    return dense, offsets - cuts[section], np.diff(cuts)[touched]


def _cuts(offsets: np.ndarray, ends: np.ndarray, span: int) -> np.ndarray:
    """Returns where sections begin, and where the last one ends."""
    # If a request begins before a position and ends after it, there must be no cut at that
    # position.
    places = np.arange(0, span, SECTION)
    begun = np.searchsorted(np.sort(offsets), places, side="left")
    ended = np.searchsorted(np.sort(ends), places, side="right")
    return np.append(places[begun == ended], span)


@functools.lru_cache(4)
def _rows(path: Path, from_: str | None, most: int) -> pa.Table:
    rows = forebay.read(path, from_=from_).to_pyarrow().slice(0, most)
    op, length = np.array(rows["op"].to_pylist()), rows["len"].to_numpy()
    rows = rows.filter(pa.array(np.isin(op, ["read", "write"]) & (length > 0)))
    volume, offset = rows["volume"].to_numpy(), rows["offset"].to_numpy().astype(np.int64)
    ends = _ends(rows)
    moved, base = np.empty_like(offset), 0
    for each in np.unique(volume):
        moved[volume == each] = offset[volume == each] + base
        base += -(-int(ends[volume == each].max()) // GRAIN) * GRAIN
    columns = {name: rows[name] for name in ("at_ns", "op", "len", "stream", "latency_ns")}
    return pa.table({**columns, "offset": pa.array(moved.astype(np.uint64))})


def _ends(rows: pa.Table) -> np.ndarray:
    return rows["offset"].to_numpy().astype(np.int64) + rows["len"].to_numpy().astype(np.int64)


def _is_write(rows: pa.Table) -> np.ndarray:
    return np.array(rows["op"].to_pylist()) == "write"


def pieces(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns the unit of each request, and the number of its chunks that are affected; a request to several units
    counts as several.
    """
    first = rows["offset"].to_numpy().astype(np.int64) // cases.CHUNK
    last = (_ends(rows) - 1) // cases.CHUNK
    chunks = cases.UNIT // cases.CHUNK
    each = last // chunks - first // chunks + 1
    at = np.repeat(np.arange(len(first)), each)
    unit = first[at] // chunks + np.arange(len(at)) - np.repeat(np.cumsum(each) - each, each)
    affected = np.minimum(last[at], unit * chunks + chunks - 1) - np.maximum(first[at], unit * chunks) + 1
    return unit, affected


def writes(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same for writes only."""
    return pieces(rows.filter(pa.array(_is_write(rows))))


def listed(options) -> list[Recorded]:
    """Returns the available traces."""
    bundled = Recorded(BUNDLED[0], BUNDLED[1], None, SHORT if options.short else REQUESTS_MAX)
    if options.short:
        return [bundled]
    folder = options.traces or ROOT.parent / "shared" / "traces"
    return [*(Recorded(name, folder / path, from_) for name, path, from_ in LISTED), bundled]
