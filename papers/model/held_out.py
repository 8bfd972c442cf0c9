"""Beyond the paper: a model of the first part of a trace, compared with the rest.

A model cannot predict what has not happened. The first part is itself a prediction of the rest; the twin of its model
should not be a worse one.
"""

import fidelity
import forebay
import numpy as np
import pyarrow.parquet as pq
import workloads

from forebay import reproduce

#: The share of the trace's duration that is used for fitting.
KNOWN = 0.7
#: The devices for which response times are compared.
DEVICES = (workloads.DISK, "samsung-830", "990-pro")
#: A difference of less than this counts as equal, because the twin is a random sample.
SLACK = 0.1


def parts(workload):
    """Returns the files of the known part, of its twin, and of the rest."""
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
    forebay.fit(known, model, no_verdict=True)
    forebay.generate(model, twin, seed=1)
    return known, twin, rest


def errors(guess, rest) -> list[float]:
    """Returns for a prediction of the rest: the mean deviations of features and of mean responses in percent, the
    distance of inter-arrival times, and the mean error of the miss ratio.
    """
    card = workloads.card(rest, guess)
    deviations = [min(fidelity.deviation(feature), 1000) for feature in fidelity.features(card)]
    waits = [abs(mean) for _, mean, _ in fidelity.responses(card)]
    gaps = next(found["ks"] for found in card["distances"] if found["of"] == "inter_arrival_ms")
    return [float(np.mean(deviations)), float(np.mean(waits)), gaps, card["mrc_mean_error"]]


def figures(card: dict) -> list[tuple[float, float]]:
    """Returns for each figure of a comparison the error of the prediction, and half the interval of the actual
    figure.
    """
    quantities = fidelity.features(card) + card["dispersion"]
    quantities += [response[key] for response in card["responses"] for key in ("mean_ms", "p99_ms")]
    found = [(abs(each["b"] - each["a"]), max((each["a_high"] - each["a_low"]) / 2, 0.0)) for each in quantities]
    return [*found, (card["mrc_mean_error"], 0.0)]


def no_worse(known, twin, rest) -> tuple[int, int]:
    """Returns in how many figures the twin's error is at most that of the known part plus half the interval, and the
    number of figures. If the two have different figures, those that both have are compared in order.
    """
    itself, ours = (figures(workloads.card(rest, guess, DEVICES)) for guess in (known, twin))
    pairs = list(zip(itself, ours, strict=False))
    return sum(mine <= other + half for (other, half), (mine, _) in pairs), len(pairs)


def section(listed) -> str:
    """The table."""
    lines, fair, all_of, held, figures_of = [], 0, 0, 0, 0
    for workload in listed:
        known, twin, rest = parts(workload)
        pairs = list(zip(errors(known, rest), errors(twin, rest), strict=True))
        fair += sum(ours <= itself * (1 + SLACK) for itself, ours in pairs)
        all_of += len(pairs)
        kept, of = no_worse(known, twin, rest)
        held, figures_of = held + kept, figures_of + of
        digits = [1, 1, 3, 3]
        lines.append([workload.name, *(f"{itself:,.{n}f} / {ours:,.{n}f}"
                                       for n, (itself, ours) in zip(digits, pairs, strict=True))])
    header = ["workload", "features, mean deviation %", "mean responses, mean deviation %",
              "inter-arrival times, KS", "miss ratio, mean error"]
    told = (f"The first {KNOWN:.0%} of the time as a guess of the rest / the twin of its model. The twin "
            f"is no worse (by more than {SLACK:.0%}) in {fair} of {all_of}. Of single figures of `compare` it is no "
            f"worse beyond the rest's own interval in {held} of {figures_of}.\n\n")
    return told + reproduce.table(header, lines)
