"""The recorded traces, and what is known about the system on which each was recorded.

Devices were chosen before the first run, by the traces' own descriptions and the addresses that they reach, never by the error
of the model.
"""

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Case:
    """A trace on a system."""

    trace: str
    #: The path within the folder of traces.
    path: str
    device: str
    policy: str
    #: What is known about the device and the scheduler, and what is guessed.
    why: str
    #: Whether the device is known or guessed.
    basis: str = "guessed"
    disks: int = 1

    def file(self, folder: Path) -> Path:
        """The path of the trace."""
        return ROOT / self.path if self.path.startswith("traces/") else folder / self.path

    @property
    def device_name(self) -> str:
        """The name of the device, without its folder."""
        return Path(self.device).stem if self.device.endswith(".toml") else self.device


HP335H = str((HERE / "hp335h.toml").relative_to(ROOT))
LOOP = str((HERE / "throttled-loop.toml").relative_to(ROOT))
LOOPED = (
    "known: our own capture, on a loop device without seeks, limited to 120 MB/s in each direction, scheduler none. There is no "
    "model of this throttle, which lets bursts pass and then stops them; the device file delays each byte instead"
)
NO_MODEL = "known, not modeled"
NODE = (
    "known: `/dev/sdb` of a Hadoop node, with XFS, in May 2020; the drive is not stated. {scheduler}. Latencies begin when a request "
    "is queued; some are missing because CPU files are missing. "
)
SCATTERED = (
    "The drive is guessed: it reached 240 MB/s although half of the requests did not start where the previous one ended, which a "
    "single disk cannot do"
)
FIRST = "The drive is guessed: the 1 TB disk that results.md and the papers' tables use"
DEADLINE = "The scheduler is guessed: the trace has no messages of CFQ"
CFQ = "CFQ was the scheduler: its messages are in the trace"
SERVER = (
    "known: a volume of a Windows server on a RAID controller with a cache, with times recorded by Windows. A single "
    "15,000-rpm disk without a scheduler is a guess"
)

#: The cases, in the order in which the list of traces contains them.
CASES = [
    Case("Hadoop terasort", "traces/terasort.parquet", LOOP, "none", LOOPED, NO_MODEL),
    Case("Hadoop wordcount", "hadoop/wordcount.parquet", LOOP, "none", LOOPED, NO_MODEL),
    Case("Hadoop grep", "hadoop/grep.parquet", LOOP, "none", LOOPED, NO_MODEL),
    Case("Hadoop text", "hadoop/randomtextwriter.parquet", LOOP, "none", LOOPED, NO_MODEL),
    Case("Hadoop node 10", "blktrace-bin/hadoop-eternity10.sdb.tar.xz", "samsung-830", "deadline",
         f"{NODE.format(scheduler=DEADLINE)}{SCATTERED}; samsung-830 is our only SATA solid-state drive from before 2020"),
    Case("Hadoop node 10", "blktrace-bin/hadoop-eternity10.sdb.tar.xz", "st1000nm0011", "deadline",
         f"{NODE.format(scheduler=DEADLINE)}{FIRST}"),
    Case("Hadoop node 2", "blktrace-bin/hadoop-eternity2.sdb.tar.xz", "samsung-830", "cfq",
         f"{NODE.format(scheduler=CFQ)}{SCATTERED}"),
    Case("Hadoop node 2", "blktrace-bin/hadoop-eternity2.sdb.tar.xz", "st1000nm0011", "cfq",
         f"{NODE.format(scheduler=CFQ)}{FIRST}"),
    Case("MSR rsrch_1", "msr/rsrch_1.csv.zst", "cheetah-15k7", "none", SERVER),
    Case("MSR wdev_1", "msr/wdev_1.csv", "cheetah-15k7", "none", SERVER),
    Case("MSR hm_0", "msr/hm_0.sample1000.csv", "cheetah-15k7", "none", SERVER),
    Case("SYSTOR '17", "systor17/systor17-traces-sample.csv.gz", "exos-x18", "none",
         "known: a LUN of a storage array for virtual desktops, with addresses up to 5 TB. A single large disk without a scheduler "
         "is a guess"),
    Case("HP hplajw", "hp-srt/hplajw.1week.srt.zst", HP335H, "clook",
         "known: two HP-IB disks, geometry, seek curve, bus and C-LOOK in the driver, all in the trace's own header. "
         "Guessed: the time of a cylinder switch", "known", 2),
    Case("NVMe sample", "blktrace-bin/nvme-sample.blktrace.0", "990-pro", "none",
         "known: an NVMe drive, 4 KiB random reads by one process. The model is guessed: a consumer drive"),
    Case("NVMe dm-crypt", "blkparse/nvme0n1-dmcrypt-jbd2.txt", "990-pro", "none",
         "known: an NVMe drive under dm-crypt and ext4's journal. The model is guessed: a consumer drive"),
    Case("SQLite on ext4", "wiscsee/sqlitewal-update-ext4.events.txt.zst", "samsung-830", "none",
         "the device is not stated; reads within 0.13 ms show that it has no arm, so a SATA solid-state drive is guessed"),
    Case("Thesios", "thesios/thesios_sample.csv", "exos-x18", "none",
         "known: a nearline disk of a storage server. The model is guessed. Writes have no disk time, because a buffer absorbed them"),
    Case("biosnoop, Xen", "biosnoop/biosnoop.txt", "st1000nm0011", "mq-deadline",
         "known: three virtual disks of an idle server; the storage below them is guessed"),
    Case("biosnoop, NVMe", "biosnoop/biosnoop-Q.txt", "990-pro", "none", "known: an NVMe drive; the model is guessed"),
    Case("iosnoop", "biosnoop/iosnoop-ts.txt", "st1000nm0011", "mq-deadline",
         "known: a virtual disk; the storage below it is guessed"),
]

#: Recorded traces that cannot be judged, and the reason.
LEFT_OUT = [
    ("blkparse/ext4-sdc1-issue-only.txt", "no completions, so no latencies"),
    ("disksim-valid/*", "one request at a time on disks that DiskSim describes: `forebay device validate` judges them, and results.md has the figures"),
    ("spc, heimdall, mqsim, disksim-ascii, cloudphysics, tencent-cbs, arc-lis, fio-iolog", "no latencies"),
]
