"""Which traces are run through which policies, how, and at what load."""

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import forebay

ROOT = Path(__file__).resolve().parents[2]

#: The paper's four, then those beside them. Its CFQ is `cfq:form=paper`: turns of a few requests,
#: merging across processes; `cfq` is Linux's.
PAPER = ["cfq", "noop", "bid", "bid-hybrid"]
BESIDE = ["cfq:form=paper", "deadline", "mq-deadline", "bfq", "anticipatory", "forebay"]
POLICIES = [*PAPER, *BESIDE]
#: The schedulers that are scored as candidates.
SCHEDULERS = ["noop", "deadline", "mq-deadline", "cfq", "bfq", "anticipatory", "bid", "forebay"]

REPLAYS = ["open", "closed"]
#: Times as fast as recorded. 4 is about what a node of the paper with its 8 cores would do to our
#: captures of 2 cores; the cluster's nodes are beyond their disk at 1 already.
INTENSITIES = [1, 4, 10]


@dataclass(frozen=True)
class Workload:
    """A trace and the disk it is put on."""

    name: str
    path: Path
    device: str
    #: The load at which the figures are drawn.
    intensity: float


@dataclass(frozen=True)
class Case:
    """One trace, one way of replaying it, some policies."""

    workload: Workload
    replay: str
    intensity: float
    policies: tuple[str, ...]
    flash: str | None = None
    depth: int = 1

    @property
    def label(self) -> str:
        """What a table calls it."""
        return f"{self.workload.name}, {self.replay}, {self.intensity:g} x"


def workloads(options) -> list[Workload]:
    """The traces there are: the captures, and the cluster's nodes unpacked once."""
    if options.short:
        bundled = ROOT / "traces" / "terasort.parquet"
        return [Workload("terasort", bundled, options.device or "sata250", 4)]
    folder = options.traces or ROOT.parent / "shared" / "traces"
    named = ["terasort", "wordcount", "grep", "randomtextwriter", "sample"]
    captures = [
        Workload(name, folder / "hadoop" / f"{name}.parquet", options.device or "sata250", 4)
        for name in named
    ]
    device = options.device or "st1000nm0011"
    nodes = [
        Workload(f"node{node}", unpacked(folder, node, options.work), device, 1)
        for node in (10, 2)
    ]
    return captures + nodes


def unpacked(folder: Path, node: int, work: Path) -> Path:
    """A node's trace as Parquet, which is read faster than its tar."""
    path = work / f"node{node}.parquet"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            # Events without their pair: what is missing of it is in the traces' own README.
            warnings.simplefilter("ignore", forebay.TraceWarning)
            forebay.convert(folder / "blktrace-bin" / f"hadoop-eternity{node}.sdb.tar.xz", path)
    return path


def figure_cases(all_workloads, flash: str, short: bool) -> list[Case]:
    """The cases of the paper's figures, each with every policy."""
    return [
        Case(workload, replay, intensity, tuple(POLICIES), flash)
        for workload in all_workloads
        for replay in REPLAYS
        for intensity in ([workload.intensity] if short else INTENSITIES)
    ]


def score_cases(all_workloads, short: bool) -> list[Case]:
    """The cases in which the schedulers are scored."""
    return [
        Case(workload, replay, intensity, tuple(SCHEDULERS), None, depth)
        for workload in all_workloads
        for replay in REPLAYS
        for intensity in ([workload.intensity] if short else INTENSITIES)
        for depth in (1, 32)
    ]


BUFFER = """[buffer]
segments = 16
segment_sectors = 1024
read_ahead = "limit"
read_ahead_sectors = 512

[bus]
read_us_per_sector = 1.7
write_us_per_sector = 1.7
"""


def with_queue(device: str, depth: int, folder: Path) -> Path:
    """`device` with a command queue, and the buffer that a drive with one has: a new file.

    16 segments of 512 KiB, reading ahead 256 KiB, behind SATA of 300 MB/s (docs/device-files.md).
    """
    bundled = ROOT / "devices" / f"{device}.toml"
    text = (bundled if bundled.exists() else Path(device)).read_text()
    path = folder / f"{Path(device).stem}-depth{depth}.toml"
    path.write_text(f"{text}\n[queue]\ndepth = {depth}\n\n{BUFFER}")
    return path


def run(case: Case) -> list[dict]:
    """The runs of a case, a dict for each policy. At depth 1 the disk has no queue or buffer."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # Imputed latencies are in each run's `imputed_share`, which the tables show.
        warnings.simplefilter("ignore", forebay.TraceWarning)
        device = case.workload.device
        if case.depth > 1:
            device = str(with_queue(device, case.depth, Path(folder)))
        result = forebay.simulate(
            case.workload.path,
            device=device,
            flash=case.flash,
            policies=list(case.policies),
            replay=case.replay,
            intensity=case.intensity,
        )
    for row in result.runs:
        row["streams"], row["contention"] = [], {}
    return result.runs


def by_policy(case: Case, runs: list[dict]) -> dict[str, dict]:
    """The runs of a case by the policy asked for."""
    return dict(zip(case.policies, runs, strict=True))


def main_cases(cases: list[Case], *replays: str) -> list[Case]:
    """Those at which the figures are drawn, each workload's own load; open replay if not said."""
    chosen = replays or ("open",)
    return [c for c in cases if c.replay in chosen and c.intensity == c.workload.intensity]


def total_s(case: Case, figures: dict) -> float:
    """Total time: the devices' busy time in open replay, until the last completion in closed."""
    return figures["busy_s" if case.replay == "open" else "makespan_s"]
