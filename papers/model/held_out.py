"""Beyond the paper: a model of the first part of a trace, held against the rest.

A model cannot foretell what has not happened. The first part is itself a guess of the rest; the twin of
its model should be no worse a guess."""

import fidelity
import forebay
import numpy as np
import pyarrow.parquet as pq
import workloads

from forebay import reproduce

#: The share of the time that is fitted.
KNOWN = 0.7
#: Worse by less is as good: the twin is one draw.
SLACK = 0.1


def parts(workload):
    """Files of the known part, of its twin, and of the rest."""
    rows = pq.read_table(workload.path)
    at_ns = rows["at_ns"].to_numpy()
    cut = int(np.searchsorted(at_ns, at_ns[-1] * KNOWN))
    files = [workload.work / f"{workload.stem}-{part}" for part in
             ("known.parquet", "known.model", "known-twin.parquet", "rest.parquet")]
    known, model, twin, rest = files
    pq.write_table(rows.slice(0, cut), known)
    place = rows.schema.get_field_index("at_ns")
    times = (at_ns[cut:] - at_ns[cut]).tolist()
    pq.write_table(rows.slice(cut).set_column(place, rows.schema.field(place), [times]), rest)
    forebay.fit(known, model)
    forebay.generate(model, twin, seed=1)
    return known, twin, rest


def errors(guess, rest) -> list[float]:
    """Of a guess of the rest: mean deviation of features and of mean responses in per cent, distance
    of inter-arrival times, mean error of the miss ratio."""
    card = workloads.card(rest, guess)
    deviations = [min(fidelity.deviation(feature), 1000) for feature in fidelity.features(card)]
    waits = [abs(mean) for _, mean, _ in fidelity.responses(card)]
    gaps = next(found["ks"] for found in card["distances"] if found["of"] == "inter_arrival_ms")
    return [float(np.mean(deviations)), float(np.mean(waits)), gaps, card["mrc_mean_error"]]


def section(listed) -> str:
    """The table."""
    lines, no_worse, all_of = [], 0, 0
    for workload in listed:
        known, twin, rest = parts(workload)
        pairs = list(zip(errors(known, rest), errors(twin, rest), strict=True))
        no_worse += sum(ours <= itself * (1 + SLACK) for itself, ours in pairs)
        all_of += len(pairs)
        digits = [1, 1, 3, 3]
        lines.append([workload.name, *(f"{itself:,.{n}f} / {ours:,.{n}f}"
                                       for n, (itself, ours) in zip(digits, pairs, strict=True))])
    header = ["workload", "features, mean deviation %", "mean responses, mean deviation %",
              "inter-arrival times, KS", "miss ratio, mean error"]
    told = (f"The first {KNOWN:.0%} of the time as a guess of the rest / the twin of its model. The twin "
            f"is no worse (by more than {SLACK:.0%}) in {no_worse} of {all_of}.\n\n")
    return told + reproduce.table(header, lines)
