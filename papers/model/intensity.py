"""Figure 3: how the disk serves a load of increasing intensity."""

from math import log

import workloads

#: Intensities, as multiples of the recorded speed.
TIMES = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64]


def asked(trace) -> float:
    """Returns the recorded requests per second."""
    found = workloads.rows(trace)
    return found.num_rows / (found["at_ns"][-1].as_py() / 1e9)


def middling(listed):
    """Returns the workload whose rate is closest to an eighth of what the disk could serve."""
    def off(workload) -> float:
        return abs(log(asked(workload.path) / workloads.iops(workload.path) * 8))

    return min(listed, key=off)


def achieved(trace, device: str) -> list[tuple[float, float]]:
    """Returns the requests per second that are issued, and those that are served."""
    rows = []
    for times in TIMES:
        run = workloads.simulate(trace, intensity=times, device=device,
                                 policy="none" if device != workloads.DISK else "noop")
        rows.append((asked(trace) * times, run["requests"] / run["makespan_s"]))
    return rows
