"""Tests `forebay.Store`: a dict on disks."""

import os
import random
import shutil
import signal
import threading
import time

import pytest

import forebay

DISKS = ["a", "b", "c", "d"]


@pytest.fixture
def disks(tmp_path):
    """Creates four folders and removes them afterwards, because pytest would keep gigabytes."""
    paths = [tmp_path / name for name in DISKS]
    for path in paths:
        path.mkdir()
    yield paths
    shutil.rmtree(tmp_path)


@pytest.fixture
def store(disks):
    with forebay.Store.create(disks, mb=200) as store:
        yield store


def test_it_is_a_dict(disks):
    """Compares random puts, batches, deletions and reads with a dict; reopens the store twice."""
    draw = random.Random(17)
    model = {}
    store = forebay.Store.create(disks, mb=200)
    keys = [b"", b"\x00", b"\xff"] + [b"key %d" % number for number in range(60)]
    for turn in range(1200):
        key, value = draw.choice(keys), draw.randbytes(draw.choice([0, 1, 100, 40_000]))
        match draw.randrange(7):
            case 0 | 1 | 2:
                store[key] = value
                model[key] = value
            case 3:
                batch = {other: value + other for other in draw.sample(keys, 5)}
                gone = draw.sample(keys, 2)
                store.update(batch, delete=gone)
                for other in gone:
                    model.pop(other, None)
                model.update(batch)
            case 4 if key in model:
                del store[key]
                del model[key]
            case 4:
                with pytest.raises(KeyError) as raised:
                    del store[key]
                assert raised.value.args == (key,)
            case 5:
                store.discard(key)
                model.pop(key, None)
            case 6:
                assert store.get(key, 7) == model.get(key, 7)
                assert (key in store) == (key in model)
        if turn in (400, 900):
            store.close()
            store = forebay.Store(reversed_(disks))
        if turn % 100 == 0:
            assert list(store.items()) == sorted(model.items())
    assert list(store) == sorted(model)
    assert dict(store) == model
    start, stop = keys[20], keys[50]
    assert list(store.keys(start, stop)) == [key for key in sorted(model) if start <= key < stop]
    assert store.scan(start, 3) == [pair for pair in sorted(model.items()) if pair[0] >= start][:3]
    assert store.check()["losses"] == []
    store.close()


def reversed_(paths):
    """Disks may be named in any order."""
    return list(reversed(paths))


def test_more_than_a_page(store):
    expected = [(b"%06d" % number, b"%d" % number * 9) for number in range(3000)]
    store.update(expected)
    assert list(store.items()) == expected
    assert list(store.items(b"000100", b"002000")) == expected[100:2000]
    assert list(store.items(b"x")) == [] and list(store.items(stop=b"")) == []
    # With large values, pages contain fewer keys.
    big = {b"%06d" % number: bytes([number]) * 700_000 for number in range(40)}
    store.update(big)
    assert dict(store.items(stop=b"000040")) == big


def test_an_iteration_sees_one_moment(store):
    store.update({b"%04d" % number: b"old" for number in range(1000)})
    items = store.items()
    first = next(items)
    snapshot = store.snapshot()
    store.update({b"%04d" % number: b"new" for number in range(0, 1000, 2)}, delete=[b"0001"])
    assert [first, *items] == [(b"%04d" % number, b"old") for number in range(1000)]
    assert next(items, None) is None
    with snapshot:
        assert snapshot[b"0001"] == b"old" and b"0001" in snapshot
        assert snapshot.get(b"none") is None and b"none" not in snapshot
        assert snapshot.scan(b"0001", 2) == [(b"0001", b"old"), (b"0002", b"old")]
        assert len(list(snapshot)) == 1000 and set(dict(snapshot).values()) == {b"old"}
        with pytest.raises(KeyError):
            snapshot[b"none"]
    assert store[b"0000"] == b"new" and b"0001" not in store
    with pytest.raises(forebay.Error, match="the snapshot is closed"):
        snapshot.get(b"0000")


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_keys_and_values_are_buffers(store, buffer):
    store[buffer(b"key")] = buffer(b"value")
    assert store[b"key"] == b"value" and type(store[buffer(b"key")]) is bytes
    store[b"part"] = memoryview(b"abcdef")[::2]
    assert store[b"part"] == b"ace"


@pytest.mark.parametrize("wrong", ["key", 7, None, [1, 2], 1.5])
def test_nothing_else_is_a_key_or_a_value(store, wrong):
    name = type(wrong).__name__
    for ask in (
        lambda: store[wrong],
        lambda: wrong in store,
        lambda: store.get(wrong),
        lambda: store.__setitem__(wrong, b""),
        lambda: store.__setitem__(b"", wrong),
        lambda: store.__delitem__(wrong),
        lambda: store.update({b"key": wrong}),
        lambda: store.update([(b"key", b"value")], delete=[wrong]),
    ):
        with pytest.raises(TypeError, match=f"got {name}, expected bytes"):
            ask()
    assert list(store) == []
    with pytest.raises(TypeError, match="len"):
        len(store)


def test_limits_are_said(store):
    store[b"k" * 65536] = b"longest"
    for put in (
        lambda: store.__setitem__(b"k" * 65537, b""),
        lambda: store.__setitem__(b"k", bytes((64 << 20) + 70_000)),
    ):
        with pytest.raises(forebay.Error, match="expected at most"):
            put()
    assert list(store) == [b"k" * 65536]


def test_a_closed_store_says_so(disks):
    with forebay.Store.create(disks, mb=200) as store:
        store[b"key"] = b"value"
        items, snapshot = store.items(), store.snapshot()
    store.close()
    for ask in (
        lambda: store[b"key"],
        lambda: store.update({}),
        lambda: next(items),
        lambda: snapshot[b"key"],
        store.status,
        store.snapshot,
        store.check,
        store.__enter__,
    ):
        with pytest.raises(forebay.Error, match="the store is closed"):
            ask()
    # The disks are released, even if a store was never closed.
    store = forebay.Store(disks)
    assert store[b"key"] == b"value"
    del store
    assert forebay.Store(disks)[b"key"] == b"value"


def test_a_store_is_opened_once(disks, store):
    with pytest.raises(forebay.Error, match="in use"):
        forebay.Store(disks)
    with pytest.raises(forebay.Error, match="exists already"):
        forebay.Store.create(disks, mb=200)


def test_what_is_no_store_is_said(disks):
    with pytest.raises(forebay.Error, match="got 3 disks, expected 4 to 64"):
        forebay.Store.create(disks[:3])
    with pytest.raises(forebay.Error, match="mb: got 1, expected 100"):
        forebay.Store.create(disks, mb=1)
    with pytest.raises(FileNotFoundError, match="none"):
        forebay.Store([disks[0] / "none"])
    for disk in disks:
        (disk / "forebay.store").write_bytes(bytes(10_000))
    with pytest.raises(forebay.Error, match="has no Forebay label"):
        forebay.Store(disks)


def test_a_missing_disk_is_an_error_and_never_an_older_value(disks):
    with forebay.Store.create(disks, mb=200) as store:
        for number in range(200):
            store[b"%03d" % number] = b"%03d" % number * 40_000
    with pytest.raises(forebay.Error, match="3 of its 4 disks are named"):
        forebay.Store(disks[1:])
    lost = 0
    with forebay.Store(disks[1:], without_disk=True, read_only=True) as store:
        assert store.status()["losses"] and store.check()["losses"]
        for number in range(200):
            try:
                assert store[b"%03d" % number] == b"%03d" % number * 40_000
            except OSError as error:
                assert "disk 1 is missing" in str(error)
                lost += 1
        with pytest.raises(OSError, match="disk 1 is missing"):
            list(store.items())
        with pytest.raises(forebay.Error, match="read-only"):
            store[b"new"] = b""
    assert 0 < lost < 200
    with forebay.Store(disks[1:], without_disk=True) as store:
        assert store.repair()["losses"] and store.status()["losses"], "nothing was written"
        assert store.repair(give_up=True)["losses"]
        there = list(store)
        assert 0 < len(there) < 200 and store.check()["losses"] == []


def test_status_counts(store):
    store[b"key"] = b"v" * 1000
    status = store.status()
    assert status["put_bytes"] == 1003 and status["batches"] == 1 and status["records"] == 1
    assert sorted(status["stages"]) == ["idle", "idle", "idle", "log"]
    assert status["losses"] == []


def test_threads_share_a_store(store):
    def put(thread):
        for number in range(100):
            store[b"%d/%03d" % (thread, number)] = b"%d" % number

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store)) == 800
    # Operations that wait at the same time are written in one batch.
    assert store.status()["batches"] < 800


def test_a_fork_is_told(store):
    store[b"key"] = b"value"
    child = os.fork()
    if child == 0:
        try:
            store[b"key"]
        except forebay.Error as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert store[b"key"] == b"value"


def test_ctrl_c_ends_waiting(store):
    """Interrupts puts; the store continues, and has what was put before."""
    done = []

    def interrupt():
        while len(done) < 20:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            store[b"%d" % len(done)] = bytes(100_000)
            done.append(None)
    thread.join()
    assert all(b"%d" % number in store for number in range(len(done)))
