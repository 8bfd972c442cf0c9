"""Figure 3: what the disk makes of a load that is turned up."""

import workloads

#: Times as fast as recorded.
TIMES = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64]


def achieved(trace, device: str) -> list[tuple[float, float]]:
    """Requests a second that are asked for, and that are served."""
    rows = []
    for times in TIMES:
        run = workloads.simulate(trace, intensity=times, device=device,
                                 policy="none" if device != workloads.DISK else "noop")
        span_s = workloads._table(trace)["at_ns"][-1].as_py() / 1e9 / times
        rows.append((run["requests"] / span_s, run["requests"] / run["makespan_s"]))
    return rows
