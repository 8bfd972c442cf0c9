"""Reproduces the **bid** paper: its figures and claims on real Hadoop traces.

    make reproduce                # or: python -m forebay.reproduce papers/bid
    make reproduce-short          # the bundled trace alone, in less than a minute

The traces are the four captures and the sample of `hadoop/`, and the two nodes of `blktrace-bin/`,
in the folder that `--traces` names.
"""

from pathlib import Path

import cases
import claims
import figures
import limit
import score
import sensitivity

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent

HEAD = """# Bulk I/O Dispatch: the paper's figures and ours

P. Mishra and A. K. Somani, "Host managed contention avoidance storage solutions for Big Data",
Journal of Big Data 4:18 (2017). Written by `{command}` with forebay {version}; nothing here is typed
in but the paper's own figures ([expected.toml](expected.toml)). Nothing is random, so there is no
seed; the flash device starts full, written once in order, unless its name or file says otherwise.

Disks: {disks}; flash: {flash}. Queue depth 1, no drive cache, unless a table says otherwise. In open
replay requests arrive when they were recorded, N x as fast; in closed replay a request follows its
stream's last completion after the recorded think time, divided by N. Latencies that the recording
lacks are imputed: {imputed}; above 10 % open replay says more. `cfq` is Linux's; `cfq:form=paper` the
paper's simple form, which merges across processes. The traces are not the paper's, nor is the disk,
of which its table 3 is a picture in the text we have.
"""


def main(options) -> str:
    """The text of the tables."""
    workloads = cases.workloads(options)
    of_figures = cases.figure_cases(workloads, options.flash, options.short)
    of_score = cases.score_cases(workloads, options.short)
    sweeps = sensitivity.cases(workloads, options.flash, options.short)
    depths = sensitivity.depth_cases(workloads, options.short)
    everything = list(dict.fromkeys([*of_figures, *of_score, *sweeps, *depths]))
    runs = dict(zip(everything, reproduce.grid(cases.run, everything, options.processes)))
    windows = reproduce.grid(limit.found, workloads, options.processes)
    if options.pictures:
        import pictures

        pictures.draw(of_figures, runs, options.pictures)

    listed = reproduce.claims(HERE / "expected.toml")
    tracks = reproduce.load(HERE / "expected.toml")["example"]["tracks"]
    claimed, _ = claims.section(listed, of_figures, runs, tracks)
    parts = [
        head(options, workloads, of_figures, runs),
        "## The claims\n",
        claimed,
        "## The figures\n",
        figures.section(of_figures, runs, workloads),
        "## The schedulers beside one another\n",
        (score.__doc__ or "").split("\n", 2)[2].strip() + "\n",
        score.section(of_score, runs),
        "## The offline limit\n",
        limit.HEAD,
        limit.section(workloads, windows),
        "## Sensitivity\n",
        sensitivity.section(sweeps, depths, runs),
    ]
    return "\n".join(parts)


def head(options, workloads, of_figures, runs) -> str:
    """What is being shown, from what."""
    named: dict[str, list[str]] = {}
    for workload in workloads:
        named.setdefault(Path(workload.device).stem, []).append(workload.name)
    imputed = {
        case.workload.name: f"{case.workload.name} {runs[case][0]['imputed_share']:.0%}"
        for case in of_figures
        if case.replay == "closed" and runs[case][0]["imputed_share"] > 0
    }
    words = ["python -m forebay.reproduce papers/bid", *(["--short"] if options.short else [])]
    return HEAD.format(
        command=" ".join(words),
        version=forebay.__version__,
        disks="; ".join(f"{device} for {', '.join(names)}" for device, names in named.items()),
        flash=options.flash,
        imputed=", ".join(imputed.values()) or "none",
    )
