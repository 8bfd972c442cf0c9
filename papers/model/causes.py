"""Why a figure deviates from the paper's.

Each function returns a cause only if the measured figures support it, and otherwise an empty text; the table then
says that the cause is unknown.
"""

import fidelity
import levels
import numpy as np

#: If a device is busy for more than this share of the time, small causes can delay its answers.
NEAR_SATURATION = 0.7
#: Transitions that occurred less often than this on average are considered unknown.
SEEN_MIN = 30


def _feature(card: dict, name: str) -> dict | None:
    return next((feature for feature in card["features"] if feature["name"] == name), None)


def _broken_runs(card: dict) -> str:
    """Says by how much the twin is less sequential; empty if it is not."""
    share = _feature(card, "sequential_share")
    if share is None or share["b"] >= share["a"]:
        return ""
    return f"{share['b'] * 100:.1f} % sequential instead of {share['a'] * 100:.1f} %"


def feature(card: dict, worst: str) -> str:
    """Returns the cause for the feature that deviates most."""
    streams = sum(each["name"].startswith("stream_weight:") for each in card["features"])
    broken = _broken_runs(card)
    if not worst.startswith("sequential_share") or streams < 2 or not broken:
        return ""
    return f"runs of {streams} streams interleave, and some are broken: {broken}"


def weight(worst: str) -> str:
    """Returns the cause for the stream whose weight deviates most."""
    return "streams without names go by rank" if worst.startswith("stream_weight:#") else ""


def slower(card: dict, original_iops: float, twin_iops: float) -> str:
    """Returns the cause for a twin's throughput if all requests are available at once."""
    broken = _broken_runs(card)
    if twin_iops >= original_iops or not broken:
        return ""
    return f"runs that are broken merge less: {broken}"


def _near_saturation(response: dict) -> bool:
    busy = max(response["a_busy_share"], response["b_busy_share"])
    return busy > NEAR_SATURATION or response["a_overloaded"] or response["b_overloaded"]


def response(response: dict) -> str:
    """Returns the cause for a mean response."""
    if not _near_saturation(response):
        return ""
    busy = response["a_busy_share"]
    state = "near saturation" if busy > NEAR_SATURATION else "in bursts that overload the disk"
    return f"{state} ({busy:.0%} busy), a little more seeking is a great deal more waiting"


def responses(all_responses: list[dict]) -> str:
    """Returns the cause for the mean of all deviations: where most of it comes from."""
    errors = [abs(each["mean_ms"]["deviation"]) for each in all_responses]
    saturated = sum(error for error, each in zip(errors, all_responses, strict=True)
                    if _near_saturation(each))
    share = saturated / max(sum(errors), 1e-12)
    return f"{share:.0%} of it comes from devices near saturation" if share > 0.5 else ""


def flat_activity(workload, other) -> str:
    """Returns the cause for activity that does not correlate with the original's."""
    variation = [float(np.std(found) / max(np.mean(found), 1e-12))
                 for found in (fidelity.activity(workload.path), fidelity.activity(other))]
    if variation[1] >= variation[0] / 2:
        return ""
    return f"it has no peaks: activity varies by {variation[1]:.2f} instead of {variation[0]:.2f}"


def level(requests: int) -> str:
    """Returns the cause for throughput that still changes with the level."""
    finest = levels.LEVELS[-1]
    seen = requests / levels.counted(finest)
    if seen >= SEEN_MIN:
        return ""
    return f"the {levels.counted(finest):,} transitions of {finest} levels are seen {seen:.1f} times each"


def cached_writes(card: dict) -> str:
    """Returns the cause for a cache that helps a load without locality."""
    writes = 1 - _feature(card, "read_share")["a"]
    if writes <= 0.5:
        return ""
    return f"a write-back cache spares the disk writes whatever their place: {writes:.0%} are"


def other_workloads(deviation: float, found: list[float], unit: str) -> str:
    """Returns the cause for figures that differ as much among our workloads as from the paper's."""
    spread = max(found) - min(found)
    if spread < abs(deviation):
        return ""
    return f"other workloads: ours differ by {spread:.0f} {unit} among themselves"
