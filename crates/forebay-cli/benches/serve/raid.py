"""The raid paper's loads C2 and B2 on a served volume of six emulated drives: the adaptive layout compared with both
static ones, in wall time, and the simulator's results for the same writes.

raid.py FOREBAY [PARTS] [OUTSTANDING]        with the Python package of this tree

Requires the Python package of this tree. The paper writes 200 GB to 20 GB of data; this script uses one PARTS-th of
that (100), on the paper's hard disk without its cache. OUTSTANDING (4) is the number of concurrent writes; each
client issues its next write as soon as its previous one is answered. All data are written beforehand.
"""

import csv
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pyarrow as pa

from clients import load, say, serving
from protocol import FLUSH, WRITE, answered, choose, request

RAID = pathlib.Path(__file__).resolve().parents[4] / "papers/raid"
sys.path.insert(0, str(RAID))
import cases  # noqa: E402

#: The size of a drive in bytes: far more than the data need, so that no level runs out of space.
DRIVE_BYTES = 4 << 30
ADAPTS = "array:adapt=bonus-malus:costs=hdd"
ARRAYS = [("RAID 6", "raid6", "noop"), ("RAID 10", "raid10x3", "noop"),
          ("adaptive from RAID 6", "raid6", ADAPTS), ("adaptive from RAID 10", "raid10x3", ADAPTS)]


def connected(at):
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(at))
    choose(link, "")
    return link


def asked(link, kind, offset, data):
    """Sends a request and waits for its answer."""
    link.sendall(request(kind, 0, offset, len(data)) + data)
    answered(link)


def written(at, offsets, lengths, outstanding):
    """Issues the writes, every `outstanding`th by each client in turn; returns the seconds until the last answer."""
    data = bytes(range(256)) * (cases.UNIT // 256)
    links = [connected(at) for _ in range(outstanding)]

    def client(nth):
        for offset, length in zip(offsets[nth::outstanding], lengths[nth::outstanding]):
            asked(links[nth], WRITE, offset, data[:length])

    clients = [threading.Thread(target=client, args=(nth,)) for nth in range(outstanding)]
    begin = time.monotonic()
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    took = time.monotonic() - begin
    asked(links[0], FLUSH, 0, b"")
    for link in links:
        link.close()
    return took


def live(forebay, folder, level, policy, writes, units, outstanding):
    """Runs a new volume; returns the seconds, and the volume's figures afterwards."""
    drives = folder / "drives"
    drives.mkdir(exist_ok=True)
    for nth in range(cases.DRIVES):
        path = drives / str(nth)
        path.unlink(missing_ok=True)
        with open(path, "wb") as file:
            file.truncate(DRIVE_BYTES)
    subprocess.run([forebay, "volume", "create", drives, "--level", level], check=True, capture_output=True)
    config = f'[[volume]]\nname = ""\ndrives = ["{drives}"]\nemulate = "{cases.HDD}"\n'
    # Write every unit as a whole first, without a policy, so that no rule counts these writes.
    with serving(forebay, config, folder) as at:
        written(at, [unit * cases.UNIT for unit in range(units)], [cases.UNIT] * units, 8)
    config += f'policy = "{policy}"\ntrace = "{folder}/asked.csv"\n'
    with serving(forebay, config, folder) as at:
        took = written(at, writes["offset"].to_pylist(), writes["len"].to_pylist(), outstanding)
        figures = say(forebay, "top", at)["backs"][0]
    return took, figures, asked_of(folder / "asked.csv")


def asked_of(path):
    """Returns the writes that the server received, with the pauses of its clients between an answer and the next
    request.
    """
    with open(path, newline="") as rows:
        rows = [row for row in csv.DictReader(rows) if row["op"] == "write"]
    kinds = {"at_ns": pa.int64(), "offset": pa.uint64(), "len": pa.uint64(), "stream": pa.uint32(), "latency_ns": pa.int64()}
    columns = {name: pa.array([int(row[name]) for row in rows], kind) for name, kind in kinds.items()}
    return pa.table({**columns, "op": pa.array(["write"] * len(rows))})


def pauses(writes):
    """Returns the seconds that its clients together spent between an answer and the next request."""
    ended, sum_ns = {}, 0
    for at, stream, latency in zip(*(writes[name].to_pylist() for name in ["at_ns", "stream", "latency_ns"])):
        sum_ns += at - ended.get(stream, at)
        ended[stream] = at + latency
    return sum_ns / 1e9


def simulated(level, policy, writes, units, outstanding, update):
    """Returns the simulated seconds until the last answer. (The simulator's makespan includes the last round of
    records, up to five seconds later.)
    """
    rules = policy.removeprefix("array") if policy.startswith("array") else ""
    filled_mib = -(-units * cases.UNIT >> 20)
    array = f"array:level={level}{rules}:filled-mib={filled_mib}:update={update}"
    run = cases.forebay.simulate(writes, device=cases.HDD, disks=cases.DRIVES, replay="closed", policy=[array]).runs[0]
    return (run["write_mean_ms"] * run["requests"] / 1e3 + pauses(writes)) / outstanding


def main():
    forebay = sys.argv[1]
    parts, outstanding = (*map(int, sys.argv[2:]), *(100, 4)[len(sys.argv) - 2:])
    units = int(cases.DATA / cases.UNIT) // parts
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        folder = pathlib.Path(folder)
        for name in ["C2", "B2"]:
            at, chunks = cases.Load(name).drawn(units)
            writes = cases.trace(at, chunks, outstanding)
            print(f"{name}: {len(at)} writes, {writes['len'].to_numpy().sum() / 1e9:.2f} GB, of {units} units, "
                  f"{outstanding} outstanding", flush=True)
            for title, level, policy in ARRAYS:
                took, figures, came = live(forebay, folder, level, policy, writes, units, outstanding)
                same = simulated(level, policy, came, units, outstanding, "fresh")
                fresh, in_place = (simulated(level, policy, writes, units, outstanding, how) for how in ["fresh", "in-place"])
                each = 1e3 * took / len(at)
                counted = dict(figures["counted"])
                levels = ", ".join(f"{count} {level}" for level, count in figures["volume"]["units"])
                late = figures["late"]
                print(f"  {title:<22} {took:7.1f} s, {each:5.2f} ms a write; simulated {same:7.1f} s, gap "
                      f"{took / same - 1:+.1%}, pauses of {1e3 * pauses(came) / len(at):.2f} ms; without pauses {fresh:7.1f} s, "
                      f"in place {in_place:7.1f} s; switches {counted.get('switches', 0):.0f}; "
                      f"{levels}; late p50 {late['p50_ms']:.2f} p99 {late['p99_ms']:.2f} ms; load {load()}", flush=True)


main()
