"""Tables IV and V, figures 4 and 5, and how much runs differ: is the twin like its original?"""

import math

import numpy as np
import workloads

#: The seeds of the twins generated from one model.
SEEDS = [1, 2, 3]
#: The number of intervals in which activity is counted.
STRETCHES = 48


def features(card: dict) -> list[dict]:
    """The paper's features of both, without the states that figure 2 has besides."""
    return [feature for feature in card["features"] if not feature["name"].startswith("state")]


def deviation(feature: dict) -> float:
    """In per cent, or points of it; as far as can be where there is no measure."""
    found = feature["deviation"]
    return abs(found) * 100 if found is not None else float("inf")


def worst(card: dict, weights: bool = False) -> tuple[str, float]:
    """The feature that deviates most: the threads' weights, or all others."""
    chosen = [feature for feature in features(card)
              if feature["name"].startswith("stream_weight") == weights]
    most = max(chosen, key=deviation)
    return most["name"], deviation(most)


def responses(card: dict) -> list[tuple[str, float, float]]:
    """Device, deviation of the mean response and of the 99th percentile, in per cent."""
    return [(each["device"], each["mean_ms"]["deviation"] * 100, each["p99_ms"]["deviation"] * 100)
            for each in card["responses"]]


def factor(quantity: dict) -> float:
    """How many times too much or too little, whichever it is."""
    return math.exp(abs(math.log(max(quantity["b"], 1e-9) / max(quantity["a"], 1e-9))))


def iops_difference(workload, other) -> float:
    """Figure 4's difference, in per cent."""
    return abs(workloads.iops(other) / workloads.iops(workload.path) - 1) * 100


def runs_difference(workload) -> float:
    """The widest difference of throughput between runs of one model, in per cent of their mean."""
    rates = [workloads.iops(workload.twin(seed=seed)) for seed in SEEDS]
    return (max(rates) - min(rates)) / np.mean(rates) * 100


def activity(trace) -> np.ndarray:
    """Requests in each stretch of time."""
    at_ns = workloads.columns(workloads.rows(trace))["at_ns"]
    return np.histogram(at_ns, bins=STRETCHES, range=(0, at_ns[-1]))[0]


def fluctuation(workload, other) -> float:
    """How the activity of both goes together over time."""
    return float(np.corrcoef(activity(workload.path), activity(other))[0, 1])


def aspects(card: dict) -> dict[str, bool]:
    """What of the original the other may stand in for."""
    return {aspect["aspect"]: aspect["holds"] for aspect in card["verdict"]["aspects"]}
