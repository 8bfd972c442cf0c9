"""Reproduces the **raid** paper: its table 1 and its figures 1 and 2, in its cost model and in simulation.

    make reproduce PAPER=raid    # or: python -m forebay.reproduce papers/raid
    python -m forebay.reproduce papers/raid --short -o t.md    # less of everything, in a minute
    python -m forebay.reproduce papers/raid --full             # 20 GB and 200 GB, nothing scaled down

It needs no traces.
"""

from pathlib import Path

import cases
import claims
import measured
import modelled
import simulated

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent

HEAD = """# Adaptive RAID: the paper's figures and ours

N. Jeremic, H. Parzyjegla, G. Mühl, J. Richling, "Towards Workload-Driven Adaptation of Data Organization in
Heterogeneous Storage Systems". Written by `{command}` with forebay {version}, which computes all figures
except the paper's own ([expected.toml](expected.toml)); the reasons are in [why.toml](why.toml). Random
choices use a fixed seed. [README.md](README.md) has the conclusions.

Six drives, units of four chunks of 64 KiB, written in place; {hdd} with its caches off, {ssd} reduced in
size. {scale} Each stream writes again as soon as it is answered. A *time* is the duration of a run divided by
its number of writes.
"""


def main(options) -> str:
    """Returns the text of the tables."""
    expected = reproduce.load(HERE / "expected.toml")
    words = ["python -m forebay.reproduce papers/raid", *(["--short"] if options.short else []),
             *(["--full"] if options.full else [])]
    if options.short:
        # This changes only the current process, so all cases must run in it.
        cases.DATA, cases.SSD_GB, measured.SHRUNK_GB = 1e9, 4, 4
        options.processes = 1
    results = claims.Results(options, expected)
    results.claims = reproduce.claims(HERE / "expected.toml")
    results.units = 300 if options.short else modelled.UNITS
    folder = str(Path(options.work) / "raid")
    ssd = cases.SSD
    few = {device: sorted({1, results.nearest[device], 32} & set(results.times[device]))
           for device in cases.COSTS}
    results.simulated = {
        device: simulated.figure(device, options, few[device], results.times[device],
                                 results.switches[device])
        for device in cases.COSTS
    }
    flash = few[ssd], results.times[ssd], results.switches[ssd]
    results.cached = simulated.figure(ssd, options, *flash, (folder, cases.SSD_GB << 10))
    several = [o for o in few[ssd] if o > 1], *flash[1:]
    results.uncached = simulated.figure(ssd, options, *several, None, cases.ACTIVE)
    results.recurring = simulated.figure(ssd, options, *several, (folder, cases.CACHE_MIB), cases.ACTIVE)
    results.modelled = {device: modelled.every(device, results.units, options) for device in cases.COSTS}
    if options.pictures:
        import raid_pictures

        raid_pictures.draw(results, options.pictures)
    every = cases.every(options)
    results.why = reproduce.load(HERE / "why.toml")
    scale = ("The loads of figure 2 write 200 GB to 20 GB, as the paper's." if options.full else
             f"The loads of figure 2 write to one in {every} of the units of {cases.DATA / 1e9:.0f} GB, at random,\n"
             f"as often as 200 GB to 20 GB are.")
    parts = [HEAD.format(command=" ".join(words), version=forebay.__version__, hdd=cases.HDD, ssd=ssd, scale=scale)]
    settings = {device: claims.settings(results, device, name) for device, name in ((cases.HDD, "hdd"), (ssd, "ssd"))}
    sections = {
        "The claims": (CLAIMS, claims.table(results, settings)),
        "Claims together": (JOINT, claims.joint(results, settings)),
        "Table 1: time of a write by layout": (TABLE_ONE.format(
            **{name: results.nearest[device] for device, name in ((cases.HDD, "hdd"), (ssd, "ssd"))}),
            table_one(results)),
        "Section 4.1: time of a switch": (SWITCHES, table_switches(results)),
        "Figure 1(a): throughput of hard disks": (FIGURE_1A, figure_1a(results)),
        "Figure 1(b): throughput of flash drives by occupancy": (FIGURE_1B.format(o=results.nearest[ssd], of=round(256 / measured.SHRUNK_GB)),
                                                                 figure_1b(results)),
        "Figure 2 in the cost model": (MODEL, figure_2_model(results)),
        "Figure 2 in simulation": (SIMULATED, figure_2(results)),
        "What the paper leaves open": (OPEN, opened(results)),
    }
    for title, (text, table) in sections.items():
        parts += [f"## {title}\n", text, table]
    return "\n".join(parts)


CLAIMS = """"ours" is for the main setting: the number of outstanding writes whose times are closest to table 1, runs of 8
and 32 writes of one size, as many writes per unit as needed to write 200 GB to 20 GB, and units that begin as
RAID 6. The next column has the minimum and maximum over everything that the paper leaves open: in simulation
the number of outstanding writes; in the model the writes per unit, the length and kind of runs, and the bias;
in both the initial layout. "yes (5 of 6)" means that the claim holds in the main setting, and in 5 of 6
settings in total. Claims about occupancy are over 1 to 4 chunks.
"""
JOINT = """A claim that holds in one setting says little if another claim holds only in others. For each device and each
source of figures, this shows the setting that meets most claims at once, the claims that it misses although
another setting meets them, and the pairs of claims that no setting meets together. In simulation, crossovers
and switches count too.
"""
TABLE_ONE = """Milliseconds per write. The paper does not say how many writes were outstanding; our times are closest to its
figures with {hdd} on hard disks and {ssd} on flash. "halves apart": neighboring halves of a unit are in
different places, as in the paper's mirrors; ours are side by side.
"""
SWITCHES = """Additional milliseconds of a run per switch, by outstanding writes.
"""
FIGURE_1A = """MB/s; the paper's figures are derived from its table 1, because its figure has no numbers.
"""
FIGURE_1B = """MB/s with {o} outstanding writes, by the share of the drives that mirrored data would occupy; RAID 6 occupies
half of that. Drives, data and writes are reduced to one part in {of} of the paper's.
"""
MODEL = """Percent of the optimum with a free initial layout, with the paper's costs: the inverse of the cost of each
array relative to the optimum.
"""
SIMULATED = """Percent of the optimum that is priced with our own measured times. "reads cached": flash drives that cache
everything that was read or written, which is the most that a read cache can do. "active units": the runs of
this many units are in progress at a time in B and C, so that writes return to a unit soon; "64 MiB cached":
with a read cache of that size. "over price" is the difference between a static layout and its own price: the
error of the cost model, like the paper's 1 % on A.
"""
OPEN = """The paper's rule in the cost model, in percent of the optimum, on hard disks; units begin as RAID 6, as RAID
10, or with the level that suits their first write. "draws": sizes within a run differ, with the run's bias.
"""


def rows(results, device):
    """Returns a section for each number of outstanding writes."""
    return [(str(o), level, times) for o, by in results.times[device].items() for level, times in by.items()]


def table_one(results) -> str:
    lines = []
    for device in cases.COSTS:
        for level, times in results.paper["times"][device].items():
            lines.append([device, "paper", level, *map(reproduce.number, times)])
        for o, level, times in rows(results, device):
            lines.append([device, o, level, *map(reproduce.number, times)])
        if device == cases.HDD:
            lines += [[device, str(o), "RAID 10, halves apart", *map(reproduce.number, times)]
                      for o, times in results.apart.items()]
    return reproduce.table(["drive", "outstanding", "layout", "1 chunk", "2", "3", "4"], lines)


def table_switches(results) -> str:
    lines = [[device, "paper", *map(reproduce.number, results.paper["switches"][device])]
             for device in cases.COSTS]
    lines += [[device, str(o), *map(reproduce.number, pair)]
              for device in cases.COSTS for o, pair in results.switches[device].items()]
    return reproduce.table(["drive", "outstanding", "to mirrors", "to parity"], lines)


def rates(times) -> list[float]:
    """Returns MB/s for writes of 1 to 4 chunks that take these times."""
    return [chunks * cases.CHUNK / 1e3 / ms for chunks, ms in enumerate(times, 1)]


def figure_1a(results) -> str:
    device = cases.HDD
    lines = [["paper", level, *map(reproduce.number, rates(times))]
             for level, times in results.paper["times"][device].items()]
    lines += [[o, level, *map(reproduce.number, rates(times))] for o, level, times in rows(results, device)]
    return reproduce.table(["outstanding", "layout", "1 chunk", "2", "3", "4"], lines)


def figure_1b(results) -> str:
    lines = [[level, str(chunks), *map(reproduce.number, rates)]
             for (level, chunks), rates in results.occupied.items()]
    return reproduce.table(["layout", "chunks", *(f"{100 * share:.0f} %" for share in measured.OCCUPIED)], lines)


NAMES = {"bonus-malus": "paper's rule", "best": "ours"}


def columns(firsts) -> tuple[list, list[str]]:
    """The arrays of figure 2, and their names."""
    keys = [(rule, first) for rule in modelled.RULES for first in firsts]
    return ["RAID 6", "RAID 10", *keys], ["RAID 6", "RAID 10", *(f"{NAMES[rule]}, {first}" for rule, first in keys)]


def percent(value: float) -> str:
    return f"{value:.1f}"


def figure_2_model(results) -> str:
    keys, heads = columns(cases.FIRSTS)
    lines = [[device, load, *(percent(results.modelled[device][modelled.default(load)][key]) for key in keys)]
             for device in cases.COSTS for load in cases.LOADS]
    return reproduce.table(["drive", "load", *heads], lines)


def figure_2(results) -> str:
    keys, heads = columns(cases.FIRSTS[:2])
    listed = {cases.HDD: results.simulated[cases.HDD], cases.SSD: results.simulated[cases.SSD],
              f"{cases.SSD}, reads cached": results.cached,
              f"{cases.SSD}, {cases.ACTIVE} active units": results.uncached,
              f"{cases.SSD}, {cases.ACTIVE} active units, {cases.CACHE_MIB} MiB cached": results.recurring}
    lines = [[name, str(o), load, *(percent(told[key]) if key in told else "-" for key in keys),
              " ".join(f"{told['model'][level]:+.1f}" for level in cases.LEVELS)]
             for name, figures in listed.items() for (o, load), told in figures.items()]
    return reproduce.table(["drive", "outstanding", "load", *heads, "over price, RAID 6 and 10"], lines)


def opened(results) -> str:
    lines = []
    for load in cases.LOADS[1:]:
        for other in modelled.swept(results.short):
            if other.bias != modelled.BIASES[0]:
                continue
            told = results.modelled[cases.HDD][modelled.named(other, load)]
            run = other.run * (4 if load.endswith("2") else 1)
            lines.append([load, str(other.writes or "200 GB"), str(run), other.within, other.after,
                          *(percent(told["bonus-malus", first]) for first in cases.FIRSTS),
                          percent(told["best", "write"]), percent(max(told["RAID 6"], told["RAID 10"]))])
    return reproduce.table(["load", "writes for a unit", "run", "within", "after", "RAID 6 first", "RAID 10 first",
                            "first write", "ours, first write", "better static"], lines)
