"""Tests that the pages written with `report=` equal the command's."""

import re

import pytest

import forebay

from conftest import TERASORT

# The speed of a simulation differs from run to run.
SPEED = re.compile(r"simulated requests/s.*?</table>", re.DOTALL)
# The command and the package spell the names of inputs differently.
INPUT = re.compile(r"--([a-z-]+)")
SLA = "[[tier]]\nfraction = 0.9\nwithin_ms = 20\n[[tier]]\nfraction = 0.99\nwithin_ms = 50\n"


@pytest.fixture
def sla(tmp_path):
    path = tmp_path / "sla.toml"
    path.write_text(SLA)
    return path


def runs(result):
    """Removes the speed of the simulation, which differs from run to run."""
    return [{key: value for key, value in run.items() if key != "simulated_requests_per_s"} for run in result.runs]


def written(page):
    """Returns the page's text, with inputs by their Python names."""
    text = page.read_text().replace("--replay dependent", "replay=&quot;dependent&quot;")
    return INPUT.sub(lambda name: name[1].replace("-", "_"), text)


def verbs(sla):
    """The arguments of the command, and the same in Python."""
    some = {"within": ["10ms"], "fraction": [0.9, 1]}
    options = ["--within", "10ms", "--fraction", "0.9,1"]
    return {
        "cache": (["cache", TERASORT, "--sizes-mib", 8], lambda **to: forebay.cache(TERASORT, sizes_mib=[8], **to)),
        "simulate": (
            ["simulate", TERASORT, "--device", "sata250", "--flash", "d7-p5520", "--policy", "noop,cache", "--intensity", 2],
            lambda **to: runs(
                forebay.simulate(
                    TERASORT, device="sata250", flash="d7-p5520", policy=["noop", "cache"], intensity=2, **to
                )
            ),
        ),
        "one disk": (
            ["simulate", TERASORT, "--device", "sata250", "--policy", "noop", "--replay", "closed"],
            lambda **to: runs(forebay.simulate(TERASORT, device="sata250", policy="noop", replay="closed", **to)),
        ),
        "capacity": (
            ["plan", "capacity", TERASORT, *options],
            lambda **to: forebay.plan_capacity(TERASORT, **some, **to),
        ),
        "devices": (
            ["plan", "capacity", TERASORT, "--device", "hc550", "--price", "300", "--within", "1s", "--fraction", "0.5"],
            lambda **to: forebay.plan_capacity(
                TERASORT, device="hc550", price=300, within=["1s"], fraction=[0.5], **to
            ),
        ),
        "consolidate": (
            ["plan", "consolidate", TERASORT, "--clients", 3, *options],
            lambda **to: forebay.plan_consolidate(TERASORT, clients=3, **some, **to),
        ),
        "power": (
            ["plan", "power", TERASORT, "--epoch", "1m"],
            lambda **to: forebay.plan_power(TERASORT, epoch="1m", **to),
        ),
        "sla": (["plan", "sla", sla, TERASORT], lambda **to: forebay.plan_sla(sla, TERASORT, **to)),
    }


@pytest.mark.filterwarnings("ignore::forebay.TraceWarning")
@pytest.mark.parametrize("verb", [
    "cache", "simulate", "one disk", "capacity", "devices", "consolidate", "power", "sla"
])
def test_a_report_is_the_commands(command, tmp_path, sla, verb):
    words, call = verbs(sla)[verb]
    assert command(*words, "-o", tmp_path / "command.html").returncode == 0
    assert call(report=tmp_path / "python.html") == call()
    pages = [SPEED.sub("", written(tmp_path / name)) for name in ("python.html", "command.html")]
    assert pages[0] == pages[1] and pages[0].startswith("<!DOCTYPE html>")


@pytest.mark.filterwarnings("ignore::forebay.TraceWarning")
@pytest.mark.parametrize("verb", ["capacity", "consolidate", "sla"])
def test_so_is_one_of_costs_by_length(command, tmp_path, sla, verb):
    words, call = verbs(sla)[verb]
    cost = "100+20/KiB"
    assert command(*words, "--cost-us", cost, "-o", tmp_path / "command.html").returncode == 0
    call(cost_us=cost, report=tmp_path / "python.html")
    page = written(tmp_path / "python.html")
    assert page == written(tmp_path / "command.html") and "A server of speed 1 takes" in page


@pytest.mark.filterwarnings("ignore::forebay.TraceWarning")
def test_devices_are_counted_as_by_the_command(answer):
    words, call = verbs(None)["devices"]
    assert call() == answer(*words)
    for wrong in ({"devices_max": 0}, {"price": -1.0}, {"device": "no-such"}, {"policy": "no-such"}):
        with pytest.raises(forebay.Error, match=next(iter(wrong)) if "no-such" not in wrong.values() else "no-such"):
            forebay.plan_capacity(TERASORT, **{"device": "hc550"} | wrong)
    with pytest.raises(forebay.Error, match="by: cannot be combined with device"):
        forebay.plan_capacity(TERASORT, device="hc550", by="volume")


def test_runs_of_a_policy_of_ones_own_have_a_page(tmp_path, trace):
    class Fifo:
        """First come, first served."""

        def __init__(self):
            self.waiting = []

        def submit(self, now_ns, request):
            self.waiting.append(request)

        def dispatch(self, now_ns):
            return self.waiting.pop(0) if self.waiting else None

    forebay.simulate(trace, device="sata250", policy=[Fifo], report=tmp_path / "own.html")
    assert "Fifo" in (tmp_path / "own.html").read_text()
