"""The traces: two that are the beginnings of the paper's own, and others."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import forebay

ROOT = Path(__file__).resolve().parents[2]

#: The name of each trace, its path within the folder of traces, its format if that is not detected,
#: and the paper's name for the whole trace, of which ours is the beginning.
LISTED = [
    ("WebSearch1 prefix", "spc/WebSearch1.prefix.mqsim.trace.zst", None, "WebSearch"),
    ("Financial1 prefix", "spc/Financial1.prefix.rewritten.spc.zst", None, "FinTrans"),
    ("MSR rsrch_1", "msr/rsrch_1.csv.zst", None, None),
    ("MSR wdev_1", "msr/wdev_1.csv", None, None),
    ("MSR hm_0 sample", "msr/hm_0.sample1000.csv", None, None),
    ("DTRS", "mqsim/DTRS1K.trace.zst", "ssdsim-us", None),
    ("CloudPhysics", "cloudphysics/cloudPhysicsIO.vscsi.zst", None, None),
    ("hplajw", "hp-srt/hplajw.1week.srt.zst", None, None),
    ("Hadoop terasort", "hadoop/terasort.parquet", None, None),
    ("Hadoop wordcount", "hadoop/wordcount.parquet", None, None),
    ("Hadoop grep", "hadoop/grep.parquet", None, None),
    ("Hadoop randomtextwriter", "hadoop/randomtextwriter.parquet", None, None),
]


@dataclass(frozen=True)
class Workload:
    """A trace and its relation to the paper."""

    name: str
    path: Path
    from_: str | None = None
    #: The paper's name for the whole trace, of which this is the beginning.
    twin: str | None = None

    def table(self):
        """The trace's rows, which are read once."""
        return _table(self.path, self.from_)

    @property
    def requests(self) -> int:
        """The number of requests."""
        return self.table().num_rows

    @property
    def duration_s(self) -> float:
        """The time from the first to the last request."""
        return self.table()["at_ns"][-1].as_py() / 1e9

    @property
    def mean_iops(self) -> float:
        """The mean number of requests per second."""
        return self.requests / self.duration_s


@cache
def _table(path: Path, from_: str | None):
    return forebay.read(path, from_=from_).to_pyarrow()


def workloads(options) -> list[Workload]:
    """Returns the available traces."""
    if options.short:
        return [Workload("Hadoop terasort (bundled)", ROOT / "traces" / "terasort.parquet")]
    folder = options.traces or ROOT.parent / "shared" / "traces"
    return [Workload(name, folder / path, from_, twin) for name, path, from_, twin in LISTED]


def of(listed: list[Workload], name: str) -> Workload | None:
    """Returns the beginning of the paper's trace `name`, if we have it."""
    return next((workload for workload in listed if workload.twin == name), None)


def missing(name: str, short: bool) -> str:
    """Returns why we have no figure for the paper's trace `name`."""
    if short and name in {twin for *_, twin in LISTED}:
        return "not in the short run"
    return f"{name} is not among the traces we have"
