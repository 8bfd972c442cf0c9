"""What can be asked of a trace in a sweep: a verb's parameters to what the library answers, as a dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import forebay


def _simulate(trace: str, policy: str = "none", **rest: Any) -> dict[str, Any]:
    found: dict[str, Any] = forebay.simulate(trace, policies=[policy], **rest).runs[0]
    return found


def _plan(trace: str, within: str, fraction: float, **rest: Any) -> dict[str, Any]:
    return forebay.plan_capacity(trace, within=[within], fraction=[fraction], **rest)


def _fit(trace: str, **rest: Any) -> dict[str, Any]:
    return forebay.fit(trace, **rest)


def _compare(trace: str, other: str, device: str | None = None, **rest: Any) -> dict[str, Any]:
    return forebay.compare(trace, other, device=[device] if device else [], **rest)


def _advise(trace: str, device: str, **rest: Any) -> dict[str, Any]:
    return forebay.advise(trace, device=device, **rest).to_dict()


def _cache(trace: str, **rest: Any) -> dict[str, Any]:
    return forebay.cache(trace, **rest)


VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    "simulate": _simulate,
    "plan": _plan,
    "fit": _fit,
    "compare": _compare,
    "advise": _advise,
    "cache": _cache,
}
"""By name. `policy`, `within`, `fraction` and `device` are one value each, which lists in a grid make axes of."""


def figures(answer: Any, prefix: str = "") -> dict[str, float]:
    """The numbers of an answer by dotted names; those within lists are left in the answer."""
    found: dict[str, float] = {}
    for name, value in answer.items() if isinstance(answer, dict) else ():
        if isinstance(value, dict):
            found |= figures(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = float(value)
    return found
