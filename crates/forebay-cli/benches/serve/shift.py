"""The shift paper's figure 3 on a served volume: LevelDB on ext4 on a loop device over four emulated disks as RAID 0.

shift.py FOREBAY MB [MB_TO_MEDIA]         root; with g++, libleveldb-dev, librocksdb-dev

Requires root, g++, libleveldb-dev and librocksdb-dev. The loop device uses nbdfuse on `forebay serve`. *to cache*:
disks with caches, and ext4 mounted without barriers, so that nobody flushes; *to media*: disks that write to the
platters first, with barriers. The server records its requests as a trace, which the simulator replays dependently,
like papers/shift/peers.py does with its captures.
"""

import contextlib
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from clients import load, say, serving

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "papers/shift"))
import peers  # noqa: E402

#: The size of a drive in bytes.
DRIVE_BYTES = 4 << 30
BARRIERS = {"to media": "1", "to cache": "0"}


@contextlib.contextmanager
def loop_device(socket, folder):
    """A loop device over nbdfuse over an export."""
    mounted = folder / "mounted"
    mounted.mkdir(exist_ok=True)
    fuse = subprocess.Popen(["nbdfuse", mounted / "nbd", "--unix", socket])
    try:
        (mounted / "nbd").exists() or time.sleep(0.5)
        while not (mounted / "nbd").is_file():
            time.sleep(0.05)
        made = ["losetup", "--find", "--show", "--direct-io=on", mounted / "nbd"]
        device = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield device
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
    finally:
        subprocess.run(["umount", mounted], check=False)
        fuse.wait()


@contextlib.contextmanager
def file_system(device, folder, barrier):
    """Creates ext4 on a device and mounts it."""
    peers.told("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    folder.mkdir(exist_ok=True)
    peers.told("mount", "-o", f"barrier={barrier}", device, folder)
    try:
        yield
    finally:
        peers.told("umount", folder)


def volume(forebay, folder, device):
    """Returns a configuration with a new volume, which writes a trace of its requests."""
    drives = folder / "drives"
    shutil.rmtree(drives, ignore_errors=True)
    drives.mkdir()
    for nth in range(peers.DISKS):
        with open(drives / str(nth), "wb") as file:
            file.truncate(DRIVE_BYTES)
    peers.told(forebay, "volume", "create", drives, "--level", "raid0")
    return f"""
[[volume]]
name = ""
drives = ["{drives}"]
emulate = "{device}"
trace = "{folder}/asked.parquet"
"""


def put(program, folder, value_bytes, count):
    """Lets LevelDB put this many values, each synced; returns its output."""
    settings = {"value-bytes": value_bytes, "count": count, "writers": 1, "seconds": 100_000, "there": 0, "rate": 0,
                "scan": 1, "sequential": 0, "path-bytes": 0}
    words = [f"{name}={value}" for name, value in settings.items()]
    return json.loads(peers.told(program, "leveldb", "put", folder, *words))


def asked(forebay, trace, begin_s):
    """Returns what the server received from `begin_s` on (earlier requests created the file system): its writes,
    their mean latency in ms, and the seconds in which it had outstanding requests; the rest is the time of the
    path and of LevelDB.
    """
    part, whole = trace.with_name("part.csv"), trace.with_name("whole.csv")
    peers.told(forebay, "convert", trace, whole)
    with open(whole, newline="") as lines, open(part, "w", newline="") as out:
        rows = csv.DictReader(lines)
        kept = csv.DictWriter(out, rows.fieldnames)
        kept.writeheader()
        waits, busy_ns, until = [], 0, 0
        for row in rows:
            begin = int(row["at_ns"])
            if begin < begin_s * 1e9:
                continue
            kept.writerow(row)
            end = begin + int(row["latency_ns"] or 0)
            busy_ns += max(0, end - max(begin, until))
            until = max(until, end)
            if row["op"] == "write":
                waits.append((end - begin) / 1e6)
    return part, len(waits), sum(waits) / len(waits), busy_ns / 1e9


def simulated(forebay, trace, device, *more):
    """Returns the simulator's results for a trace."""
    words = ["--device", device, "--disks", str(peers.DISKS), "--policy", peers.RAID0, "--replay", "dependent"]
    return say(forebay, "simulate", trace, *words, *more)["runs"][0]


def main():
    forebay, sizes_mb = pathlib.Path(sys.argv[1]).resolve(), list(map(int, sys.argv[2:]))
    mbs = {"to cache": sizes_mb[0], "to media": sizes_mb[-1]}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        folder = pathlib.Path(folder)
        program = peers.compile_peers(folder)
        for value_bytes in [1_000_000, 100_000]:
            for way, device in reversed(peers.DEVICES.items()):
                config = volume(forebay, folder, device)
                with serving(forebay, config, folder) as at, loop_device(at, folder) as loop:
                    begun = time.monotonic()
                    with file_system(loop, folder / "fs", BARRIERS[way]):
                        made_s = say(forebay, "top", at)["uptime_s"]
                        told = put(program, folder / "fs", value_bytes, mbs[way] * 1_000_000 // value_bytes)
                        peers.told("sync", "-f", folder / "fs")
                    figures = say(forebay, "top", at)
                mb, late = told["bytes"] / 1e6, figures["backs"][0]["late"]
                part, writes, write_ms, server_s = asked(forebay, folder / "asked.parquet", made_s)
                again = simulated(forebay, part, device)
                unpaced = simulated(forebay, part, device, "--intensity", peers.UNPACED)
                busy = [round(disk["busy_s"], 1) for disk in figures["backs"][0]["disks"]]
                print(f"{value_bytes // 1000} KB, {way}: {mb:.0f} MB in {told['seconds']:.1f} s, {mb / told['seconds']:.1f} MB/s; "
                      f"{writes} writes of {write_ms:.2f} ms, simulated {again['write_mean_ms']:.2f} ms; the server at work "
                      f"{server_s:.1f} s; simulated {mb / again['makespan_s']:.1f} MB/s, unpaced "
                      f"{mb / unpaced['makespan_s']:.1f}; disks busy {busy} s of "
                      f"{time.monotonic() - begun:.1f}; late p50 {late['p50_ms']:.2f} p99 {late['p99_ms']:.2f} ms; load {load()}",
                      flush=True)


main()
