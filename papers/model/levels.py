"""Table I, figure 6, and hierarchical against flat models: the cost and the benefit of levels."""

import workloads

#: The levels that figure 6 compares.
LEVELS = [1, 2, 3, 4]
#: A level suffices if the next one changes the throughput by less than this (the paper's
#: definition).
STABLE = 0.02


def hierarchical(level: int) -> int:
    """The paper's equation 1."""
    return 4 ** (level - 1) * 16 + sum(4 ** (i - 1) * 12 for i in range(1, level))


def counted(level: int) -> int:
    """Returns the number of transitions by counting: those within each state of the last level's parents, and those
    between siblings of every level above.
    """
    within = {(a // 4, a, b) for a in range(4**level) for b in range(a // 4 * 4, a // 4 * 4 + 4)}
    across = {(above, a, b) for above in range(1, level) for a in range(4**above)
              for b in range(a // 4 * 4, a // 4 * 4 + 4) if a != b}
    return len(within) + len(across)


def table_one() -> list[list[str]]:
    """Returns the numbers of states and transitions by level."""
    return [[str(level), f"{4**level:,}", f"{hierarchical(level):,}", f"{16**level:,}"]
            for level in range(1, 11)]


def throughput(workload, flat: bool = False) -> list[float]:
    """Returns the IOPS of the twin of each level."""
    return [workloads.iops(workload.twin(level, flat)) for level in LEVELS]


def enough(rates: list[float]) -> int | None:
    """Returns the first level after which throughput is stable."""
    for level, rate, following in zip(LEVELS, rates, rates[1:], strict=False):
        if abs(following / rate - 1) < STABLE:
            return level
    return None


def chosen(workload) -> int:
    """Returns the level that `fit` chose."""
    return workload.said()["level"]


#: The level at which both kinds of models are compared. A flat model has 16^level transitions.
FLAT_LEVEL = 3


def flat_difference(workload) -> float:
    """Returns the percentage by which the flat model's throughput differs from the hierarchical one's."""
    both = [workloads.iops(workload.twin(FLAT_LEVEL, flat)) for flat in (False, True)]
    return abs(both[1] / both[0] - 1) * 100
