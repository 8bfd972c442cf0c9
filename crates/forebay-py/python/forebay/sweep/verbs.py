"""The verbs that a sweep can run on a trace: each maps parameters to the library's answer as a dict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any

import pyarrow
from pyarrow import compute

import forebay


def _simulate(trace: str, policy: str = "none", **rest: Any) -> dict[str, Any]:
    found: dict[str, Any] = forebay.simulate(trace, policy=[policy], **rest).runs[0]
    return found


def _plan(trace: str, within: str, fraction: float, **rest: Any) -> dict[str, Any]:
    return forebay.plan_capacity(trace, within=[within], fraction=[fraction], **rest)


def _volume(trace: str, within: str, fraction: float, **rest: Any) -> dict[str, Any]:
    return forebay.plan_volume(trace, within=within, fraction=fraction, **rest)


def _compare(trace: str, other: str, **rest: Any) -> dict[str, Any]:
    return forebay.compare(trace, other, **rest)


def _advise(trace: str, **rest: Any) -> dict[str, Any]:
    return forebay.advise(trace, **rest).to_dict()


def _windows(trace: str, window_ms: float) -> dict[str, Any]:
    """Returns the number of requests in each non-empty window; windows are counted from the first request."""
    width = round(window_ms * 1e6)
    if not 1 <= width <= 10**15:
        raise forebay.Error(f"window_ms: got {window_ms}, expected 0.000001 to 1e9")
    counts: Counter[int] = Counter()
    for batch in pyarrow.RecordBatchReader.from_stream(forebay.read(trace)):
        at = compute.divide(batch["at_ns"], width)
        for pair in compute.value_counts(at).to_pylist():
            counts[pair["values"]] += pair["counts"]
    windows = sorted(counts)
    return {
        "requests": sum(counts.values()),
        "windows": windows,
        "counts": [counts[window] for window in windows],
    }


VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    "simulate": _simulate,
    "plan": _plan,
    "volume": _volume,
    "describe": forebay.describe,
    "fit": forebay.fit,
    "compare": _compare,
    "advise": _advise,
    "cache": forebay.cache,
    "windows": _windows,
}
"""The verbs by name. `policy`, `within` and `fraction` have one value each; lists in a grid make them axes."""


# The functions that receive the parameters that a verb does not declare.
_REST: dict[str, Callable[..., Any]] = {
    "simulate": forebay.simulate,
    "plan": forebay.plan_capacity,
    "volume": forebay.plan_volume,
    "compare": forebay.compare,
    "advise": forebay.advise,
}


def check(verb: str, parameters: Iterable[str]) -> None:
    """Rejects unknown parameters, and missing ones that the verb requires."""
    own = [one for one in _after_trace(VERBS[verb]) if one.kind is not Parameter.VAR_KEYWORD]
    needed = {one.name for one in own if one.default is Parameter.empty}
    rest = _after_trace(_REST[verb]) if verb in _REST else []
    known = {one.name for one in own + rest} - {"names"}
    expected = f"expected some of: {', '.join(sorted(known))}"
    for name in parameters:
        if name not in known:
            raise forebay.Error(f"grid: {verb}: got the parameter '{name}', {expected}")
    lacking = sorted(needed - set(parameters))
    if lacking:
        raise forebay.Error(f"grid: {verb}: got no '{lacking[0]}', which is required; {expected}")


def _after_trace(function: Callable[..., Any]) -> list[Parameter]:
    return list(signature(function).parameters.values())[1:]


def figures(answer: Any, prefix: str = "") -> dict[str, float]:
    """Returns the numbers of an answer by dotted names; those within lists remain in the answer."""
    found: dict[str, float] = {}
    for name, value in answer.items() if isinstance(answer, dict) else ():
        if isinstance(value, dict):
            found |= figures(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = float(value)
    return found
