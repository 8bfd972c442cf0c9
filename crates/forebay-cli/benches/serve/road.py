"""The cost of the path to a mounted export, and schedulers inside the export compared with the kernel's. Needs root.

road.py FOREBAY [SECONDS]

The path is a loop device over nbdfuse over `forebay serve`. The first measurement is one reader of a file in memory,
with and without the path. Then sequential readers compete on an emulated hard disk: with our schedulers inside the
export (one connection, and therefore one stream, each), and with the kernel's schedulers on the loop device over the
same disk exported with noop.
"""

import pathlib
import sys
import tempfile

from clients import fio, load, serving, told, uri
from loop import loop_device

READERS = 8
DEPTH = 32
DISK = "st1000nm0011"


def disk(folder, policy, emulate=""):
    return f"""
[[disk]]
name = ""
file = "{folder}/disk"
policy = "{policy}"
{emulate or "page_cache = true"}"""


def direct(socket):
    return ["--ioengine=nbd", uri(socket)]


def over(device):
    return ["--ioengine=libaio", "--direct=1", f"--filename={device}"]


def cost(forebay, folder, seconds):
    """Measures one reader of a file in memory, with and without the path."""
    with open(folder / "disk", "wb") as file:
        for _ in range(256):
            file.write(bytes(range(256)) * 4096)
    print(f"one client, file in memory, noop; load {load()}")
    with serving(forebay, disk(folder, "noop"), folder) as at, loop_device(at, folder) as device:
        for way, kib, depth in [("randread", 4, 1), ("randread", 4, 32), ("randread", 256, 1), ("randread", 256, 32)]:
            shape = [f"--rw={way}", f"--bs={kib}k", f"--iodepth={depth}", "--size=256m", f"--runtime={seconds}"]
            rounds = []
            for _ in range(3):
                plain = told(fio("--name=plain", *direct(at), *shape))["read"]["iops"]
                road = told(fio("--name=road", *over(device), *shape))["read"]["iops"]
                rounds.append((road / plain, plain, road))
            ratio, plain, road = sorted(rounds)[1]
            print(f"  {way} {kib} KiB, depth {depth}: direct {plain:.0f} IOPS, road {road:.0f}, ratio {ratio:.2f}",
                  flush=True)



def readers(words, seconds):
    client = fio("--name=readers", *words, "--rw=read", "--bs=64k", f"--iodepth={DEPTH}",
                 f"--numjobs={READERS}", "--size=2g", "--offset_increment=100g", f"--runtime={seconds}")
    seen = told(client)["read"]
    return seen["bw_bytes"] / 1e6, seen["clat_ns"]["percentile"]["99.000000"] / 1e6


def schedulers(forebay, folder, seconds):
    """Measures the emulated disk's throughput under each scheduler."""
    emulate = f'emulate = "{DISK}"'
    with open(folder / "disk", "wb") as file:
        file.truncate(900 << 30)
    print(f"{READERS} sequential readers of 64 KiB, {DEPTH} outstanding each, on an emulated {DISK}; load {load()}")
    for policy in ["noop", "none", "mq-deadline", "bfq", "bid", "forebay"]:
        with serving(forebay, disk(folder, policy, emulate), folder) as at:
            rate, p99 = readers(direct(at), seconds)
        print(f"  ours inside the export, {policy:<12} {rate:7.1f} MB/s, p99 {p99:8.0f} ms", flush=True)
    with serving(forebay, disk(folder, "noop", emulate), folder) as at, loop_device(at, folder) as device:
        for policy in ["none", "mq-deadline", "bfq"]:
            queue = pathlib.Path("/sys/block") / pathlib.Path(device).name / "queue/scheduler"
            if policy not in queue.read_text():
                print(f"  the kernel has no {policy}")
                continue
            queue.write_text(policy)
            rate, p99 = readers(over(device), seconds)
            print(f"  the kernel's on the loop, {policy:<10} {rate:7.1f} MB/s, p99 {p99:8.0f} ms", flush=True)


def main():
    forebay, seconds = sys.argv[1], int((sys.argv[2:] or ["15"])[0])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        folder = pathlib.Path(folder)
        cost(forebay, folder, max(1, seconds // 5))
        schedulers(forebay, folder, seconds)


main()
