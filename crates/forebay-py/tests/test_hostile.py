"""Tests that any argument results in an answer, a `forebay.Error` or a `TypeError`.

Each argument of each function is tried with values of the wrong size or kind, while all others are valid. The trace
is small, so that a value that happens to be valid costs nothing.
"""

import inspect
import warnings

import polars as pl
import pytest
from conftest import ROOT

import forebay

HOSTILE = [
    -1, 0, 1 << 16, 1 << 32, 1 << 63, 1 << 64, 10**400, -(10**5000), float("nan"), float("inf"), -0.0, 1e308, 5e-324,
    "", " ", "\0", "\ud800", "0", "-1", "1e999", "x" * 5000, "ü\n", b"\xff", b"", [], [""], ["\ud800"], [-1], [1 << 70],
    [float("nan")], {}, {"": ""}, {1: 2}, None, True, object(), int, lambda: None,
]

#: Valid arguments that are too slow to test with large values.
MUCH = {
    "array_score": {"writes", "filled_mib", "outstanding", "drives"},
    "adapt_writes": {"units", "writes_per_unit", "run"},
    "store_simulate": {"total_mb", "value_bytes", "writers", "disks", "host", "log_kb", "tree_memory_mb", "tree_depth",
                       "page_kib", "chunk_kib", "wall"},
    "plan_consolidate": {"clients"},
    "generate": {"requests", "for_"},
}
# The slowest verbs, which only `make test-full` tests.
SLOW = {"plan_buy", "store_simulate"}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """The arguments of a valid call of each function."""
    folder = tmp_path_factory.mktemp("hostile")
    trace = folder / "trace.csv"
    rows = 60
    forebay.convert(pl.DataFrame({
        "at_ns": [n * 1_000_000 for n in range(rows)],
        "op": ["write" if n % 3 == 0 else "read" for n in range(rows)],
        "offset": [n * 7919 % 512 * 4096 for n in range(rows)],
        "len": [4096] * rows,
    }), trace)
    model = folder / "m.model"
    forebay.fit(trace, model, level=1, no_verdict=True)
    disksim = (ROOT / "fuzz" / "seeds" / "disksim" / "beside").read_text()
    (folder / "x.diskspecs").write_text(disksim)
    (folder / "m.model.txt").write_text(disksim)
    (folder / "m").write_text(disksim)
    (folder / "fio").mkdir()
    (folder / "volume").mkdir()
    for number in range(6):
        with open(folder / "volume" / str(number), "wb") as drive:
            drive.truncate(32 << 20)
    out = folder / "out"
    return {
        "adapt": {"units": [0, 1, 0], "chunks": [1, 2, 1], "rules": ["never"]},
        "adapt_writes": {"kind": "biased", "units": 8},
        "advise": {"trace": trace, "device": "fixed:300"},
        "array_score": {"device": "ultrastar-36z15", "writes": 2, "filled_mib": 1, "outstanding": 1},
        "cache": {"trace": trace},
        "capture": {"device": trace, "output": out / "x.csv", "for_": "1s"},
        "compare": {"a": trace, "b": trace},
        "convert": {"trace": trace, "output": folder / "again.csv"},
        "describe": {"trace": trace, "threads": True},
        "device_fit": {"measurements": folder / "fio", "output": out / "d.toml", "capacity": 10**12},
        "device_import": {"file": folder / "x.diskspecs"},
        "device_probe": {"target": trace, "output": out / "p.toml"},
        "device_validate": {"device": "sata250", "trace": trace},
        "devices": {},
        "fit": {"trace": trace},
        "formats": {},
        "generate": {"model": model, "output": folder / "drawn.csv"},
        "retrodict": {"trace": trace, "device": "sata250"},
        "offline": {"trace": trace, "device": "sata250:plain", "policy": "noop", "windows": 1, "ios": 3},
        "plan_buy": {"within": "50ms", "fraction": 0.9, "traces": trace, "device": ["hc550"], "layout": ["single"],
                     "devices_max": 2},
        "plan_capacity": {"trace": trace, "within": "10ms", "fraction": 0.9},
        "plan_consolidate": {"traces": [trace, trace], "within": "10ms", "fraction": 0.9},
        "plan_power": {"traces": trace},
        "plan_sla": {"promise": [(0.9, 20.0)], "trace": trace},
        "plan_volume": {"trace": trace, "type": ["gp3", "gp2"]},
        "play": {"trace": trace, "emulate": "fixed:100000", "intensity": 1000.0},
        "policies": {},
        "read": {"path": trace},
        "simulate": {"trace": trace, "device": "fixed:300", "policy": "noop"},
        "store_simulate": {"total_mb": 2, "value_bytes": 10_000},
        "volume_check": {"drives": folder / "volume"},
        "volume_create": {"drives": folder / "volume"},
        "volume_grow": {"drives": folder / "volume"},
        "volume_remove": {"drives": folder / "volume", "drive": "1"},
        "volume_replace": {"drives": folder / "volume", "with_": folder / "volume" / "0"},
        "volume_status": {"drives": folder / "volume"},
    }


FUNCTIONS = sorted(
    name for name in forebay.__all__ if inspect.isbuiltin(getattr(forebay, name))
)


def test_every_function_is_tried(words):
    assert set(words) == set(FUNCTIONS)


def tried(call, words, name, value):
    """Returns the outcome as a line, if it is not permitted."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(**words | {name: value})
    except (forebay.Error, TypeError) as error:
        text = str(error)
        return None if text and "\n\n" not in text else f"{name}={value!r:.40}: no message"
    except BaseException as error:  # noqa: BLE001: a panic is no Exception
        return f"{name}={value!r:.40}: {type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize(
    "function", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in FUNCTIONS])
def test_nothing_else_escapes(words, function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = getattr(forebay, function)
    names = inspect.signature(call).parameters
    found = [
        tried(call, words[function], name, value)
        for name in names if name not in MUCH.get(function, ())
        for value in HOSTILE
    ]
    far = (-1, 1 << 64, 10**400, float("nan"), "\ud800", None, [])
    found += [tried(call, words[function], name, value) for name in MUCH.get(function, ()) for value in far]
    assert [one for one in found if one] == []


def test_of_stores_and_requests(tmp_path):
    disks = [tmp_path / f"disk{n}" for n in range(4)]
    create = {"paths": disks, "mb": 100}
    found = [tried(forebay.Store.create, create, name, value) for name in ("paths", "mb") for value in HOSTILE
             if value != 1 << 16]
    assert [one for one in found if one] == []
    request = {"op": "read", "offset": 0, "len": 4096, "stream": 0, "flags": ""}
    found = [tried(forebay.Request, request, name, value) for name in request for value in HOSTILE]
    assert [one for one in found if one] == []
    for disk in disks:
        disk.unlink(missing_ok=True)
    with forebay.Store.create(disks, mb=100) as store:
        found = [tried(store.scan, {}, name, value) for name in ("start", "count") for value in HOSTILE]
        found += [tried(store.get, {"key": b"x"}, "key", value) for value in HOSTILE]
        found += [tried(store.update, {}, "mapping", value) for value in HOSTILE]
    assert [one for one in found if one] == []


def test_the_note_names_the_argument():
    with pytest.raises(forebay.Error, match="got '70000', expected a whole number from 0 to 65535") as caught:
        forebay.simulate("x", device="sata250", policy="noop", disks=70_000)
    notes = getattr(caught.value, "__notes__", None)
    assert notes in (None, ["while processing 'disks'"])


@pytest.mark.parametrize("kind", [FileNotFoundError, IsADirectoryError])
def test_what_the_system_refuses_is_both(tmp_path, kind):
    path = tmp_path if kind is IsADirectoryError else tmp_path / "absent"
    with pytest.raises(OSError) as caught:
        forebay.device_import(path, tmp_path / "new.toml")
    assert isinstance(caught.value, forebay.Error) and str(path) in str(caught.value)
