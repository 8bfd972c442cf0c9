"""The paper's figures as SVG, drawn from the same runs as the tables."""

from pathlib import Path

import matplotlib
from capacity import least
from energy import PLANS, plans
from recombined import POLICIES, alone, ratio, shaped
from sharing import together
from workloads import Workload

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

PERCENTS = (90, 95, 99, 99.5, 99.9, 100)


def draw(listed: list[Workload], folder: Path) -> None:
    """Draws every figure into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    own = [workload for workload in listed if workload.twin] or listed
    _burst(own[0], folder)
    for workload in own:
        _capacity(workload, folder)
        _recombined(workload, folder)
    _fcfs(own, folder)
    _power(own, folder)
    _shared(own, folder)


def _save(figure, folder: Path, name: str) -> None:
    figure.savefig(folder / f"{name}.svg", bbox_inches="tight")
    figure.savefig(folder / f"{name}.png", bbox_inches="tight", dpi=110)
    pyplot.close(figure)


def _short(workload: Workload) -> str:
    return workload.name.split()[0].lower()


def _burst(workload: Workload, folder: Path) -> None:
    from bursts import PERCENT, WITHIN_MS, admitted, windows

    times = workload.table()["at_ns"].to_pylist()
    capacity = least(workload, PERCENT, WITHIN_MS)
    parts = [("all requests", times), (f"Q1: {PERCENT} % within {WITHIN_MS} ms at {capacity} IOPS",
                                       admitted(times, capacity, WITHIN_MS))]
    figure, axes = pyplot.subplots(2, 1, sharex=True, sharey=True, figsize=(8, 5))
    for axis, (title, part) in zip(axes, parts):
        load = windows(part)
        axis.bar([window / 10 for window in load], list(load.values()), width=0.1, align="edge")
        axis.set_title(title)
        axis.set_ylabel("IOPS in 100 ms")
    axes[1].set_xlabel(f"{workload.name}: time, s")
    _save(figure, folder, f"figure-3.2-{_short(workload)}")


def _capacity(workload: Workload, folder: Path) -> None:
    figure, axis = pyplot.subplots(figsize=(7, 4))
    for within in (5, 10, 20, 50):
        iops = [least(workload, percent, within) for percent in PERCENTS]
        axis.plot(range(len(PERCENTS)), iops, marker="o", label=f"{within} ms")
    axis.set_xticks(range(len(PERCENTS)), [f"{percent} %" for percent in PERCENTS])
    axis.set_ylim(0)
    axis.set_xlabel("answered in time")
    axis.set_ylabel("capacity, IOPS")
    axis.set_title(workload.name)
    axis.legend()
    _save(figure, folder, f"figure-3.6-{_short(workload)}")


def _curve(axis, run, label: str) -> None:
    """Returns the distribution over both directions, as a curve of all requests."""
    times = sorted(time for points in run.points.values() for time, _ in points)
    axis.plot(times, [100 * run.within(time) for time in times], label=label)


def _distribution_axis(axis, title: str) -> None:
    axis.set_xscale("log")
    axis.set_ylim(0, 101)
    axis.set_xlabel("response time, ms")
    axis.set_ylabel("answered, %")
    axis.set_title(title)
    axis.legend(fontsize="small")


def _fcfs(own: list[Workload], folder: Path) -> None:
    cases = [("4.2a", 90, 10), ("4.2b", 90, 20), ("4.2c", 90, 50), ("4.3a", 95, 50), ("4.3b", 99, 50)]
    for name, percent, within in cases:
        figure, axis = pyplot.subplots(figsize=(6, 4))
        for workload in own:
            iops = least(workload, percent, within)
            _curve(axis, alone(workload, iops, within), f"{workload.name}, {iops} IOPS")
        axis.axvline(within, color="grey", linestyle=":")
        axis.axhline(percent, color="grey", linestyle=":")
        _distribution_axis(axis, f"FCFS where RTT answers {percent} % within {within} ms")
        _save(figure, folder, f"figure-{name}-fcfs")


def _recombined(workload: Workload, folder: Path) -> None:
    figure, axes = pyplot.subplots(1, 3, figsize=(16, 4))
    ratios = {}
    for axis, percent in zip(axes, (90, 95)):
        runs = shaped(workload, percent, 50)
        for policy in POLICIES:
            _curve(axis, runs[policy], policy)
        axis.axvline(50, color="grey", linestyle=":")
        _distribution_axis(axis, f"{workload.name}: {percent} % within 50 ms")
        for word in ("mean", "longest"):
            ratios[f"{word},\n{percent} %"] = ratio(runs, "miser", f"{word}_ms") or 0
    axes[2].bar(list(ratios), list(ratios.values()))
    axes[2].axhline(1, color="grey", linestyle=":")
    axes[2].set_title("Miser's secondary class over fair queueing's")
    _save(figure, folder, f"figure-4.4-{_short(workload)}")


def _power(own: list[Workload], folder: Path) -> None:
    figure, axis = pyplot.subplots(figsize=(6, 4))
    for at, (word, plan) in enumerate(PLANS.items()):
        watts = [plans(workload, 20)[plan]["mean_power_w"] for workload in own]
        places = [place + 0.4 * at for place in range(len(own))]
        axis.bar(places, watts, width=0.38, label=word)
    axis.set_xticks([place + 0.2 for place in range(len(own))], [load.name for load in own])
    axis.set_ylabel("power, W")
    axis.set_title("100 % and 99 % within 20 ms")
    axis.legend()
    _save(figure, folder, "figure-4.1-power")


def _shared(own: list[Workload], folder: Path) -> None:
    figure, axes = pyplot.subplots(1, 3, figsize=(16, 4))
    cases = [(f"2 x {load.name.split()[0]}, {shift}", (load, load), shift)
             for load in own for shift in ("1s", "100s")]
    if len(own) > 1:
        cases.append((" + ".join(load.name.split()[0] for load in own[:2]), tuple(own[:2]), "0s"))
    for axis, fraction in zip(axes, (1.0, 0.9, 0.95)):
        ratios = [100 * together(clients, (shift,), 10)[float(shift[:-1]), fraction]
                  for _, clients, shift in cases]
        axis.barh([title for title, _, _ in cases], ratios)
        axis.axvline(100, color="grey", linestyle=":")
        axis.set_title(f"needed over the sum, %: {100 * fraction:g} % within 10 ms")
    axes[1].set_yticklabels([])
    axes[2].set_yticklabels([])
    _save(figure, folder, "figure-4.5-4.6-shared")
