"""Forebay: what a storage workload does to its disks, and what would help.

    import forebay

    trace = forebay.read("trace.parquet")      # any format that the command reads
    forebay.describe(trace)["sequential_share"]
    forebay.simulate(trace, device="st1000nm0011", policy=["noop", "bid"]).to_polars()
    forebay.advise(trace, report="report.html").headline
    forebay.compare(trace, "other.parquet")["verdict"]["text"]

Traces and results open in Polars, pandas and pyarrow without copies. Wherever a function accepts the path of a trace,
it also accepts a table from these libraries with the columns of a trace. The last word of every name is the unit.
"""

from importlib import import_module

from . import _forebay
from ._forebay import (
    Advice,
    Batches,
    Error,
    Request,
    Result,
    Snapshot,
    Store,
    Table,
    Trace,
    TraceWarning,
    __version__,
    adapt,
    adapt_writes,
    read,
)

__all__ = [
    "Advice",
    "Batches",
    "Error",
    "Request",
    "Result",
    "Snapshot",
    "Store",
    "Table",
    "Trace",
    "TraceWarning",
    "__version__",
    "adapt",
    "adapt_writes",
    "fleet",
    "laws",
    "read",
    "sweep",
    *_forebay.VERBS,
]

# The verbs are functions that are made from their declarations.
globals().update({name: getattr(_forebay, name) for name in _forebay.VERBS})


def __getattr__(name: str) -> object:
    # Import these lazily, because they need pyarrow or are also run as scripts.
    if name in ("fleet", "laws", "sweep"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
