"""Figure 4.1 and table 4.2: the power that the last hundredth of the requests costs."""

from capacity import least
from forebay.reproduce import Claim, Row, kept
from recombined import alone, shaped
from workloads import Workload, missing, of

import forebay

#: The paper's plans and ours: the base plan has disks for all requests, the decomposed one for 99
#: %.
PLANS = {"base": "all-on", "decomposed": "static"}


@kept
def plans(workload: Workload, within_ms: int) -> dict[str, dict]:
    """Returns the plans for the paper's drive, with one disk per pool; disks that are off draw nothing, as in the
    paper.
    """
    found = forebay.plan_power(
        workload.table(), within=f"{within_ms}ms", pool_disks=1, off_w=0, fraction="0.99"
    )
    return {row["plan"]: row for row in found["traces"][0]["rows"]}


def saving(workload: Workload, within_ms: int) -> float:
    """Returns the baseline's power divided by the decomposition's."""
    return plans(workload, within_ms)["static"]["saving_ratio"]


def disks(workload: Workload, within_ms: int) -> str:
    """Returns how many disks are spinning in each of the two plans."""
    both = plans(workload, within_ms)
    return " and ".join(str(both[plan]["max_pools"]) for plan in PLANS.values())


def one_server(workload: Workload, plan: str, within_ms: int, ms: int) -> tuple[str, float]:
    """Returns the share answered within `ms` on one server: all requests by FCFS, or 99 % by Split."""
    if plan == "base":
        iops = least(workload, 100, within_ms)
        return f"FCFS, {iops} IOPS", alone(workload, iops, ms).within_bound
    run = shaped(workload, 99, within_ms)["split"]
    share = run.within_bound if ms == within_ms else run.within(ms)
    return f"Split, {least(workload, 99, within_ms)} IOPS", share


def rows(expected: dict, listed: list[Workload], short: bool) -> list[Row]:
    """Returns figure 4.1, then table 4.2."""
    found = []
    within = expected["power"]["within_ms"]
    for name in ("OpenMail", "TPC-D", "WebSearch"):
        ratio = expected["power"][name]
        source = expected["power"]["source"]
        claim = Claim(f"power {name}", source, "base over decomposed", "times", ratio, ratio)
        workload = of(listed, name)
        if workload is None:
            found.append(Row(claim, name, None, missing(name, short)))
            continue
        capacities = least(workload, 100, within) / least(workload, 99, within)
        why = f"{disks(workload, within)} whole disks turn; of capacities it is {capacities:.2f}"
        found.append(Row(claim, workload.name, saving(workload, within), why))
    answered = expected["answered"]
    for name in ("OpenMail", "TPC-D", "WebSearch"):
        workload = of(listed, name)
        for plan, ours in PLANS.items():
            for at, (ms, share) in enumerate(zip(answered["within_ms"], answered[name][plan])):
                # With three digits, the share of late requests is more informative than that of
                # timely ones.
                says, paper = f"{plan}: not answered within {ms} ms", round(100 - share, 2)
                key = f"answered {name} {plan} {ms}"
                claim = Claim(key, answered["source"], says, "%", paper, paper)
                if workload is None:
                    found.append(Row(claim, name, None, missing(name, short)))
                    continue
                step = plans(workload, within)[ours]["answered"][at]
                assert step["within_ms"] == ms
                case, why = f"{workload.name}, disks", "a disk is filled up to the bound first"
                found.append(Row(claim, case, 100 * (1 - step["fraction"]), why))
                case, share = one_server(workload, plan, within, ms)
                why = "one server of just the capacity, as wide as all the paper's disks"
                found.append(Row(claim, f"{workload.name}, {case}", 100 * (1 - share), why))
    return found
