"""How much the decisions the paper leaves open matter: one parameter at a time."""

from cases import Case

from forebay.reproduce import number, table

#: What is varied, of which policy; the default stands first.
HISTORY = ["history=8", "history=1", "history=2", "history=4", "history=16", "history=32"]
WAIT = ["wait-ms=10", "wait-ms=0", "wait-ms=2", "wait-ms=5", "wait-ms=20", "wait-ms=50"]
QUEUE = ["reads-max=128:writes-max=128"]
QUEUE += [f"reads-max={size}:writes-max={size}" for size in (16, 64, 256, 1024)]
QUEUE += ["staging-limit=no"]
PACKING = [f"packing-kib={size}" for size in (64, 0, 8, 16, 128, 256, 512)]
SWEEPS = [
    ("k, differences remembered", "bid", HISTORY),
    ("default wait", "bid", WAIT),
    ("request queue", "bid", QUEUE),
    ("request queue", "cfq", QUEUE[:-1]),
    ("request queue", "deadline", QUEUE[:-1]),
    ("packing-fraction threshold", "bid-hybrid", PACKING),
]
DEPTHS = [1, 2, 4, 8, 16, 32]
DEPTH_POLICIES = ("noop", "deadline", "cfq", "bid", "forebay")

#: Traces and loads: a capture with writes, one that reads, a node of the cluster.
CHOSEN = [("terasort", 4), ("wordcount", 10), ("node10", 1)]


def _chosen(workloads, short: bool):
    named = {workload.name: workload for workload in workloads}
    chosen = [(named[name], load) for name, load in CHOSEN if name in named]
    return chosen[:1] if short else chosen


def cases(workloads, flash: str, short: bool) -> list[Case]:
    """A case for each sweep and trace, its policies the values."""
    sweeps = SWEEPS[:2] + SWEEPS[-1:] if short else SWEEPS
    return [
        Case(workload, "open", load, tuple(f"{policy}:{value}" for value in values), flash)
        for workload, load in _chosen(workloads, short)
        for _, policy, values in sweeps
    ]


def depth_cases(workloads, short: bool) -> list[Case]:
    """A case for each queue depth and trace."""
    depths = [1, 32] if short else DEPTHS
    return [
        Case(workload, "open", load, DEPTH_POLICIES, None, depth)
        for workload, load in _chosen(workloads, short)
        for depth in depths
    ]


def rows(case, runs, what: str) -> list[list[str]]:
    """A row for each value, in time and tail beside the default, which is the first."""
    default = runs[0]["busy_s"]
    return [
        [
            what,
            policy,
            case.label,
            number(run["busy_s"]),
            f"{100 * (run['busy_s'] / default - 1):+.1f}",
            number(run["read_mean_ms"]),
            number(run["read_p99_ms"]),
            number(run["write_p99_ms"]),
            number(run["longest_wait_ms"]),
        ]
        for policy, run in zip(case.policies, runs)
    ]


def section(sweep_cases, of_depth, runs) -> str:
    """The sweeps, then queue depth."""
    names = {(policy, tuple(values)): what for what, policy, values in SWEEPS}

    def named(case):
        policy = case.policies[0].split(":")[0]
        return names[policy, tuple(spec.split(":", 1)[1] for spec in case.policies)]

    header = ["parameter", "policy", "trace, replay, load", "busy s", "against default %"]
    header += ["read mean ms", "read p99 ms", "write p99 ms", "longest wait ms"]
    found = [row for case in sweep_cases for row in rows(case, runs[case], named(case))]
    deep = [
        [case.label, str(case.depth), *(number(run["busy_s"]) for run in runs[case])]
        for case in of_depth
    ]
    tails = [
        [case.label, str(case.depth), *(number(run["read_p99_ms"]) for run in runs[case])]
        for case in of_depth
    ]
    depth_header = ["trace, replay, load", "depth", *DEPTH_POLICIES]
    return "\n".join(
        [
            table(header, found),
            "### Queue depth of the drive: busy time, s\n",
            "At depth 1 the disk has no buffer either; from 2 on it has 16 segments of 512 KiB\nbehind a link of 300 MB/s.\n",
            table(depth_header, deep),
            "### Queue depth of the drive: read p99, ms\n",
            table(depth_header, tails),
        ]
    )
