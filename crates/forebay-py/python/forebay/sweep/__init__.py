"""Sweeps: simulate, plan, describe, fit, compare, advise, cache and windows over many traces, volumes and parameters, each answer kept as it comes.

    import forebay

    found = forebay.sweep(
        {"simulate": {"device": ["st1000nm0011", "fixed:300"], "policy": ["none", "mq-deadline"]}},
        ["day1.parquet", "day2.parquet"],
        output="answers",
    )
    found.to_polars()

A *cell* is one question: a verb, a trace or one of its volumes, and one value of each parameter. It is named by a hash
of all of these, of what the trace is like (address, size, time of its last change) and of Forebay's version. Answers go to
a Parquet dataset as they come; who asks again, after an interruption or with more cells, waits only for what is missing.

What runs them: processes of this machine, any `concurrent.futures.Executor`, or a Dask cluster. Batch systems run
`python -m forebay.sweep QUESTIONS.json --shard 1/8`, one for each part.
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
    """This package, which is called as its function is: `forebay.sweep(...)`."""

    def __call__(self, *words: Any, **options: Any) -> Answers:
        return sweep(*words, **options)


sys.modules[__name__].__class__ = _Sweep
