"""Reproduces the **shift** paper: what transforming logs costs writers, by simulation.

    make reproduce PAPER=shift    # or: python -m forebay.reproduce papers/shift
    python -m forebay.reproduce papers/shift --short -o t.md    # 40 MB each, in a minute
    python -m forebay.reproduce papers/shift --full             # every run with 10 GB, as the paper

It needs no traces.
"""

from pathlib import Path

import cases
import claims
import periods

import forebay
from forebay import reproduce

HERE = Path(__file__).resolve().parent

HEAD = """# Workload Shifting: the paper's figures and ours

F. Pan, Y. Yue, J. Xiong, "Workload Shifting: Contention-Insular Disk Arrays for Big Data Systems". Written by
`{command}` with forebay {version}, which computes all figures except the paper's own
([expected.toml](expected.toml)); the reasons are in [why.toml](why.toml). [README.md](README.md) has the
conclusions.

The store's own code was simulated in virtual time, on models of four ST1000NM0011: puts of 100 KB by one writer,
{host} ms from an answer to the next put, random keys, logs of 5 MB that are read back before they are sorted, and
RAID 0 in chunks of 64 KiB, unless a table says otherwise.

Puts count *to cache* once they are in the disk's cache, as the paper's 3.05 ms per put implies, and *to media* once
they are on the platters of a disk without a cache; *flushed* puts go to a disk with a cache that is then flushed,
on RAID 0 every disk. Logs become either part of one B+tree per disk (*in place*), with pages of 8 KiB, separately
stored values, changed pages that are written to their places one after another once a log is in the tree, and
leaves in memory in the ratio of the paper's 2 GB to its 10 GB of data; or *runs*, this store's own structure,
written in one pass and never merged here.

The claims are runs of {main} MB; the sweeps have {mb} MB (values of 1 KB {few}), with times scaled to the paper's
10 GB. *Slowed* is how much longer puts take with transformation.
"""


def main(options) -> str:
    """Returns the text of the tables."""
    mb = 40 if options.short else cases.PAPER_MB if options.full else 1000
    main_mb = mb if options.short else cases.PAPER_MB
    words = ["python -m forebay.reproduce papers/shift", *(["--short"] if options.short else []),
             *(["--full"] if options.full else [])]
    if options.short:
        options.processes = 1
    runs = cases.Runs(options, mb)
    results = claims.Results(runs, mb, main_mb, options.short)
    compared = periods.Periods(runs, options.short)
    alternations = periods.Alternations(runs, options.short)
    results.ask()
    results.periods = compared.claims()
    if options.pictures:
        import shift_pictures

        shift_pictures.draw(results, compared, alternations, options.pictures)
    expected, why = reproduce.claims(HERE / "expected.toml"), reproduce.load(HERE / "why.toml")
    few = max(mb // cases.SMALL, 1)
    head = HEAD.format(command=" ".join(words), version=forebay.__version__, mb=mb, main=main_mb, few=few,
                       host=cases.host_ms(100_000))
    sections = {
        "The claims": (CLAIMS, claims.table(results, expected, why)),
        "Figure 9: logging against transformation": (FIGURE_9, compared.table()),
        "Figures 6 to 8: alternations of stages": (ALTERNATIONS, alternations.table()),
        **{title: (TEXTS[name], claims.swept(results, name)) for name, (title, *_) in results.listed.items()},
    }
    parts = [head, *(f"## {title}\n\n{text.strip()}\n\n{table}" for title, (text, table) in sections.items())]
    return "\n\n".join(part.strip() for part in parts) + "\n"


CLAIMS = """A verdict is over the six settings beside it; *in all sweeps* over every run of the sweeps below, except those that
merge and those with sequential keys. A slowdown in the paper is confirmed by at least half of it; times up to 3 %
longer count as equal; a rate is met within a fifth."""
FIGURE_9 = """Milliseconds per log. *No sync*: puts of up to 400 KB at a time and 0.1 ms between them, so that nobody waits for
the disk. Transformations are those of rare puts, so that each is alone on its disks."""
ALTERNATIONS = """Found among runs in place with different host times, logs and pages: *ideal* is the calm run whose transformation
takes closest to two logging periods (one to read, one to write, as drawn in figure 6); *acceptable* is closest to
the paper's own; *bad* is the run in which duty passed most often to a busy disk. Our transformations never overlap
on a disk: if there are too many they wait, and logs overlap them."""
OPEN = "The paper does not say."
TEXTS = {
    "disks": "The paper: Workload Shifting stays as it is, Log+RAID0 takes less time and is slowed less with more disks.",
    "logs": "The paper: neither changes with the size of a log.",
    "values": "The paper puts 38.6, 31.1 and 6.3 MB/s with values of 1000, 100 and 10 KB (figure 10). Host time is 1.16 ms and\n"
              "14.4 us for each KB: two of its rates chose that, so figure 10 is a test of the third, 1000 KB, alone.",
    "keys": "The paper: sequential keys need no transformation. A store does not know that they will be; ours are transformed.",
    "chunks": OPEN, "hosts": OPEN + " To media a put within a revolution of the last one waits for the rest of it.",
    "depths": OPEN + " One: a thread that waits for each write.",
    "syncs": OPEN,
    "pages": OPEN + " With pages of 512 KiB values of 100 KB lie in the leaves and move with them.",
    "memories": "The paper has 2 GB of memory. Values of 1 KB lie in leaves of 8 KiB, which are read where memory has no room.",
    "merging": "The paper merges nothing. Runs are merged while disks are idle; on RAID 0 none is, and merging meets what is put.",
}
