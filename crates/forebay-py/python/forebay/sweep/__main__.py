"""`python -m forebay.sweep QUESTIONS.json`: runs a sweep without a script, either completely or one shard of it for a
batch system.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from .. import Error
from .ask import sweep

_EXAMPLE = """QUESTIONS.json contains arguments of forebay.sweep:

  {
    "grid": {"simulate": {"device": ["st1000nm0011"], "policy": ["none", "mq-deadline", "bfq"]}},
    "traces": ["day1.parquet", "s3://bucket/day2.parquet"],
    "output": "answers",
    "by_volume": false,
    "storage": {}
  }

A batch system runs one shard per job. All jobs write to the same output folder, which their machines share:

  python -m forebay.sweep questions.json --shard 3/8
"""


def main(words: list[str] | None = None) -> int:
    """Runs the command; returns 0 if all cells have an answer, 1 if some failed, and 2 if nothing could be run."""
    parser = argparse.ArgumentParser(
        prog="python -m forebay.sweep",
        description="Answers every question of a grid about every trace; existing answers are not computed again.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("questions", type=Path, metavar="QUESTIONS.json")
    parser.add_argument("--output", help="the folder for the answers, instead of the one in the file")
    parser.add_argument("--shard", metavar="I/N", help="run only part I of N, counted from 1")
    parser.add_argument("--processes", type=int, help="the number of processes on this machine (default: one per processor)")
    parser.add_argument("--client", metavar="ADDRESS", help="the scheduler of a Dask cluster to use instead of processes")
    parser.add_argument("--retry", action="store_true", help="retry failed cells")
    options = parser.parse_args(words)
    # Batch systems end a job with SIGTERM, and its worker processes must end too.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        asked = _questions(options.questions)
        output = options.output or asked.pop("output", None)
        asked.pop("output", None)
        if output is None:
            raise Error(f"{options.questions}: got no output, expected a folder for the answers")
        found = sweep(
            **asked,
            output=output,
            shard=_shard(options.shard),
            processes=options.processes,
            client=options.client,
            retry=options.retry,
        )
        failed = found.failed()
    except (Error, OSError) as error:
        print(f"forebay.sweep: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("forebay.sweep: stopped; all answers so far are kept", file=sys.stderr)
        return 130
    print(
        f"{len(found):,} cells: {len(found) - found.fresh:,} were answered before, {found.fresh:,} now, "
        f"{len(failed):,} failed; the answers are in {output}"
    )
    for row in failed[:5]:
        print(f"failed: {row['verb']} {row['trace']} {row['volume']}: {row['error']}", file=sys.stderr)
    return 1 if failed else 0


def _terminated(*_: object) -> None:
    raise SystemExit(143)


def _questions(path: Path) -> dict[str, Any]:
    known = {"grid", "traces", "output", "by_volume", "storage"}
    try:
        asked = json.loads(path.read_text())
    except ValueError as error:
        raise Error(f"{path}: {error}; expected JSON") from None
    if not isinstance(asked, dict) or not {"grid", "traces"} <= asked.keys() <= known:
        got = ", ".join(asked) if isinstance(asked, dict) else type(asked).__name__
        raise Error(f"{path}: got {got}, expected grid, traces and some of: {', '.join(sorted(known))}")
    return asked


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    part, slash, parts = text.partition("/")
    if not (slash and part.isdigit() and parts.isdigit()):
        raise Error(f"--shard: got '{text}', expected I/N, such as 3/8")
    return int(part), int(parts)


if __name__ == "__main__":
    sys.exit(main())
