"""The clocks of the traces, and the effect of a coarse one on table 4.1.

Requests with the same timestamp arrive at once in a replay, which they did not in reality. If most gaps
between timestamps are whole steps of more than 2 ms, the requests of each timestamp are spread evenly
over the step that follows it, and the table is computed again. Neither row is the truth: the second loses
bursts within a step as the first loses calm, and the paper's figures may come from the same timestamps.
"""

import pyarrow as pa
from capacity import grid_of
from forebay.reproduce import number, table
from workloads import Workload

#: Timestamps with smaller steps than this distinguish requests about as well as a disk does.
STEP_FINE_NS = 2_000_000
#: The rounding error of the clock, in ns.
ROUNDING_NS = 50_000
#: The share of gaps that must be multiples of the step.
EXPLAINED = 0.99

PERCENTS, BOUNDS = [90, 95, 99, 99.5, 99.9, 100], [5, 10, 20, 50]


def step_ns(times: list[int]) -> int | None:
    """Returns the clock's step if it is coarse."""
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    gaps = [gap for gap in gaps if gap > ROUNDING_NS]
    if not gaps or min(gaps) < STEP_FINE_NS:
        return None
    # Long gaps determine the step more precisely, so it is refined with gaps of increasing length.
    step = float(min(gaps))
    for gap in sorted(gaps):
        count = round(gap / step)
        if count > 0 and abs(gap - count * step) < step / 10:
            step = gap / count
    fits = sum(abs(gap - round(gap / step) * step) <= ROUNDING_NS for gap in gaps)
    return round(step) if fits >= EXPLAINED * len(gaps) else None


def spread(times: list[int], step: int) -> list[int]:
    """Spreads the requests of each timestamp evenly over the step that follows it."""
    found, first = [], 0
    for index in range(1, len(times) + 1):
        if index == len(times) or times[index] - times[first] > ROUNDING_NS:
            count = index - first
            found += [times[first] + step * place // count for place in range(count)]
            first = index
    return found


def section(expected: dict, listed: list[Workload]) -> str:
    """Returns for each coarse clock its step, and the capacities with the recorded and with spread timestamps."""
    parts = []
    for workload in listed:
        rows = workload.table()
        times = rows["at_ns"].to_pylist()
        step = step_ns(times)
        if step is None:
            continue
        stamps = 1 + sum(b - a > ROUNDING_NS for a, b in zip(times, times[1:]))
        parts.append(
            f"{workload.name}: a clock of {step / 1e6:.2f} ms; {len(times):,} requests bear "
            f"{stamps:,} stamps.\n"
        )
        place = rows.schema.get_field_index("at_ns")
        column = pa.array(spread(times, step), rows.schema.field(place).type)
        level = rows.set_column(place, rows.schema.field(place), column)
        found = {
            "as stamped": grid_of(rows, PERCENTS, BOUNDS),
            "spread": grid_of(level, PERCENTS, BOUNDS),
        }
        lines = []
        for within in BOUNDS:
            if workload.twin in expected["capacity"]:
                paper = expected["capacity"][workload.twin][str(within)]
                lines.append(["the paper", f"{within} ms", *map(number, paper)])
            for name, grid in found.items():
                cells = [number(grid[within, percent]) for percent in PERCENTS]
                lines.append([name, f"{within} ms", *cells])
        heads = [f"{percent} %" for percent in PERCENTS]
        parts.append(table(["times", "within", *heads], lines))
    return "\n".join(parts) or "None of these traces has one.\n"
