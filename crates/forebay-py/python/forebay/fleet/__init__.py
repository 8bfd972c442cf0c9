"""The questions of a fleet, one call and one page each, on top of `forebay.sweep`.

    from forebay import fleet

    volumes = ["fleet/"]                    # folders of `forebay convert --partition-by volume`, or traces
    fleet.schedulers(volumes, device="st1000nm0011", output="answers", report="schedulers.html")
    fleet.flash(volumes, output="answers", report="flash.html")
    fleet.together(volumes, output="answers", report="together.html")
    fleet.needs(volumes, within="10ms", fraction=0.99, output="answers", report="needs.html")

Each answers with a `Finding`: sentences, rows (`to_pyarrow`, `to_polars`, `to_dict`, `to_json`, a table when printed) and
a page. What is asked of each volume is a sweep's cells, kept in `output`, so that the next question and the next run ask
only what is missing. What a question does with all volumes together is done here, in one process.
"""

from .finding import Finding
from .flash import flash
from .needs import needs
from .schedulers import schedulers
from .together import together

__all__ = ["Finding", "flash", "needs", "schedulers", "together"]
