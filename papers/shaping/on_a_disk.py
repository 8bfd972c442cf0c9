"""The policies on a disk, where a request's time is not 1/C.

Each trace is slowed until what RTT says suffices for 90 % within 50 ms, and one request in the bound
more, is the rate at which the disk does random reads of 4 KiB, one at a time. The same trace so slowed
runs on a server of that rate and on the disk. Split has two disks there, since it cannot share one.
`deadline` orders by address and divides nothing.
"""

from functools import cache

import pyarrow as pa
from capacity import least
from forebay.reproduce import number, table
from recombined import POLICIES, Run, extra, simulated, spec
from workloads import Workload

import forebay

DISK = "ultrastar-36z15"
PERCENT, WITHIN_MS = 90, 50
DEPTHS = (1, 32)
HALVINGS = 20


def slowed(workload: Workload, times: float):
    """The trace `times` as slow."""
    rows = workload.table()
    at = pa.array([round(at * times) for at in rows["at_ns"].to_pylist()], pa.int64())
    return rows.set_column(rows.schema.get_field_index("at_ns"), rows.schema.field("at_ns"), at)


@cache
def disk_iops(workload: Workload) -> int:
    """Random reads a second of the disk, as `plan_power` measures it."""
    return forebay.plan_power(workload.table(), device=DISK)["disk_iops"]


def fitting(workload: Workload) -> tuple[float, int]:
    """How much slower the trace has to be, and its Cmin then."""
    rate = disk_iops(workload) - extra(WITHIN_MS)
    low, high = 1e-3, 1e3
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        enough = least(slowed(workload, middle), PERCENT, WITHIN_MS) <= rate
        low, high = (low, middle) if enough else (middle, high)
    return high, least(slowed(workload, high), PERCENT, WITHIN_MS)


def runs(workload: Workload) -> tuple[float, int, dict[str, dict[str, Run]]]:
    """By device: every policy."""
    times, cmin = fitting(workload)
    trace = slowed(workload, times)
    policies = {policy: spec(policy, cmin, WITHIN_MS) for policy in POLICIES}
    server = f"fixed:{cmin + extra(WITHIN_MS)}"
    found = {"server": simulated(trace, server, policies)}
    for depth in DEPTHS:
        deeper = {name: f"{text}:depth={depth}" for name, text in policies.items()}
        device = DISK if depth == 1 else f"{DISK}:queue-depth={depth}"
        found[f"disk, depth {depth}"] = simulated(trace, device, {**deeper, "deadline": "deadline"})
    return times, cmin, found


def section(listed: list[Workload]) -> str:
    """A table for each trace."""
    lines = []
    for workload in listed:
        times, cmin, by_device = runs(workload)
        for device, by_policy in by_device.items():
            for name, run in by_policy.items():
                q1 = run.classes.get("q1", {}).get("within_bound_share")
                within = run.within_bound if run.classes else run.within(WITHIN_MS)
                figures = [
                    100 * within,
                    None if q1 is None else 100 * q1,
                    100 * (1 - run.within(1000)),
                    run.secondary("mean_ms"),
                    run.secondary("longest_ms"),
                    run.figures["service_mean_ms"],
                ]
                title = f"{workload.name}, {1 / times:.3g} x as fast, Cmin {cmin}"
                lines.append([title, device, name, *map(number, figures)])
    heads = ["trace", "device", "policy", "within 50 ms, %", "promised class, %", "beyond 1 s, %",
             "secondary mean, ms", "longest, ms", "service mean, ms"]
    return table(heads, lines)
