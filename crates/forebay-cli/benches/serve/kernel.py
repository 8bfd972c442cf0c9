"""Our schedulers inside an export compared with a guest kernel's on the same disk, exported with noop, in alternation.

kernel.py FOREBAY IMAGE TRACE BEGIN_S SPAN_S [SECONDS] [ROUNDS]

IMAGE is an unpacked Debian kernel package (guest.py). Clients are the same fio jobs with one process per stream: over
NBD with a connection each, in the guest with a process each. Loads: sequential readers; sequential readers and one
random reader; a part of a recorded trace, in which each thread issues its requests in recorded order as fast as they
are answered.
"""

import collections
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

from clients import FIRST, load, say, serving, uri
from guest import QUEUE, Guest

# The queue is as long as QEMU's, so that in both setups the disk chooses among the same number of
# commands.
DISK = f"st1000nm0011:queue-depth={QUEUE}"
# The first policy does the same as `none` in a guest, so it shows the overhead of the path through
# the guest.
OURS = ["noop:merge=no", "noop", "mq-deadline", "bfq", "bid", "forebay"]
THEIRS = ["none", "mq-deadline", "bfq"]
# The number of threads of the trace that are separate streams; the threads with the fewest requests
# share another stream.
STREAMS = 15
OUTSTANDING = 8
# The maximum size of a request.
BYTES_MAX = 1 << 20


def readers(seconds):
    return f"""
[readers]
rw=read
bs=64k
iodepth=32
numjobs=8
size=2g
offset_increment=100g
runtime={seconds}
time_based
"""


def mixed(seconds):
    return f"""
[sequential]
rw=read
bs=64k
iodepth=8
numjobs=4
size=2g
offset_increment=100g
runtime={seconds}
time_based
[random]
new_group
rw=randread
bs=4k
iodepth=1
offset=500g
size=100g
runtime={seconds}
time_based
"""


def pieces(forebay, trace, begin_s, span_s, folder):
    """Returns the requests of a part of a trace by stream: (operation, offset, bytes)."""
    path = folder / "piece.csv"
    subprocess.run([forebay, "convert", trace, path], check=True, capture_output=True)
    threads = collections.defaultdict(list)
    with open(path, newline="") as rows:
        for row in csv.DictReader(rows):
            if begin_s <= int(row["at_ns"]) / 1e9 < begin_s + span_s and row["op"] in ("read", "write"):
                at, left = int(row["offset"]), int(row["len"])
                while left:
                    count = min(left, BYTES_MAX)
                    threads[row["stream"]].append((row["op"], at, count))
                    at, left = at + count, left - count
    path.unlink()
    most = sorted(threads.values(), key=len, reverse=True)
    rest = [one for thread in most[STREAMS:] for one in thread]
    return [stream for stream in [*most[:STREAMS], rest] if stream]


def recorded(streams, file, folder):
    """Returns the job that replays a recorded part on `file`, which is fio's name for the disk; logs go to `folder`."""
    jobs = f"\n[global]\niodepth={OUTSTANDING}\nreplay_no_stall=1\nthread=0\n"
    for nth, stream in enumerate(streams):
        lines = ["fio version 2 iolog", f"{file} add", f"{file} open"]
        lines += [f"{file} {op} {offset} {count}" for op, offset, count in stream]
        (folder / f"log{nth}").write_text("\n".join([*lines, f"{file} close"]) + "\n")
        jobs += f"[stream{nth}]\nread_iolog=log{nth}\n"
    return jobs


GLOBAL = """[global]
group_reporting
lat_percentiles=1
clat_percentiles=0
"""


def seen(told):
    """Returns for each group of jobs: name, MB/s, I/Os per second, p99 of reads in ms; and the duration in s."""
    groups = []
    for job in told["jobs"]:
        read, write = job["read"], job["write"]
        percentiles = read["lat_ns"].get("percentile", {})
        groups.append({
            "jobs": job["jobname"],
            "mb_s": (read["bw_bytes"] + write["bw_bytes"]) / 1e6,
            "iops": read["iops"] + write["iops"],
            "p99_ms": percentiles.get("99.000000", 0) / 1e6,
            "took_s": max(read["runtime"], write["runtime"]) / 1e3,
        })
    return groups


def disk(folder, policy):
    return f"""
[[disk]]
name = ""
file = "{folder}/disk"
policy = "{policy}"
emulate = "{DISK}"
"""


def line(way, policy, name, groups, figures):
    """Prints a run as a line of JSON."""
    back = figures["backs"][0]
    [one] = back["disks"]
    print(json.dumps({
        "load": name, "way": way, "policy": policy, "groups": groups, "disk_busy_s": round(one["busy_s"], 3),
        "disk_ios": one["reads"] + one["writes"], "disk_mb": one["moved_bytes"] / 1e6, "late_ms": back["late"],
        "machine": load(),
    }), flush=True)


class Loads:
    """The loads as folders, for the disk over NBD and for the disk in the guest."""

    def __init__(self, forebay, trace, begin_s, span_s, seconds, folder):
        self.folder = folder
        streams = pieces(forebay, trace, begin_s, span_s, folder)
        print(f"the trace's piece: {sum(map(len, streams))} requests, {sum(n for s in streams for *_, n in s) / 1e6:.0f} MB,"
              f" streams of {[len(stream) for stream in streams]}")
        for way, file in [("nbd", "nbd"), ("guest", "/dev/vda")]:
            for name, jobs in [("readers", readers(seconds)), ("mixed", mixed(seconds)), ("trace", None)]:
                to = folder / way / name
                to.mkdir(parents=True)
                jobs = jobs or recorded(streams, file, to)
                how = "" if way == "nbd" else "ioengine=libaio\ndirect=1\n"
                how += "" if way == "nbd" or name == "trace" else f"filename={file}\n"
                (to / "load.fio").write_text(GLOBAL + how + jobs)

    def of(self, way, name):
        return self.folder / way / name


def ours(forebay, policy, name, loads, folder):
    with serving(forebay, disk(folder, policy), folder) as at:
        where = loads.of("nbd", name)
        told = where / "load.fio"
        text = told.read_text()
        told.write_text(text.replace(GLOBAL, f"{GLOBAL}ioengine=nbd\n{uri(at)[2:]}\n", 1))
        done = subprocess.run([*FIRST, "fio", "--output-format=json", "load.fio"], cwd=where, capture_output=True, text=True)
        told.write_text(text)
        if done.returncode:
            raise SystemExit(f"fio failed: {done.stdout}{done.stderr}")
        line("inside", policy, name, seen(json.loads(done.stdout[done.stdout.index("{"):])),
             say(forebay, "top", at))


def theirs(forebay, guest, policy, name, loads, folder):
    with serving(forebay, disk(folder, "noop"), folder) as at:
        groups = seen(guest.run(at, policy, loads.of("guest", name), FIRST))
        line("guest", policy, name, groups, say(forebay, "top", at))


def main():
    forebay, image, trace = map(pathlib.Path, sys.argv[1:4])
    begin_s, span_s = map(float, sys.argv[4:6])
    seconds, rounds = (*map(int, sys.argv[6:]), *(10, 1)[len(sys.argv) - 6:])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        folder = pathlib.Path(folder)
        with open(folder / "disk", "wb") as file:
            file.truncate(900 << 30)
        guest = Guest(image, folder)
        loads = Loads(forebay, trace, begin_s, span_s, seconds, folder)
        for _ in range(rounds):
            for name in ["readers", "mixed", "trace"]:
                for policy in OURS:
                    ours(forebay, policy, name, loads, folder)
                for policy in THEIRS:
                    theirs(forebay, guest, policy, name, loads, folder)


main()
