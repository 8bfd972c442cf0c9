"""Checks the laws that every policy must keep on a policy of your own.

    forebay.laws.check(MyPolicy)             # returns nothing, or raises a forebay.Error that names the law
    python -m forebay.laws module:MyPolicy   # the same from a shell

The policy runs on small pseudo-random workloads, which are the same each time, on a generic device:

- each request is answered exactly once, as it was submitted;
- no I/O is longer than the device accepts;
- I/Os transfer exactly the requested bytes;
- no read or write is answered before an I/O could have completed it;
- after a declined offer, the wakeup time is in the future;
- the same calls give the same answers: no clock, no randomness, no state outside the object;
- no request starves while others overtake it.

In the block layer, the second, third and fourth law hold automatically. The built-in policies are checked against the
same laws.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._forebay import Error
from ._forebay import laws_check as _check

__all__ = ["check"]


def check(policy: Callable[[], Any], *, cases: int = 32) -> None:
    """Checks a policy against the laws. `policy` is a class, or any callable that returns a new policy.

    `cases` is the number of workloads, of 1 to 200 requests, short ones first. Raises `forebay.Error` with the first
    broken law and where it was broken. Exceptions of the policy itself are passed on.
    """
    _check(policy, cases)


def main(words: list[str] | None = None) -> int:
    """Runs the command; returns 0 if every law is kept, 1 if one is broken, and 2 if there is no such policy."""
    parser = argparse.ArgumentParser(
        prog="python -m forebay.laws", description="Checks a policy in Python against the laws that every policy must keep."
    )
    parser.add_argument("policy", metavar="MODULE:CLASS", help="an importable module, or a file.py")
    parser.add_argument("--cases", type=int, default=32, help="the number of workloads of 1 to 200 requests (default: 32)")
    options = parser.parse_args(words)
    if options.cases < 1:
        parser.error(f"--cases: got {options.cases}, expected 1 or more")
    try:
        policy = _named(options.policy)
    except (Error, ImportError, OSError) as error:
        print(f"forebay.laws: {error}", file=sys.stderr)
        return 2
    try:
        check(policy, cases=options.cases)
    except Error as error:
        print(f"forebay.laws: {error}", file=sys.stderr)
        return 1
    # A policy may raise any exception.
    except Exception as error:
        return _raised(error)
    print(f"{options.policy} keeps every law, on {options.cases} workloads and together with a greedy stream")
    return 0


def _raised(error: Exception) -> int:
    """Prints the policy's exception with the traceback from the policy's own code on."""
    notes = getattr(error, "__notes__", [])
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename == __file__:
        own = own.tb_next
    if own is not None:
        traceback.print_exception(type(error), error, own)
        return 1
    print("\n".join([f"forebay.laws: {error}", *notes]), file=sys.stderr)
    return 1 if notes else 2


def _named(text: str) -> Callable[[], Any]:
    place, colon, name = text.rpartition(":")
    if not colon:
        raise Error(f"got '{text}', expected MODULE:CLASS, such as examples/policies/shortest_seek.py:ShortestSeek")
    path = Path(place)
    sys.path.insert(0, str(path.parent.resolve() if path.suffix == ".py" else Path.cwd()))
    module = importlib.import_module(path.stem if path.suffix == ".py" else place)
    policy: Callable[[], Any] | None = getattr(module, name, None)
    if policy is None:
        raise Error(f"{place} has no '{name}'")
    return policy


if __name__ == "__main__":
    sys.exit(main())
