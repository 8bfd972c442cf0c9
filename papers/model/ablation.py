"""The value of each mechanism of the model: figures of twins that are drawn without it.

    make model-ablation           # or: python papers/model/ablation.py [--traces FOLDER]

Each figure is the median of three seeds and the mean over the traces; the trace that changed most is beside it.
"""

import sys
from pathlib import Path
from statistics import mean, median

import fidelity
import workloads

import forebay
from forebay import reproduce

#: The names of mechanisms in `forebay generate --without`.
MECHANISMS = ["follows", "gaps", "transitions", "range-classes", "ages", "reuse-range", "ranks"]
FIGURES = ["sequential, points", "miss ratio, error", "footprint, %", "disk mean, factor", "disk p99, factor",
           "flash mean, factor"]


def of_seed(workload, without: str | None, seed: int) -> list[float]:
    """Returns the figures of one twin."""
    path = workload.work / f"{workload.stem}-without-{without}-{seed}.parquet"
    forebay.generate(workload.model(), path, seed=seed, without=[without] if without else None)
    card = workloads.card(workload.path, path)
    path.unlink()
    return figures(card)


def figures(card: dict) -> list[float]:
    """Returns the deviations of a twin from its trace, according to `compare`."""
    deviations = {each["name"]: fidelity.deviation(each) for each in fidelity.features(card)}
    disk, *flash = card["responses"]
    return [
        deviations.get("sequential_share", 0.0),
        card["mrc_mean_error"],
        abs(card["b"]["footprint_blocks"] / card["a"]["footprint_blocks"] - 1) * 100,
        fidelity.factor(disk["mean_ms"]),
        fidelity.factor(disk["p99_ms"]),
        max(fidelity.factor(each["mean_ms"]) for each in flash),
    ]


def of(workload, without: str | None) -> list[float]:
    """Returns the medians of a trace."""
    return [median(each) for each in zip(*(of_seed(workload, without, seed) for seed in fidelity.SEEDS),
                                         strict=True)]


def section(listed) -> str:
    """The table."""
    whole = {workload.name: of(workload, None) for workload in listed}
    rows = [["none", *(f"{mean(column):.3f}" for column in zip(*whole.values(), strict=True))]]
    for mechanism in MECHANISMS:
        found = {workload.name: of(workload, mechanism) for workload in listed}
        cells = []
        for at in range(len(FIGURES)):
            moved = {name: each[at] - whole[name][at] for name, each in found.items()}
            most = max(moved, key=lambda name: abs(moved[name]))
            cells.append(f"{mean(each[at] for each in found.values()):.3f} ({most} {moved[most]:+.3f})")
        rows.append([mechanism, *cells])
        print(rows[-1], file=sys.stderr, flush=True)
    return reproduce.table(["without", *FIGURES], rows)


if __name__ == "__main__":
    workloads.tell(section, __doc__, Path("/tmp/forebay-model-ablation"))
