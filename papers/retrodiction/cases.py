"""The recorded traces, and the system that each was recorded on as far as anybody knows.

Chosen before the first run, by what the traces' own descriptions say and by the addresses they reach, never by how near the
model comes.
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
        """The trace itself."""
        return ROOT / self.path if self.path.startswith("traces/") else folder / self.path

    @property
    def device_name(self) -> str:
        """Without its folder."""
        return Path(self.device).stem if self.device.endswith(".toml") else self.device


HP335H = str((HERE / "hp335h.toml").relative_to(ROOT))
LOOP = str((HERE / "throttled-loop.toml").relative_to(ROOT))
LOOPED = (
    "known: our own capture, on a loop device that is held to 120 MB/s each way and has no seeks, scheduler none. There is no "
    "model of that throttle, which lets bursts pass and then stops them; the device file paces each byte instead"
)
NO_MODEL = "known, not modelled"
NODE = (
    "known: a Hadoop node's `/dev/sdb` with XFS, in May 2020; the drive is not stated. {scheduler}. Latencies run from when a request is queued; some "
    "are missing with the CPU files that are missing. "
)
SCATTERED = "The drive is guessed: it did 240 MB/s with half of the requests elsewhere than the last one ended, which one disk cannot"
FIRST = "The drive is guessed: the 1 TB disk that results.md and the papers' tables take"
DEADLINE = "The scheduler is guessed: there are no messages of CFQ's"
CFQ = "CFQ was the scheduler: its messages are in the trace"
SERVER = (
    "known: a volume of a Windows server on a RAID controller with memory, times as Windows saw them. One 15,000-rpm disk is a "
    "guess, and so is no order but the drive's"
)

#: The cases, in the order in which the list of traces contains them.
CASES = [
    Case("Hadoop terasort", "traces/terasort.parquet", LOOP, "none", LOOPED, NO_MODEL),
    Case("Hadoop wordcount", "hadoop/wordcount.parquet", LOOP, "none", LOOPED, NO_MODEL),
    Case("Hadoop grep", "hadoop/grep.parquet", LOOP, "none", LOOPED, NO_MODEL),
    Case("Hadoop text", "hadoop/randomtextwriter.parquet", LOOP, "none", LOOPED, NO_MODEL),
    Case("Hadoop node 10", "blktrace-bin/hadoop-eternity10.sdb.tar.xz", "samsung-830", "deadline",
         f"{NODE.format(scheduler=DEADLINE)}{SCATTERED}; samsung-830 is the one SATA solid-state drive of before 2020 among ours"),
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
         "known: a LUN of a storage array under virtual desktops, which reaches 5 TB. One large disk is a guess, and so is no "
         "order but the drive's"),
    Case("HP hplajw", "hp-srt/hplajw.1week.srt.zst", HP335H, "clook",
         "known: two HP-IB disks, geometry, seek curve, bus and C-LOOK in the driver, all in the trace's own header. "
         "Guessed: how long a change of cylinder takes", "known", 2),
    Case("NVMe sample", "blktrace-bin/nvme-sample.blktrace.0", "990-pro", "none",
         "known: an NVMe drive, 4 KiB random reads by one process. Which one is guessed: a consumer's"),
    Case("NVMe dm-crypt", "blkparse/nvme0n1-dmcrypt-jbd2.txt", "990-pro", "none",
         "known: an NVMe drive under dm-crypt and ext4's journal. Which one is guessed: a consumer's"),
    Case("SQLite on ext4", "wiscsee/sqlitewal-update-ext4.events.txt.zst", "samsung-830", "none",
         "the device is not stated; reads within 0.13 ms say that it has no arm, so a SATA solid-state drive is guessed"),
    Case("Thesios", "thesios/thesios_sample.csv", "exos-x18", "none",
         "known: a nearline disk of a storage server. Which one is guessed. Writes have no disk time: a buffer took them"),
    Case("biosnoop, Xen", "biosnoop/biosnoop.txt", "st1000nm0011", "mq-deadline",
         "known: three virtual disks of an idle server; what is below them is guessed"),
    Case("biosnoop, NVMe", "biosnoop/biosnoop-Q.txt", "990-pro", "none", "known: an NVMe drive; which one is guessed"),
    Case("iosnoop", "biosnoop/iosnoop-ts.txt", "st1000nm0011", "mq-deadline",
         "known: a virtual disk; what is below it is guessed"),
]

#: Recorded traces that cannot be judged, and the reason.
LEFT_OUT = [
    ("blkparse/ext4-sdc1-issue-only.txt", "no completions, so no latencies"),
    ("disksim-valid/*", "one request at a time on disks whose files DiskSim has: `forebay device validate` judges them, and results.md has the figures"),
    ("spc, heimdall, mqsim, disksim-ascii, cloudphysics, tencent-cbs, arc-lis, fio-iolog", "no latencies"),
]
