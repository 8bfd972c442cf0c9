"""Sweeps: run simulate, plan, describe, fit, compare, advise, cache and windows on many traces, volumes and parameters,
storing each answer as it arrives.

    import forebay

    found = forebay.sweep(
        {"simulate": {"device": ["st1000nm0011", "fixed:300"], "policy": ["none", "mq-deadline"]}},
        ["day1.parquet", "day2.parquet"],
        output="answers",
    )
    found.to_polars()

A *cell* is one question: a verb, a trace or one of its volumes, and one value for each parameter. Its name is a hash of
all of these, of the trace's address, size and modification time, and of Forebay's version. Answers are appended to a
Parquet dataset as they arrive; a repeated sweep, for example after an interruption or with additional cells, computes
only missing cells.

Cells run on processes of this machine, on any `concurrent.futures.Executor`, or on a Dask cluster. Batch systems run
`python -m forebay.sweep QUESTIONS.json --shard 1/8` once for each part.
"""

import sys
from types import ModuleType
from typing import Any

from .answers import Answers
from .ask import sweep
from .grid import Cell, cells
from .report import report

__all__ = ["Answers", "Cell", "cells", "report", "sweep"]

class _Sweep(ModuleType):
    """This package, which can be called like its function: `forebay.sweep(...)`."""

    def __call__(self, *words: Any, **options: Any) -> Answers:
        return sweep(*words, **options)


sys.modules[__name__].__class__ = _Sweep
