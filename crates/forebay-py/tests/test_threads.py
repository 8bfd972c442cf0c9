"""Tests that long computations let other threads run and end with Ctrl-C.

No test waits for a time: the computation would take hours, and is ended by a thread that can run only while the
interpreter lock is free.
"""

import os
import signal
import threading

import pyarrow as pa
import pytest

import forebay

STEPS = 200_000


@pytest.fixture
def interrupter():
    """Starts a thread that counts, and sends SIGINT when it is done. Returns its counter."""
    counted = []

    def count():
        while len(counted) < STEPS:
            counted.append(None)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=count)
    yield thread
    thread.join()
    assert len(counted) == STEPS


@pytest.fixture(scope="module")
def endless(trace):
    """Returns a table of billions of rows, which all share the same few megabytes."""
    return pa.concat_tables([pa.table(trace)] * 20_000)


def test_describe(interrupter, endless):
    with pytest.raises(KeyboardInterrupt):
        interrupter.start()
        forebay.describe(endless)


def test_convert_leaves_nothing(interrupter, endless, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupter.start()
        forebay.convert(endless, tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("replay", ["open", "closed"])
def test_simulate(interrupter, trace, replay):
    with pytest.raises(KeyboardInterrupt):
        interrupter.start()
        forebay.simulate(trace, device="sata250", policy=["noop"] * 100_000, replay=replay)


def test_advise_while_it_reads(interrupter, endless):
    with pytest.raises(KeyboardInterrupt):
        interrupter.start()
        forebay.advise(endless)


def test_store_simulate(interrupter):
    with pytest.raises(KeyboardInterrupt):
        interrupter.start()
        forebay.store_simulate("st1000nm0011", total_mb=100_000)


def test_threads_share_a_trace(trace):
    answers = []
    work = [lambda: answers.append(forebay.describe(trace))] * 4
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4 and all(answer == answers[0] for answer in answers)
