"""How close are the models to the recorded latencies? Simulates the system behind every recorded trace that has latencies.

    make reproduce-retrodiction    # or: python papers/retrodiction/table.py --traces FOLDER
    python papers/retrodiction/table.py --short -o t.md    # the bundled trace alone
"""

import sys
import textwrap
import warnings
from collections import namedtuple
from pathlib import Path

import cases

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent
PAGE = cases.ROOT / "docs" / "retrodiction.md"
#: Quantiles of fewer requests are shown but not judged.
REQUESTS_LEAST = 100
#: A figure is near if it is within 25 % of the recorded one, and fails if it is off by a factor of
#: two.
NEAR, TWICE = 1.25, 2.0
FIGURES = [("reads", "p50"), ("reads", "p99"), ("writes", "p50"), ("writes", "p99")]

Outcome = namedtuple("Outcome", "case replay answer")

HEAD = """# What the models make of recordings

To test a model, simulate the system on which a trace was recorded, and compare the result with the recording. This page
does that for all our traces that have latencies. `forebay retrodict TRACE --device DISK --policy SCHEDULER` does it for
your own trace, and `forebay advise --fit-device` fits the disk to the trace ([advise.md](advise.md)).

## Where the models fail

{failures}

## The table

{legend}
"""

LEGEND = """\
Each cell has the recorded and the modeled value in ms, and in parentheses the error: modeled / recorded - 1, or from ten times
on, the factor. `!` marks errors of a factor of two or more. Quantiles of fewer than {least} requests are in parentheses and not
judged. *Open*: requests arrive as recorded, however late the model answers. *Dependent*: each request arrives its recorded think
time after the completion that it may have waited for. *Overloaded*: the model cannot keep up, so its times only reflect the length
of a backlog. *Outstanding*: the mean number of outstanding requests, recorded / modeled, over the seconds in which there are any;
then the mean absolute error and the correlation over seconds. Latencies run from the submission of a request to its completion,
unless the last table says otherwise. Only requests with a recorded latency are judged.
"""

ASSUMED = """## What is assumed

Devices and schedulers were chosen before the first run, by what is known about each recording, and were not changed
afterwards. All figures of the bundled device files are at their defaults.

"""

TAIL = """
## Not judged

{left_out}

Written by `python papers/retrodiction/table.py{short}` with forebay {version}, which computes all figures.
"""


WHY = (
    "Nearly every device here had to be guessed, and a wrong guess cannot be distinguished from a wrong model. Only where the device "
    "and its geometry are known (hplajw) does the table show how good the model itself is. So our results on a guessed device say how "
    "schedulers compare on it, not what your disk does: name your disk, and read the line on trust in the answer."
)


def judged(case: cases.Case, folder: Path) -> list[Outcome]:
    """Runs a case in open and in dependent replay."""
    trace = folder_of(case, folder)
    device = case.device if not case.device.endswith(".toml") else cases.ROOT / case.device
    with warnings.catch_warnings():
        # The description of each trace already says what is missing in it.
        warnings.simplefilter("ignore", forebay.TraceWarning)
        asked = {"device": device, "policy": case.policy, "disks": case.disks}
        return [Outcome(case, replay, forebay.retrodict(trace, replay=replay, **asked)) for replay in ("open", "dependent")]


def folder_of(case: cases.Case, folder: Path) -> Path:
    """The path of the trace; archives are converted to Parquet, which is read faster."""
    path = case.file(folder)
    if path.suffixes[-2:] != [".tar", ".xz"]:
        return path
    unpacked = WORK / f"{path.name.split('.')[0]}.parquet"
    if not unpacked.exists():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        forebay.convert(path, unpacked)
    return unpacked


WORK = Path("target/reproduce/retrodiction")


def errors(answer: dict) -> dict[tuple[str, str], float]:
    """Modeled over recorded, for the figures that are judged."""
    found = {}
    for way, quantile in FIGURES:
        one = answer[way]
        if one and one["requests"] >= REQUESTS_LEAST and one[f"{quantile}_error_share"] is not None:
            found[way, quantile] = 1 + one[f"{quantile}_error_share"]
    return found


def off(ratio: float) -> float:
    """How many times too large or too small."""
    return max(ratio, 1 / max(ratio, 1e-9))


def verdict(answer: dict) -> str:
    """Judges all figures of a run together."""
    worst = max(map(off, errors(answer).values()), default=None)
    if worst is None:
        return "too few"
    return "near" if worst <= NEAR else "off" if worst < TWICE else "fails"


def leading(outcomes: list[Outcome]) -> Outcome:
    """The replay that `advise` would use: open, unless the model is overloaded there."""
    return outcomes[1] if outcomes[0].answer["is_overloaded"] else outcomes[0]


def cell(answer: dict, way: str, quantile: str) -> str:
    """Recorded and modeled value, and the error."""
    one = answer[way]
    if not one:
        return "-"
    was, is_ = one[f"recorded_{quantile}_ms"], one[f"modelled_{quantile}_ms"]
    told = f"{reproduce.number(was)} / {reproduce.number(is_)}"
    if one["requests"] < REQUESTS_LEAST:
        return f"({told})"
    share = one[f"{quantile}_error_share"]
    if share is None:
        return told
    return f"{told} ({percent(share)}){' !' if off(1 + share) >= TWICE else ''}"


def percent(share: float) -> str:
    """A percentage with its sign; from ten times on, a factor."""
    value = 100 * share
    if share >= 9:
        return f"{reproduce.number(1 + share)} times"
    return f"{'+' if value > 0.5 else ''}{value:,.0f} %".replace("-0 %", "0 %")


def outstanding(answer: dict) -> str:
    """Requests outstanding in each second."""
    one = answer["outstanding"]
    if not one:
        return "-"
    alike = "-" if one["correlation"] is None else f"{one['correlation']:.2f}"
    number = reproduce.number
    return f"{number(one['recorded_mean'])} / {number(one['modelled_mean'])}; {number(one['mean_absolute_error'])}, {alike}"


def row(outcome: Outcome) -> list[str]:
    """The row of a run."""
    case, answer = outcome.case, outcome.answer
    return [
        case.trace,
        f"{case.device_name} ({case.basis}), {case.policy}",
        outcome.replay + (", overloaded" if answer["is_overloaded"] else ""),
        f"{answer['requests']:,} of {answer['requests'] + answer['requests_unmeasured']:,}",
        *(cell(answer, *figure) for figure in FIGURES),
        outstanding(answer),
    ]


def failures(runs: list[list[Outcome]]) -> str:
    """Counts systems by their verdict, and lists the failures."""
    by = {"fails": [], "off": [], "near": [], "too few": []}
    for outcomes in runs:
        by[verdict(leading(outcomes).answer)].append(leading(outcomes))
    many = len(runs) - len(by["too few"])
    said = [f"Systems that can be judged, in the replay that `advise` uses: {many}. Off by a factor of two or more in some figure: "
            f"{len(by['fails'])}. Off by more than a quarter in some figure: {len(by['off'])}. Within a quarter in all figures: {len(by['near'])}. "
            f"With too few requests to judge: {len(by['too few'])}.\n",
            f"{WHY}\n"]
    for outcome in by["fails"]:
        found = errors(outcome.answer)
        wrong = [f"{way[:-1]} {quantile} {percent(found[way, quantile] - 1)}" for way, quantile in found
                 if off(found[way, quantile]) >= TWICE]
        case = outcome.case
        backlog = ", overloaded" if outcome.answer["is_overloaded"] else ""
        said.append(f"- **{case.trace}** on {case.device_name} (device {case.basis}; {outcome.replay}{backlog}): {', '.join(wrong)}.")
    return "\n".join(wrapped(each) for each in said)


def assumed(runs: list[list[Outcome]]) -> str:
    """The device and the scheduler of each trace, and the reasons."""
    rows = [[one.case.trace, one.case.device_name, one.case.policy, one.case.why] for one, _ in runs]
    return reproduce.table(["trace", "device", "scheduler", "known and guessed"], rows)


def wrapped(text: str) -> str:
    """Wraps text to 120 columns."""
    indent = "  " if text.startswith("- ") else ""
    end = "\n" if text.endswith("\n") else ""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False) + end


def page(options) -> str:
    """The complete page."""
    folder = options.traces or cases.ROOT.parent / "shared" / "traces"
    listed = cases.CASES[:1] if options.short else cases.CASES
    runs = []
    for case in listed:
        print(f"forebay: {case.trace} on {case.device_name}", file=sys.stderr)
        runs.append(judged(case, folder))
    order = ["fails", "off", "near", "too few"]
    runs.sort(key=lambda outcomes: order.index(verdict(leading(outcomes).answer)))
    header = ["trace", "device, scheduler", "replay", "judged", *(f"{way[:-1]} {quantile}" for way, quantile in FIGURES), "outstanding"]
    legend = textwrap.fill(" ".join(LEGEND.format(least=REQUESTS_LEAST).split()), 120, break_on_hyphens=False)
    left_out = "\n".join(wrapped(f"- {name}: {why}") for name, why in cases.LEFT_OUT)
    return "".join([
        HEAD.format(failures=failures(runs), legend=legend), "\n",
        reproduce.table(header, [row(outcome) for outcomes in runs for outcome in outcomes]), "\n",
        ASSUMED, assumed(runs),
        TAIL.format(left_out=left_out, short=" --short" if options.short else "", version=forebay.__version__),
    ])


def main(words=None) -> int:
    """Runs everything and writes the page, or compares it."""
    options = reproduce.arguments([str(HERE), *(sys.argv[1:] if words is None else words)])
    text = page(options)
    output = options.output or (options.work / "retrodiction-part.md" if options.short else PAGE)
    if options.check:
        is_same = output.read_text() == text
        if not is_same:
            print(f"forebay: {output} differs from the new page", file=sys.stderr)
        return 0 if is_same else 1
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)
    print(f"forebay: wrote {output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
