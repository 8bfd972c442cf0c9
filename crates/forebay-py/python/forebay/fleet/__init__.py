"""Questions about a fleet of volumes. Each question is one call and produces one page; all build on `forebay.sweep`.

    from forebay import fleet

    volumes = ["fleet/"]                    # folders of `forebay convert --partition-by volume`, or traces
    fleet.schedulers(volumes, device="st1000nm0011", output="answers", report="schedulers.html")
    fleet.flash(volumes, output="answers", report="flash.html")
    fleet.together(volumes, output="answers", report="together.html")
    fleet.needs(volumes, within="10ms", fraction=0.99, output="answers", report="needs.html")
    fleet.volumes(volumes, within="10ms", fraction=0.99, output="answers", report="volumes.html")

Each returns a `Finding`: sentences, rows (`to_pyarrow`, `to_polars`, `to_dict`, `to_json`, or a table when printed) and
a page. The analysis of each volume is a cell of a sweep and is stored in `output`, so that further questions and runs
compute only missing cells. Computations over all volumes run in this process.
"""

from .finding import Finding
from .flash import flash
from .needs import needs
from .schedulers import schedulers
from .together import together
from .volumes import volumes

__all__ = ["Finding", "flash", "needs", "schedulers", "together", "volumes"]
