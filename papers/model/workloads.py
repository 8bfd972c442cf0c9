"""The traces, their twins, and what a generator without locality produces from their means."""

import argparse
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import forebay
from forebay.reproduce import kept

ROOT = Path(__file__).resolve().parents[2]

#: The disk used in all studies.
DISK = "st1000nm0011:plain"

#: The name of each trace, its path within the folder of traces, and its format if that is not
#: detected. There are as many as in the paper, whose own applications are not available.
LISTED = [
    ("WebSearch1", "spc/WebSearch1.prefix.mqsim.trace.zst", None),
    ("Financial1", "spc/Financial1.prefix.rewritten.spc.zst", None),
    ("MSR rsrch_1", "msr/rsrch_1.csv.zst", None),
    ("MSR window", "heimdall/msr.cut.per_10k.rw_40_60.1370.trace.zst", "heimdall"),
    ("DTRS", "mqsim/DTRS1K.trace.zst", "ssdsim-us"),
    ("CloudPhysics", "cloudphysics/cloudPhysicsIO.vscsi.zst", None),
    ("hplajw", "hp-srt/hplajw.1week.srt.zst", None),
    ("desktop", "disksim-ascii/desktop.trace.zst", None),
    ("Hadoop terasort", "hadoop/terasort.parquet", None),
    ("Hadoop node 10", "blktrace-bin/hadoop-eternity10.sdb.tar.xz", None),
]


@dataclass(frozen=True)
class Workload:
    """A trace and the folder of its twins."""

    name: str
    path: Path
    work: Path

    @property
    def stem(self) -> str:
        """The trace's name as a file name."""
        return self.name.replace(" ", "-").lower()

    def table(self):
        """The trace's rows, which are read once."""
        return rows(self.path)

    @cache  # noqa: B019  as long as the run
    def model(self, level: int | None = None, flat: bool = False) -> Path:
        """The trace's model, which is fitted once per run."""
        kind = f"level{level}{'-flat' if flat else ''}" if level else "chosen"
        path = self.work / f"{self.stem}-{kind}.model"
        forebay.fit(self.path, path, **({"level": level} if level else {}), flat=flat, no_verdict=True)
        return path

    def said(self) -> dict:
        """Facts about the model."""
        return forebay.fit(self.path, no_verdict=True)

    @cache  # noqa: B019
    def twin(self, level: int | None = None, flat: bool = False, seed: int = 1) -> Path:
        """A twin from the trace's model, generated once per run."""
        model = self.model(level, flat)
        path = model.with_name(f"{model.stem}-seed{seed}.parquet")
        forebay.generate(model, path, seed=seed)
        return path

    @cache  # noqa: B019
    def free(self, seed: int = 1) -> Path:
        """A trace with the same means, but without locality."""
        path = self.work / f"{self.stem}-free{seed}.parquet"
        pq.write_table(without_locality(self.table(), seed), path)
        return path


@cache
def rows(path: Path):
    """Returns the rows of a trace, which are read once."""
    return forebay.read(path).to_pyarrow()


def tell(section, about: str, work: Path) -> None:
    """Prints ``section(workloads)`` for the traces selected on the command line; uses the folder ``work`` unless
    another is given.
    """
    asked = argparse.ArgumentParser(description=about.splitlines()[0])
    asked.add_argument("--traces", type=Path)
    asked.add_argument("--work", type=Path, default=work)
    asked.add_argument("--short", action="store_true", help="the bundled trace alone")
    options = asked.parse_args()
    warnings.simplefilter("ignore", forebay.TraceWarning)
    sys.stdout.write(section(workloads(options)) + "\n")


def workloads(options) -> list[Workload]:
    """Returns the available traces in canonical form, which is read faster."""
    work = options.work / "model"
    work.mkdir(parents=True, exist_ok=True)
    if options.short:
        return [Workload("Hadoop terasort (bundled)", ROOT / "traces" / "terasort.parquet", work)]
    folder = options.traces or ROOT.parent / "shared" / "traces"
    return [Workload(name, _canonical(folder / path, from_, work), work)
            for name, path, from_ in LISTED]


def _canonical(path: Path, from_: str | None, work: Path) -> Path:
    canonical = work / f"{path.name.split('.')[0]}-canonical.parquet"
    if not canonical.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", forebay.TraceWarning)
            forebay.convert(path, canonical, from_=from_)
    return canonical


def columns(table) -> dict[str, np.ndarray]:
    """Returns times, places on the disk, lengths, streams and directions of the reads and writes.

    Volumes are laid out one after another, as in `simulate`.
    """
    op = np.array(table["op"].to_pylist())
    data = np.isin(op, ["read", "write"])
    found = {name: table[name].to_numpy()[data].astype(np.int64)
             for name in ("at_ns", "offset", "len", "stream", "volume")}
    ends, volume = found["offset"] + found["len"], found.pop("volume")
    reach = np.array([ends[volume == one].max(initial=0) for one in range(volume.max() + 1)])
    bases = np.concatenate([[0], np.cumsum(-(-reach // 2**20) * 2**20)[:-1]])
    return {**found, "offset": found["offset"] + bases[volume], "reads": op[data] == "read"}


def requests(at_ns, offset, len, reads, stream=0):  # noqa: A002  the columns' names
    """Returns a trace with these columns."""
    ops, at_ns = np.where(reads, "read", "write"), np.asarray(at_ns, dtype=np.int64)
    streams = np.broadcast_to(np.asarray(stream, dtype=np.uint32), ops.shape)
    return pa.table({
        "at_ns": pa.array(at_ns - at_ns[0]),
        "op": pa.array(ops.tolist(), pa.string()),
        "offset": pa.array(np.asarray(offset, dtype=np.uint64)),
        "len": pa.array(np.asarray(len, dtype=np.uint32)),
        "stream": pa.array(streams.copy()),
        "volume": pa.array(np.zeros(ops.shape, dtype=np.uint32)),
    })


def without_locality(table, seed: int):
    """Returns the requests that fio's random job, or IOMeter, would make of a trace: the same number of requests, mix
    of sizes, share of reads, share of requests that continue where the previous one ended, and mean inter-arrival
    time; everything else is drawn uniformly over the part of the disk that the trace uses.
    """
    from_trace, draw = columns(table), np.random.default_rng(seed)
    count, length = len(from_trace["len"]), draw.permutation(from_trace["len"])
    ends = from_trace["offset"] + from_trace["len"]
    sequential = np.mean(from_trace["offset"][1:] == ends[:-1]) if count > 1 else 0.0
    reads = draw.random(count) < np.mean(from_trace["reads"])
    mean_ns = (from_trace["at_ns"][-1] - from_trace["at_ns"][0]) / max(count - 1, 1)
    at_ns = np.cumsum(draw.exponential(mean_ns, count)).astype(np.int64)
    pages = max(int(ends.max()) // 4096, 1)
    offset = draw.integers(0, pages, count) * 4096
    for index in np.flatnonzero(draw.random(count) < sequential):
        if index:
            offset[index] = offset[index - 1] + length[index - 1]
    return requests(at_ns, offset, length, reads)


#: With this intensity, all requests arrive at once, so that the speed of the disk determines the
#: rate.
SATURATED = 1e12


def simulate(trace, policy: str = "noop", intensity: float = SATURATED, **more) -> dict:
    """Returns the figures of a run on the disk."""
    more = {"device": DISK, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", forebay.TraceWarning)
        return forebay.simulate(trace, policy=policy, intensity=intensity, **more).runs[0]


@kept
def iops(trace: Path, device: str = DISK) -> float:
    """Returns the requests per second if they all arrive at once."""
    run = simulate(trace, device=device)
    return run["requests"] / run["makespan_s"]


@kept
def card(a: Path, b: Path, devices: tuple[str, ...] = ()) -> dict:
    """Compares two traces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", forebay.TraceWarning)
        return forebay.compare(a, b, device=list(devices) or None)
