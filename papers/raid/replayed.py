"""The array under recorded traces in open replay, several times, each time with the data in different places."""

from dataclasses import dataclass
from pathlib import Path

import cases
import recorded

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent
SEEDS = range(1, 4)
RULES = {"paper's": "bonus-malus", "ours": "best", "work function": "work-function"}
#: The rules that are run with every initial layout.
CHOSEN = ["paper's", "ours"]
UPDATES = ["in-place", "fresh"]
#: The size of the smallest flash drives in GB, and the share of them that mirrored data occupies.
SSD_GB, SSD_TAKEN = 8, 0.6
#: Bytes stored on the drives per byte of data.
COPIES = {"raid6": 1.5, "raid10x3": 3, "raid5": 1.25, "raid10": 2}
STATIC = {"RAID 6": "raid6", "three copies": "raid10x3"}
#: RAID 6 in an array that could also hold three copies, which needs a longer table. It never
#: switches.
CONTROL = "raid6:hints=0-1@raid6"
LESS = {"RAID 5": "raid5", "two copies": "raid10"}
FIRSTS = {"RAID 6": "raid6", "copies": "raid10x3"}
#: The number of seeds for runs that begin with an empty array.
NEW_SEEDS = 2
COUNTED = ["switches", "mirrors_refused"]
FIGURES = ["busy_s", "read_mean_ms", "read_p99_ms", "write_mean_ms", "write_p99_ms"]


@dataclass(frozen=True)
class Case:
    """A run: a trace on an array."""

    trace: recorded.Recorded
    device: str
    update: str
    array: str
    seed: int
    #: Whether all data is already written when the run begins.
    filled: bool = True

    @property
    def level(self) -> str:
        """The level of new units."""
        return self.array.split(":")[0]

    def policy(self) -> str:
        """The policy spec for `simulate`."""
        mib = self.trace.span >> 20 if self.filled else 0
        rule = f":costs={cases.COSTS[self.device]}" if "adapt=" in self.array else ""
        return f"array:level={self.array}:update={self.update}:filled-mib={mib}{rule}"

    def drive(self) -> str:
        """The drive for `simulate`: flash drives as full as the data make them."""
        data = self.trace.span / cases.DRIVES
        gb = max(SSD_GB, 3 * data / SSD_TAKEN / 1e9)
        share = COPIES[self.level] * data / (gb * 1e9) if self.filled else 0
        return cases.drive(self.device, share, round(gb, 1))


def one(case: Case) -> dict:
    """Its figures."""
    answer = forebay.simulate(case.trace.laid(case.seed), device=case.drive(), disks=cases.DRIVES,
                              policy=[case.policy()])
    ran = answer.runs[0]
    return {**{key: ran[key] for key in FIGURES}, **{key: ran["placement"][key] for key in COUNTED}}


def adaptive(first: str) -> dict:
    """Returns adaptive arrays, by rule."""
    return {rule: f"{FIRSTS[first]}:adapt={name}" for rule, name in RULES.items()}


def by_first_write() -> dict:
    """Returns adaptive arrays, by rule, whose units start with the level that suits their first write."""
    return {rule: f"raid6:adapt={name}:first=write" for rule, name in RULES.items()}


def modelled(case) -> dict:
    """Returns the costs of rules in the paper's cost model, by rule and initial layout, in percent of the optimum
    with a free initial layout.
    """
    trace, device, seed = case
    units, chunks = recorded.writes(trace.laid(seed))
    if len(units) == 0:
        return {}
    told = {}
    for first, name in {"RAID 6": "raid6", "copies": "raid10", "write": "write"}.items():
        rows = forebay.adapt(units.tolist(), chunks.tolist(), rules=list(RULES.values()),
                             costs=cases.COSTS[device], first=name)
        for rule, row in zip(RULES, rows, strict=True):
            best = row["free_optimum_ms"]
            told[rule, first] = 100 * (row["paid_ms"] / best - 1)
            told["RAID 6"], told["three copies"] = (100 * (row[key] / best - 1) for key in ("raid6_ms", "raid10_ms"))
            told["bound", first] = 100 * (1 - row["optimum_ms"] / row["raid6_ms"])
    return told


class Results:
    """The results of all runs."""

    def __init__(self, options):
        self.short = options.short
        self.traces = recorded.listed(options)
        self.seeds = SEEDS[:2] if options.short else SEEDS
        self.expected = reproduce.claims(HERE / "expected.toml")
        self.model = self._modelled(options)
        self.runs = self._run(options, self._cases())

    def _modelled(self, options) -> dict:
        keys = [(trace, device, seed) for trace in self.traces for device in cases.COSTS for seed in self.seeds]
        return dict(zip(keys, reproduce.grid(modelled, keys, options.processes), strict=True))

    def _cases(self) -> list[Case]:
        copies, first = ([arrays[rule] for rule in CHOSEN] for arrays in (adaptive("copies"), by_first_write()))
        there, new = [*STATIC.values(), *adaptive("RAID 6").values(), *copies], [*STATIC.values(), *first]
        listed = []
        for trace in self.traces:
            for device in cases.COSTS:
                for update in UPDATES:
                    listed += [Case(trace, device, update, array, seed) for array in there for seed in self.seeds]
                listed += [Case(trace, device, "fresh", CONTROL, seed) for seed in self.seeds]
                listed += [Case(trace, device, "fresh", array, self.seeds[0]) for array in LESS.values()]
                listed += [Case(trace, device, "fresh", array, seed, False)
                           for array in new for seed in self.seeds[:NEW_SEEDS]]
        return listed

    def _run(self, options, listed) -> dict:
        return dict(zip(listed, reproduce.grid(one, listed, options.processes), strict=True))
