"""The array on recorded traces: where does adapting pay, where does it lose, and where is it noise?

    make reproduce-traces    # or: python papers/raid/traces.py --traces FOLDER
    python papers/raid/traces.py --short -o t.md    # the bundled trace's beginning alone
"""

import sys
import textwrap
from pathlib import Path

import cases
import recorded
import replayed
import traces_tables as tables

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent

HEAD = """# Adaptive RAID on recorded traces

{answer}

{each}

Written by `python papers/raid/traces.py{short}` with forebay {version}, which computes all figures.
Simulated: six drives like {hdd} (HDD) or {ssd} (flash, reduced in size), each behind noop. Replay is
open: requests arrive at their recorded times. Units have four chunks of 64 KiB. Rules use the paper's
costs. Each trace runs {seeds} times, each time with its data in different places: sections of at least
64 MiB, whose boundaries no request crosses, are shuffled. Sections that the trace never uses are left
out. A trace counts up to its {most:,}th request (this shortens: {cut}). *Disk time* is the sum of the
times that the six drives work.

A cell like `12.3 ± 0.4 +` is the percentage of disk time saved compared with static RAID 6 in the same
places: the mean, and half of the distance between the best and the worst run. `+` means that the array
pays, `!` that it loses, and no mark that the result is noise: no more than the whole distance, or than
{matters:.0f} %. A RAID 6 array that could change levels but never does saves or loses at most
{control:.1f} %, because its table is longer.
"""

COUNTED = """On how many of the {traces} traces each array pays, and its largest and smallest saving. "pays over both"
means more than the better of static RAID 6 and three copies, so that a single good choice would not be
enough. All data exist before the trace begins, as RAID 6 (or as three copies, static). "in-place" is the
paper's way of writing, "fresh" that of our volumes. "paper's" is its bonus and malus rule; "ours" is `best`;
the work function is the textbook rule, for comparison.
"""

ASKED = """The decisive factors are how often a unit is written after its first write, and in which sizes. "units" is the
number of units written, "each" and "most" are the mean and maximum number of writes to a unit, and "1 chunk"
is the share of writes that mirrors serve better in the paper's table 1. The last two columns are bounds on
what any rule that begins with RAID 6 can save: the time of the writes in the paper's cost model, minus that
of the offline optimum. The bounds ignore reads, so less disk time can be saved.
"""

SIMULATED = """Disk time; all data exist beforehand, and units begin as RAID 6.
"""

SWITCHED = """Switches per hundred units that the trace reads or writes, with writes in place, from RAID 6. Above 100, a
unit changes more than once on average. "p." is the paper's rule, "o." ours, "w." the work function.
"""

COPIES = """Here all units begin as three copies, with writes in place. The array for comparison is still RAID 6.
"""

NEW = """Here the array is empty at the start, and a unit begins with the level that suits its first write (fresh
cells, {seeds} runs each). Reads of data that was never written cost nothing in any array.
"""

REGRET = """The percentage by which writes cost more than the offline optimum with a free initial layout, in the paper's
cost model, as the mean over runs. "p." is the paper's rule and "o." ours. Units begin as RAID 6 ("6"), as
three copies ("10"), or with the level that suits their first write ("w").
"""

REACHED = """The paper reports how close its rule comes to the optimum on its own loads and hard disks. These are the same
figures, in its own cost model, on recorded traces.
"""

TAILS = """The latency that 99 % of writes do not exceed, compared with static RAID 6: on how many traces it is shorter
or longer, by more than the distance between runs and than {matters:.0f} %, and the worst case. A switch uses
all drives while clients wait, so tails can grow even if disk time does not.
"""

LATENT = """Milliseconds with RAID 6 / the paper's rule / ours, for units that begin as RAID 6.
"""

LESS = """RAID 5 and two copies survive one failure, all others here two. For each byte of data the drives store 1.25
bytes with RAID 5, 1.5 with RAID 6, 2 with two copies and 3 with three. An adaptive array promises what RAID 6
promises, and uses free space for copies. Percentage of disk time saved; fresh cells, one run.
"""

LESSONS = [
    "New data hardly need a switch: where each unit begins as suits its first write, both rules are next to the "
    "optimum of the cost model.",
    "Our rule loses more than the paper's. It takes a unit where most other units gain, with the unit's first write; "
    "a unit that is written once or a few times never earns that switch back. The work function waits, and "
    "loses least.",
    "Tails of writes can grow where disk time stays the same: see *Is it felt?*.",
]
RULED = {"paper's": "the paper's rule", "ours": "our rule"}


def listed(gains: dict) -> str:
    """Returns traces by name."""
    return f" ({', '.join(gains)})" if gains else ""


def sentence(results, device, update, rule) -> str:
    """Describes the effect of a rule on these drives."""
    told = tables.verdicts(results, device, update, tables.BESIDE[rule])
    pays, noise, loses = told["pays"], told["noise"], told["loses"]
    drives = {cases.HDD: "hard disks", cases.SSD: "flash drives"}[device]
    saves = f"saves {min(pays.values()):.0f} to {max(pays.values()):.0f} % on" if pays else "pays on"
    worst = f", up to {-min(loses.values()):.0f} %" if loses else ""
    return (f"On {drives} {RULED[rule]} {saves} {len(pays)} of {len(results.traces)} traces{listed(pays)}. "
            f"It is noise on {len(noise)}{listed(noise)}. It loses on {len(loses)}{listed(loses)}{worst}.")


def answer(results) -> tuple[str, str]:
    """Returns the first sentence, and the conclusions from the tables."""
    many, every = len(results.traces), [(device, update) for device in cases.COSTS for update in replayed.UPDATES]
    paying = tables.verdicts(results, cases.HDD, "in-place", tables.BESIDE["paper's"])["pays"]
    over = {name for device, update in every for rule in RULED
            for name in tables.verdicts(results, device, update, tables.BESIDE[rule], ("raid6", "raid10x3"))["pays"]}
    first = ("Adapting pays where small writes keep coming back to the same units; it is noise where a trace mostly "
             "reads, or writes once; it loses where units are written only a few times. With the paper's rule on hard "
             f"disks it pays on {len(paying)} of {many} traces.")
    told = [f"It beats the better of static RAID 6 and static three copies on {len(over)} of {many} traces"
            f"{listed(dict.fromkeys(over))}. What it gives is a part of what three copies save, in an array that "
            "promises as many bytes as RAID 6."]
    told += [sentence(results, device, "in-place", rule) for device in cases.COSTS for rule in RULED]
    return wrapped(first), "".join(wrapped(f"- {each}", "  ") + "\n" for each in [*told, *LESSONS])


def paragraphs(text: str) -> str:
    """Wraps prose to lines that fit."""
    return "\n\n".join(each if each.startswith(("#", "- ")) else wrapped(" ".join(each.split()))
                       for each in text.strip().split("\n\n")) + "\n"


def wrapped(text: str, indent: str = "") -> str:
    """Wraps text to lines that fit."""
    return textwrap.fill(text, 100, subsequent_indent=indent, break_on_hyphens=False)


def head(results) -> str:
    """Returns the text above the tables."""
    first, each = answer(results)
    cut = ", ".join(trace.name for trace in results.traces if trace.is_cut)
    return paragraphs(HEAD.format(answer=first, each=each, short=" --short" if results.short else "", cut=cut or "none",
                       version=forebay.__version__, hdd=cases.HDD, ssd=cases.SSD, seeds=len(results.seeds),
                       most=results.traces[0].most, matters=tables.MATTERS, control=tables.control(results)))


def page(results) -> str:
    """Returns the complete page."""
    parts = [head(results)]
    few = min(replayed.NEW_SEEDS, len(results.seeds))
    sections = [
        ("Where does adapting pay?", COUNTED.format(traces=len(results.traces)), tables.counted(results)),
        ("What do the traces ask?", ASKED, tables.asked(results)),
        *((f"What is saved on {name}, {update}?", SIMULATED, tables.simulated(results, device, update))
          for device, name in tables.NAMES.items() for update in replayed.UPDATES),
        ("How much changes?", SWITCHED, tables.switched(results)),
        ("What if units begin as three copies?", COPIES, tables.from_copies(results)),
        ("What if the first write chooses?", NEW.format(seeds=few), tables.new(results)),
        ("How far from the optimum?", REGRET, tables.regret(results)),
        ("And the paper?", REACHED, tables.reached(results)),
        ("Is it felt?", TAILS.format(matters=tables.TAIL_MATTERS), tables.tails(results)),
        ("How long do requests take?", LATENT, "\n".join(
            f"{name}, {update}:\n\n{tables.latencies(results, device, update)}"
            for device, name in tables.NAMES.items() for update in replayed.UPDATES)),
        ("What would less redundancy save?", LESS, tables.less(results)),
    ]
    for title, text, table in sections:
        parts += [f"## {title}\n", paragraphs(text), table]
    return "\n".join(parts)


def main(words=None) -> None:
    """Runs everything and writes the page."""
    options = reproduce.arguments([str(HERE), *(sys.argv[1:] if words is None else words)])
    results = replayed.Results(options)
    if options.pictures:
        import traces_pictures

        traces_pictures.draw(results, options.pictures)
    output = options.output or HERE / "traces.md"
    output.write_text(page(results))
    print(f"forebay: wrote {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
