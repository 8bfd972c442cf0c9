"""Draws what adapting saves on each trace (matplotlib)."""

from pathlib import Path

import cases
import numpy as np
import replayed
import traces_tables

COLORS = {"copies": "grey", "paper's": "tab:orange", "ours": "tab:blue"}
NAMES = {"copies": "three copies, static", "paper's": "the paper's rule", "ours": "our rule"}


def draw(results, folder) -> None:
    """It into `folder`."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figure = _picture(pyplot, results)
    figure.savefig(folder / "raid-3-traces.svg", bbox_inches="tight")
    figure.savefig(folder / "raid-3-traces.png", bbox_inches="tight", dpi=90)
    pyplot.close(figure)


def _picture(pyplot, results):
    panels = [(device, update) for device in cases.COSTS for update in replayed.UPDATES]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(14, 0.5 * len(results.traces) + 1.5), sharey=True)
    for axis, (device, update) in zip(axes, panels, strict=True):
        _panel(axis, results, device, update)
    axes[0].set_yticks(range(len(results.traces)), [trace.name for trace in results.traces])
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=5, fontsize=9)
    figure.subplots_adjust(bottom=0.2 if len(results.traces) < 6 else 0.13, wspace=0.06)
    return figure


def _panel(axis, results, device, update) -> None:
    for place, (name, color) in enumerate(COLORS.items()):
        array = traces_tables.BESIDE[name]
        gains = [traces_tables.saved(results, trace, device, update, array) for trace in results.traces]
        means = np.array([gain.mean() for gain in gains])
        ends = np.array([[gain.mean() - gain.min(), gain.max() - gain.mean()] for gain in gains]).T
        axis.errorbar(means, np.arange(len(gains)) + 0.2 * (place - 1), xerr=ends, fmt="o", color=color,
                      markersize=4, linewidth=1.2, label=NAMES[name])
    axis.axvspan(-traces_tables.MATTERS, traces_tables.MATTERS, color="black", alpha=0.08)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.grid(alpha=0.3)
    axis.set(title=f"{traces_tables.NAMES[device]}, {update}", xlabel="disk time saved over RAID 6, %")
    axis.title.set_fontsize(10)
