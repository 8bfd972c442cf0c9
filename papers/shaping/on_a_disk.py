"""The policies on a disk, where a request's time is not 1/C.

The speed of each trace is changed until the rate that RTT computes for 90 % within 50 ms, plus one
request per bound, equals the rate at which the disk serves this trace's requests first come, first
served, which is the best that a planner of constant rates can know. The changed trace runs on a server of
that rate and on the disk, at queue depths 1 and 32. Split has a second disk there, because it cannot
divide one. `deadline` orders by address and divides nothing.
"""

import pyarrow as pa
from capacity import least
from forebay.reproduce import kept, number, table
from recombined import POLICIES, Run, extra, simulated, spec
from workloads import Workload

import forebay

#: The disk as arm and platters alone. Rows that say so use the drive with its own queue.
DRIVE = "ultrastar-36z15"
DISK = f"{DRIVE}:plain"
PERCENT, WITHIN_MS = 90, 50
DEPTHS = (1, 32)
HALVINGS = 20


def slowed(workload: Workload, times: float):
    """Returns the trace slowed down by the factor `times`."""
    rows = workload.table()
    at = pa.array([round(at * times) for at in rows["at_ns"].to_pylist()], pa.int64())
    return rows.set_column(rows.schema.get_field_index("at_ns"), rows.schema.field("at_ns"), at)


@kept
def disk_iops(workload: Workload) -> int:
    """Returns the disk's random reads per second, as `plan_power` measures them."""
    return forebay.plan_power(workload.table(), device=DISK)["traces"][0]["disk_iops"]


def fitting(workload: Workload) -> tuple[float, int]:
    """Returns the factor by which the trace must be slowed down, and its Cmin then."""
    times, _ = _fitting(workload, disk_iops(workload))
    # The speed of the disk depends slightly on how the requests arrive.
    first = simulated(slowed(workload, times), DISK, {"fcfs": spec("fcfs", 1, WITHIN_MS)})["fcfs"]
    return _fitting(workload, round(1000 / first.figures["service_mean_ms"]))


def _fitting(workload: Workload, rate_iops: int) -> tuple[float, int]:
    rate = rate_iops - extra(WITHIN_MS)
    low, high = 1e-3, 1e3
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        enough = least(slowed(workload, middle), PERCENT, WITHIN_MS) <= rate
        low, high = (low, middle) if enough else (middle, high)
    return high, least(slowed(workload, high), PERCENT, WITHIN_MS)


def runs(workload: Workload) -> tuple[float, int, dict[str, dict[str, Run]]]:
    """Returns every policy by device."""
    times, cmin = fitting(workload)
    trace = slowed(workload, times)
    policies = {policy: spec(policy, cmin, WITHIN_MS) for policy in POLICIES}
    server = f"fixed:{cmin + extra(WITHIN_MS)}"
    found = {"server": simulated(trace, server, policies)}
    for depth in DEPTHS:
        deeper = {name: f"{text}:depth={depth}" for name, text in policies.items()}
        device = DISK if depth == 1 else f"{DRIVE}:queue-depth={depth}"
        found[f"disk, depth {depth}"] = simulated(trace, device, {**deeper, "deadline": "deadline"})
    return times, cmin, found


def section(listed: list[Workload]) -> str:
    """Returns a table for each trace."""
    lines, told = [], []
    for workload in listed:
        times, cmin, by_device = runs(workload)
        told.append(changes(workload, by_device))
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
    return table(heads, lines) + "\n" + "\n".join(told)


def changes(workload: Workload, by_device: dict[str, dict[str, Run]]) -> str:
    """Returns the differences on the disk in one line."""
    server, disk = by_device["server"], by_device["disk, depth 1"]
    deep = by_device[f"disk, depth {DEPTHS[-1]}"]
    within = {
        name: 100 * (run.within_bound if run.classes else run.within(WITHIN_MS))
        for name, run in disk.items()
    }
    best = max((name for name in within if name != "split"), key=lambda name: within[name])
    served = f"{server['fcfs'].figures['service_mean_ms']:.2f}"
    return (
        f"- {workload.name}: a request takes {disk['fcfs'].figures['service_mean_ms']:.2f} ms on the "
        f"disk by FCFS, {disk['deadline'].figures['service_mean_ms']:.2f} by deadline, {served} on the "
        f"server. FCFS answers {100 * server['fcfs'].within_bound:.1f} % in time on the server, "
        f"{within['fcfs']:.1f} % on the disk, {100 * deep['fcfs'].within_bound:.1f} % at queue depth "
        f"{DEPTHS[-1]}; Miser {100 * server['miser'].within_bound:.1f} %, {within['miser']:.1f} % and "
        f"{100 * deep['miser'].within_bound:.1f} %. Of one disk at depth 1, {best} answers most: "
        f"{within[best]:.1f} %. Miser's promised class keeps "
        f"{100 * server['miser'].classes['q1']['within_bound_share']:.2f} % on the server and "
        f"{100 * disk['miser'].classes['q1']['within_bound_share']:.2f} % on the disk.\n"
    )
