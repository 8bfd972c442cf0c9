"""The test bed: six drives as one volume, writes of whole chunks, so many of them under way."""

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
    """One in how many units is written to."""
    # A short run uses a twentieth of the data.
    return 1 if options.full else 16 if options.short else ONE_IN


def spread(units: int) -> np.ndarray:
    """So many of the units of the data, at random: at equal distances all would lie on the same dies."""
    return np.random.default_rng(9).permutation(int(DATA / UNIT))[:units]


@dataclass(frozen=True)
class Load:
    """One of the paper's workloads, with what the paper leaves open."""

    name: str
    #: The number of writes in a run of B1 and C1; those of B2 and C2 are four times as long.
    run: int = 8
    #: The number of writes per unit. None means as many as are needed to write 200 GB to 20 GB.
    writes: int | None = None
    within: str = "repeats"
    after: str = "same-bias"

    def drawn(self, units: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Which unit each write is to, and how many chunks it affects."""
        kind = self.name[0].lower()
        run = self.run * (4 if self.name.endswith("2") else 1)
        mean = {"a": 2.5, "b": 0.9 * 3.5 + 0.1 * 1.5, "c": 0.9 * 1.5 + 0.1 * 3.5}[kind]
        writes = self.writes or round(TIMES * 4 / mean)
        table = forebay.adapt_writes(kind, units=units, writes_per_unit=writes, run=run,
                                     within=self.within, after=self.after, seed=seed).to_pyarrow()
        return table["unit"].to_numpy(), table["chunks"].to_numpy()


LOADS = ["A", "B1", "B2", "C1", "C2"]


def trace(units: np.ndarray, chunks: np.ndarray, outstanding: int) -> pa.Table:
    """Writes of so many chunks of these units, a stream for each that is under way."""
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
    """One run of the array, that so much was written to before."""
    array = f"{array}:filled-mib={filled_bytes / 2**20:.0f}"
    return simulated(trace(units, chunks, outstanding), device, array)


def simulated(writes: pa.Table, device: str, array: str) -> dict:
    """One run of an array that writes in place."""
    answer = forebay.simulate(writes, device=device, disks=DRIVES, replay="closed",
                              policy=[f"array:{array}:update=in-place"])
    return answer.runs[0]


def each_ms(ran: dict) -> float:
    """Time for a write: what throughput is the inverse of."""
    return 1e3 * ran["makespan_s"] / ran["requests"]


def drive(name: str, occupied: float = 0.5, gb: float | None = None, cached: str | None = None) -> str:
    """The device as `simulate` takes it; `cached` is a folder for a flash drive that caches all reads."""
    if name == HDD:
        return HDD
    gb = gb or SSD_GB
    base = SSD if cached is None else str(_cached(Path(cached)))
    return f"{base}:capacity-gb={gb:g}:filled-percent={min(100, 100 * occupied):.0f}"


@functools.cache
def _cached(folder: Path) -> Path:
    """The bundled drive with a read cache that holds whatever was read or written: as large as the drive."""
    text = (DEVICES / f"{SSD}.toml").read_text() + f"\n[read_cache]\nbytes = {SSD_GB << 30}\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "reads-cached.toml"
    path.write_text(text)
    return path
