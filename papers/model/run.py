"""Reproduces the **model** paper: its tables and figures on our traces.

    make reproduce PAPER=model    # or: python -m forebay.reproduce papers/model
    python -m forebay.reproduce papers/model --short -o t.md    # the bundled trace alone

The traces are those that `workloads.py` lists, in the folder that `--traces` names.
"""

import warnings
from pathlib import Path

import alike
import held_out
import remedies
import structure
import workloads
from study import Study

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent

HEAD = """# The storage workload model: the paper's figures and ours

C. Delimitrou and others, "Decoupling Datacenter Studies from Access to Large-Scale Applications: A
Modeling Approach for Storage Workloads" (IISWC 2011). Written by `{command}` with forebay {version},
which computes all figures except the paper's own ([expected.toml](expected.toml)).

The paper's traces are not available; ours are {traces}. The *twin* is what `forebay generate` (seed 1)
makes of the model that `forebay fit` makes of the whole trace. In place of IOMeter there is the
*locality-free* load: the same number of requests, mix of sizes, share of reads, share of sequential
requests and mean inter-arrival time, and everything else uniform, like fio's random job. The disk is
{disk} in simulation, noop, queue depth 1, and the flash is {flash}. *Throughput* is that of the disk if
all requests are available at once, because at recorded times it only reflects the arrivals. Deviations
are ours minus the nearer end of the paper's range, in the row's unit.
"""


def main(options) -> str:
    """Returns the text of the tables."""
    warnings.simplefilter("ignore", forebay.TraceWarning)
    listed = workloads.workloads(options)
    study = Study(reproduce.claims(HERE / "expected.toml"))
    words = ["python -m forebay.reproduce papers/model", *(["--short"] if options.short else [])]
    parts = [HEAD.format(command=" ".join(words), version=forebay.__version__,
                         traces=", ".join(workload.name for workload in listed),
                         disk=workloads.DISK, flash=options.flash)]
    sections = {
        "Table I: states and transitions": lambda: structure.table_one(study),
        "Table IV: features, original against twin": lambda: alike.features(study, listed),
        "Table V: what each generator can stand in for": lambda: alike.supported(listed),
        "Figure 4: throughput of original and twin": lambda: alike.throughput(study, listed),
        "Figure 5: activity over time": lambda: alike.activity(study, listed),
        "Figure 6: throughput by levels, hierarchical and flat": lambda: structure.by_level(study, listed),
        "Table VI: patterns without locality": lambda: structure.simple(study, options),
        "Figure 3: intensity": lambda: structure.turned_up(listed, options),
        "Table VII: how requests gather in states": lambda: structure.gathered(listed),
        "Figure 7: SSD caching": lambda: remedies.caches(study, listed, options),
        "Table VIII, figures 8 and 9: defragmentation": lambda: remedies.defragmented(study, listed),
        "Which of the two pays more": lambda: remedies.pays(listed, options),
        "Beyond the paper: fitted on a part, held against the rest": lambda: held_out.section(listed),
    }
    for title, section in sections.items():
        parts += [f"## {title}\n", section()]
    if options.pictures:
        import model_pictures

        model_pictures.draw(listed, options)
    return "\n".join(parts)
