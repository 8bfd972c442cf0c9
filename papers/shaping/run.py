"""Reproduces the **shaping** paper: its tables and figures, and its claims on other traces.

    make reproduce PAPER=shaping    # or: python -m forebay.reproduce papers/shaping
    python -m forebay.reproduce papers/shaping --short -o t.md    # the bundled trace alone

The traces are those that `workloads.py` lists, in the folder that `--traces` names.
"""

import warnings
from pathlib import Path

import bursts
import capacity
import elsewhere
import energy
import on_a_disk
import recombined
import sharing
import stamps
import workloads

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent

HEAD = """# Workload shaping: the paper's figures and ours

L. Lu, "Workload Shaping for QoS and Power Efficiency of Storage Systems" (thesis, Rice University).
Written by `{command}` with forebay {version}, which computes all figures except the paper's own
([expected.toml](expected.toml)). Nothing is random.

Arrivals are as recorded (open replay); each record counts as a request, whatever its operation. Of the
paper's traces we have the first {beginnings}; OpenMail and TPC-D are not available. A server of
constant rate serves one request after another; shares of more than a second come from distributions of
400 points; the real disk is {disk}, the paper's own drive. Dependencies between requests are ignored,
as in the paper. Deviations are ours minus the paper's, in the row's unit.
"""

HEADER = ["source", "what", "case", "paper", "ours", "deviation", "unit", "cause"]


def claims_of(expected: dict, listed, short: bool) -> dict[str, list[reproduce.Row]]:
    """Returns every figure of the paper, by section."""
    return {
        "Table 4.1: capacity for a promise": capacity.rows(expected, listed, short),
        "Figure 3.6 and section 4.2: what the last requests cost": capacity.knees(
            expected, listed, short
        ),
        "Figure 3.2: bursts": capacity.bursts(expected, short),
        "Figure 4.1 and table 4.2: power": energy.rows(expected, listed, short),
        "Figures 4.2 and 4.3: FCFS": recombined.rows(expected, listed, short),
        "Figure 4.4: policies beside one another": recombined.recombined(expected, listed, short),
        "Figures 4.5 and 4.6: clients that share": sharing.rows(expected, listed, short),
    }


def main(options) -> str:
    """Returns the text of the tables."""
    # The causes in the tables already say what is special about each trace.
    warnings.simplefilter("ignore", forebay.TraceWarning)
    expected = reproduce.load(HERE / "expected.toml")
    listed = workloads.workloads(options)
    sections = claims_of(expected, listed, options.short)
    parts = [head(options, listed)]
    for title, rows in sections.items():
        parts += [f"## {title}\n", claimed(rows)]
    paid = sharing.who_pays(expected, listed)
    if paid.count("\n") > 2:
        parts += ["## Who pays on a shared server\n", SHARED, paid]
    checked = capacity.reference(expected, listed)
    if checked:
        parts += ["## What truncation does\n", TRUNCATION, capacity.truncation(expected, listed)]
        parts += ["An independent reference for the same prefix:\n", claimed(checked)]
    parts += ["## What a coarse clock does\n", document(stamps), stamps.section(expected, listed)]
    parts += ["## The claims on other traces\n", ELSEWHERE, elsewhere.section(reproduce.claims(HERE / "expected.toml"), listed)]
    parts += ["Capacities, IOPS:\n", elsewhere.grid(listed)]
    parts += ["## Bursts before and after RTT\n", BURSTS, bursts.section(listed)]
    twins = [workload for workload in listed if workload.twin] or listed
    parts += ["## On a real disk\n", document(on_a_disk), on_a_disk.section(twins)]
    if options.pictures:
        import shaped_pictures

        shaped_pictures.draw(listed, options.pictures)
    return "\n".join(parts)


SHARED = """The paper's promise on a shared server applies to all requests together, and most requests that
are deferred belong to clients with bursts. So at the capacity that all clients need together, one client may get less
than its promise, although the sum of capacities would have kept it; the last column is the capacity
that keeps the promise to each client.
"""

TRUNCATION = """Capacities of the first eighth, quarter and half of each prefix, of the prefix, and the paper's for
the whole trace. For 100 % a longer trace can only need more, and a single burst decides. A smaller
fraction follows the load of the period, and can decrease if a quieter period follows. The paper
does not say which of UMass's two financial traces is its FinTrans; only the beginning of Financial1
is available.
"""

ELSEWHERE = """"fails" marks a figure outside the range of the claim, which the line "the paper" shows. If the
paper has only words ("sharp knee", "very near", "an order of magnitude"), the number there is our
interpretation of them.
"""

BURSTS = """The load in windows of 100 ms, as in figure 3.2, of all requests and of those that RTT admits to its
first class at the capacity for 90 % within 10 ms. Figure 3.2(c), the load after Miser, would
require the time at which each request is served, which the Python functions do not return.
"""


def claimed(rows: list[reproduce.Row]) -> str:
    """Returns rows with the name of their subject."""
    cells = []
    for row in rows:
        case, paper, ours, deviation, cause = row.cells()
        claim = row.claim
        cells.append([claim.source, claim.says, case, paper, ours, deviation, claim.unit, cause])
    return reproduce.table(HEADER, cells)


def document(module) -> str:
    """Returns a module's docstring without its first line."""
    return (module.__doc__ or "").split("\n", 2)[2].strip() + "\n"


def head(options, listed) -> str:
    """Returns a description of what is shown, and of the data."""
    words = ["python -m forebay.reproduce papers/shaping", *(["--short"] if options.short else [])]
    beginnings = [
        f"{workload.requests:,} requests ({workload.duration_s:.0f} s) of {workload.name.split()[0]}"
        for workload in listed
        if workload.twin
    ]
    return HEAD.format(
        command=" ".join(words),
        version=forebay.__version__,
        beginnings=" and the first ".join(beginnings) or "requests elsewhere, not in this short run",
        disk=on_a_disk.DISK,
    )
