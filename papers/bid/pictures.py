"""The paper's figures drawn from our runs, as SVG and PNG. Needs matplotlib.

Figures 12 and 15 to 19 are bars, a panel for each trace in open replay on the plain disk at
recorded speed; 13 and 14 show where the heads are over time. One more shows gain against price over
the wait.
"""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import strokes
from cases import BID, HYBRID, POLICIES, WAITS_MS, bid, by_policy, chosen
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

ACCENT = {BID: "#1f5fa8", HYBRID: "#6fa3d8", "forebay": "#c8553d"}
PLAIN = "#a8a8a8"
LABELS = {"cfq:form=paper": "cfq (paper's form)", BID: "BID-HDD", HYBRID: "BID-Hybrid"}

#: The number of each figure in the paper, its title, the key of its value, and that of its error
#: bar.
BARS = [
    (12, "Device time to serve all I/Os, s", "busy_s", None),
    (15, "Head movements, thousands", "head_movements", None),
    (16, "Cylinders per head movement (line: std. dev.)", "avg_seek_tracks", "seek_stddev_tracks"),
    (17, "Cylinders crossed in all, full sweeps of the disk", "seek_sweeps", None),
    (18, "Mean read latency, ms", "read_mean_ms", None),
    (19, "Mean write latency, ms", "write_mean_ms", None),
]
#: The policies whose head positions are shown: the paper's three, and three others.
HEADS = ["cfq", "noop", BID, HYBRID, "deadline", "forebay"]
#: The length of the magnified section in seconds.
ZOOM_S = 3.0


def draw(cases, runs, folder) -> None:
    """Draws every figure into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    plt.rcParams.update({"svg.hashsalt": "forebay", "font.family": "DejaVu Sans"})
    drawn = chosen(cases, "open", "plain")
    for figure in BARS:
        bars(figure, drawn, runs, folder)
    waits(cases, runs, folder)
    heads(strokes.shown(cases), folder)


def save(figure, folder, name: str) -> None:
    """Saves a picture in both formats, without a date."""
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=110)
    plt.close(figure)


def bars(figure, cases, runs, folder) -> None:
    """Draws a panel for each trace with a bar for each policy."""
    index, title, key, error = figure
    columns = min(4, len(cases))
    lines = -(-len(cases) // columns)
    shape = (3.1 * columns + 1.2, 2.7 * lines + 0.7)
    drawn, axes = plt.subplots(lines, columns, figsize=shape, sharey=True, squeeze=False)
    scale = 1e-3 if key == "head_movements" else 1.0
    for axis, case in zip(axes.flat, cases):
        each = by_policy(case, runs[case])
        values = [(each[policy][key] or 0) * scale for policy in POLICIES]
        colours = [ACCENT.get(policy, PLAIN) for policy in POLICIES]
        axis.barh(range(len(POLICIES)), values, color=colours, height=0.72)
        if error:
            spread = [each[policy][error] for policy in POLICIES]
            below = [min(value, s) for value, s in zip(values, spread)]
            line = {"fmt": "none", "ecolor": "#333333", "elinewidth": 0.8, "capsize": 2}
            axis.errorbar(values, range(len(POLICIES)), xerr=[below, spread], **line)
        else:
            for place, value in enumerate(values):
                text = f" {value:,.3g}" if value < 1000 else f" {value:,.0f}"
                axis.text(value, place, text, va="center", fontsize=7)
            axis.margins(x=0.18)
        axis.set_title(case.workload.name, fontsize=9)
        axis.set_yticks(range(len(POLICIES)), [LABELS.get(p, p) for p in POLICIES])
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(MaxNLocator(3))
        axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x == int(x) else f"{x:g}")
    for axis in axes.flat[len(cases) :]:
        axis.set_visible(False)
    axes.flat[0].invert_yaxis()
    parted = "\n" if columns == 1 else " "
    drawn.suptitle(f"Figure {index}, ours.{parted}{title}", x=0.01, ha="left", fontsize=11)
    drawn.tight_layout()
    save(drawn, folder, f"figure-{index}")


#: The chart of gain against price: a color per trace, and a panel per replay mode and disk.
TRACES = {"grep": "#1f5fa8", "wordcount": "#c8553d", "terasort": "#6a8f3c"}
PANELS = [("open", "plain"), ("dependent", "plain"), ("open", "drive"), ("closed", "drive")]


def waits(cases, runs, folder) -> None:
    """Draws the saved disk busy time over the mean read time relative to noop's, as a line over the waits."""
    drawn, axes = plt.subplots(1, len(PANELS), figsize=(12, 3.6), sharex=True)
    for axis, (replay, disk) in zip(axes, PANELS):
        for case in chosen(cases, replay, disk):
            if case.workload.name not in TRACES:
                continue
            each = by_policy(case, runs[case])
            swept = [wait for wait in WAITS_MS if bid(wait) in each]
            best = min(each[policy]["busy_s"] for policy in ("cfq", "noop"))
            gain = [100 * (1 - each[bid(wait)]["busy_s"] / best) for wait in swept]
            read = each["noop"]["read_mean_ms"]
            price = [each[bid(wait)]["read_mean_ms"] / read for wait in swept]
            colour = TRACES[case.workload.name]
            axis.plot(price, gain, color=colour, marker="o", markersize=3, label=case.workload.name)
            for wait, x, y in zip(swept, price, gain):
                axis.annotate(f" {wait}", (x, y), fontsize=6, color=colour)
        axis.axhline(0, color="#333333", linewidth=0.6)
        axis.axvline(1, color="#333333", linewidth=0.6)
        axis.set_xscale("log")
        axis.set_title(f"{replay} replay, {disk}", fontsize=9)
        axis.set_xlabel("mean read time over noop's")
    axes[0].set_ylabel("disk busy time saved, %")
    axes[0].legend(frameon=False, fontsize=7)
    title = "BID-HDD: gain against the better of CFQ and noop, and its price, by default wait (ms)"
    drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
    drawn.tight_layout()
    save(drawn, folder, "waits")


def heads(case, folder) -> None:
    """Draws figures 13 and 14: the heads over the whole run, and in the busiest seconds of noop."""
    table = strokes.simulate(case, HEADS).heads.to_pyarrow().to_pydict()
    names = np.array(table["policy"])
    time_s, cylinder = np.array(table["time_s"]), np.array(table["cylinder"])
    paths = {p: (time_s[names == p], cylinder[names == p]) for p in HEADS}
    what = f"{case.workload.name}, open replay, plain disk"
    first, last = 0.0, max(path[0][-1] for path in paths.values())
    panels(paths, (first, last), f"Figure 13, ours. Where the heads are: {what}", folder, 13)
    noop = paths["noop"]
    moved = np.abs(np.diff(noop[1].astype(float)))
    edges = np.arange(first, last + ZOOM_S, ZOOM_S)
    per_bin, _ = np.histogram(noop[0][1:][moved > 0], edges)
    start = float(edges[int(per_bin.argmax())])
    title = f"Figure 14, ours. The same, magnified: {what}"
    panels(paths, (start, start + ZOOM_S), title, folder, 14)


def panels(paths, window, title: str, folder, index: int) -> None:
    """Draws a panel for each policy: time on the x axis, cylinders on the y axis."""
    shape = (11, 6.4)
    drawn, axes = plt.subplots(2, 3, figsize=shape, sharex=True, sharey=True)
    for axis, (policy, (time_s, cylinder)) in zip(axes.flat, paths.items()):
        seen = (time_s >= window[0]) & (time_s <= window[1])
        moves = int((np.diff(cylinder[seen].astype(np.int64)) != 0).sum())
        width = 0.3 if index == 13 else 0.7
        colour = ACCENT.get(policy, "#222222")
        # The arm stays in place until it moves, shortly before an I/O completes.
        style = {"color": colour, "linewidth": width, "drawstyle": "steps-post"}
        axis.plot(time_s[seen], cylinder[seen] / 1000, **style)
        axis.set_title(f"{LABELS.get(policy, policy)}: {moves:,} moves between I/Os", fontsize=9)
        axis.set_xlim(*window)
        axis.xaxis.set_major_locator(MaxNLocator(5, prune="upper"))
    for axis in axes[-1]:
        axis.set_xlabel("time, s")
    for axis in axes[:, 0]:
        axis.set_ylabel("cylinder, thousands")
    drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
    drawn.tight_layout()
    save(drawn, folder, f"figure-{index}")
