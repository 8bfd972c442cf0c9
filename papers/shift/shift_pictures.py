"""The paper's figures 2 and 9 to 15, and its stage diagrams, as pictures (matplotlib)."""

from pathlib import Path

import cases
from cases import ARRANGEMENTS, SETTINGS, TREES, slowed

LINES = {"in place": "-", "runs": "--"}
COLORS = {"enhanced": "tab:blue", "basic": "tab:green", "raid0": "tab:orange"}
STAGES = {"log": "tab:blue", "read-log": "tab:green", "write-tree": "tab:orange", "idle": "0.92"}
NAMES = {"log": "Log", "read-log": "Read log", "write-tree": "Write B+tree", "idle": "Idle"}


def draw(results, compared, alternations, folder) -> None:
    """Draws all pictures into `folder`."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "shift-2-11-15-slowed": lambda: _main(pyplot, results),
        "shift-6-8-stages": lambda: _stages(pyplot, alternations),
        "shift-9-periods": lambda: _periods(pyplot, compared),
        "shift-10-14-values": lambda: _values(pyplot, results),
        "shift-12-disks": lambda: _sweep(pyplot, results, "disks", "disks", "Fig. 12"),
        "shift-13-logs": lambda: _sweep(pyplot, results, "logs", "MB of a log", "Fig. 13"),
        "shift-open": lambda: _open(pyplot, results),
    }
    for name, picture in pictures.items():
        figure = picture()
        figure.savefig(folder / f"{name}.svg", bbox_inches="tight")
        figure.savefig(folder / f"{name}.png", bbox_inches="tight", dpi=90)
        pyplot.close(figure)


def _main(pyplot, results):
    """Draws times and energy of the main runs, with the paper's."""
    figure, axes = pyplot.subplots(1, 2, figsize=(13, 3.8), width_ratios=[3, 2])
    at, ticks = 0, []
    groups = [("paper", {"enhanced": (320, 329), "raid0": (522, 813)})]
    for tree in TREES:
        for setting in SETTINGS:
            told = results.main(tree, setting)
            groups.append((f"{tree},\n{setting}", {key: tuple(cases.scaled(row, results.main_mb) for row in told[key])
                                                   for key in ARRANGEMENTS}))
    for name, times in groups:
        ticks.append((at, name))
        for place, (key, (logged, transformed)) in enumerate(times.items()):
            x = at + 0.27 * (place - (len(times) - 1) / 2)
            axes[0].bar(x, transformed, 0.24, color=COLORS[key], alpha=0.45)
            axes[0].bar(x, logged, 0.24, color=COLORS[key], label=ARRANGEMENTS[key] if at == 1 else None)
            axes[0].annotate(f"{round((transformed / logged - 1) * 100):+d}%", (x, transformed), ha="center", va="bottom",
                             fontsize=7)
        at += 1
    axes[0].set(xticks=[x for x, _ in ticks], ylabel="s for 10 GB", title="Figs. 2 and 11: logged, and (pale) transformed")
    axes[0].set_xticklabels([name for _, name in ticks], fontsize=8)
    axes[0].legend(fontsize=8)
    bars = {"integrated over states": lambda told, key: (told[key][1]["energy_j"] / told[key][0]["energy_j"] - 1) * 100,
            "number x watts x time": lambda told, key: slowed(told[key])}
    hatches = dict(zip(bars, ("", "//"), strict=True))
    for x, (tree, setting) in enumerate((tree, setting) for tree in TREES for setting in SETTINGS):
        told = results.main(tree, setting)
        for place, (key, (name, of)) in enumerate((key, bar) for key in ("enhanced", "raid0") for bar in bars.items()):
            axes[1].bar(x + 0.2 * (place - 1.5), of(told, key), 0.18, color=COLORS[key], hatch=hatches[name],
                        label=f"{ARRANGEMENTS[key]}, {name}" if x == 0 else None)
    axes[1].axhline(55.69, color="tab:orange", linewidth=0.8, linestyle=":", label="paper, Log+RAID0")
    axes[1].axhline(2.65, color="tab:blue", linewidth=0.8, linestyle=":", label="paper, Workload Shifting")
    axes[1].set(xticks=range(6), ylabel="energy more, %", title="Fig. 15(b)")
    axes[1].set_xticklabels([name for _, name in ticks[1:]], fontsize=8)
    axes[1].legend(fontsize=7)
    figure.tight_layout()
    return figure


def _stages(pyplot, alternations):
    """Draws the stages of each disk over some logs, once for each alternation."""
    found = alternations.found()
    figure, axes = pyplot.subplots(len(found), 1, figsize=(11, 1.9 * len(found)), squeeze=False)
    titles = {"ideal": "Fig. 6: ideal", "acceptable": "Fig. 7: acceptable", "bad": "Fig. 8: bad"}
    for axis, (name, ((host, log, page), row, (logged, worked))) in zip(axes.flat, found.items(), strict=True):
        begin, end = cases.window(row, 10)
        for disk, since, until, stage, over in cases.phases(row):
            since, until = max(since, begin), min(until, end)
            if until > since:
                axis.barh(disk + 1, (until - since) * 1e3, left=(since - begin) * 1e3, height=0.8, color=STAGES[stage],
                          hatch="xxx" if over else "", edgecolor="white" if over else "none", linewidth=0)
        axis.invert_yaxis()
        axis.set(ylabel="disk", yticks=range(1, 5), xlim=(0, (end - begin) * 1e3))
        axis.set_title(f"{titles[name]} alternation: {host:g} ms between puts, logs of {log} MB, pages of {page} KiB; "
                       f"a log takes {logged:.0f} ms, its transformation {worked:.0f} ms", fontsize=9)
    axes.flat[-1].set_xlabel("ms")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=STAGES[stage], label=NAMES[stage]) for stage in STAGES]
    handles.append(pyplot.Rectangle((0, 0), 1, 1, facecolor=STAGES["log"], hatch="xxx", edgecolor="white",
                                    label="Log, on a disk still at work"))
    figure.legend(handles=handles, loc="lower center", ncols=5, fontsize=8, bbox_to_anchor=(0.5, -0.06))
    figure.tight_layout()
    return figure


def _periods(pyplot, compared):
    told = compared.told()
    figure, axes = pyplot.subplots(1, len(compared.values), figsize=(4.2 * len(compared.values), 3.4), squeeze=False)
    for axis, value in zip(axes.flat, compared.values, strict=True):
        rows = [told[value, log] for log in compared.logs]
        names = ["logged, no sync", "logged, to cache", *(f"transformed, {tree}" for tree in TREES)]
        styles = [("-o", "tab:blue"), ("--o", "tab:blue"), ("-s", "tab:orange"), ("--s", "tab:orange")]
        for column, (name, (style, color)) in enumerate(zip(names, styles, strict=True)):
            axis.plot(compared.logs, [row[column] / 1e3 for row in rows], style, color=color, label=name, markersize=4)
        axis.set(xlabel="MB of a log", xscale="log", yscale="log", title=f"Fig. 9: values of {value / 1000:g} KB")
        axis.set_xticks(compared.logs, [str(log) for log in compared.logs])
        axis.minorticks_off()
    axes.flat[0].set_ylabel("s of a log")
    axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    return figure


def _lines(axis, results, name, of, arrangements=("enhanced", "raid0"), settings=("to cache", "to media")):
    """Draws a figure of each case of a sweep: solid in place, dashed runs, thick to media."""
    for tree in results.listed[name][2]:
        for setting in settings:
            by = results.of(name, tree, setting)
            for key in arrangements:
                axis.plot(range(len(by)), [of(told, key, label) for label, told in by.items()], LINES[tree],
                          color=COLORS[key], linewidth=2.4 if setting == "to media" else 1.1, marker=".",
                          label=f"{ARRANGEMENTS[key]}, {tree}, {setting}")
            axis.set_xticks(range(len(by)), list(by))


def _sweep(pyplot, results, name, header, title):
    figure, (times, rates) = pyplot.subplots(1, 2, figsize=(11, 3.8))
    _lines(times, results, name, lambda told, key, label: cases.scaled(told[key][1], results.mb))
    _lines(rates, results, name, lambda told, key, label: slowed(told[key]))
    times.set(xlabel=header, ylabel="s for 10 GB, transformed", title=f"{title}: time", ylim=(0, None))
    rates.set(xlabel=header, ylabel="slowed, %", title=f"{title}: slowed")
    rates.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    return figure


def _values(pyplot, results):
    figure, (rates, slow) = pyplot.subplots(1, 2, figsize=(11, 3.8))
    labels = [label for label, _ in results.listed["values"][3]]
    _lines(rates, results, "values", lambda told, key, label: told[key][1]["throughput_mb_per_s"], ("enhanced",))
    paper = {"1000": 38.6, "100": 31.1, "10": 6.3}
    known = [(labels.index(label), rate) for label, rate in paper.items() if label in labels]
    rates.plot(*zip(*sorted(known), strict=True), "k*", markersize=10, label="paper")
    rates.set(xlabel="KB of a value", ylabel="MB/s, transformed", title="Fig. 10: Workload Shifting, random keys")
    rates.legend(fontsize=7)
    _lines(slow, results, "values", lambda told, key, label: slowed(told[key]))
    slow.set(xlabel="KB of a value", ylabel="slowed, %", title="Fig. 14", yscale="symlog", ylim=(-1, None))
    slow.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    return figure


def _open(pyplot, results):
    """Draws what the paper leaves open, with the slowdown that each causes."""
    names = [name for name in ("depths", "syncs", "pages", "chunks", "hosts", "memories") if name in results.listed]
    figure, axes = pyplot.subplots(2, 3, figsize=(13, 6.6))
    for axis, name in zip(axes.flat, names, strict=True):
        title, header, *_ = results.listed[name]
        _lines(axis, results, name, lambda told, key, label: slowed(told[key]))
        axis.axhline(55.7, color="tab:orange", linewidth=0.8, linestyle=":")
        axis.axhline(2.7, color="tab:blue", linewidth=0.8, linestyle=":")
        axis.set_title(title, fontsize=9)
        axis.set(xlabel=header, yscale="symlog", ylim=(-1, None))
    for axis in axes[:, 0]:
        axis.set_ylabel("slowed, %")
    handles, labels = axes.flat[3].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=8, bbox_to_anchor=(0.5, -0.07))
    figure.tight_layout()
    return figure
