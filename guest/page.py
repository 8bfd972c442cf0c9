"""The comparison as tables, with what misses its target marked."""

# A figure may differ by this share of the kernel's, or by as much as the kernel differs from itself.
TOLERANCE = 0.15
# Latencies may differ by this besides: the path from a system call to the disk, which the simulator does not have.
PATH_MS = 0.2
# Idle time may differ by this share of the makespan besides.
IDLE_SHARE = 0.02
# The number of I/Os where many threads read one file.
IOS_TOLERANCE = 0.05
# Of the kernel's own agreement with itself on contested pairs, beyond first come first served.
ORDER = 0.8
# Where the kernel's order differs less than this from first come first served there is nothing to agree on.
ORDER_LEAST = 0.02

FIGURES = [
    ("makespan_s", "makespan, s"), ("idle_s", "idle, s"), ("ios", "I/Os"),
    ("read_mean_ms", "read mean, ms"), ("read_p50_ms", "read p50"), ("read_p99_ms", "read p99"),
    ("write_mean_ms", "write mean, ms"), ("write_p50_ms", "write p50"), ("write_p99_ms", "write p99"),
]


def shown(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def is_met(load, key, figures):
    kernel, repeated, ours = (figures[side].get(key) for side in ("kernel", "repeated", "ours"))
    if ours is None:
        return False
    allowed = max(TOLERANCE * abs(kernel), abs(repeated - kernel))
    if key == "ios":
        allowed = max((IOS_TOLERANCE if load == "shared-file" else TOLERANCE) * kernel, abs(repeated - kernel))
    elif key == "idle_s":
        allowed = max(allowed, IDLE_SHARE * figures["kernel"]["makespan_s"])
    elif key.endswith("_ms"):
        allowed = max(allowed, PATH_MS)
    return abs(ours - kernel) <= allowed


def order_score(order):
    """The share of the kernel's agreement with itself that ours reaches; none where there is nothing to agree on."""
    if not order["pairs"] or None in order.values() or abs(order["repeated"] - order["fifo"]) < ORDER_LEAST:
        return None
    return (order["ours"] - order["fifo"]) / (order["repeated"] - order["fifo"])


def table(results):
    """The results as one table of Markdown, and how many figures miss their target."""
    lines = ["| load, device, scheduler | " + " | ".join(title for _, title in FIGURES) + " | order |"]
    lines.append("|---|" + "---|" * (len(FIGURES) + 1))
    misses = 0
    for name, figures in results.items():
        load, device, scheduler = name.split()
        cells = [f"{load}, {device}, {scheduler}"]
        for key, _ in FIGURES:
            if key not in figures["kernel"]:
                cells.append("")
                continue
            ours = figures["ours"].get(key)
            cell = f"{shown(figures['kernel'][key])} / {'none' if ours is None else shown(ours)}"
            if not is_met(load, key, figures):
                misses += 1
                cell = f"**{cell}**"
            cells.append(cell)
        score = order_score(figures["order"])
        cell = "" if score is None else f"{score:.2f}"
        if score is not None and scheduler != "none" and score < ORDER:
            misses += 1
            cell = f"**{cell}**"
        cells.append(cell)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines), misses


def whole(seed, results, version):
    text, misses = table(results)
    return text
