"""Every scheduler scored as if it were the candidate, over traces, replays, loads and queue depths.

A case is met if no other scheduler is better in both total time and read p99, total time is within
1 % of the best other's, and read p99 within 10 % of that of the fastest other. Write p99 within 10 %
of the fastest other's is counted beside it.
"""

from math import exp, log

from cases import SCHEDULERS, by_policy, total_s

from forebay.reproduce import table

TOTAL_MOST = 1.01
TAIL_MOST = 1.10

COUNTED = ("met", "undominated", "total", "tail", "write_tail")


def judge(case, each: dict, candidate: str) -> dict:
    """How `candidate` stands to the others in a case."""
    stands = {
        p: (total_s(case, run), run["read_p99_ms"] or 0.0, run["write_p99_ms"] or 0.0)
        for p, run in each.items()
    }
    total, tail, write_tail = stands.pop(candidate)
    fastest = min(stands, key=lambda policy: stands[policy])
    best_total, best_tail, best_write_tail = stands[fastest]
    better = [p for p, (t, r, _) in stands.items() if t < total and r < tail]
    total_ratio = total / best_total if best_total else 1.0
    tail_ratio = tail / best_tail if best_tail else 1.0
    return {
        "undominated": not better,
        "better": better,
        "fastest": fastest,
        "total_ratio": total_ratio,
        "tail_ratio": tail_ratio,
        "total": total_ratio <= TOTAL_MOST,
        "tail": tail_ratio <= TAIL_MOST,
        "write_tail": write_tail <= TAIL_MOST * best_write_tail or not best_write_tail,
        "met": not better and total_ratio <= TOTAL_MOST and tail_ratio <= TAIL_MOST,
    }


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / max(len(ratios), 1))


def scores(cases, runs) -> dict[str, list[dict]]:
    """The judgements of each scheduler, in the order of the cases."""
    each = [by_policy(case, runs[case]) for case in cases]
    return {
        scheduler: [judge(case, figures, scheduler) for case, figures in zip(cases, each)]
        for scheduler in SCHEDULERS
    }


def row(scheduler: str, judged: list[dict]) -> list[str]:
    """A scheduler's line: counts, then geometric means and the worst of both ratios."""
    counts = [sum(j[key] for j in judged) for key in COUNTED]
    totals = [j["total_ratio"] for j in judged]
    tails = [j["tail_ratio"] for j in judged if j["tail_ratio"] > 0]
    ratios = [mean(totals), max(totals), mean(tails), max(tails, default=1.0)]
    return [scheduler, *map(str, counts), *(f"{ratio:.3f}" for ratio in ratios)]


def section(cases, runs) -> str:
    """The score over all cases, by depth and replay, and where `forebay` misses."""
    judged = scores(cases, runs)
    header = ["scheduler", "met", "undominated", "total within 1 %", "read p99 within 10 %"]
    header += ["write p99 within 10 %", "total, geo mean", "worst", "read p99, geo mean", "worst"]
    parts = [f"Of {len(cases)} cases:\n", table(header, [row(s, judged[s]) for s in SCHEDULERS])]
    for depth in sorted({case.depth for case in cases}):
        for replay in ("open", "closed"):
            picked = [i for i, c in enumerate(cases) if (c.depth, c.replay) == (depth, replay)]
            if picked:
                rows = [row(s, [judged[s][i] for i in picked]) for s in SCHEDULERS]
                parts.append(f"Queue depth {depth}, {replay} replay, {len(picked)} cases:\n")
                parts.append(table(header, rows))
    parts += ["Where `forebay` does not meet the target:\n", misses(cases, judged["forebay"])]
    return "\n".join(parts)


def misses(cases, judged: list[dict]) -> str:
    """The cases that the candidate does not meet, with what is wrong."""
    rows = []
    for case, j in zip(cases, judged):
        if not j["met"]:
            ratios = [f"{j['total_ratio']:.3f}", f"{j['tail_ratio']:.3f}"]
            better = ", ".join(j["better"]) or "-"
            rows.append([case.label, str(case.depth), j["fastest"], *ratios, better])
    header = ["trace, replay, load", "depth", "fastest other", "total / its", "p99 / its"]
    return table([*header, "better in both"], rows) if rows else "none\n"
