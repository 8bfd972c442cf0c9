"""The settings, trees and sweeps to run, and the totals of a run's stages."""

import bisect

import forebay

from forebay import reproduce

#: The paper's disk: without a write cache, so that it answers when data is on the platters, and
#: with one.
DISK, CACHED = "st1000nm0011:plain", "st1000nm0011"
#: When a put is acknowledged.
SETTINGS = {
    "to cache": {"device": CACHED, "to_cache": True},
    "to media": {"device": DISK},
    "flushed": {"device": CACHED, "flush": True},
}
#: The sweeps that include flushed puts. In the others, their results lie between those of the
#: settings.
FLUSHED = ("chunks", "syncs")
#: The data structures that logs are transformed into.
TREES = {"in place": {"tree": "in-place"}, "runs": {"tree": "runs"}}
ARRANGEMENTS = {"enhanced": "Workload Shifting", "basic": "its basic model", "raid0": "Log+RAID0"}
PAPER_MB, PAPER_MEMORY_MB = 10_000, 2000
#: With values of 1 KB, the amount of data is divided by this.
SMALL = 10
#: The default parameters of a case, which a sweep may state explicitly.
DEFAULTS = {"disks": 4, "log_kb": 5000, "keys": "random", "chunk_kib": 64, "value_bytes": 100_000, "tree_depth": 1,
            "tree_sync": "log", "page_kib": 8, "no_merging": True}


def host_ms(value_bytes):
    """Returns the time from an answer to the next put: 2.6 ms for 100 KB, for which a cached put takes the paper's
    3.05 ms; the part that grows with the value brings 10 KB close to the paper's 6.3 MB/s.
    """
    return round(1.16 + 0.0144 * value_bytes / 1000, 3)


def run(case):
    """Returns a case's rows by arrangement, without and with transformation, computed in a separate process."""
    case = {"read_log": True, "no_merging": True, **case}
    rows = forebay.store_simulate(host=f"{case.pop('host_ms')}ms", **case)["rows"]
    return {rows[at]["arrangement"]: (rows[at], rows[at + 1]) for at in range(0, len(rows), 2)}


class Runs:
    """Collects cases first and then runs them together, each case once."""

    def __init__(self, options, mb):
        self.options, self.mb, self.cases, self.told = options, mb, {}, {}

    def ask(self, **case):
        """Registers a case to be run; its result is stored under its parameters."""
        # The ratio of memory to data is the same as in the paper.
        case = {name: value for name, value in case.items() if DEFAULTS.get(name) != value}
        mb = case.setdefault("total_mb", self.mb)
        case.setdefault("host_ms", host_ms(case.get("value_bytes", DEFAULTS["value_bytes"])))
        case.setdefault("tree_memory_mb", max(1, round(PAPER_MEMORY_MB * mb / PAPER_MB)))
        name = repr(sorted(case.items()))
        self.cases[name] = case
        return name

    def go(self):
        """Runs all requested cases."""
        answers = reproduce.grid(run, list(self.cases.values()), self.options.processes)
        self.told = dict(zip(self.cases, answers, strict=True))

    def __call__(self, **case):
        return self.told[self.ask(**case)]


def slowed(pair):
    return pair[1]["slowed_percent"]


def scaled(row, mb):
    """Returns the time of 10 GB."""
    return row["execution_s"] * PAPER_MB / mb


def sweeps(mb, short):
    """Returns for each sweep its title, column, the paper's statement, its trees, and its cases by label."""
    # There are too many small values to use all the data.
    few = {1000: max(mb // SMALL, 1)}
    values = (10_000,) if short else (1000, 10_000, 50_000, 100_000, 1_000_000)
    sized = [(f"{value / 1000:g}", {"value_bytes": value, "total_mb": few.get(value, mb)}) for value in values]

    def cases(name, listed, kept=1):
        return [(f"{label:g}" if isinstance(label, (int, float)) else label, {name: label})
                for label in (listed[:kept] if short else listed)]

    small, small_mb = sized[0][1], sized[0][1]["total_mb"]
    memory = [(f"{part:g}", {**small, "tree_memory_mb": max(1, round(PAPER_MEMORY_MB * small_mb / PAPER_MB * part))})
              for part in ((1,) if short else (0.1, 1, 10))]
    return {
        "disks": ("Figure 12: the number of disks", "disks", tuple(TREES), cases("disks", (4, 6, 8, 10), 2)),
        "logs": ("Figure 13: the size of a log", "MB of a log", tuple(TREES),
                 [(f"{log}", {"log_kb": log * 1000}) for log in ((5, 10) if short else (5, 50, 100, 200))]),
        "values": ("Figures 10 and 14: the size of a value", "KB of a value", tuple(TREES), sized),
        "keys": ("Section IV.A: sequential and random keys", "keys", tuple(TREES), cases("keys", ("sequential", "random"))),
        "chunks": ("Open: the chunk of RAID 0", "KiB of a chunk", tuple(TREES),
                   cases("chunk_kib", (4, 16, 64, 256, 1024))),
        "hosts": ("Open: host time between puts", "ms", tuple(TREES), cases("host_ms", (0.1, 1.0, 2.6, 5.0))),
        "depths": ("Open: writes to the tree at a time", "writes", ("in place",), cases("tree_depth", (1, 4, 32))),
        "syncs": ("Open: when the tree's pages are written", "after each", ("in place",),
                  cases("tree_sync", ("record", "log", "close"))),
        "pages": ("Open: the tree's pages, and with them where values lie", "KiB of a page", ("in place",),
                  cases("page_kib", (8, 64, 256, 512))),
        "memories": ("Open: memory, with small values", "times 2 GB in 10", ("in place",), memory),
        "merging": ("Ours: merging while putting", "merging", ("runs",), [("no", {}), ("yes", {"no_merging": False})]),
    }


def active_s(row):
    """Returns how long disks were in stages other than idle in total, which is what the paper's energy counts."""
    began, active = {}, 0.0
    for change in row["stages"]:
        disk, at = change["disk"], change["at_s"]
        active += at - began.pop(disk, at)
        if change["stage"] != "idle":
            began[disk] = at
    return active + sum(row["settled_s"] - at for at in began.values())


def phases(row):
    """Returns each disk's stages as (begin, end, stage, whether duty passed to a busy disk)."""
    last, found = {}, []
    for change in row["stages"]:
        disk, at, stage = change["disk"], change["at_s"], change["stage"]
        if disk in last:
            begin, before, over = last[disk]
            found.append((disk, begin, at, before, over))
            # The log begins on a disk that is writing a tree, or continues after that ends.
            over = stage == "log" and before not in ("idle", "log")
        else:
            over = False
            if at > 0:
                found.append((disk, 0.0, at, "idle", False))
        last[disk] = (at, stage, over)
    return sorted(found)


def periods_ms(row):
    """Returns how long a log is on duty on average, and how long a disk works on its transformation."""
    phased = phases(row)
    logs = max(1, round(row["execution_s"] * 1e3 / row["logging_ms"]))
    work = sum(end - begin for _, begin, end, stage, _ in phased if stage in ("read-log", "write-tree"))
    return row["logging_ms"], work * 1e3 / logs


def window(row, logs):
    """Returns the interval of a run to look at: this many logs in its middle."""
    ends = sorted({begin for _, begin, _, stage, _ in phases(row) if stage == "log"})
    if len(ends) < 2:
        return 0.0, row["settled_s"]
    first = bisect.bisect(ends, ends[-1] / 2)
    return ends[min(first, len(ends) - 1)], ends[min(first + logs, len(ends) - 1)]
