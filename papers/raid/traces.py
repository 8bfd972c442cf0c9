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

Written by `python papers/raid/traces.py{short}` with forebay {version}; nothing here is typed in but words.
Simulated: six drives like {hdd} (HDD) or {ssd} (flash, made smaller), each behind noop. Replay is
open: requests arrive when the trace says. Units have four chunks of 64 KiB. Rules go by the paper's costs.
Each trace runs {seeds} times, each time with its data in other places: sections of 64 MiB and more,
which no request crosses, are shuffled. Sections that the trace never uses are left out. A trace counts up
to its {most:,}th request (shortened so: {cut}). *Disk time* is the time that the six drives work, added up.

A cell like `12.3 ± 0.4 +` is the percentage of disk time saved over static RAID 6 on the same places:
the mean, and half of the distance between the best run and the worst. `+` says that it pays, `!` that it
loses, nothing that it is noise: no more than the whole distance, or than {matters:.0f} %. A RAID 6 that could
change and never does saves {control:.1f} % at most, either way, since its table is longer.
"""

COUNTED = """On how many of the {traces} traces each array pays, and the most and the least that it saves. "pays over
both": beyond the better of static RAID 6 and three copies, so that choosing well once would not do.
All data are there before the trace begins, as RAID 6 (or as three copies, static). "in-place" is the paper's
way to write, "fresh" is that of our volumes. "paper's" is its bonus and malus; "ours" is `best`; the work
function is the textbook's rule, to compare with.
"""

ASKED = """What decides it is how often a unit is written once it is there, and in which sizes. "units" are those
written, "each" and "most" count the writes of one, and "1 chunk" is the share of writes that mirrors
serve better in the paper's table 1. The last two columns bound what any rule can save that begins as RAID 6:
the writes' time in the paper's cost model, less that of the offline optimum. The bound leaves out reads,
so disk time saves less.
"""

SIMULATED = """Disk time, data there before, units begin as RAID 6.
"""

SWITCHED = """Switches for each hundred units that the trace reads or writes, written in place, from RAID 6. Above 100
a unit changes more than once. "p." is the paper's rule, "o." ours, "w." the work function.
"""

COPIES = """Here all units begin as three copies, written in place. The array that is compared with is still RAID 6.
"""

NEW = """Here nothing is there before, and a unit begins as suits its first write (fresh cells, {seeds} runs each).
Reads of what was never written cost nothing, in every array alike.
"""

REGRET = """Percent that writes cost beyond the offline optimum whose first layout is free, in the paper's cost
model: the mean over runs. "p." is the paper's rule and "o." ours. Units begin as RAID 6 ("6"), as
three copies ("10"), or as suits their first write ("w").
"""

REACHED = """The paper says how near its rule comes to the optimum on its own loads and hard disks. These are the
same figures, in its own cost model, on recorded traces.
"""

TAILS = """The latency that 99 % of writes do not exceed, against static RAID 6: on how many traces it is shorter
or longer, by more than the distance between runs and than {matters:.0f} %, and the worst. A switch goes to all
drives while clients wait, so that tails can grow where disk time does not.
"""

LATENT = """Milliseconds with RAID 6 / the paper's rule / ours, units beginning as RAID 6.
"""

LESS = """RAID 5 and two copies survive one failure, all others here two. For a byte of data the drives hold
1.25 bytes with RAID 5, 1.5 with RAID 6, 2 with two copies and 3 with three. An array that adapts promises
what RAID 6 does, and uses free room for copies. Disk time saved, in percent; fresh cells, one run.
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
