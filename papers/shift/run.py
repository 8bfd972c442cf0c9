"""Reproduces the **shift** paper: what transforming logs costs those who put, by simulation.

    make reproduce PAPER=shift    # or: python -m forebay.reproduce papers/shift
    python -m forebay.reproduce papers/shift --short -o t.md    # 60 MB each, in a minute
    python -m forebay.reproduce papers/shift --full             # 10 GB each, as the paper

It needs no traces.
"""

from pathlib import Path

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent
#: The paper's disk, writing to the platters before it answers; and with its cache, which answers for them.
DISK, CACHED = "st1000nm0011", str(HERE / "st1000nm0011-cached.toml")

HEAD = """# Workload Shifting: the paper's figures and ours

F. Pan, Y. Yue, J. Xiong, "Workload Shifting: Contention-Insular Disk Arrays for Big Data Systems". Written by
`{command}` with forebay {version}; nothing here is typed in but the paper's own figures
([expected.toml](expected.toml)). What it comes to is in [README.md](README.md).

Simulated, the store's own code in virtual time: {mb} MB in puts of 100 KB by one writer, {host} ms from an answer to
the next put, random keys, logs of 5 MB read back before they are sorted, nothing merged, four disks, unless a table says
otherwise. *To cache*: a put counts once the disk has taken it, as the paper's 3.05 ms a put implies; *to media*:
once it is on the platters. Times are scaled to the paper's 10 GB. *Slowed* is by how much longer putting takes
with transformation.
"""

#: From an answer to the next put. With it a cached put of 100 KB takes the paper's 3.05 ms.
HOST_MS = 2.6
SETTINGS = {"to cache": dict(device=CACHED, to_media=False), "to media": dict(device=DISK, to_media=True)}
ARRANGEMENTS = {"enhanced": "Workload Shifting", "basic": "its basic model", "raid0": "Log+RAID0"}


def run(case):
    """A case's rows, by arrangement: without and with transformation. In a process of its own."""
    rows = forebay.store_simulate(**{"host_ms": HOST_MS, "read_log": True, "merges": False, **case})
    return {rows[at]["arrangement"]: (rows[at], rows[at + 1]) for at in range(0, len(rows), 2)}


class Runs:
    """Asked for first, run together."""

    def __init__(self, options, mb):
        self.options, self.mb, self.cases, self.told = options, mb, [], {}

    def ask(self, **case):
        """Wants a case; what it came to is found under the same words."""
        self.cases.append({"total_mb": self.mb, **case})

    def go(self):
        """Runs them all."""
        for case, rows in zip(self.cases, reproduce.grid(run, self.cases, self.options.processes)):
            self.told[repr(sorted(case.items()))] = rows

    def __call__(self, **case):
        return self.told[repr(sorted({"total_mb": self.mb, **case}.items()))]


def slowed(pair):
    return reproduce.number(pair[1]["slowed_percent"])


def scaled(row, mb):
    """The time of 10 GB."""
    return row["execution_s"] * 10_000 / mb


def claims(runs, mb, expected):
    rows = []
    for name, setting in SETTINGS.items():
        told = runs(**setting)
        for key, arrangement in (("shift", "enhanced"), ("raid0", "raid0")):
            logged, transformed = told[arrangement]
            energy = (transformed["energy_j"] / logged["energy_j"] - 1) * 100
            for what, ours in (("logged", scaled(logged, mb)), ("sorted", scaled(transformed, mb)),
                               ("slowed", transformed["slowed_percent"]), ("energy", energy)):
                claim = expected[f"{key}-{what}"]
                row = reproduce.Row(claim, f"{claim.says}, {claim.unit}, {name}", ours, "")
                rows.append(row.cells()[:-1])
    return reproduce.table(["claim", "paper", "ours", "off by"], rows)


def swept(runs, header, cases):
    """One row a case and setting: how much each arrangement is slowed, and its time with transformation."""
    rows = []
    for label, case in cases:
        for name, setting in SETTINGS.items():
            told = runs(**setting, **case)
            cells = [text for arrangement in ARRANGEMENTS for text in
                     (reproduce.number(told[arrangement][0]["throughput_mb_per_s"]), slowed(told[arrangement]))]
            rows.append([label, name, *cells])
    columns = [text for label in ARRANGEMENTS.values() for text in (f"{label}, MB/s logged", "slowed %")]
    return reproduce.table([header, "puts", *columns], rows)


def main(options) -> str:
    """The text of the tables."""
    mb = 60 if options.short else 10_000 if options.full else 1000
    words = ["python -m forebay.reproduce papers/shift", *(["--short"] if options.short else []),
             *(["--full"] if options.full else [])]
    if options.short:
        options.processes = 1
    runs = Runs(options, mb)
    expected = reproduce.claims(HERE / "expected.toml")
    few = options.short
    sweeps = {
        "Figure 12: the number of disks": (
            "disks", FIGURE_12, [(str(disks), dict(disks=disks)) for disks in ((4,) if few else (4, 6, 8, 10))]),
        "Figure 13: the size of a log": (
            "MB of a log", FIGURE_13,
            [(str(log), dict(log_kb=log * 1000)) for log in ((5,) if few else (5, 50, 100, 200))]),
        "Figures 10 and 14: the size of a value": (
            "KB of a value", FIGURE_14,
            [(f"{value / 1000:g}", dict(value_bytes=value, host_ms=host)) for value, host in
             (((10_000, 1.3),) if few else ((1000, 1.3), (10_000, 1.3), (100_000, 2.6), (1_000_000, 22.0)))]),
        "Open: the chunk of RAID 0": (
            "KiB of a chunk", CHUNKS,
            [(str(chunk), dict(chunk_kib=chunk)) for chunk in ((64,) if few else (16, 64, 256, 1024))]),
        "Open: host time between puts": (
            "ms", HOSTS, [(f"{host:g}", dict(host_ms=host)) for host in ((0.1,) if few else (0.1, 1.0, 2.6, 5.0))]),
        "Ours: merging while putting": (
            "merging", MERGING, [("no", {}), ("yes", dict(merges=True))]),
    }
    for setting in SETTINGS.values():
        runs.ask(**setting)
        for _, _, cases in sweeps.values():
            for _, case in cases:
                runs.ask(**setting, **case)
    runs.go()
    parts = [HEAD.format(command=" ".join(words), version=forebay.__version__, mb=mb, host=HOST_MS)]
    parts.append(f"## The claims\n\n{CLAIMS}\n\n{claims(runs, mb, expected)}")
    for title, (header, text, cases) in sweeps.items():
        parts.append(f"## {title}\n\n{text}\n\n{swept(runs, header, cases)}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


CLAIMS = """Figures 2, 11 and 15. Energy is integrated over the disks' states until the last log is sorted; the paper
reckons number times watts times time, idle for free."""
FIGURE_12 = """The paper: Workload Shifting stays as it is, Log+RAID0 is slowed less with more disks."""
FIGURE_13 = """The paper: neither changes with the size of a log."""
FIGURE_14 = """The paper puts 38.6, 31.1 and 6.3 MB/s with values of 1000, 100 and 10 KB (figure 10). The time between puts is
chosen so that cached puts come as fast as that, so figure 10 is no test; what sorting adds is."""
CHUNKS = """The paper does not say how long a chunk is."""
HOSTS = """The paper does not say what its host does between puts. Saturated (0.1 ms) one job a disk is slowed too, where a
transformation takes longer than half of the logs' time."""
MERGING = """The paper merges nothing: its logs go into one B+tree. Ours become runs that are merged while disks are idle; on
RAID 0 none is, and merging meets what is put."""
