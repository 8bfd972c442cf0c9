"""The cost of a smaller model: figures of twins over `--budget-kib`.

    make model-budgets            # or: python papers/model/budgets.py [--traces FOLDER]

Prints a table and draws docs/model/budget.svg, for one seed, as means over the traces. In addition, each trace's own
limit applies, half the size of its Parquet file.
"""

import sys
from pathlib import Path
from statistics import mean

import ablation
import fidelity
import held_to
import workloads

import forebay
from forebay import reproduce

#: The model sizes to try, in KiB. None means no limit.
BUDGETS_KIB = [4, 6, 8, 12, 16, 24, 32, None]
FIGURES = ["mean, KiB", *ablation.FIGURES, "scales of bursts missed, %"]


def of(workload, budget_kib: int | None) -> list[float]:
    """Returns the figures of a trace's twin, or of the smallest possible model's twin if the budget is smaller."""
    name = f"{workload.stem}-of-{budget_kib}"
    model, twin = workload.work / f"{name}.model", workload.work / f"{name}.parquet"
    try:
        forebay.fit(workload.path, model, budget_kib=budget_kib, no_verdict=True)
    except forebay.Error as error:
        if "the size of its coarsest model" not in str(error):
            raise
        return of(workload, budget_kib + 1)
    forebay.generate(model, twin, seed=fidelity.SEEDS[0])
    card = workloads.card(workload.path, twin)
    twin.unlink()
    missed = [not held_to.within(scale) for scale in card["dispersion"]]
    return [model.stat().st_size / 1024, *ablation.figures(card), mean(missed) * 100]


def section(listed) -> str:
    """The table."""
    rows = []
    for budget_kib in BUDGETS_KIB:
        means = [mean(column) for column in zip(*(of(each, budget_kib) for each in listed), strict=True)]
        rows.append((budget_kib, means))
        print(budget_kib, means, file=sys.stderr, flush=True)
    picture(rows)
    cells = [[str(budget_kib or "none asked"), f"{means[0]:.1f}", *(f"{value:.3f}" for value in means[1:-1]),
              f"{means[-1]:.0f}"] for budget_kib, means in rows]
    return reproduce.table(["KiB at most", *FIGURES], cells)


def picture(rows) -> None:
    """Draws each figure relative to that without a budget, over the mean size of the models."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"], matplotlib.rcParams["svg.hashsalt"] = "none", "budget"
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    sizes, last = [means[0] for _, means in rows], rows[-1][1]
    for at, name in enumerate(FIGURES[1:], 1):
        axis.plot(sizes, [means[at] / last[at] for _, means in rows], marker="o", markersize=3, label=name.split(",")[0])
    axis.set(xlabel="mean size of a model, KiB", ylabel="error, over that of the largest", yscale="log")
    ticks = [1, 1.5, 2, 3, 4, 5]
    axis.set_yticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.legend(fontsize=7, ncols=2)
    figure.savefig(workloads.ROOT / "docs" / "model" / "budget.svg", metadata={"Date": None})


if __name__ == "__main__":
    workloads.tell(section, __doc__, Path("/tmp/forebay-model-budgets"))
