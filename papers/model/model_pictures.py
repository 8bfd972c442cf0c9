"""Figures 3 to 7 as pictures (matplotlib)."""

from pathlib import Path

import caching
import fidelity
import intensity
import levels
import workloads


def draw(listed, options) -> None:
    """Draws all pictures into the folder `options.pictures`."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    folder = Path(options.pictures)
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in (("model-3-intensity", _intensity), ("model-5-activity", _activity),
                          ("model-6-levels", _levels), ("model-7-caches", _caches)):
        figure = picture(pyplot, listed, options)
        figure.savefig(folder / f"{name}.svg", bbox_inches="tight")
        pyplot.close(figure)


def _grid(pyplot, count, across, up):
    columns = min(count, 5)
    figure, axes = pyplot.subplots(-(-count // columns), columns, squeeze=False, layout="constrained",
                                   figsize=(3.2 * columns, 2.6 * -(-count // columns)))
    figure.supxlabel(across, fontsize=9)
    figure.supylabel(up, fontsize=9)
    return figure, [axis for row in axes for axis in row]


def _intensity(pyplot, listed, options):
    figure, axis = pyplot.subplots()
    for device in (workloads.DISK, options.flash):
        rows = intensity.achieved(intensity.middling(listed).twin(), device)
        axis.loglog(*zip(*rows, strict=True), marker="o", label=device)
    axis.set(xlabel="asked for, IOPS", ylabel="served, IOPS", title=f"Fig. 3: {intensity.middling(listed).name}")
    axis.legend()
    return figure


def _activity(pyplot, listed, options):
    figure, axes = _grid(pyplot, len(listed), f"time, in {fidelity.STRETCHES}ths of the trace", "requests")
    for workload, axis in zip(listed, axes, strict=False):
        axis.step(range(fidelity.STRETCHES), fidelity.activity(workload.path), label="original")
        axis.step(range(fidelity.STRETCHES), fidelity.activity(workload.twin()), label="twin")
        axis.set_title(f"Fig. 5: {workload.name}", fontsize=8)
    axes[0].legend(fontsize=7)
    return figure


def _levels(pyplot, listed, options):
    figure, axis = pyplot.subplots()
    for workload in listed:
        rates = levels.throughput(workload)
        axis.plot(levels.LEVELS, [rate / rates[-1] for rate in rates], marker="o", label=workload.name)
    axis.set_xticks(levels.LEVELS)
    axis.set(xlabel="levels", ylabel="throughput over that of the last", title="Fig. 6")
    axis.legend(fontsize=7)
    return figure


def _caches(pyplot, listed, options):
    figure, axes = _grid(pyplot, len(listed), "SSD caches", "speedup, %")
    for workload, axis in zip(listed, axes, strict=False):
        axis.set_xticks(caching.CACHES)
        loads = (("original", workload.path), ("twin", workload.twin()),
                 ("locality-free", workload.free()))
        for name, path in loads:
            axis.plot(caching.CACHES, caching.speedups(workload, path, options.flash), marker="o",
                      label=name)
        axis.set_title(f"Fig. 7: {workload.name}", fontsize=8)
    axes[0].legend(fontsize=7)
    return figure
