"""Arguments that accept several values also accept a single one, and invalid ones are rejected with our own message."""

import polars as pl
import pytest
from conftest import TERASORT

import forebay

pytestmark = pytest.mark.filterwarnings("ignore::forebay.TraceWarning")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("given") / "small.csv"
    forebay.convert(forebay.read(TERASORT).to_polars().head(200), path)
    return path


@pytest.fixture(scope="module")
def model(small):
    path = small.with_name("m.model")
    forebay.fit(small, path, level=1, no_verdict=True)
    return path


def calls(small, model):
    """Arguments that accept several values: a single one, and the call."""
    plan = {"within": "20ms", "fraction": 0.9}
    return {
        "within": ("20ms", lambda it: forebay.plan_capacity(small, within=it, fraction=[0.9])),
        "fraction": (0.9, lambda it: forebay.plan_capacity(small, within=["20ms"], fraction=it)),
        "shift": ("1s", lambda it: forebay.plan_consolidate(small, shift=it, **plan)),
        "consolidate within": ("20ms", lambda it: forebay.plan_consolidate(small, within=it, fraction=1)),
        "consolidate fraction": ("0.9", lambda it: forebay.plan_consolidate(small, within="20ms", fraction=it)),
        "buy device": ("hc550", lambda it: forebay.plan_buy(small, device=it, layout=["single"], devices_max=2)),
        "layout": ("single", lambda it: forebay.plan_buy(small, device=["hc550"], layout=it, devices_max=2)),
        "promise": ((0.9, 20), lambda it: forebay.plan_sla(it, small)),
        "device": ("sata250", lambda it: forebay.compare(small, small, device=it)),
        "sizes_mib": (1, lambda it: forebay.cache(small, sizes_mib=it)),
        "sizes_blocks": (8, lambda it: forebay.cache(small, sizes_blocks=it)),
        "fail": ("one-in=7", lambda it: timeless(forebay.simulate(small, device="fixed:300", policy="noop", fail=it))),
        "offline policy": ("noop", lambda it: forebay.offline(small, device="sata250:plain", policy=it, windows=1, ios=3)),
        "without": (drawn_without(), lambda it: drawn(model, it)),
        "rules": ("never", lambda it: forebay.adapt([0, 1], [1, 2], rules=it)),
        "arrangement": ("raid0", lambda it: forebay.store_simulate(total_mb=2, value_bytes=10_000, arrangement=it)),
    }


def timeless(result):
    """Removes the speed of the simulation, which differs from run to run."""
    return [{key: value for key, value in run.items() if key != "simulated_requests_per_s"} for run in result.runs]


def drawn_without():
    with pytest.raises(forebay.Error) as caught:
        forebay.generate("m", "out.csv", without="no such")
    return str(caught.value).rsplit(" of ", 1)[1].split(", ")[0]


def drawn(model, without):
    path = model.with_name("drawn.csv")
    forebay.generate(model, path, without=without)
    return path.read_text()


NAMES = [
    "within", "fraction", "shift", "consolidate within", "consolidate fraction", "buy device", "layout", "promise", "device",
    "sizes_mib", "sizes_blocks", "fail", "offline policy", "without", "rules", "arrangement",
]


@pytest.mark.parametrize("name", NAMES)
def test_one_is_as_a_list_of_one(small, model, name):
    one, call = calls(small, model)[name]
    assert call(one) == call([one])


def test_the_names_are_all(small, model):
    assert set(calls(small, model)) == set(NAMES)


def test_several_are_told_apart(small):
    rows = forebay.plan_capacity(small, within=("10ms", "20ms"), fraction=pl.Series([0.9, 0.99]))["rows"]
    assert len(rows) == 4
    assert forebay.cache(small, sizes_blocks=[8, 16]) == forebay.cache(small, sizes_mib=[8 * 4 / 1024, 16 * 4 / 1024])
    assert forebay.plan_consolidate((small, small), within="20ms") == forebay.plan_consolidate([small, small], within="20ms")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda it: forebay.plan_capacity(it, within=object), "within: got <class 'object'>, expected str, or"),
        (lambda it: forebay.plan_capacity(it, within=["5ms", {}]), r"within: got \['5ms', {}\], expected str"),
        (lambda it: forebay.plan_capacity(it, within=b"5ms"), "within: got b'5ms', expected str, or several in a list"),
        (lambda it: forebay.plan_capacity(it, trust_times=1), "trust_times: got 1, expected True or False"),
        (lambda it: forebay.plan_capacity(it, report=3), "report: got 3, expected a path"),
        (lambda it: forebay.plan_buy(it, promise=[{}]), r"promise: got \[{}\], expected text, a dict"),
        (lambda it: forebay.plan_sla([{"fraction": 0.9}], it), r"got \[{'fraction': 0.9}\], expected a path, or a"
         " list of pairs of numbers"),
        (lambda it: forebay.cache(it, sizes_mib=[{}]), r"sizes_mib: got \[{}\], expected float, or several"),
        (lambda it: forebay.compare(it, it, device=3), "device: got 3, expected a path, or several in a list"),
        (lambda it: forebay.simulate(it, device="sata250", policy="noop", report=3), "got 3, expected a path"),
        (lambda it: forebay.simulate(it, device="sata250", policy=7), "policy: got 7, expected a name"),
        (lambda it: forebay.play(it, volume=7), "got 7, expected a path, or several in a list"),
        (lambda it: forebay.adapt(7, [1], rules="never"), "got 7, expected a list, each of it a whole number"),
        (lambda it: forebay.Store(7), "got 7, expected a path, or several in a list"),
    ],
)
def test_what_is_neither_says_what_was_expected(small, wrong, text):
    with pytest.raises(TypeError, match=text):
        wrong(small)


def test_what_does_not_fit_is_an_error_in_a_list_too(small):
    with pytest.raises(forebay.Error, match="got '4294967296', expected a whole number from 0 to 4294967295"):
        forebay.cache(small, sizes_blocks=[1 << 32])
    with pytest.raises(forebay.Error, match="fraction: got"):
        forebay.plan_capacity(small, fraction=7)
    with pytest.raises(forebay.Error, match="within: got '7', expected a time with its unit"):
        forebay.plan_capacity(small, within=7)
    with pytest.raises(forebay.Error, match=r"fractoin: no such input; did you mean fraction\?"):
        forebay.plan_capacity(small, fractoin=0.9)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda it: forebay.play(it), "expected target, map_volume, volume or emulate$"),
        (lambda it: forebay.play(it, emulate="fixed:9", target="x"), "^target: cannot be combined with emulate"),
        (lambda it: forebay.convert(it, it.with_name("x.unknown")), "name the format with to$"),
        (lambda it: forebay.play(it, emulate="fixed:9", depth=0), "^emulate: cannot be combined with depth"),
        (lambda it: forebay.simulate(it, device="sata250", flash="hc550", policy="noop"),
         '^flash="hc550": got a mechanical disk, .* e.g. d7-p5520'),
        (lambda it: forebay.plan_buy(it, promise={"no such": ("5ms", 0.9)}, device="hc550", layout="single"),
         "^promise: got no client called no such"),
    ],
)
def test_messages_name_arguments(small, wrong, text):
    with pytest.raises(forebay.Error, match=text) as caught:
        wrong(small)
    assert "--" not in str(caught.value)


def test_warnings_name_arguments_too(small, tmp_path):
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\non = "2026-11"\n[drive.990-pro]\namount = 99.0\n')
    drives = ["990-pro", "samsung-830"]
    with pytest.warns(forebay.TraceWarning, match="Specify prices"):
        forebay.plan_buy(small, device=drives, layout="single", devices_max=2, prices=prices)


def test_notes_on_a_trace_name_arguments(tmp_path):
    text = tmp_path / "t.csv"
    text.write_text("time_us,op,offset,len\n5,R,0,4096\n9,R,4096,4096\n")
    with pytest.warns(forebay.TraceWarning, match='read as columns="at:us,op,offset,len,skip=1"'):
        forebay.describe(text)


def test_a_name_with_dashes_stays_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError, match="a--to b --fast c"):
        forebay.describe(tmp_path / "a--to b --fast c")


def test_help_has_no_ellipsis_where_there_is_a_value():
    for name in forebay.__all__:
        text = getattr(getattr(forebay, name), "__text_signature__", None) or ""
        assert "[]" not in text and "=..." not in text.replace("limit=...", ""), name
