"""Table 1 and figure 1: writes of 1 to 4 chunks to random units, in each layout."""

import cases
import numpy as np
import pyarrow as pa

from forebay import reproduce

#: The number of writes in a run. A run at the paper's full size writes 60 GiB.
WRITES = 3000
#: The size of the flash drives of figure 1(b). They are smaller here, and proportionally less is
#: written.
SHRUNK_GB = 16
OCCUPIED = [0.25, 0.5, 0.75, 1.0]


def one(case) -> float:
    """Milliseconds a write."""
    device, level, chunks, outstanding, writes, cached = case
    units = np.random.default_rng(chunks).integers(0, int(cases.DATA / cases.UNIT), writes)
    name = cases.drive(device, cached=cached)
    ran = cases.run(units, np.full(writes, chunks), outstanding, name,
                    f"level={cases.LEVELS[level]}", cases.DATA)
    return cases.each_ms(ran)


def table_one(device: str, options, outstanding, cached=None) -> dict:
    """Returns milliseconds for a write of 1 to 4 chunks, by outstanding writes and layout."""
    writes = WRITES // 10 if options.short else WRITES * (10 if options.full else 1)
    keys = [(o, level, chunks) for o in outstanding for level in cases.LEVELS for chunks in range(1, 5)]
    listed = [(device, level, chunks, o, writes, cached) for o, level, chunks in keys]
    times = dict(zip(keys, reproduce.grid(one, listed, options.processes), strict=True))
    return {o: {level: [times[o, level, chunks] for chunks in range(1, 5)] for level in cases.LEVELS}
            for o in outstanding}


#: The numbers of outstanding writes in `apart`.
APART = [1, 4, 8, 32]


def apart_ms(case) -> float:
    """Returns milliseconds for a write to mirrors whose neighboring halves of four chunks are apart.

    Units of two chunks are first written in random order, so a write of three or four chunks finds its second half
    elsewhere on the same drives, like the paper's segments of a mirrored layout. In our array they are the halves of
    one unit, side by side.
    """
    chunks, outstanding, writes = case
    dice = np.random.default_rng(chunks)
    segments = int(cases.DATA / cases.UNIT)
    laid = dice.permutation(2 * segments)
    first = cases.trace(laid // 2, np.full(len(laid), 2), outstanding)
    first = first.set_column(2, "offset", [(laid * (cases.UNIT // 2)).astype(np.uint64)])
    then = cases.trace(dice.integers(0, segments, writes), np.full(writes, chunks), outstanding)
    later = then["at_ns"].to_numpy() + -(-len(laid) // outstanding) * 1_000_000
    both = pa.concat_tables([first, then.set_column(0, "at_ns", [later])])
    spent = [cases.simulated(table, cases.HDD, "level=raid10x3:chunks=2")["makespan_s"]
             for table in (first, both)]
    return 1e3 * (spent[1] - spent[0]) / writes


def apart(options) -> dict:
    """Returns milliseconds for a write of 1 to 4 chunks, by outstanding writes."""
    outstanding = [8] if options.short else APART
    listed = [(chunks, o, 300 if options.short else WRITES) for o in outstanding for chunks in range(1, 5)]
    times = reproduce.grid(apart_ms, listed, options.processes)
    return {o: times[4 * at:4 * at + 4] for at, o in enumerate(outstanding)}


def switch(case) -> tuple[float, float]:
    """Returns milliseconds for a switch to mirrors, and for one back: the additional time of a run per switch.

    The paper's rule switches a unit with the fourth write of one chunk (the third on flash), or with the second of
    four; each unit is written once more after that.
    """
    device, outstanding, units, cached = case
    dice = np.random.default_rng(5)
    told = []
    plans = (("RAID 6", 1, 5 if device == cases.HDD else 4), ("RAID 10", 4, 3))
    for level, chunks, writes in plans:
        at = np.concatenate([dice.permutation(units) for _ in range(writes)])
        at = cases.spread(units)[at]
        name, level = cases.drive(device, cached=cached), f"level={cases.LEVELS[level]}"
        rule = f":adapt=bonus-malus:costs={cases.COSTS[device]}"
        sizes = np.full(len(at), chunks)
        ruled = cases.run(at, sizes, outstanding, name, level + rule, cases.DATA)
        # After the switch, each unit is written once in its new layout.
        mixed = np.arange(len(at)) >= len(at) - units
        still = cases.run(at[~mixed], sizes[~mixed], outstanding, name, level, cases.DATA)
        other = next(spec for spec in cases.LEVELS.values() if spec != level.split("=")[1])
        after = cases.run(at[mixed], sizes[mixed], outstanding, name, f"level={other}", cases.DATA)
        longer = ruled["makespan_s"] - still["makespan_s"] - after["makespan_s"]
        told.append(1e3 * longer / max(ruled["placement"]["switches"], 1))
    return tuple(told)


def switches(device: str, options, outstanding, cached=None) -> dict:
    """Returns milliseconds for a switch in each direction, by outstanding writes."""
    units = 200 if options.short else 1000
    listed = [(device, o, units, cached) for o in outstanding]
    return dict(zip(outstanding, reproduce.grid(switch, listed, options.processes), strict=True))


def nearest(times: dict, paper: dict) -> int:
    """Returns the number of outstanding writes whose times are closest to the paper's, by their logarithms."""

    def away(o):
        pairs = [(ours, said) for level in cases.LEVELS
                 for ours, said in zip(times[o][level], paper[level], strict=True)]
        return sum(np.log(ours / said) ** 2 for ours, said in pairs)

    return min(times, key=away)


def crossover(rows: dict) -> int:
    """Returns the largest number of chunks for which mirrors are faster."""
    quicker = [mirrors < parity for parity, mirrors in zip(rows["RAID 6"], rows["RAID 10"], strict=True)]
    return quicker.index(False) if False in quicker else 4


def occupied(case) -> float:
    """Returns throughput in MB/s on flash drives on which the data, if mirrored, would occupy this share of the space."""
    level, chunks, share, outstanding, short = case
    shrunk = SHRUNK_GB / 256
    copies = {"RAID 6": 1.5, "RAID 10": 3}[level]
    # Each cell ends with a block of its own, and one in 64 is spare; the rest is available for the
    # array's data.
    data = share * SHRUNK_GB * 1e9 * cases.DRIVES / 3 * 0.92
    writes = int(60 * 2**30 * shrunk / (chunks * cases.CHUNK) / (20 if short else 1))
    units = np.random.default_rng(chunks).integers(0, int(data / cases.UNIT), writes)
    name = cases.drive(cases.SSD, share * copies / 3, SHRUNK_GB)
    ran = cases.run(units, np.full(writes, chunks), outstanding, name,
                    f"level={cases.LEVELS[level]}", data)
    return writes * chunks * cases.CHUNK / ran["makespan_s"] / 1e6


def by_occupancy(options, outstanding: int) -> dict:
    """Returns throughput for each of `OCCUPIED`, by layout and chunks."""
    keys = [(level, chunks) for level in cases.LEVELS for chunks in range(1, 5)]
    listed = [(level, chunks, share, outstanding, options.short)
              for level, chunks in keys for share in OCCUPIED]
    rates = reproduce.grid(occupied, listed, options.processes)
    return {key: rates[at * len(OCCUPIED):][:len(OCCUPIED)] for at, key in enumerate(keys)}
