"""How traces and results are shown in notebooks: `_repr_html_`, and `plot` for the result of `simulate`."""

from html import escape

from ._forebay import key_words, shown_value

#: The keys of the figures to show for a run.
SHOWN = ("busy_s", "makespan_s", "read_mean_ms", "read_p99_ms", "write_mean_ms", "write_p99_ms")


def _figure(key: str, value) -> str:
    return "–" if value is None else shown_value(key, value)


def result_html(result) -> str:
    """Shows a sentence and a table of the runs."""
    heads = "".join(f"<th>{head}</th>" for head in ("policy", *map(key_words, SHOWN)))
    rows = "".join(
        f"<tr><th>{escape(run['policy'])}</th>"
        + "".join(f"<td>{_figure(key, run.get(key))}</td>" for key in SHOWN) + "</tr>"
        for run in result.runs)
    return (f"<p>{escape(result.headline)}</p>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")


#: The columns of a trace, in order.
COLUMNS = ("at_ns", "op", "offset", "len", "stream", "volume", "latency_ns", "flags")


def trace_html(trace) -> str:
    """Shows a trace's name, format and columns."""
    columns = ", ".join(f"<code>{column}</code>" for column in COLUMNS)
    return f"<p><b>{escape(str(trace.path))}</b>, a trace in the format {escape(trace.format)}. Columns: {columns}.</p>"


def advice_html(advice) -> str:
    """Shows the report in an iframe, so that its style sheet does not affect the notebook."""
    return (f'<iframe srcdoc="{escape(advice.html, quote=True)}" title="Forebay report" '
            'style="width:100%;height:720px;border:0"></iframe>')


def plot(result):
    """Plots latency distributions, reads next to writes, as a matplotlib figure."""
    from matplotlib.figure import Figure

    table = result.latencies.to_pyarrow().to_pydict()
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for axis, op in zip(figure.subplots(1, 2, sharey=True), ("read", "write"), strict=True):
        for run in result.runs:
            points = [(ms, share * 100)
                      for policy, kind, ms, share in zip(*(table[name] for name in (
                          "policy", "op", "latency_ms", "share")), strict=True)
                      if policy == run["policy"] and kind == op and ms > 0]
            if points:
                axis.semilogx(*zip(*points, strict=True), label=run["policy"])
        axis.set(title=f"{op}s", xlabel="latency, ms", ylabel="answered within it, %" if op == "read" else "")
        if axis.lines:
            axis.legend(fontsize=8)
    return figure
