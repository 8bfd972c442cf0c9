"""Figures 1 and 2 as pictures (matplotlib)."""

from pathlib import Path

import cases
import measured
import modelled
import run


def draw(results, folder) -> None:
    """Draws all pictures into `folder`."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in (("raid-1-layouts", _layouts), ("raid-2-adapted", _adapted)):
        figure = picture(pyplot, results)
        figure.savefig(folder / f"{name}.svg", bbox_inches="tight")
        figure.savefig(folder / f"{name}.png", bbox_inches="tight", dpi=90)
        pyplot.close(figure)


COLORS = {"RAID 6": "tab:blue", "RAID 10": "tab:orange"}


def _layouts(pyplot, results):
    figure, (disks, flash) = pyplot.subplots(1, 2, figsize=(10, 3.6))
    at = range(1, 5)
    for level, color in COLORS.items():
        paper = results.paper["times"][cases.HDD][level]
        ours = results.times[cases.HDD][results.nearest[cases.HDD]][level]
        disks.plot(at, run.rates(paper), "--", color=color, marker="o", label=f"{level}, paper")
        if level == "RAID 10":
            o = min(results.apart, key=lambda o: abs(o - results.nearest[cases.HDD]))
            disks.plot(at, run.rates(results.apart[o]), ":", color=color, marker="x", label="RAID 10, ours, halves apart")
        disks.plot(at, run.rates(ours), "-", color=color, marker="o", label=f"{level}, ours")
        for share, width in ((0, 1.0), (-1, 2.5)):
            rates = [results.occupied[level, chunks][share] for chunks in at]
            label = f"{level}, {100 * measured.OCCUPIED[share]:.0f} % of mirrored capacity"
            flash.plot(at, rates, color=color, linewidth=width, marker="s" if share else "o", label=label)
    disks.set(xlabel="chunks written", ylabel="MB/s", xticks=at, ylim=(0, None),
              title=f"Fig. 1(a): hard disks, {results.nearest[cases.HDD]} outstanding")
    flash.set(xlabel="chunks written", xticks=at, ylim=(0, None),
              title=f"Fig. 1(b): flash, {results.nearest[cases.SSD]} outstanding")
    for axis in (disks, flash):
        axis.legend(fontsize=7)
    return figure


def _adapted(pyplot, results):
    panels = []
    for device, kind in ((cases.HDD, "HDDs"), (cases.SSD, "SSDs")):
        model = {load: results.modelled[device][modelled.default(load)] for load in cases.LOADS}
        panels.append((f"Fig. 2: {kind}, cost model", model))
        runs = [(f"{kind}, simulated", results.simulated[device])]
        if device == cases.SSD:
            runs.append((f"{kind}, simulated, reads cached", results.cached))
        o = min((o for o, _ in runs[0][1]), key=lambda o: abs(o - results.nearest[device]))
        panels += [(f"Fig. 2: {name}", {load: told[o, load] for load in cases.LOADS}) for name, told in runs]
    bars = ["RAID 6", "RAID 10", ("bonus-malus", "raid6"), ("best", "raid6"), ("best", "raid10")]
    names = ["RAID 6", "RAID 10", "paper's rule", "ours", "ours, RAID 10 first"]
    figure, axes = pyplot.subplots(2, 3, figsize=(13, 6.5), sharey=True)
    axes = list(axes.flat)
    axes.pop(2).axis("off")
    for (title, told), axis in zip(panels, axes, strict=True):
        for place, (bar, name) in enumerate(zip(bars, names, strict=True)):
            axis.bar([at + 0.16 * (place - 2) for at in range(len(cases.LOADS))],
                     [told[load][bar] for load in cases.LOADS], 0.15, label=name)
        axis.axhline(100, color="grey", linewidth=0.8)
        axis.set(title=title, xticks=range(len(cases.LOADS)), xticklabels=cases.LOADS)
        axis.title.set_fontsize(10)
    for axis in axes[::2]:
        axis.set_ylabel("% of the optimum")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="upper right", bbox_to_anchor=(0.9, 0.85), fontsize=9)
    return figure
