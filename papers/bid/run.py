"""Reproduces the **bid** paper: its figures and claims on real Hadoop traces.

    make reproduce                # or: python -m forebay.reproduce papers/bid
    make reproduce-short          # the bundled trace alone, in less than a minute

The traces are the four captures and the sample of `hadoop/`, and the two nodes of `blktrace-bin/`,
in the folder that `--traces` names; the schedulers are scored on fourteen others there too.
"""

import sys
from pathlib import Path

import cases
import claims
import figures
import forebay
import held
import limit
import score
import summary
import sweep
import verdicts
from forebay import reproduce

HERE = Path(__file__).resolve().parent

HEAD = """# Bulk I/O Dispatch: the paper's figures and ours

P. Mishra and A. K. Somani, "Host managed contention avoidance storage solutions for Big Data",
Journal of Big Data 4:18 (2017). Written by
`{command}` with forebay {version}, which computes
all figures except the paper's own ([expected.toml](expected.toml)). Nothing is random.

"""

TERMS = """Disks: {disks}; flash: {flash}, which starts full, written once in order. *plain*: arm and
platters alone, one command at a time, as in the paper's simulator. *drive*: the same disk with
its controller: read-ahead, buffer and queue. *Open* replay: requests arrive as recorded,
regardless of the disk. *Closed*: a request follows its stream's last completion after the
recorded think time. *Dependent*: as recorded, but not before the completion of the requests that
it followed. All runs are at recorded speed, or N x as fast if a table says so. {writer}Latencies
that are missing in the recording are imputed: {imputed}; above 10 %, open replay is more
informative. `cfq` is Linux's; `cfq:form=paper` is the paper's simple form, which merges across
processes. The traces are not the paper's, nor is the disk, because table 3 is a picture in our
copy of the text."""


def main(options) -> str:
    """Returns the text of the tables."""
    workloads = cases.workloads(options)
    of_figures = cases.figure_cases(workloads, options.flash, options.short)
    of_score = cases.score_cases(workloads, options.short)
    frozen = cases.elsewhere_cases(options)
    sweeps = sweep.cases(workloads, options.flash, options.short)
    queues = sweep.queue_cases(workloads, options.short)
    depths = sweep.depth_cases(workloads, options.short)
    everything = list(dict.fromkeys([*of_figures, *of_score, *frozen, *sweeps, *queues, *depths]))
    runs = dict(zip(everything, reproduce.grid(cases.run, everything, options.processes)))
    bounds = dict(zip(of_score, reproduce.grid(score.bound, of_score, options.processes)))
    windows = reproduce.grid(limit.found, workloads, options.processes)
    if options.pictures:
        import pictures

        pictures.draw(of_figures, runs, options.pictures)

    listed = reproduce.claims(HERE / "expected.toml")
    expected = reproduce.load(HERE / "expected.toml")
    kept = reproduce.load(HERE / "held.toml")["held"]
    for entry, pairs, holds in held.rows(kept, of_figures, runs):
        if not holds:
            print(f"forebay: held figure has moved: {entry}, now {pairs}", file=sys.stderr)
    parts = [
        head(options),
        "## In short\n",
        summary.section(listed, of_figures, runs, sweeps),
        "## How it was run\n",
        terms(options, workloads, of_figures, runs),
        "## Do the headline claims hold?\n",
        verdicts.section(listed, of_figures, runs, sweeps),
        "## What the paper leaves open\n",
        sweep.section(of_figures, sweeps, queues, depths, runs),
        "## The schedulers beside one another\n",
        (score.__doc__ or "").split("\n", 2)[2].strip() + "\n",
        score.section(of_score, runs, bounds),
        score.elsewhere(of_score, frozen, runs),
        "## The offline limit\n",
        limit.HEAD,
        limit.section(workloads, windows),
        "## The figures\n",
        figures.section(of_figures, runs, workloads),
        "## The claims one by one\n",
        claims.section(listed, of_figures, runs, expected["example"]["tracks"])[0],
        "## Figures held to\n",
        held.HEAD,
        held.section(kept, of_figures, runs),
    ]
    return "\n".join(parts)


def head(options) -> str:
    """Returns the introduction."""
    words = ["python -m forebay.reproduce papers/bid", *(["--short"] if options.short else [])]
    return HEAD.format(command=" ".join(words), version=forebay.__version__).rstrip() + "\n"


def terms(options, workloads, of_figures, runs) -> str:
    """Returns the section about traces, disks and terms."""
    named: dict[str, list[str]] = {}
    for workload in workloads:
        named.setdefault(Path(workload.device).stem, []).append(workload.name)
    imputed = {
        case.workload.name: f"{case.workload.name} {runs[case][0]['imputed_share']:.0%}"
        for case in of_figures
        if case.replay == "closed" and runs[case][0]["imputed_share"] > 0
    }
    text = TERMS.format(
        disks="; ".join(f"{device} for {', '.join(names)}" for device, names in named.items()),
        flash=options.flash,
        writer=cases.WRITER_TOLD if len(workloads) > 1 else "",
        imputed=", ".join(imputed.values()) or "none",
    )
    return verdicts.wrapped(text)
