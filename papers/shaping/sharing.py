"""Figures 4.5 and 4.6: what clients need together, compared with the sum of what each needs alone.

For less than all requests, there are two readings of what is compared with the sum, and both are shown.
`anew`: the merged requests are decomposed, regardless of the client. `own`: each client is decomposed by
itself, and everything that is promised to it (its Q1) is merged and kept, as in section 4.5: "aggregation
after decomposition".
"""

from capacity import least
from forebay.reproduce import Claim, Row, kept, table
from workloads import Workload, missing, of

import forebay


@kept
def shared(clients: tuple[Workload, ...], shifts: tuple[str, ...], within_ms: int) -> dict:
    """What `plan consolidate` answers."""
    first = clients[0].table()
    # If a trace is combined with itself, pass it only once.
    traces = first if len(set(clients)) == 1 else [client.table() for client in clients]
    return forebay.plan_consolidate(
        traces, shift=list(shifts), within=[f"{within_ms}ms"], fraction=[1, 0.9, 0.95]
    )


#: The names of the two readings, and their keys in the answer of `plan consolidate`.
ANEW, OWN = "merged, then decomposed", "each client's Q1, merged"
READINGS = {ANEW: "ratio", OWN: "shaped_ratio"}


def together(
    clients: tuple[Workload, ...], shifts: tuple[str, ...], within_ms: int, reading: str = ANEW
) -> dict:
    """Returns the required capacity divided by the sum, by shift in seconds and fraction."""
    rows = shared(clients, shifts, within_ms)["rows"]
    return {(row["shift_s"], row["fraction"]): row[READINGS[reading]] for row in rows}


def who_pays(expected: dict, listed: list[Workload]) -> str:
    """Returns what each client gets at the capacity that all need together."""
    header = ["clients", "shift, s", "promised, %", "alone, IOPS", "sum", "together",
              "so answered of each, %", "for every client, IOPS"]
    cells = []
    for pair in expected["shared"]:
        clients = tuple(of(listed, name) for name in pair["clients"])
        if None in clients:
            continue
        found = shared(clients, tuple(pair["shifted_100"]), pair["within_ms"])
        for row in found["rows"]:
            alone = [
                str(of_client["capacity_iops"])
                for client in found["clients"]
                for of_client in client["rows"]
                if of_client["fraction"] == row["fraction"]
            ]
            answered = (f"{100 * fraction:.1f}" for fraction in row["client_fractions"])
            cells.append([
                " + ".join(client.name for client in clients),
                f"{row['shift_s']:g}",
                f"{100 * row['fraction']:g}",
                " + ".join(alone),
                str(row["sum_iops"]),
                str(row["merged_iops"]),
                " and ".join(answered),
                str(row["every_client_iops"]),
            ])
    return table(header, cells)


def error(ratio: float) -> float:
    """Returns the percentage by which the sum exceeds the required capacity."""
    return 100 * abs(1 / ratio - 1)


def rows(expected: dict, listed: list[Workload], short: bool) -> list[Row]:
    """Returns for each pair the results unshaped by shift, then shaped at the worst shift."""
    capacities = expected["capacity"]
    return [row for pair in expected["shared"] for row in _pair(pair, capacities, listed, short)]


def _pair(pair: dict, table: dict, listed: list[Workload], short: bool) -> list[Row]:
    names, shifts = pair["clients"], tuple(pair["shifted_100"])
    clients = tuple(of(listed, name) for name in names)
    title = " + ".join(names)
    claims = [
        (shift, 1.0, f"{title}, {shift} later: needed over the sum, 100 %", paper)
        for shift, paper in pair["shifted_100"].items()
    ]
    claims += [
        (None, 0.9, f"{title}: error of the sum, 90 %", pair["error_90"]),
        (None, 0.95, f"{title}: error of the sum, 95 %", pair["error_95"]),
    ]
    found = []
    for shift, fraction, says, paper in claims:
        key = f"shared {title} {shift} {fraction}"
        claim = Claim(key, pair["source"], says, "%", paper, paper)
        if None in clients:
            lacking = next(name for name, has in zip(names, clients) if has is None)
            found.append(Row(claim, title, None, missing(lacking, short)))
            continue
        case = " + ".join(client.name for client in clients)
        if shift is not None:
            ratios = together(clients, shifts, pair["within_ms"])
            ours = 100 * ratios[float(shift.rstrip("s")), fraction]
            why = _cause(clients, shift, fraction, shifts, pair["within_ms"], table)
            found.append(Row(claim, case, ours, why))
            continue
        longest = max(client.duration_s for client in clients)
        for reading in READINGS:
            ratios = together(clients, shifts, pair["within_ms"], reading)
            each = [error(ratio) for (later, of_fraction), ratio in ratios.items()
                    if of_fraction == fraction and later <= longest]
            why = "all that each was promised alone is kept"
            if reading == ANEW:
                why = _cause(clients, shift, fraction, shifts, pair["within_ms"], table)
            found.append(Row(claim, f"{case}: {reading}", max(each), why))
    return found


def _cause(
    clients: tuple[Workload, ...],
    shift: str | None,
    fraction: float,
    shifts: tuple[str, ...],
    within_ms: int,
    table: dict,
) -> str:
    longest = max(client.duration_s for client in clients)
    apart = [text for text in shifts if float(text.rstrip("s")) > longest]
    if shift in apart:
        return f"the prefix lasts {longest:.0f} s: so shifted, the copies never meet"
    if shift is None:
        text = _levelled(clients, fraction, within_ms, table)
        return f"{text}; without {', '.join(apart)}" if apart else text
    if len(set(clients)) > 1:
        shortest = min(client.duration_s for client in clients)
        return f"prefixes of {shortest:.0f} and {longest:.0f} s, which share only the first part"
    return "the largest burst of one copy meets little of the other"


def _levelled(
    clients: tuple[Workload, ...], fraction: float, within_ms: int, table: dict
) -> str:
    """Two similar clients with independent requests are like one in half the time: they need twice the capacity for
    twice the bound, which is less than the sum. Table 4.1 gives the same figure.
    """
    percent = round(100 * fraction)
    if len(set(clients)) > 1:
        places = least(clients[0], percent, within_ms) * within_ms // 1000
        return f"the bound holds {places} requests of {clients[0].name.split()[0]}: two level out"
    one, other = (least(clients[0], percent, ms) for ms in (within_ms, 2 * within_ms))
    column = table["percent"].index(percent)
    theirs = [table[clients[0].twin][str(ms)][column] for ms in (within_ms, 2 * within_ms)]
    return (
        f"if independent, two need 2 x C({2 * within_ms} ms) = {2 * other}, the sum is {2 * one}; by "
        f"the paper's table {2 * theirs[1]} and {2 * theirs[0]}, an error of "
        f"{error(theirs[1] / theirs[0]):.0f} %"
    )
