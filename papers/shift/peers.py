"""LevelDB and RocksDB on the paper's disks: their I/O is captured here and replayed on models of those disks.

    make capture-peers                                           # as below, into papers/shift/peers.md
    sudo python3 papers/shift/peers.py --mb 1000 --work DIR      # DIR: a folder with room for five times as much

Cases that were completed before an interruption are not repeated.

The script creates a file system (ext4) on a loop device in DIR, runs an engine there with the program of `make
bench-store` (crates/forebay-store/benches/peers/peers.cc), captures the requests to the device (with `forebay
capture` or, if an engine uses several devices, with the kernel's `blk` tracer, which `forebay capture` uses too), and
replays the capture dependently on models (`forebay simulate --replay dependent`): a thread's I/O begins at its
recorded time, but not before its previous I/O has ended. A capture does not show which threads wait for which others,
so an engine's compaction keeps the pace that it had here, and nobody waits for it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCE = ROOT / "crates/forebay-store/benches/peers/peers.cc"
TRACING = Path("/sys/kernel/tracing")

#: The paper's disk: without a write cache, so that it answers when data is on the platters, and
#: with one.
DEVICES = {"to media": "st1000nm0011:plain", "to cache": "st1000nm0011"}
#: The same RAID 0 as in `forebay store simulate`.
RAID0 = "array:level=raid0:chunk-kib=64"
DISKS = 4
#: The MB/s of LevelDB and of Workload Shifting by the size of values in bytes, with random keys
#: (the paper's figures 3 and 10).
PAPER = {1_000_000: (4.7, 38.6), 100_000: (2.5, 31.1), 10_000: (2.2, 6.3)}
#: The time between an answer and the next put, in ms: about what the engines needed here between
#: I/Os.
HOST_MS = 0.3
#: The factor by which replay divides recorded gaps, so that only disks and dependencies take time.
UNPACED = "1000"
#: The maximum number of puts in a case, regardless of their size.
PUTS_MAX = 10_000


@dataclass(frozen=True)
class Case:
    """An engine and its load: one writer, with each put synced."""

    engine: str
    value_bytes: int
    is_sequential: bool = False
    #: The number of devices that the engine uses. If it is one, the replay stripes it over all
    #: disks.
    devices: int = 1
    #: The maximum amount of data that the engine puts, in MB.
    mb_max: int = 10_000

    def name(self) -> str:
        keys = "sequential" if self.is_sequential else "random"
        return f"{self.engine}-{self.value_bytes}-{keys}"


CASES = [
    *(Case(engine, value) for engine in ("leveldb", "rocksdb") for value in PAPER),
    *(Case(engine, value, is_sequential=True) for engine in ("leveldb", "rocksdb") for value in (100_000, 10_000)),
    *(Case("rocksdb-disks", value) for value in (100_000, 10_000)),
    *(Case("rocksdb-paths", value, devices=DISKS, mb_max=300) for value in (100_000, 10_000)),
]


def told(*words: str | Path) -> str:
    """Returns a command's output; raises its error message."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def file_system(work: Path, name: str, size: int):
    """Creates ext4 on a loop device of this size, bypassing the page cache below; returns the device and the folder."""
    image, folder = work / f"{name}.image", work / name
    told("truncate", "-s", size, image)
    device = told("losetup", "--find", "--show", "--direct-io=on", image)
    try:
        told("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
        folder.mkdir()
        told("mount", device, folder)
        try:
            yield device, folder
        finally:
            told("umount", folder)
            folder.rmdir()
    finally:
        told("losetup", "--detach", device)
        image.unlink()


@contextmanager
def captured_by_forebay(forebay: Path, device: str, trace: Path):
    """Captures one device until the block ends."""
    words = [str(forebay), "capture", device, "-o", str(trace), "--for", "10h"]
    capturing = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    if capturing.poll() is not None:
        raise SystemExit(capturing.stderr.read())
    yield
    capturing.send_signal(signal.SIGINT)
    said = capturing.communicate()[1]
    if "0 events lost" not in said:
        raise SystemExit(f"events were lost: {said}")


def switch(file: Path, text: str) -> None:
    file.write_text(text)


@contextmanager
def captured_by_tracer(devices: list[str], trace: Path):
    """Captures several devices through the kernel's tracer, in blktrace's text format, which differs from blkparse's
    in the number of an event.
    """
    if not (TRACING / "current_tracer").exists():
        told("mount", "-t", "tracefs", "nodev", TRACING)
    enabled = [Path(f"/sys/block/{Path(device).name}/trace/enable") for device in devices]
    switch(TRACING / "current_tracer", "blk")
    try:
        switch(TRACING / "options/blk_classic", "1")
        switch(TRACING / "buffer_size_kb", "32768")
        switch(TRACING / "trace", "")
        for file in enabled:
            switch(file, "1")
        raw = trace.with_suffix(".raw")
        with raw.open("w") as out:
            piping = subprocess.Popen(["cat", str(TRACING / "trace_pipe")], stdout=out)
            yield
            for file in enabled:
                switch(file, "0")
            # Wait for events that are still in the kernel's buffer.
            time.sleep(2)
            piping.terminate()
            piping.wait()
    finally:
        switch(TRACING / "options/blk_classic", "0")
        switch(TRACING / "current_tracer", "nop")
    with raw.open() as lines, trace.open("w") as out:
        for number, line in enumerate(lines, 1):
            if "LOST" in line:
                raise SystemExit(f"events were lost: {line.strip()}")
            disk, cpu, rest = line.split(maxsplit=2)
            out.write(f"{disk} {cpu} {number} {rest}")
    raw.unlink()


def capture(case: Case, options) -> tuple[Path, dict]:
    """Runs a case; returns its trace and the engine's report."""
    count = min(PUTS_MAX, min(options.mb, case.mb_max) * 1_000_000 // case.value_bytes)
    total = count * case.value_bytes
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.work)))
        # Compaction needs additional space. The file systems are sparse, so only data that is
        # written takes space.
        size = total * 2 + (1 << 30)
        disks = [stack.enter_context(file_system(work, f"disk{at}", size)) for at in range(case.devices)]
        if case.devices == 1:
            trace = options.traces / f"{case.name()}.parquet"
            tracing = captured_by_forebay(options.forebay, disks[0][0], trace)
        else:
            trace = options.traces / f"{case.name()}.blkparse"
            tracing = captured_by_tracer([device for device, _ in disks], trace)
        settings = {
            "value-bytes": case.value_bytes, "count": count, "writers": 1,
            "seconds": 100_000, "there": 0, "rate": 0, "scan": 1, "sequential": int(case.is_sequential),
            # The data needs all paths except the last.
            "path-bytes": total // 3,
        }
        words = [f"{name}={value}" for name, value in settings.items()]
        folders = ",".join(str(folder) for _, folder in disks)
        with tracing:
            said = told(options.peers, case.engine, "put", folders, *words)
            for _, folder in disks:
                told("sync", "-f", folder)
    return trace, json.loads(said)


def without_flushes(trace: Path, options) -> Path:
    """Returns the trace without waits for the platters, as if disks answered from caches that nobody flushes."""
    whole, rest = trace.with_suffix(".all.csv"), trace.with_suffix(".csv")
    told(options.forebay, "convert", trace, whole)
    with whole.open(newline="") as lines, rest.open("w", newline="") as out:
        rows = csv.DictReader(lines)
        kept = csv.DictWriter(out, rows.fieldnames)
        kept.writeheader()
        for row in rows:
            if row["op"] != "flush":
                kept.writerow({**row, "flags": row["flags"].replace("P", "").replace("F", "")})
    whole.unlink()
    return rest


def replay(case: Case, trace: Path, device: str, options, *more: str) -> dict:
    """Returns the results of a capture on models of the paper's disks."""
    policy = RAID0 if case.devices == 1 else "mq-deadline"
    words = ["--device", device, "--disks", str(DISKS), "--policy", policy, "--replay", "dependent", "--format", "json"]
    return json.loads(told(options.forebay, "simulate", trace, *words, *more))["runs"][0]


def ours(value_bytes: int, device: str, options) -> float:
    """Returns MB/s of our store on the same models: all puts of the same bytes, sorted and merged meanwhile."""
    words = ["--disks", str(DISKS), "--arrangement", "enhanced", "--value-bytes", str(value_bytes), "--format", "json",
             "--total-mb", str(options.mb), "--host", f"{HOST_MS}ms"]
    if device != DEVICES["to media"]:
        words.append("--to-cache")
    rows = json.loads(told(options.forebay, "store", "simulate", device, *words))["rows"]
    return rows[-1]["throughput_mb_per_s"]


def row(case: Case, options) -> list[str]:
    """Returns a case's row of the table; bytes written and read are per byte of values."""
    trace, said = capture(case, options)
    quick = without_flushes(trace, options)
    runs = [replay(case, trace, DEVICES["to media"], options), replay(case, quick, DEVICES["to cache"], options),
            replay(case, quick, DEVICES["to cache"], options, "--intensity", UNPACED)]
    described = json.loads(told(options.forebay, "describe", trace, "--format", "json"))
    quick.unlink()
    if not options.keep:
        trace.unlink()
    mb = said["bytes"] / 1e6
    moved = [described[f"{way}_bytes"] / said["bytes"] for way in ("write", "read")]
    layout = "RAID 0" if case.devices == 1 else "db_paths"
    paper = PAPER[case.value_bytes][0] if case.engine == "leveldb" and not case.is_sequential else None
    keys = "sequential" if case.is_sequential else "random"
    return [case.engine, layout, f"{case.value_bytes / 1000:g}", keys, f"{mb:.0f}", f"{mb / said['seconds']:.1f}",
            *(f"{share:.1f}" for share in moved), *(f"{mb / run['makespan_s']:.1f}" for run in runs),
            f"{paper:g}" if paper else ""]


HEADER = ["engine", "disks", "KB", "keys", "MB", "here, MB/s", "written", "read", "to media, MB/s", "to cache, MB/s",
          "unpaced, MB/s", "paper, MB/s"]


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def compile_peers(work: Path) -> Path:
    """The program that drives the engines."""
    program = work / "store-peers"
    told("g++", "-O2", "-std=c++17", "-o", program, SOURCE, "-lleveldb", "-lrocksdb", "-lpthread")
    return program


TEXT = """# LevelDB and RocksDB on the paper's disks

Written by `{command}`, in simulation of I/O that was captured: {versions}, ext4
on a loop device, one writer, values under keys of 16 bytes, nothing compressed, each put synced.
Replayed dependently on models of four ST1000NM0011, as RAID 0 with chunks of 64 KiB or, for
`db_paths`, each file system on a disk of its own.

* *here*: the pace at which the engine put while it was captured. *written*, *read*: bytes of its
  I/O for each byte of values.
* *to media*: the disks write to the platters before they answer.
* *to cache*: they answer from their caches, which nobody flushes, as the paper's 3.05 ms a put
  implies. *unpaced*: the same, each I/O as soon as the one that its thread waits for has ended,
  for the pace here bounds what a replay at recorded times can come to.
* *paper*: figures 3 and 10, random keys, over 10 GB.

**Their compaction keeps the capture's pace.** A replay makes each thread wait for its own I/O
alone: a writer that would be slowed or stopped by a compaction that falls behind is not. And what
they compacted was still in this machine's page cache, so next to nothing was read; the paper's
machine had 2 GB of memory for 10 GB. Both are in their favour: such disks would give them less
than is said here.

{table}

`rocksdb-disks` and `rocksdb-paths` are RocksDB as its guide sets it up for disks: an auto-tuned
rate limiter, dynamic levels, files handed to the disk a mebibyte at a time, 2 MiB read ahead in
compactions; `db_paths` of a third of the data each.

Our store on the same models, by its own code in virtual time, {host} ms from an answer to the
next put, sorted and merged meanwhile (`forebay store simulate`, {mb} MB; *paper*: Workload
Shifting):

{ours}

To media an engine on ext4 pays for each put with the journal's commits too, which lie elsewhere
on the disk: tens of milliseconds. Sequential keys spare LevelDB the compaction and not the syncs.
"""


def main(options) -> str:
    """Returns the text of the table."""
    options.traces = options.work / "captured"
    options.traces.mkdir(parents=True, exist_ok=True)
    options.peers = compile_peers(options.work)
    versions = told(options.peers, "--version")
    # Cases that were completed before an interruption are not run again.
    kept = options.work / f"rows-{options.mb}.json"
    done = json.loads(kept.read_text()) if kept.exists() else {}
    for case in CASES:
        if case.name() not in done:
            done[case.name()] = row(case, options)
            kept.write_text(json.dumps(done))
        print(" ".join(done[case.name()]), flush=True)
    rows = [done[case.name()] for case in CASES]
    own = [[f"{value / 1000:g}", *(f"{ours(value, device, options):.1f}" for device in DEVICES.values()),
            f"{shifting:g}"] for value, (_, shifting) in PAPER.items()]
    return TEXT.format(command="make capture-peers", versions=versions, mb=options.mb, host=HOST_MS,
                       table=table(HEADER, rows),
                       ours=table(["KB", "to media, MB/s", "to cache, MB/s", "paper, MB/s"], own))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--mb", type=int, default=1000, help="MB of values of each case")
    parser.add_argument("--work", type=Path, required=True, help="where images and captures go, and are deleted again")
    parser.add_argument("--forebay", type=Path, default=ROOT / "target/release/forebay")
    parser.add_argument("--keep", action="store_true", help="keep the captures")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "peers.md")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("got no privileges, expected root's: loop devices and captures need them")
    arguments.output.write_text(main(arguments))
