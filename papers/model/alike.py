"""Tables IV and V, figures 4 and 5: the sections on how similar twin and original are."""

import causes
import fidelity
import levels
import workloads
from study import Study, figure

from forebay import reproduce


def features(study: Study, listed) -> str:
    first = listed[min(1, len(listed) - 1)]
    card = workloads.card(first.path, first.twin())
    rows = []
    for feature in fidelity.features(card):
        unit = "%" if feature["deviation_kind"] == "relative" else "points"
        low, high = (figure(feature[end], 4) for end in ("a_low", "a_high"))
        rows.append([feature["name"], figure(feature["a"], 4), figure(feature["b"], 4),
                     f"{figure(fidelity.deviation(feature), 2)} {unit}", f"{low} to {high}"])
    for workload in listed:
        card = workloads.card(workload.path, workload.twin())
        name, deviation = fidelity.worst(card)
        study.add("features", f"{workload.name}: {name}", deviation, causes.feature(card, name))
        name, deviation = fidelity.worst(card, weights=True)
        study.add("weights", f"{workload.name}: {name}", deviation, causes.weight(name))
    header = ["feature", "original", "twin", "deviation", "original's own interval (95 %)"]
    return f"All features of {first.name}:\n\n{reproduce.table(header, rows)}\n{study.told()}"


def supported(listed) -> str:
    """The paper's Table V lists knobs; this table shows their effect, and on how many of the traces."""
    names = list(fidelity.aspects(workloads.card(listed[0].path, listed[0].path)))
    rows = []
    for name in names:
        holds = []
        for other in ("twin", "free"):
            cards = [workloads.card(w.path, getattr(w, other)()) for w in listed]
            found = [fidelity.aspects(card).get(name) for card in cards]
            held = sum(bool(each) for each in found)
            holds.append(f"{held} of {sum(each is not None for each in found)}")
        rows.append([name, *holds])
    return TABLE_FIVE + reproduce.table(["may stand in for the original in", "twin", "locality-free"],
                                        rows)


TABLE_FIVE = """The paper lists which knobs each tool has. Here is what they come to: on how many of
the traces `forebay compare` finds that the load may stand in for the original ([its
bounds](../../docs/compare.md)).

"""


def throughput(study: Study, listed) -> str:
    rows, errors = [], []
    for workload in listed:
        twin, free = workload.twin(), workload.free()
        rates = [workloads.iops(path) for path in (workload.path, twin, free)]
        rows.append([workload.name, *(figure(rate) for rate in rates),
                     str(levels.chosen(workload))])
        card = workloads.card(workload.path, twin)
        study.add("iops", workload.name, fidelity.iops_difference(workload, twin),
                  causes.slower(card, *rates[:2]))
        study.add("runs", workload.name, fidelity.runs_difference(workload))
        for (device, mean, _), response in zip(fidelity.responses(card), card["responses"], strict=True):
            errors.append((abs(mean), f"{workload.name} on {device}", response))
    worst, where, response = max(errors, key=lambda error: error[0])
    study.add("performance-worst", f"mean response: {where}", worst, causes.response(response))
    mean = sum(error for error, *_ in errors) / len(errors)
    study.add("performance-mean", "mean responses of all traces on three devices", mean,
              causes.responses([response for *_, response in errors]))
    header = ["workload", "original, IOPS", "twin, IOPS", "locality-free, IOPS", "level"]
    return reproduce.table(header, rows) + "\n" + responses(listed) + "\n" + study.told()


def responses(listed) -> str:
    rows = []
    for workload in listed:
        cards = [workloads.card(workload.path, path) for path in (workload.twin(), workload.free())]
        for twin, free, at in zip(*map(fidelity.responses, cards), cards[0]["responses"], strict=True):
            p99 = at["p99_ms"]
            own = [(p99[end] / p99["a"] - 1) * 100 for end in ("a_low", "a_high")]
            load = "overloaded" if at["a_overloaded"] else ""
            rows.append([workload.name, twin[0], *(figure(n) for n in (twin[1], free[1], twin[2], free[2])),
                         f"{figure(own[0])} to {figure(own[1])}", load])
    header = ["workload", "device", "mean response: twin, %", "locality-free, %", "p99: twin, %",
              "locality-free, %", "the original's own p99 (95 %), %", ""]
    return "Deviation of responses at recorded times:\n\n" + reproduce.table(header, rows)


def activity(study: Study, listed) -> str:
    for workload in listed:
        for of, path in (("twin", workload.twin()), ("locality-free", workload.free())):
            study.add("fluctuation", f"{workload.name}, {of}", fidelity.fluctuation(workload, path),
                      causes.flat_activity(workload, path))
    return f"Requests in {fidelity.STRETCHES} stretches of the trace's time.\n\n" + study.told()
