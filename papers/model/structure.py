"""Tables I, VI and VII, figures 3 and 6: the sections on states, levels, patterns and intensity."""

import caching
import causes
import intensity
import levels
import patterns
import workloads
from study import Study, figure

from forebay import reproduce


def table_one(study: Study) -> str:
    study.add("transitions-2", "counted one by one", levels.counted(2))
    study.add("transitions-2-flat", "16 to the power of the levels", 16**2)
    header = ["levels", "states", "transitions, hierarchical", "transitions, flat"]
    return study.told() + "\n" + reproduce.table(header, levels.table_one())


def by_level(study: Study, listed) -> str:
    rows = []
    for workload in listed:
        rates = levels.throughput(workload)
        original = workloads.iops(workload.path)
        rows.append([workload.name, *(figure(rate) for rate in rates), figure(original)])
        study.add("levels", workload.name, levels.enough(rates),
                  causes.level(workload.table().num_rows))
        study.add("flat", f"{workload.name}, {levels.FLAT_LEVEL} levels",
                  levels.flat_difference(workload))
    header = ["workload", *(f"{level} levels" for level in levels.LEVELS), "original"]
    return "Throughput of the twins, IOPS:\n\n" + reproduce.table(header, rows) + "\n" + study.told()


def simple(study: Study, options) -> str:
    rows = []
    for name, plain, twin in patterns.rows(options.work / "model"):
        rows.append([name, figure(plain), figure(twin)])
        study.add("simple", name, abs(twin / plain - 1) * 100)
    header = ["pattern", "locality-free generator, IOPS", "model's twin, IOPS"]
    return reproduce.table(header, rows) + "\n" + study.told()


def turned_up(listed, options) -> str:
    workload = intensity.middling(listed)
    disk, flash = (intensity.achieved(workload.twin(), device)
                   for device in (workloads.DISK, options.flash))
    rows = [[f"{times:g}", figure(on_disk[0], 0), figure(on_disk[1], 0), figure(on_flash[1], 0)]
            for times, on_disk, on_flash in zip(intensity.TIMES, disk, flash, strict=True)]
    header = ["times as fast", "asked for, IOPS", f"{workloads.DISK} serves", f"{options.flash} serves"]
    asked, served = flash[-1]
    later = "levels off later" if served < asked * 0.95 else "still serves all that is asked"
    return (f"The twin of {workload.name}: the disk's throughput levels off, the solid-state drive "
            f"{later}.\n\n{reproduce.table(header, rows)}")


def gathered(listed) -> str:
    rows = []
    for workload in listed:
        found = [caching.gathered(workloads.card(workload.path, path))
                 for path in (workload.path,)][0]
        twin = caching.gathered(workloads.card(workload.twin(), workload.twin()))
        rows.append([workload.name, *(f"{found[n] * 100:.1f} ({twin[n] * 100:.1f})" for n in found)])
    header = ["workload", *(f"{states} states" for states in (4, 16, 64, 256))]
    return ("Share of the requests in the busiest quarter of the states, %, of the original (and the "
            f"twin): more states confine them to less of the disk.\n\n{reproduce.table(header, rows)}")
