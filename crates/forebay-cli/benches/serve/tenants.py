"""Two tenants of an emulated disk, one steady, one bursty: does the steady one keep its promise, and does the simulator
give the same result for the same requests?

tenants.py FOREBAY [SECONDS]

First the arrivals of the steady tenant are recorded alone, and `plan capacity` computes the rate that its promise
needs. The disk then serves that rate plus 1 / bound (fixed), or it is a hard disk. Both tenants issue requests at the
same time, with the promise and without a policy. Shares and p99 are from the server's own trace, which is also the
input of the simulator.
"""

import csv
import pathlib
import subprocess
import sys
import tempfile

from clients import FIRST, fio, load, say, serving, told, uri

FRACTION = 0.99
GIB = 1 << 30
HARD_DISK = "st1000nm0011"
# The policy above which all exports are treated equally: the server gives no promises, and noop
# issues its requests.
FAIR = "promised:cmin=0:dependencies=no:depth=64:over=noop"
# A revolution of a 7200-rpm disk, in us.
REVOLUTION_US, STEP_US = 8333, 500

EXPORTS = """
[[export]]
name = "steady"
on = "data"
size = "1GiB"
{promise}
[[export]]
name = "bursty"
on = "data"
offset = "{apart}GiB"
size = "1GiB"
"""


def disk(folder, device, extra=""):
    return f"""
[[disk]]
name = "data"
file = "{folder}/disk"
emulate = "{device}"
streams = "exports"
trace = "{folder}/asked.csv"
{extra}"""


def steady(socket, rate, seconds):
    program = pathlib.Path(__file__).with_name("steady.py")
    words = [sys.executable, program, socket, "steady", str(rate), str(seconds)]
    return subprocess.Popen([*FIRST, *words])


def bursty(socket, burst, think_ms, seconds):
    return fio("--name=bursty", "--ioengine=nbd", uri(socket, "bursty"), "--rw=randread", "--bs=4k",
               "--size=1g", f"--iodepth={burst}", f"--thinktime={think_ms}ms",
               f"--thinktime_blocks={burst}", "--thinktime_blocks_type=issue", "--startdelay=1",
               f"--runtime={seconds - 1}")


def asked(folder):
    """Returns the trace without the flush that the server itself adds at its end."""
    path = folder / "asked.csv"
    lines = [line for line in path.read_text().splitlines() if ",flush," not in line]
    path.write_text("\n".join(lines) + "\n")
    return path


def seen(path, bound_ms):
    """Returns the share of the steady tenant's requests within the bound, and their p99 in ms."""
    with open(path) as rows:
        waits = sorted(int(row["latency_ns"]) / 1e6 for row in csv.DictReader(rows)
                       if row["stream"] == "0" and row["latency_ns"])
    return sum(wait <= bound_ms for wait in waits) / len(waits), waits[int(len(waits) * 0.99)]


def said(forebay, path, device, policy):
    """Simulates the trace; returns the run, and the steady tenant's stream in it."""
    run = say(forebay, "simulate", path, "--device", device, "--policy", policy)["runs"][0]
    return run, next(one for one in run["streams"] if one["stream"] == "steady")


def at_phase(path, us):
    """Returns a trace that begins a second and `us` microseconds after a first read, because a trace contains arrival
    times relative to its first request, but not the position of the platters at that time.
    """
    head, *lines = [line.split(",") for line in path.read_text().splitlines()]
    at, op, offset, length, stream = (head.index(name) for name in ["at_ns", "op", "offset", "len", "stream"])
    first = list(lines[0])
    first[at], first[op], first[offset], first[length], first[stream] = "0", "read", "0", "512", "0"
    for line in lines:
        line[at] = str(int(line[at]) + 1_000_000_000 + us * 1000)
    part = path.with_name("phase.csv")
    part.write_text("\n".join(",".join(line) for line in [head, first, *lines]) + "\n")
    return part


def by_phase(forebay, path, device, policy):
    """Returns the lowest and highest p99 of the steady tenant in ms, over positions of the platters at the beginning
    of the trace.
    """
    tails = [float(said(forebay, at_phase(path, us), device, policy)[1]["p99_ms"])
             for us in range(0, REVOLUTION_US, STEP_US)]
    return min(tails), max(tails)


def capacity(forebay, path, bound_ms):
    """Returns the rate that `plan capacity` computes for a trace."""
    words = ["--within", f"{bound_ms}ms", "--fraction", str(FRACTION)]
    return say(forebay, "plan", "capacity", path, *words)["rows"][0]["capacity_iops"]


def alone(path):
    """Returns the steady tenant's part of a trace."""
    head, *lines = path.read_text().splitlines()
    part = path.with_name("alone.csv")
    part.write_text("\n".join([head, *(line for line in lines if line.split(",")[4] == "0")]) + "\n")
    return part


def pair(forebay, folder, device, rate, bound_ms, burst, think_ms, seconds, apart):
    """Runs both tenants, with the promise and without."""
    with serving(forebay, disk(folder, device or "fixed:10000") + EXPORTS.format(promise="", apart=apart), folder) as at:
        steady(at, rate, seconds).wait()
    keep = capacity(forebay, asked(folder), bound_ms)
    serves = keep + 1000 // bound_ms
    device = device or f"fixed:{serves}"
    print(f"{device}: steady {rate} a second by chance, {FRACTION:.0%} within {bound_ms} ms needs {keep} IOPS; "
          f"bursty {burst} every {think_ms} ms; load {load()}")
    promise = f'keep_iops = {keep}\nwithin = "{bound_ms}ms"'
    limits = f"capacity_iops = {serves}"
    spec = f"promised:cmin={keep}/0:delta-ms={bound_ms}/10:weight=1/1:dependencies=no:delta-c={1000 // bound_ms}:depth=64:over=noop"
    for name, extra, promised, policy in [("promised", limits, promise, spec), ("noop", "", "", FAIR)]:
        with serving(forebay, disk(folder, device, extra) + EXPORTS.format(promise=promised, apart=apart), folder) as at:
            clients = [steady(at, rate, seconds), bursty(at, burst, think_ms, seconds)]
            clients[0].wait()
            told(clients[1])
            late = say(forebay, "top", at)["backs"][0]["late"]
        share, p99_ms = seen(asked(folder), bound_ms)
        run, stream = said(forebay, folder / "asked.csv", device, policy)
        print(f"  late {late}, load {load()}")
        line = f"  {name:<9} live {share:7.2%} in time, p99 {p99_ms:7.2f} ms"
        simulated = float(stream["p99_ms"])
        line += f"; simulated p99 {simulated:7.2f} ms, gap {p99_ms / simulated - 1:+.1%}"
        if name == "promised":
            kept = next(one for one in run["classes"] if one["class"] == "kept")
            requests = stream["requests"]
            needs = capacity(forebay, alone(folder / "asked.csv"), bound_ms)
            line += f"; this time it needed {needs} IOPS; kept in it {kept['requests'] / requests:.2%}, of these in time {kept['within_bound_share']:.2%}"
        if device == HARD_DISK:
            least, most = by_phase(forebay, folder / "asked.csv", device, policy)
            line += f"; over a revolution {least:.2f} to {most:.2f} ms"
        print(line, flush=True)


def main():
    forebay, seconds = sys.argv[1], int((sys.argv[2:] or ["20"])[0])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        folder = pathlib.Path(folder)
        with open(folder / "disk", "wb") as file:
            file.truncate(900 * GIB)
        pair(forebay, folder, None, 200, 20, 128, 700, seconds, 1)
        pair(forebay, folder, HARD_DISK, 20, 100, 128, 1000, seconds, 450)


main()
