"""What can be asked of a trace in a sweep: a verb's parameters to what the library answers, as a dict."""

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


def _describe(trace: str, **rest: Any) -> dict[str, Any]:
    return forebay.describe(trace, **rest)


def _fit(trace: str, **rest: Any) -> dict[str, Any]:
    return forebay.fit(trace, **rest)


def _compare(trace: str, other: str, device: str | None = None, **rest: Any) -> dict[str, Any]:
    return forebay.compare(trace, other, device=device, **rest)


def _advise(trace: str, device: str, **rest: Any) -> dict[str, Any]:
    return forebay.advise(trace, device=device, **rest).to_dict()


def _cache(trace: str, **rest: Any) -> dict[str, Any]:
    return forebay.cache(trace, **rest)


def _windows(trace: str, window_ms: float) -> dict[str, Any]:
    """Requests in each window that has any; windows count from the first request."""
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
    "describe": _describe,
    "fit": _fit,
    "compare": _compare,
    "advise": _advise,
    "cache": _cache,
    "windows": _windows,
}
"""By name. `policy`, `within`, `fraction` and `device` are one value each, which lists in a grid make axes of."""


# What takes the other parameters of a verb, and which of its own the verb answers for.
_ASKS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "simulate": (forebay.simulate, set()),
    "plan": (forebay.plan_capacity, set()),
    "describe": (forebay.describe, set()),
    "fit": (forebay.fit, set()),
    "compare": (forebay.compare, set()),
    "advise": (forebay.advise, set()),
    "cache": (forebay.cache, set()),
}


def check(verb: str, parameters: Iterable[str]) -> None:
    """Refuses parameters that the verb does not have, and the lack of those that it needs."""
    own = list(signature(VERBS[verb]).parameters.values())[1:]
    needed = {one.name for one in own if one.kind is not Parameter.VAR_KEYWORD and one.default is Parameter.empty}
    known = {one.name for one in own if one.kind is not Parameter.VAR_KEYWORD}
    if verb in _ASKS:
        asks, replaced = _ASKS[verb]
        known |= set(list(signature(asks).parameters)[1:]) - replaced - {"names"}
    expected = f"expected some of: {', '.join(sorted(known))}"
    for name in parameters:
        if name not in known:
            raise forebay.Error(f"grid: {verb}: got the parameter '{name}', {expected}")
    lacking = sorted(needed - set(parameters))
    if lacking:
        raise forebay.Error(f"grid: {verb}: got no '{lacking[0]}', which it needs; {expected}")


def figures(answer: Any, prefix: str = "") -> dict[str, float]:
    """The numbers of an answer by dotted names; those within lists are left in the answer."""
    found: dict[str, float] = {}
    for name, value in answer.items() if isinstance(answer, dict) else ():
        if isinstance(value, dict):
            found |= figures(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = float(value)
    return found
