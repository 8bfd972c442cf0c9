"""Our own figures that are checked in every run, so that none changes unnoticed: held.toml."""

from cases import bid, by_policy, chosen
from forebay.reproduce import table
from verdicts import RIVALS, saved

HEAD = """Are the figures still what they were? A row that has moved further than it may says so.
"""


def measured(figure: str, each: dict, wait: int) -> float:
    """Returns a figure of BID-HDD with a default wait."""
    return saved(each, bid(wait), RIVALS) if figure == "saved" else each[bid(wait)][figure]


def rows(entries, cases, runs) -> list[tuple[dict, dict[int, tuple[float, float]], bool]]:
    """Returns for each entry that was run our figures and the expected ones by wait, and whether they agree."""
    found = []
    for entry in entries:
        for case in chosen(cases, entry["replay"], entry["disk"]):
            if case.workload.name != entry["trace"]:
                continue
            each = by_policy(case, runs[case])
            pairs = {
                wait: (measured(entry["figure"], each, wait), expected)
                for wait, expected in zip(entry["wait_ms"], entry["values"], strict=True)
                if bid(wait) in each
            }
            if pairs:
                apart = [abs(ours - expected) for ours, expected in pairs.values()]
                found.append((entry, pairs, max(apart) <= entry["within"]))
    return found


def section(entries, cases, runs) -> str:
    """Returns a row for each entry."""
    lines = [
        [
            f"{entry['trace']}, {entry['replay']}, {entry['disk']}",
            "saved, %" if entry["figure"] == "saved" else entry["figure"],
            "/".join(map(str, pairs)),
            "/".join(f"{ours:.1f}" for ours, _ in pairs.values()),
            f"{max(abs(ours - expected) for ours, expected in pairs.values()):.2f}",
            "holds" if holds else "**HAS MOVED**",
        ]
        for entry, pairs, holds in rows(entries, cases, runs)
    ]
    return table(["trace, replay, disk", "figure", "waits ms", "now", "moved", ""], lines)
