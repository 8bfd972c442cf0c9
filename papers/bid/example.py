"""The paper's worked example of head movement, computed by the simulator."""

import tempfile
from pathlib import Path

import pyarrow

import forebay
from forebay.reproduce import Row

DISK = """kind = "hdd"
name = "example"
description = "The disk of the paper's worked example: 100 tracks of 100 sectors"
[geometry]
heads = 1
rpm = 7200
[[zone]]
first_cylinder = 0
last_cylinder = 99
sectors_per_track = 100
[seek]
track_to_track_ms = 1
average_ms = 5
full_stroke_ms = 10
write_settle_ms = 0
[switch]
head_ms = 1
cylinder_ms = 1
[command]
overhead_ms = 0
[power]
idle_w = 1
seek_w = 1
transfer_w = 1
"""


def rows(claims, tracks: list[list[int]]) -> list[Row]:
    """Returns the worked example's distances, in the paper's order."""
    sector = 512
    # Requests are far apart, so that none are merged. The request that crosses tracks is at the end
    # of one.
    within = [99 if len(visit) > 1 else 10 + 5 * i for i, visit in enumerate(tracks)]
    first = [visit[0] * 100 + at for visit, at in zip(tracks, within)]
    count = [2 if len(visit) > 1 else 1 for visit in tracks]
    trace = pyarrow.table(
        {
            "at_ns": [i * 10**9 for i in range(len(tracks))],
            "op": ["read"] * len(tracks),
            "offset": pyarrow.array([sector * at for at in first], pyarrow.uint64()),
            "len": pyarrow.array([sector * n for n in count], pyarrow.uint32()),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        disk = Path(folder) / "example.toml"
        disk.write_text(DISK)
        run = forebay.simulate(trace, device=disk, policy="noop").runs[0]
    flat = [track for visit in tracks for track in visit]
    terms = " + ".join(str(abs(b - a)) for a, b in zip(flat, flat[1:]) if a != b)
    crossed = run["avg_seek_tracks"] * run["head_movements"]
    cause = f"the paper's own terms, {terms}, make {crossed:.0f}"
    return [
        Row(claims["example-distance"], "example", crossed, cause),
        Row(claims["example-movements"], "example", run["head_movements"], "-"),
        Row(claims["example-mean"], "example", run["avg_seek_tracks"], "follows from the sum"),
        Row(claims["example-sweeps"], "example", run["seek_sweeps"], "follows from the sum"),
    ]
