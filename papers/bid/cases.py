"""The cases: which traces run through which policies, in which replay, on which disk and at what load."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import forebay

ROOT = Path(__file__).resolve().parents[2]

#: The disks by the name that tables use, each a function of a bundled device's name or a device
#: file. `plain`: the arm and platters alone, with one command at a time, as in the paper's
#: simulator. `drive`: the same disk as sold, with a queue of 32 commands, a buffer and a write
#: cache.
DISKS = {
    "plain": lambda device: f"{device}:plain",
    "drive": lambda device: device,
}

#: The default wait in ms: ours, the one at which the paper's savings appear, and those swept.
DEFAULT_MS = 5
PAPER_MS = 50
WAITS_MS = [0, 5, 10, 20, 50, 100]


def bid(wait_ms: int) -> str:
    """Returns BID-HDD with a default wait."""
    return f"bid:wait-ms={wait_ms}"


def hybrid(wait_ms: int) -> str:
    """Returns BID-Hybrid with a default wait."""
    return f"bid-hybrid:wait-ms={wait_ms}"


BID, HYBRID = bid(PAPER_MS), hybrid(PAPER_MS)
#: The paper's four policies with its wait, then further policies. The paper's CFQ is
#: `cfq:form=paper`, with turns of a few requests and merging across processes; `cfq` is Linux's.
PAPER = ["cfq", "noop", BID, HYBRID]
BESIDE = [bid(DEFAULT_MS), hybrid(DEFAULT_MS), "cfq:form=paper", "deadline", "mq-deadline", "bfq"]
BESIDE += ["kyber", "anticipatory", "clook", "forebay"]
POLICIES = [*PAPER, *BESIDE]
SWEPT = [of(wait) for of in (bid, hybrid) for wait in WAITS_MS if of(wait) not in POLICIES]
#: The schedulers that are scored as candidates, and one that knows more than any of them can.
SCHEDULERS = ["noop", "deadline", "mq-deadline", "kyber", "cfq", "bfq", "anticipatory", "clook"]
SCHEDULERS += ["bid", "forebay"]
YARDSTICK = "sptf"

REPLAYS = ["open", "closed", "dependent"]
#: Intensities, as multiples of the recorded speed, for contrast. At 4, most captures keep the disk
#: busy all the time; those of the cluster's nodes do so even as recorded.
SATURATED = [4, 10]
#: The settings for which the paper's figures are drawn: the paper's own, and the most realistic
#: one.
SETTINGS = [("open", "plain"), ("closed", "drive")]


#: A trace whose name is too long for tables, and the name used there instead.
WRITER = "randomtextwriter"
SHORT = {WRITER: "writer"}
WRITER_TOLD = f"`{SHORT[WRITER]}` is {WRITER}'s trace. "


@dataclass(frozen=True)
class Workload:
    """A trace and the disk on which it is simulated."""

    name: str
    path: Path
    device: str


@dataclass(frozen=True)
class Case:
    """A trace, a replay, a disk and some policies."""

    workload: Workload
    replay: str
    intensity: float
    policies: tuple[str, ...]
    flash: str | None = None
    #: A key of [`DISKS`].
    disk: str = "plain"
    #: Text to show after the device's name, in place of the modifier that the disk adds.
    change: str | None = None

    @property
    def label(self) -> str:
        """The name in tables."""
        load = "" if self.intensity == 1 else f", {self.intensity:g} x"
        return f"{self.workload.name}, {self.replay}, {self.disk}{load}"


def workloads(options) -> list[Workload]:
    """Returns the available traces: the captures, and the cluster's nodes, which are unpacked once."""
    if options.short:
        bundled = ROOT / "traces" / "terasort.parquet"
        return [Workload("terasort", bundled, options.device or "sata250")]
    disk = options.device or "sata250"
    folder = options.traces or ROOT.parent / "shared" / "traces"
    named = ["grep", "wordcount", "terasort", WRITER, "sample"]
    captures = [
        Workload(SHORT.get(name, name), folder / "hadoop" / f"{name}.parquet", disk)
        for name in named
    ]
    device = options.device or "st1000nm0011"
    nodes = [
        Workload(f"node{node}", unpacked(folder, node, options.work), device) for node in (10, 2)
    ]
    return captures + nodes


def unpacked(folder: Path, node: int, work: Path) -> Path:
    """Returns a node's trace as Parquet, which is read faster than the tar."""
    path = work / f"node{node}.parquet"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            # Some events lack their counterpart. The README of the traces lists what is missing.
            warnings.simplefilter("ignore", forebay.TraceWarning)
            forebay.convert(folder / "blktrace-bin" / f"hadoop-eternity{node}.sdb.tar.xz", path)
    return path


#: Traces that were not used to choose any parameter: name, path, the format if it is not detected,
#: and whether there are latencies, without which there are no think times for closed replay.
ELSEWHERE = [
    ("WebSearch1", "spc/WebSearch1.prefix.mqsim.trace.zst", None, False),
    ("Financial1", "spc/Financial1.prefix.rewritten.spc.zst", None, False),
    ("MSR rsrch_1", "msr/rsrch_1.csv.zst", None, True),
    ("MSR wdev_1", "msr/wdev_1.csv", None, True),
    ("MSR hm_0", "msr/hm_0.sample1000.csv", None, True),
    ("MSR window", "heimdall/msr.cut.per_10k.rw_40_60.1370.trace.zst", "heimdall", False),
    ("DTRS", "mqsim/DTRS1K.trace.zst", "ssdsim-us", False),
    ("TPC-C", "mqsim/tpcc-small.trace.zst", None, False),
    ("CloudPhysics", "cloudphysics/cloudPhysicsIO.vscsi.zst", None, False),
    ("hplajw", "hp-srt/hplajw.1week.srt.zst", None, True),
    ("desktop", "disksim-ascii/desktop.trace.zst", None, False),
    ("DiskSim's", "disksim-ascii/disksim-valid-ascii.trace.zst", None, False),
    ("IOzone", "disksim-ascii/ssd-iozone-aligned2-100K.trace.zst", None, False),
    ("SYSTOR", "systor17/systor17-traces-sample.csv.gz", None, True),
]


def elsewhere_cases(options) -> list[Case]:
    """Returns the cases of the traces that were not used to choose parameters; none in a short run."""
    if options.short:
        return []
    folder = options.traces or ROOT.parent / "shared" / "traces"
    device = options.device or "sata250"
    return [
        case
        for name, path, form, latencies in ELSEWHERE
        for case in score_cases(
            [Workload(name, converted(folder / path, form, options.work), device)], False
        )
        if latencies or case.replay == "open"
    ]


def converted(trace: Path, form: str | None, work: Path) -> Path:
    """Returns a trace as Parquet, converting it if necessary."""
    path = work / f"{trace.name.split('.')[0]}-{trace.parent.name}.parquet"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", forebay.TraceWarning)
            forebay.convert(trace, path, from_=form)
    return path


def figure_cases(all_workloads, flash: str, short: bool) -> list[Case]:
    """Returns every replay on both disks with every wait at recorded speed, and then the saturated loads."""
    waits = [] if short else SWEPT
    as_recorded = [
        Case(workload, replay, 1, (*POLICIES, *waits), flash, disk)
        for workload in all_workloads
        for replay in (REPLAYS[:2] if short else REPLAYS)
        for disk in DISKS
    ]
    faster = [
        Case(workload, replay, intensity, tuple(POLICIES), flash)
        for workload in all_workloads
        for replay in REPLAYS[:2]
        for intensity in SATURATED
    ]
    return as_recorded if short else as_recorded + faster


def score_cases(all_workloads, short: bool) -> list[Case]:
    """Returns the cases in which the schedulers are scored. The yardstick requires a disk with one command at a time.
    """
    return [
        Case(workload, replay, intensity, policies, None, disk)
        for workload in all_workloads
        for replay in REPLAYS[:2]
        for intensity in ([1] if short else [1, *SATURATED])
        for disk, policies in (("plain", (*SCHEDULERS, YARDSTICK)), ("drive", tuple(SCHEDULERS)))
    ]


def run(case: Case) -> list[dict]:
    """Returns the runs of a case, one dict per policy."""
    with warnings.catch_warnings():
        # The share of imputed latencies is in each run's `imputed_share`, which the tables show.
        warnings.simplefilter("ignore", forebay.TraceWarning)
        result = forebay.simulate(
            case.workload.path,
            device=device(case),
            flash=case.flash,
            policy=[queueing(policy, case.disk) for policy in case.policies],
            replay=case.replay,
            intensity=case.intensity,
        )
    for row in result.runs:
        row["streams"], row["contention"] = [], {}
    return result.runs


def queueing(policy: str, disk: str) -> str:
    """On the paper's disk all requests wait for a slot in one line, as in its appendix; on others as in Linux."""
    return f"{policy}:queue=line" if disk == "plain" else policy


def device(case: Case) -> str:
    """Returns the device on which a case runs."""
    named = case.workload.device
    return DISKS[case.disk](named) if case.change is None else named + case.change


def by_policy(case: Case, runs: list[dict]) -> dict[str, dict]:
    """Returns the runs of a case by policy."""
    return dict(zip(case.policies, runs, strict=True))


def chosen(cases: list[Case], replay: str, disk: str, intensity: float = 1) -> list[Case]:
    """Returns the cases of one replay on one disk at one load."""
    asked = (replay, disk, intensity)
    return [c for c in cases if (c.replay, c.disk, c.intensity) == asked]


def total_s(case: Case, figures: dict) -> float:
    """Returns the total time: the devices' busy time in open replay, the time until the last completion in closed
    replay.
    """
    return figures["busy_s" if case.replay == "open" else "makespan_s"]
