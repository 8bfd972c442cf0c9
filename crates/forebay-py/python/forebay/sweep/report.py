"""A sweep as a page: how many cells have an answer, results by verb, a chart of one figure over one parameter, and
failures.

Invariants: every cell is counted once; a figure over a parameter is the median of the cells that share all other
parameters, and the page states their number; pages are written atomically. In the API, a figure or a parameter is named
by its key; on the page, it is named in words, with a unit chosen by magnitude.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .. import Error
from .._forebay import axis_scale, key_words, shown_value, write_page
from .answers import Answers, Dataset

_FIGURES = {
    "simulate": ("busy_s", "makespan_s", "read_p99_ms", "write_p99_ms"),
    "plan": ("capacity_iops",),
    "cache": ("recommended.size_mib", "recommended.lru_miss_ratio", "accesses", "distinct_blocks"),
    "compare": ("mrc_mean_error",),
    "windows": ("requests",),
}
"""The figures in a verb's table; for other verbs, and if none of these exists, the first figures."""

_FIGURES_SHOWN = 6
_ROWS_SHOWN = 200
_FAILURES_SHOWN = 40
_LINES_SHOWN = 12
_BARS_SHOWN = 24

Row = dict[str, Any]


def report(
    answers: Answers | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    figure: str | None = None,
    along: str | None = None,
) -> None:
    """Writes the results of a sweep as a page, in the design of `forebay advise --output`.

    `answers` is the result of `forebay.sweep`, or the folder of its answers, all of which are then shown. The chart
    shows `figure`, a column of `to_pyarrow()`, over `along`, which is a parameter, `trace` or `volume`. By default it
    shows the verb's most informative figure over the first parameter with several values.

    Raises `forebay.Error` if there are no answers or none has the figure or the parameter, and `OSError` if the page
    cannot be written.
    """
    rows = [_flat(row) for row in _rows(answers)]
    if not rows:
        raise Error(f"{answers}: got no answers, expected those of a sweep")
    told = _told(rows, figure, along)
    write_page(json.dumps(told), os.fspath(path))


def _rows(answers: Answers | str | os.PathLike[str]) -> list[Row]:
    """Returns one row per cell: for a sweep in its order, for a folder sorted by question."""
    if isinstance(answers, Answers):
        names = {cell.name: at for at, cell in enumerate(answers._asked)}
        rows = answers._dataset.rows(set(names)).to_pylist()
        return sorted(rows, key=lambda row: names[row["cell"]])
    if not Path(answers).is_dir():
        raise Error(f"{os.fspath(answers)}: got no folder, expected that of a sweep's answers")
    dataset = Dataset(answers)
    rows = dataset.rows(dataset.answered(again=False)).to_pylist()
    return sorted(rows, key=lambda row: [row[key] for key in ("verb", "trace", "volume", "parameters", "version")])


def _flat(row: Row) -> Row:
    """Flattens a cell's question, outcome and figures; integers stay integers."""
    answer = json.loads(row["answer"]) if row["answer"] else {}
    return {
        "verb": row["verb"],
        "asked": {
            "trace": row["trace"],
            "volume": row["volume"],
            **{name: _plain(value) for name, value in json.loads(row["parameters"]).items()},
        },
        "error": row["error"],
        "elapsed_s": row["elapsed_s"],
        "notes": row["notes"] or [],
        "figures": _numbers(answer) | {"elapsed_s": row["elapsed_s"]},
    }


def _numbers(answer: Any, prefix: str = "") -> dict[str, float]:
    """Returns numbers by dotted name; a list with a single table counts as that table."""
    found: dict[str, float] = {}
    for name, value in answer.items() if isinstance(answer, dict) else ():
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            found = _numbers(value[0]) | found
        elif isinstance(value, dict):
            found |= _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = value
    return found


def _plain(value: Any) -> Any:
    is_plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return value if is_plain else json.dumps(value)


def _told(rows: list[Row], figure: str | None, along: str | None) -> dict[str, Any]:
    done = [row for row in rows if row["error"] is None]
    failed = [row for row in rows if row["error"] is not None]
    chosen = _chosen(done, figure, along)
    of_picture: dict[str, Any] = {}
    said = [_counts(rows, failed)]
    if chosen:
        of_picture, found = _picture(done, *chosen)
        # The page begins with the result. If cells failed, that is part of the result.
        said = [*found[:1], *said, *found[1:]] if not failed else [f"{found[0]} {said[0]}", *found[1:]]
    verbs = [verb for verb in dict.fromkeys(row["verb"] for row in rows)]
    tables = [_table(verb, [row for row in done if row["verb"] == verb]) for verb in verbs]
    notes = Counter(note for row in done for note in row["notes"])
    cautions = [f"{note} ({_cells(count)})" for note, count in notes.most_common(_FAILURES_SHOWN)]
    whole = "All cells have an answer" if not failed else "Some cells failed"
    return {
        "title": "a sweep",
        "verdict": whole,
        "headline": said[0],
        "findings": said[1:] + [_took(done)] if done else said[1:],
        "cautions": cautions,
        "tables": [table for table in tables if table["rows"]] + _failures(failed),
        "curve": None,
        **of_picture,
    }


def _cells(count: int) -> str:
    return f"{count:,} cell" + ("" if count == 1 else "s")


def _counts(rows: list[Row], failed: list[Row]) -> str:
    verbs = Counter(row["verb"] for row in rows)
    each = ", ".join(f"{count:,} of {verb}" for verb, count in verbs.items())
    traces = len({row["asked"]["trace"] for row in rows})
    about = f"about {traces:,} trace" + ("" if traces == 1 else "s")
    if not failed:
        return f"All {_cells(len(rows))} {about} have an answer: {each}." if len(rows) > 1 else f"The cell has an answer: {each}."
    return f"{_cells(len(rows))} {about} ({each}): {len(rows) - len(failed):,} have an answer, {len(failed):,} failed."


def _took(done: list[Row]) -> str:
    times = [row["elapsed_s"] for row in done]
    middle, most, whole = (shown_value("elapsed_s", time) for time in (median(times), max(times), sum(times)))
    return f"Median time per cell: {middle}; longest: {most}; total: {whole}."


def _varying(rows: Iterable[Row]) -> list[str]:
    """Returns the parameters with several values, the verb's own ones first."""
    values: dict[str, set[Any]] = {}
    for row in rows:
        for name, value in row["asked"].items():
            values.setdefault(name, set()).add(value)
    names = [name for name, of in values.items() if len(of) > 1]
    return sorted(names, key=lambda name: name in ("trace", "volume"))


def _best_figures(verb: str, rows: list[Row]) -> list[str]:
    known = [name for name in _FIGURES.get(verb, ()) if any(name in row["figures"] for row in rows)]
    return known or [name for name in rows[0]["figures"]][:_FIGURES_SHOWN]


def _chosen(done: list[Row], figure: str | None, along: str | None) -> tuple[str, str, str] | None:
    """Chooses the verb, the figure and the parameter for the chart; returns None if nothing varies and no chart was
    requested.
    """
    for name in dict.fromkeys(row["verb"] for row in done):
        rows = [row for row in done if row["verb"] == name]
        over = [along] if along else _varying(rows)
        figures = [figure] if figure else _best_figures(name, rows)
        if over and any(over[0] in row["asked"] and figures[0] in row["figures"] for row in rows):
            return name, figures[0], over[0]
    if figure is None and along is None:
        return None
    known = sorted({name for row in done for name in row["figures"]})
    asked = sorted({name for row in done for name in row["asked"]})
    raise Error(
        f"report: got figure={figure!r}, along={along!r}, expected one of the figures {', '.join(known) or '(none)'} "
        f"over one of {', '.join(asked) or '(none)'}"
    )


def _picture(done: list[Row], verb: str, figure: str, along: str) -> tuple[dict[str, Any], list[str]]:
    """Draws lines over a number or bars over anything else, and describes the result in a sentence."""
    rows = [row for row in done if row["verb"] == verb and figure in row["figures"] and along in row["asked"]]
    others = [name for name in _varying(rows) if name not in (along, "trace", "volume")]
    groups: dict[str, dict[Any, list[float]]] = {}
    whole: dict[Any, list[float]] = {}
    for row in rows:
        name = ", ".join(_parameter(other, row["asked"].get(other)) for other in others)
        value = row["figures"][figure]
        groups.setdefault(name, {}).setdefault(row["asked"][along], []).append(value)
        whole.setdefault(row["asked"][along], []).append(value)
    medians = {at: median(values) for at, values in whole.items()}
    least, most = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
    words, over = key_words(figure), key_words(along)
    at_least, at_most = (f"at {_parameter(along, at)} ({shown_value(figure, medians[at])})" for at in (least, most))
    said = [
        f"{verb}: {words} is lowest {at_least} and highest {at_most}."
        if least != most
        else f"{verb}: {words} is {shown_value(figure, medians[least])} at {_parameter(along, least)}.",
    ]
    cells = min(map(len, whole.values()))
    if cells > 1:
        said.append(f"Each figure is the median of at least {_cells(cells)}.")
    title = f"{verb}: {words} over {over}"
    up, up_named = _axis(figure, medians.values())
    if all(isinstance(at, (int, float)) for at in whole) and len(whole) > 1:
        across, across_named = _axis(along, whole)
        lines = [
            {"name": name, "points": [[at * across, median(values) * up] for at, values in sorted(of.items())]}
            for name, of in list(groups.items())[:_LINES_SHOWN]
        ]
        if len(groups) > _LINES_SHOWN:
            named = ", ".join(map(key_words, others))
            said.append(f"The picture shows {_LINES_SHOWN} of {len(groups)} combinations of {named}.")
        curve = {"title": title, "along": across_named, "up": up_named, "points": [], "lines": lines}
        return {"curve": curve}, said
    bars = [
        {"name": ", ".join(filter(None, [str(_cell(along, at)), name])), "size": median(values) * up}
        for name, of in groups.items()
        for at, values in of.items()
    ]
    if len(bars) > _BARS_SHOWN:
        said.append(f"The picture shows {_BARS_SHOWN} of {len(bars)} bars.")
    return {"bars": {"title": title, "told": f"the median of {up_named}", "bars": bars[:_BARS_SHOWN]}}, said


def _table(verb: str, rows: list[Row]) -> dict[str, Any]:
    if not rows:
        return {"title": verb, "heads": [], "rows": []}
    asked = list(dict.fromkeys(name for row in rows for name in row["asked"]))
    asked = [name for name in asked if name == "trace" or any(row["asked"].get(name) not in (None, "") for row in rows)]
    shown = _best_figures(verb, rows)[:_FIGURES_SHOWN]
    lines = [
        [*(_cell(name, row["asked"].get(name)) for name in asked), *(_figure(name, row["figures"].get(name)) for name in shown)]
        for row in rows[:_ROWS_SHOWN]
    ]
    more = f" The first {_ROWS_SHOWN} are shown; to_pyarrow() returns all." if len(rows) > _ROWS_SHOWN else ""
    return {
        "title": f"Results of {verb}",
        "told": f"{_cells(len(rows))}.{more}",
        "heads": [key_words(name) for name in (*asked, *shown)],
        "rows": lines,
    }


def _axis(key: str, values: Iterable[float]) -> tuple[float, str]:
    """Returns the factor for a key's values on an axis, and the label of the axis."""
    times, unit = axis_scale(key, max(map(abs, values), default=0.0))
    return times, f"{key_words(key)}, {unit}" if unit else key_words(key)


def _figure(key: str, value: float | None) -> str | None:
    return None if value is None else shown_value(key, value)


def _parameter(name: str, value: Any) -> str:
    """Describes a parameter and its value in words."""
    return f"{key_words(name)} {_cell(name, value)}"


def _cell(name: str, value: Any) -> Any:
    """Formats a parameter as it was given, with its unit if its name has one."""
    if isinstance(value, (int, float)) and axis_scale(name, 1.0)[1]:
        return shown_value(name, value)
    return value if isinstance(value, (int, type(None))) else f"{value:g}" if isinstance(value, float) else str(value)


def _failures(failed: Sequence[Row]) -> list[dict[str, Any]]:
    """Builds a table of failures, with the most frequent messages first."""
    if not failed:
        return []
    messages = Counter(row["error"] for row in failed)
    ranked = sorted(failed, key=lambda row: -messages[row["error"]])
    lines = [
        [
            row["asked"]["trace"] + (f" {row['asked']['volume']}" if row["asked"]["volume"] else ""),
            row["verb"],
            ", ".join(_parameter(name, value) for name, value in row["asked"].items() if name not in ("trace", "volume")) or None,
            {"said": row["error"]},
        ]
        for row in ranked[:_FAILURES_SHOWN]
    ]
    told = f"{_cells(len(failed))}, " + (f"{len(messages):,} different messages" if len(messages) > 1 else "one message")
    more = f"; {_FAILURES_SHOWN} are shown, failed() returns all" if len(failed) > _FAILURES_SHOWN else ""
    return [
        {
            "title": "What failed",
            "told": f"{told}{more}. retry=True runs them again.",
            "heads": ["trace", "verb", "parameters", "message"],
            "rows": lines,
        }
    ]
