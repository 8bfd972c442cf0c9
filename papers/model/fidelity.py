"""Tables IV and V, figures 4 and 5, and the variation between runs: is the twin like its original?"""

import math

import numpy as np
import workloads

#: The seeds of the twins generated from one model.
SEEDS = [1, 2, 3]
#: The number of intervals in which activity is counted.
STRETCHES = 48


def features(card: dict) -> list[dict]:
    """Returns the paper's features of both, without the states that figure 2 also has."""
    return [feature for feature in card["features"] if not feature["name"].startswith("state")]


def deviation(feature: dict) -> float:
    """Returns a deviation in percent or percentage points; infinity if it is undefined."""
    found = feature["deviation"]
    return abs(found) * 100 if found is not None else float("inf")


def worst(card: dict, weights: bool = False) -> tuple[str, float]:
    """Returns the feature that deviates most, among the threads' weights or among all others."""
    chosen = [feature for feature in features(card)
              if feature["name"].startswith("stream_weight") == weights]
    most = max(chosen, key=deviation)
    return most["name"], deviation(most)


def responses(card: dict) -> list[tuple[str, float, float]]:
    """Returns the device, and the deviations of the mean response and of the 99th percentile in percent."""
    return [(each["device"], each["mean_ms"]["deviation"] * 100, each["p99_ms"]["deviation"] * 100)
            for each in card["responses"]]


def factor(quantity: dict) -> float:
    """Returns how many times too large or too small a figure is."""
    return math.exp(abs(math.log(max(quantity["b"], 1e-9) / max(quantity["a"], 1e-9))))


def iops_difference(workload, other) -> float:
    """Returns figure 4's difference in percent."""
    return abs(workloads.iops(other) / workloads.iops(workload.path) - 1) * 100


def runs_difference(workload) -> float:
    """Returns the largest difference of throughput between runs of one model, in percent of their mean."""
    rates = [workloads.iops(workload.twin(seed=seed)) for seed in SEEDS]
    return (max(rates) - min(rates)) / np.mean(rates) * 100


def activity(trace) -> np.ndarray:
    """Returns the number of requests in each interval."""
    at_ns = workloads.columns(workloads.rows(trace))["at_ns"]
    return np.histogram(at_ns, bins=STRETCHES, range=(0, at_ns[-1]))[0]


def fluctuation(workload, other) -> float:
    """Returns the correlation of both activities over time."""
    return float(np.corrcoef(activity(workload.path), activity(other))[0, 1])


def aspects(card: dict) -> dict[str, bool]:
    """Returns the aspects in which one trace may replace the other."""
    return {aspect["aspect"]: aspect["holds"] for aspect in card["verdict"]["aspects"]}
