"""How long a period should be: the paper's arrivals, intensity by period, against every time scale."""

import numpy as np
import workloads
from study import figure

import forebay
from forebay import reproduce

#: Periods as shares of the trace's time, beside the paper's half an hour.
SHARES = {"1/48": 1 / 48, "1/12": 1 / 12, "1/4": 1 / 4}
DEFAULT_S = 1800
#: The index of dispersion counts requests in stretches this long.
STRETCH_NS = 10**9
#: Traces that are looked at: the longest.
TRACES = 3


def last_ns(workload) -> int:
    """When its last request comes."""
    return int(workload.table()["at_ns"][-1].as_py())


def dispersion(trace) -> float:
    """The variance of the requests of a second over their mean: 1 for independent arrivals."""
    at_ns = workloads.rows(trace)["at_ns"].to_numpy().astype(np.int64)
    counts = np.bincount(at_ns // STRETCH_NS)
    return float(counts.var() / counts.mean())


def response_ms(trace) -> float:
    """The mean response on the disk at recorded times."""
    run = workloads.simulate(trace, intensity=1.0)
    sums = [run[f"{op}s"] * (run[f"{op}_mean_ms"] or 0) for op in ("read", "write")]
    return sum(sums) / max(run["reads"] + run["writes"], 1)


def twin(workload, period_s: float):
    """What a model with such periods generates."""
    model = workload.work / f"{workload.stem}-period{period_s:.6g}.json"
    forebay.fit(workload.path, model, period_s=period_s)
    path = model.with_suffix(".parquet")
    forebay.generate(model, path, seed=1)
    return path


def deviations(original, other) -> list[str]:
    """Of burstiness and of the mean response, in per cent."""
    return [figure((measure(other) / measure(original) - 1) * 100)
            for measure in (dispersion, response_ms)]


def section(listed) -> str:
    """The sensitivity of intensity to the period's length."""
    rows = []
    for workload in sorted(listed, key=last_ns)[-TRACES:]:
        length_s = last_ns(workload) / 1e9
        rows.append([workload.name, "every scale", "-", *deviations(workload.path, workload.twin())])
        periods = [*((name, length_s * share) for name, share in SHARES.items()),
                   ("the paper's", DEFAULT_S)]
        for name, period_s in periods:
            found = deviations(workload.path, twin(workload, period_s))
            rows.append([workload.name, name, figure(period_s), *found])
    header = ["workload", "period, of the trace", "period, s", "index of dispersion at 1 s, %",
              "mean response on the disk, %"]
    return ("Deviations of twins from the original: arrivals kept at every time scale, which is the "
            "default, and the paper's (`fit --period`), requests by period with gaps of the families of "
            f"transitions.\n\n{reproduce.table(header, rows)}")
