"""Formats the comparison as tables; figures that miss their target are marked."""

# A figure may differ by this share of the kernel's figure, or by as much as two runs of the kernel differ.
TOLERANCE = 0.15
# In addition, latencies may differ by the time of the path from a system call to the disk, which the simulator does not
# model.
PATH_MS = 0.2
# In addition, idle time may differ by this share of the makespan.
IDLE_SHARE = 0.02
# The number of I/Os if many threads read one file.
IOS_TOLERANCE = 0.05
# The required share of the kernel's own agreement with itself on contested pairs, beyond that of first come, first
# served.
ORDER = 0.8
# If the kernel's order agrees with itself hardly more than with first come, first served, there is no target.
ORDER_LEAST = 0.02
# With fewer pairs, the result means nothing.
PAIRS_LEAST = 100

FIGURES = [
    ("makespan_s", "makespan s"), ("idle_s", "idle s"), ("ios", "I/Os"),
    ("read_mean_ms", "read mean ms"), ("read_p50_ms", "p50"), ("read_p99_ms", "p99"),
    ("write_mean_ms", "write mean ms"), ("write_p50_ms", "p50"), ("write_p99_ms", "p99"),
]
ORDER_TITLE = "order"

HEAD = """# Compared with Linux

This page shows how closely the simulator's schedulers follow those of Linux {version}. `make guest` runs nine loads on
that kernel, in a virtual machine, and in the simulator. Both use Forebay's own model of a disk, so they differ only in
the block layer and the scheduler. `make guest GUEST=--page=docs/internals/kernel.md` writes this page; the figures are
those of seed {seed}, which draws {variants} variants of each load.

{summary}

Each cell is *kernel / simulator*; a figure in **bold** misses its [target](#targets), which also explains `order`.
"""

CAPTURE = """
## Capture

What `forebay capture` recorded of a load whose requests are known:

"""

TAIL = """
## Targets

- Makespan, idle time of the disk, and mean, p50 and p99 of reads and of writes: within 15 % of the kernel's, or within
  the difference between two runs of the kernel that begin at different angles of the platters. In addition, latencies
  may differ by 0.2 ms, the time of the path from a system call to the disk, and idle time by 2 % of the makespan. Times
  are means of all variants, latencies are of all variants' requests together.
- I/Os that reached the disk: within 5 % where eight threads read one file. Elsewhere the number is shown only.
- `order`: (ours − FIFO) / (repeated − FIFO), at least 0.8. Of the pairs of requests that waited at the same time in the
  kernel, *ours* is the share that the simulator serves in the kernel's order, *repeated* the share that a second run of
  the kernel does, and *FIFO* the share that this second run submitted in that order. The score is left out where
  *repeated* exceeds *FIFO* by less than 0.02, and with fewer than 100 pairs.

## What is known to miss

- *Order under mq-deadline and kyber where tasks sleep for a free request.* One request that is chosen differently
  shifts the choices after it. Two causes are known: the kernel's threads submit 45 µs apart, while all of the
  simulator's threads that have a free request submit at the same instant; and the kernel allocates tags starting at a
  random one.
- *The first read beside the flusher* (p99) waits longer in the kernel: more of the flusher's writes have reached the
  disk before throttling sets in. From then on the latencies agree.
- *`writers` under kyber on `fixed:200`*: in one variant the kernel leaves the reader asleep for three seconds. The
  simulator never does.
- *bfq, `burst` and `writers`*: how long the reader waits depends on how far the queue has drained when it asks, and a
  write that exceeds its task's share waits for one certain tag. Both sides do the same, in different phases.
- *bfq, order in `mixed`, `idle-burst` and `shared-file`*: not explained yet.
- *Tails of `mixed` under none and mq-deadline*: the kernel's threads do not take turns as evenly as the simulator's.

## How it works

`guest/machine.py` fetches Debian 13's kernel package, verifies its SHA-256 and packs an initramfs. QEMU counts
instructions (`-icount shift=1,sleep=off`): the guest's clock advances 2 ns with each instruction and skips idle time,
so the host's load does not change what the guest measures.

`forebay-guest` (`crates/forebay-guest`) runs both sides. In the guest it makes a block device whose requests it answers
itself (ublk), at the times of the model of the disk. On the host it runs the same script in the simulator. A script
says what each task does: closed loops with a depth and think times, or I/Os at given times.
`forebay-guest draw burst 7 sata250` prints one; `simulate` and `perform` accept any.

- Each disk accepts 32 commands, as SATA drives do. `sata250` orders them itself. `fixed:200` serves 200 a second, first
  come, first served. There is one processor, one hardware queue and no cgroup.
- A task with one I/O at a time calls `pread` or `pwrite`; one with more calls `io_submit`, which sleeps where there is
  no free request. All of them use `O_DIRECT`, so writes are synchronous (`REQ_SYNC`). io_uring is not tested.
- The flusher is the kernel's own (`vm.dirty_background_bytes` of one page starts it at once). The simulator, which has
  no page cache, is given its writes, all of them due when the first was.
- A simulated thread is in a system call for 20 µs after each submission, as in the guest, so its next I/O cannot merge
  with what the disk already has. I/Os of one `batch` are submitted together.
- Latency runs from when an I/O was due until the disk completed it. In a closed loop an I/O is due when its task has
  thought; a thread that sleeps for a free request neither sees completions nor thinks. An open I/O is due at its time,
  even if its task slept on an earlier one.
- Linux's block layer takes one request more from the scheduler than this disk accepts, so the simulated disk does too.
  For SCSI and SATA drives, Linux prevents this with a budget, so `simulate` takes no request in advance.
- The path from a system call to the disk takes 20 µs in the guest for a block of 4 KiB, and the way back 25 to 40 µs.
  Where no request waits (`poisson`, `sequential` without bfq) kernel and simulator therefore agree within 1 %.

## Running it

`make guest` takes about 30 minutes of one processor and needs QEMU, a static BusyBox, Rust's musl target and, once, the
network for the kernel. It prints the seed that it draws and keeps the kernel's results in `target/guest/runs`, so with
the same `SEED` only the simulator runs again, for half a minute.
`make guest LOAD=burst SCHEDULER=mq-deadline DEVICE=sata250 VARIANTS=1` runs one load. The exit code is 1 if a figure
misses its target.
"""

def shown(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def is_met(load, key, figures):
    if key == "ios" and load != "shared-file":
        return True
    kernel, repeated, ours = (figures[side].get(key) for side in ("kernel", "repeated", "ours"))
    if ours is None or repeated is None:
        return False
    share = IOS_TOLERANCE if key == "ios" else TOLERANCE
    allowed = max(share * abs(kernel), abs(repeated - kernel))
    if key == "idle_s":
        allowed = max(allowed, IDLE_SHARE * figures["kernel"]["makespan_s"])
    elif key.endswith("_ms"):
        allowed = max(allowed, PATH_MS)
    return abs(ours - kernel) <= allowed


def order_score(order):
    """Returns the share of the kernel's agreement with itself that the simulator reaches; None if the kernel does not
    agree with itself.
    """
    if order["pairs"] < PAIRS_LEAST or None in order.values() or order["repeated"] - order["fifo"] < ORDER_LEAST:
        return None
    return (order["ours"] - order["fifo"]) / (order["repeated"] - order["fifo"])


def cells(load, scheduler, figures):
    """Returns each figure of a load under a scheduler as text, and whether it meets its target; None if it has none."""
    out = {}
    for key, _ in FIGURES:
        if key in figures["kernel"]:
            ours = figures["ours"].get(key)
            text = f"{shown(figures['kernel'][key])} / {'none' if ours is None else shown(ours)}"
            out[key] = (text, is_met(load, key, figures))
    score = order_score(figures["order"])
    if score is not None:
        out["order"] = (f"{score:.2f}", scheduler == "none" or score >= ORDER)
    return out


def by_load(results):
    """Returns the results of each load on each device: schedulers and their cells."""
    loads = {}
    for name, figures in results.items():
        load, device, scheduler = name.split()
        loads.setdefault((load, device), []).append((scheduler, cells(load, scheduler, figures)))
    return loads


def misses(results):
    return sum(not met for rows in by_load(results).values() for _, row in rows for _, met in row.values())


def table(results):
    """Formats the results as Markdown tables, one for each load and device."""
    lines = []
    for (load, device), rows in by_load(results).items():
        keys = [pair for pair in [*FIGURES, ("order", ORDER_TITLE)] if any(pair[0] in row for _, row in rows)]
        lines += ["", f"### {load} on {device}", ""]
        lines.append(" | ".join(["| scheduler", *(title for _, title in keys)]) + " |")
        lines.append("|---" * (len(keys) + 1) + "|")
        for scheduler, row in rows:
            shown_cells = []
            for key, _ in keys:
                text, met = row.get(key, ("", True))
                shown_cells.append(text if met else f"**{text}**")
            lines.append(" | ".join([f"| {scheduler}", *shown_cells]) + " |")
    return "\n".join(lines) + "\n"


def summary(results):
    """Counts for each scheduler the figures that meet their targets."""
    met = {}
    for rows in by_load(results).values():
        for scheduler, row in rows:
            counts = met.setdefault(scheduler, [0, 0])
            counts[0] += sum(is_met for _, is_met in row.values())
            counts[1] += len(row)
    said = ", ".join(f"{scheduler} {good} of {all_}" for scheduler, (good, all_) in met.items())
    return f"Figures that meet their targets: {said}."


def whole(seed, variants, results, version, captured):
    head = HEAD.format(version=version, seed=seed, variants=variants, summary=summary(results))
    capture = "".join(f"- {line}\n" for line in captured)
    return head + table(results) + (CAPTURE + capture if captured else "") + TAIL
