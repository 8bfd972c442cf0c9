"""Checks whether `forebay capture` misses requests of a disk whose requests are known, with blktrace(8) and with
tracefs.
"""

import csv
import shutil
from collections import Counter

# The capture ends by itself; the load is over by then. The guest's idle time costs nothing.
SECONDS = 60
JOB = """
forebay-guest perform /own/script sata250 0 scheduler=mq-deadline hold=/tmp/go >/own/outcome-{via} &
until test -b /dev/ublkb0; do sleep 0.1; done
rm -f /own/{via}.csv
forebay capture /dev/ublkb0 -o /own/{via}.csv --via {via} --for {seconds}s &
capture=$!
sleep 3
touch /tmp/go
wait $capture
sleep {seconds}
rm /tmp/go
wait
"""


def programs():
    """The programs of this machine that the guest needs."""
    return [path for path in [shutil.which("blktrace", path="/usr/sbin:/usr/bin")] if path]


def asked(script):
    """Returns how often a script issues each request."""
    lines = (line.split() for line in script.splitlines())
    return Counter((words[0], int(words[1]), int(words[2])) for words in lines if words[0] in ("read", "write"))


def captured(path):
    """Returns how often a trace in Forebay's CSV format contains each request."""
    with path.open() as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        moving = (row for row in rows if row["op"] in ("read", "write"))
        return Counter((row["op"], int(row["offset"]), int(row["len"])) for row in moving)


def check(guest, script, own):
    """Returns one line for each way to capture, and the number of ways that miss or invent requests."""
    own.mkdir(parents=True, exist_ok=True)
    (own / "script").write_text(script)
    vias = ["tracefs"] + (["blktrace"] if programs() else [])
    log = guest.run(own, "\n".join(JOB.format(via=via, seconds=SECONDS) for via in vias), own)
    lines, wrong = [], 0
    for via in vias:
        trace = own / f"{via}.csv"
        if not trace.exists():
            raise SystemExit(f"guest: no trace by {via}; the guest said:\n{log}")
        want, got = asked(script), captured(trace)
        missing, more = (want - got).total(), (got - want).total()
        wrong += missing + more > 0
        lines.append(f"{via}: {want.total()} requests, {missing} missing, {more} unexpected")
    return lines, wrong
