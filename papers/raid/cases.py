"""The test bed: six drives as one volume, and writes of whole chunks, several of them outstanding."""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import forebay

DRIVES = 6
CHUNK = 64 << 10
UNIT = 4 * CHUNK
#: The data in section 4.2 in bytes, and how often it is overwritten: 200 GB in total.
DATA, TIMES = 20e9, 10
#: The number of active units, and the read cache of a flash drive in MiB, where writes come back soon.
ACTIVE, CACHE_MIB = 8, 64
#: A load writes to one in this many units of the data; with `--full`, to every unit.
ONE_IN = 64
LEVELS = {"RAID 6": "raid6", "RAID 10": "raid10x3"}
OUTSTANDING = [1, 2, 4, 8, 16, 32]
HDD = "st91000640ss"
SSD = "samsung-830"
#: The size of the flash drive, reduced because smaller drives behave alike. Section 4.2's data
#: leaves most of it free.
SSD_GB = 32
COSTS = {HDD: "hdd", SSD: "ssd"}
FIRSTS = ["raid6", "raid10", "write"]
DEVICES = Path(__file__).resolve().parents[2] / "devices"


def every(options) -> int:
    """The load writes to one unit in this many."""
    # A short run uses a twentieth of the data.
    return 1 if options.full else 16 if options.short else ONE_IN


def spread(units: int) -> np.ndarray:
    """Selects this many of the data's units at random; at equal distances all would be on the same dies."""
    return np.random.default_rng(9).permutation(int(DATA / UNIT))[:units]


@dataclass(frozen=True)
class Load:
    """One of the paper's workloads, with the parameters that the paper leaves open."""

    name: str
    #: The number of writes in a run of B1 and C1; those of B2 and C2 are four times as long.
    run: int = 8
    #: The number of writes per unit. None means as many as are needed to write 200 GB to 20 GB.
    writes: int | None = None
    within: str = "repeats"
    after: str = "same-bias"
    #: The share of large writes in B, and of small ones in C.
    bias: float = 0.9
    #: The number of units that runs go to at a time; None means all units.
    active: int | None = None

    def drawn(self, units: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Returns the unit of each write, and the number of chunks that it affects."""
        kind = self.name[0].lower()
        run = self.run * (4 if self.name.endswith("2") else 1)
        large = {"a": 0.5, "b": self.bias, "c": 1 - self.bias}[kind]
        mean = 3.5 * large + 1.5 * (1 - large)
        writes = self.writes or round(TIMES * 4 / mean)
        table = forebay.adapt_writes(kind, units=units, writes_per_unit=writes, run=run,
                                     within=self.within, after=self.after, bias=self.bias, seed=seed).to_pyarrow()
        at, chunks = table["unit"].to_numpy(), table["chunks"].to_numpy()
        if self.active is None or kind == "a":
            return at, chunks
        order = recurring(at, run, self.active)
        return at[order], chunks[order]


def recurring(units: np.ndarray, run: int, active: int) -> np.ndarray:
    """Returns an order of the writes in which the runs of this many units are in progress at a time. Each unit keeps
    its own order.
    """
    by_unit = np.argsort(units, kind="stable")
    begins = np.searchsorted(units[by_unit], units)
    nth = np.empty(len(units), int)
    nth[by_unit] = np.arange(len(units))
    nth -= begins
    dice = np.random.default_rng(7)
    # Runs take turns in random order, the first ones of all units before the second ones.
    runs = np.stack([nth // run, dice.permutation(units.max() + 1)[units]])
    _, turn = np.unique(runs, axis=1, return_inverse=True)
    return np.lexsort([dice.random(len(units)), nth % run, turn.ravel() // active])


LOADS = ["A", "B1", "B2", "C1", "C2"]


def trace(units: np.ndarray, chunks: np.ndarray, outstanding: int) -> pa.Table:
    """Returns writes of this many chunks to these units, with a stream for each outstanding write."""
    dice = np.random.default_rng(1)
    chunks = chunks.astype(np.int64)
    count = len(units)
    offsets = units.astype(np.int64) * UNIT + dice.integers(0, 5 - chunks) * CHUNK
    # The next request of a stream arrives as soon as the previous one is answered: there is no
    # think time.
    return pa.table({
        "at_ns": pa.array(np.arange(count) // outstanding * 1_000_000, pa.int64()),
        "op": pa.array(["write"] * count),
        "offset": pa.array(offsets, pa.uint64()),
        "len": pa.array(chunks * CHUNK, pa.uint64()),
        "stream": pa.array(np.arange(count) % outstanding, pa.uint32()),
        "latency_ns": pa.array(np.full(count, 999_999), pa.int64()),
    })


def run(units, chunks, outstanding: int, device: str, array: str, filled_bytes: float) -> dict:
    """Runs the array once, after this much was written to it."""
    array = f"{array}:filled-mib={filled_bytes / 2**20:.0f}"
    return simulated(trace(units, chunks, outstanding), device, array)


def simulated(writes: pa.Table, device: str, array: str) -> dict:
    """Runs an array that writes in place."""
    answer = forebay.simulate(writes, device=device, disks=DRIVES, replay="closed",
                              policy=[f"array:{array}:update=in-place"])
    return answer.runs[0]


def each_ms(ran: dict) -> float:
    """Returns the time per write, the inverse of throughput."""
    return 1e3 * ran["makespan_s"] / ran["requests"]


def drive(name: str, occupied: float = 0.5, gb: float | None = None, cached: tuple[str, int] | None = None) -> str:
    """Returns the device for `simulate`; `cached` is a folder for a flash drive that caches reads, and its cache in
    MiB.
    """
    if name == HDD:
        return HDD
    gb = gb or SSD_GB
    base = SSD if cached is None else str(_cached(*cached))
    return f"{base}:capacity-gb={gb:g}:filled-percent={min(100, 100 * occupied):.0f}"


@functools.cache
def _cached(folder: str, mib: int) -> Path:
    """Returns the bundled drive with a read cache of this size, which holds the most recently read or written data."""
    text = (DEVICES / f"{SSD}.toml").read_text() + f"\n[read_cache]\nbytes = {mib << 20}\n"
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / f"reads-cached-{mib}.toml"
    path.write_text(text)
    return path
