"""Tests sweeps: each cell is answered once, whatever dies, on processes, executors and a Dask cluster, from disks and
object stores.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pyarrow.parquet as pq
import pytest
from conftest import ROOT, TERASORT

import forebay
from forebay.sweep.grid import Cell, cells
from forebay.sweep.engines import Processes, drive
from forebay.sweep.work import answer_all

SIMULATE = {"simulate": {"device": ["st1000nm0011", "fixed:300"], "policy": ["none", "bfq"]}}


def rows(output):
    """Returns all rows of all parts."""
    return [row for part in output.glob("*.parquet") for row in pq.read_table(part).to_pylist()]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Returns a trace that is processed in moments."""
    path = tmp_path_factory.mktemp("traces") / "small.csv"
    forebay.convert(pq.read_table(TERASORT).slice(0, 300), path)
    return path


def many(count):
    """Returns a grid of this many cells, each of which takes some time."""
    return {"simulate": {"device": "st1000nm0011", "intensity": [1 + n / 1000 for n in range(count)]}}


def once(output, count):
    """Each cell has one row."""
    names = [row["cell"] for row in rows(output)]
    assert len(names) == count == len(set(names))


def test_describe_is_asked_too_and_answers_say_how_many(tmp_path, small):
    absent = tmp_path / "answers"
    found = forebay.sweep({"describe": {"stream_by": ["thread", "name"]}}, [small], output=absent, processes=1)
    answers = [answer for _, answer in found.whole()]
    assert answers == [forebay.describe(small, stream_by=by) for by in ("thread", "name")]
    assert repr(found) == f"forebay.sweep.Answers(2 cells, 2 done, 0 failed, in '{absent}')"
    bad = small.with_name("bad.spc")
    bad.write_text("0,5,512,R,0.0\n" + 2 * "0,5,512,R,-1\n")
    found = forebay.sweep({"describe": {}}, [small, bad], output=absent, processes=1)
    assert repr(found).startswith("forebay.sweep.Answers(2 cells, 1 done, 1 failed, in ")


def test_answers_are_those_of_the_verbs(tmp_path, trace):
    grid = SIMULATE | {"plan": {"within": "20ms", "fraction": [0.9, 0.99]}, "cache": {}}
    found = forebay.sweep(grid, TERASORT, output=tmp_path, processes=2)
    assert (len(found), found.fresh, found.failed()) == (7, 7, [])
    table = found.to_pyarrow().to_pylist()
    runs = forebay.simulate(trace, device="st1000nm0011", policy=["none", "bfq"]).runs
    assert [row["busy_s"] for row in table[:2]] == [run["busy_s"] for run in runs]
    assert [(row["device"], row["policy"]) for row in table[:2]] == [
        ("st1000nm0011", "none"),
        ("st1000nm0011", "bfq"),
    ]
    answers = list(found.whole())
    assert answers[4][0].verb == "plan" and json.loads(answers[5][0].parameters)["fraction"] == 0.99
    planned = forebay.plan_capacity(trace, within=["20ms"], fraction=[0.99])
    assert answers[5][1] == json.loads(json.dumps(planned))
    assert answers[6][1] == json.loads(json.dumps(forebay.cache(trace)))
    assert len(found.to_polars()) == len(found.to_pandas()) == 7


def test_what_is_there_is_not_asked_again(tmp_path, small):
    with ThreadPoolExecutor(2) as executor:
        first = forebay.sweep(SIMULATE, small, output=tmp_path, executor=executor)
        again = forebay.sweep(SIMULATE, small, output=tmp_path, executor=executor)
        more = SIMULATE | {"cache": {}}
        wider = forebay.sweep(more, small, output=tmp_path, executor=executor)
    assert (first.fresh, again.fresh, wider.fresh) == (4, 0, 1)
    assert again.to_pyarrow() == first.to_pyarrow()
    once(tmp_path, 5)


def test_a_cell_is_named_by_all_its_answer_hangs_on(tmp_path, monkeypatch):
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(TERASORT.read_bytes())
    one = {"simulate": {"device": "fixed:300", "policy": "none"}}

    def name(grid=one):
        (cell,) = cells(grid, copy)
        return cell.name

    first = name()
    assert name({"simulate": {"policy": ["none"], "device": ["fixed:300"]}}) == first
    assert name({"simulate": {"device": "fixed:301", "policy": "none"}}) != first
    os.utime(copy, ns=(1, 1))
    changed = name()
    assert changed != first
    monkeypatch.setattr(sys.modules["forebay.sweep.grid"], "__version__", "other")
    assert name() not in (first, changed)
    assert len(cells([one, one, SIMULATE], [copy, str(copy)])) == 4


def test_a_trace_that_cannot_be_read_fails_its_own_cells(tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(TERASORT.read_bytes()[:5000])
    output = tmp_path / "answers"
    traces = [broken, TERASORT, tmp_path / "missing"]
    found = forebay.sweep({"cache": {}}, traces, output=output, processes=2)
    failed = {row["trace"]: row["error"] for row in found.failed()}
    assert failed.keys() == {str(broken), str(tmp_path / "missing")}
    for trace in traces[::2]:
        with pytest.raises((forebay.Error, OSError)) as raised:
            forebay.cache(trace)
        assert failed[str(trace)] == str(raised.value)
    wrong = {"cache": {"block_kib": -1}, "simulate": {"device": "nothing"}}
    assert len(forebay.sweep(wrong, TERASORT, output=output, processes=1).failed()) == 2
    # With `retry`, failed cells are computed again.
    assert forebay.sweep({"cache": {}}, traces, output=output, processes=1).fresh == 0
    retried = forebay.sweep({"cache": {}}, traces, output=output, processes=1, retry=True)
    assert (retried.fresh, len(retried.failed())) == (2, 2)


def test_volumes_of_a_parted_trace_are_asked_each(tmp_path, binary):
    rows = "".join(
        f"{at * 1000},host,{volume},Read,{at * 4096},4096,1000\n" for at in range(300) for volume in (0, 1)
    )
    (tmp_path / "msr.csv").write_text(rows.replace("host", "h"))
    words = [binary, "convert", "msr.csv", "parts", "--partition-by", "volume", "--from", "msr"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    found = forebay.sweep(
        {"cache": {}}, tmp_path / "parts", output=tmp_path / "answers", by_volume=True, processes=1
    )
    table = found.to_pyarrow().to_pylist()
    assert [row["volume"] for row in table] == ["h.0", "h.1"] and found.failed() == []
    with pytest.raises(forebay.Error, match="partition-by volume"):
        forebay.sweep({"cache": {}}, tmp_path, output=tmp_path / "answers", by_volume=True)


def test_a_worker_that_is_killed_loses_nothing(tmp_path, small):
    killed = []

    def kill(done, total, failed):
        if done >= 3 and not killed:
            child = multiprocessing.active_children()[0]
            os.kill(child.pid, signal.SIGKILL)
            killed.append(child.pid)

    found = forebay.sweep(many(40), small, output=tmp_path, processes=2, progress=kill)
    assert killed and (found.fresh, found.failed()) == (40, [])
    once(tmp_path, 40)


def test_a_script_without_a_guard_is_told_and_keeps_nothing(tmp_path, small):
    script = tmp_path / "script.py"
    sweep = (
        f"import forebay\n"
        f"forebay.sweep({many(3)!r}, {str(small)!r}, output={str(tmp_path / 'answers')!r}, processes=2)\n"
    )
    script.write_text(sweep)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and ended.stderr.count("Traceback") == 1, ended.stderr
    assert "forebay.Error: sweep: its processes exit at once" in ended.stderr
    assert "if __name__ == '__main__'" in ended.stderr
    assert rows(tmp_path / "answers") == []
    guarded = sweep.replace("forebay.sweep", "if __name__ == '__main__': forebay.sweep")
    script.write_text(guarded)
    subprocess.run([sys.executable, script], check=True)
    once(tmp_path / "answers", 3)


def test_parameters_are_looked_at_before_anything_is_asked(tmp_path, small):
    for grid, said in (
        ({"simulate": {"device": "fixed:300", "polcy": "none"}}, "got the parameter 'polcy', expected some of: .*policy"),
        ({"simulate": {"device": "fixed:300", "policies": [["none"]]}}, "got the parameter 'policies'"),
        ({"plan": {"fraction": 0.9}}, "plan: got no 'within'"),
        ({"compare": {}}, "compare: got no 'other'"),
        ({"windows": {"window_ms": 10, "device": "fixed:300"}}, "got the parameter 'device'"),
    ):
        with pytest.raises(forebay.Error, match=said):
            forebay.sweep(grid, small, output=tmp_path / "answers")
    assert rows(tmp_path / "answers") == []


def test_a_device_file_that_changes_is_asked_anew(tmp_path, small):
    device, other = tmp_path / "mine.toml", tmp_path / "other.csv"
    text = (ROOT / "devices/st1000nm0011.toml").read_text()
    device.write_text(text)
    other.write_bytes(small.read_bytes())
    grid = {"simulate": {"device": [str(device)]}, "compare": {"other": str(other)}}
    ask = lambda: forebay.sweep(grid, small, output=tmp_path / "answers", processes=1).fresh  # noqa: E731
    assert (ask(), ask()) == (2, 0)
    device.write_text(text + "\n")
    assert (ask(), ask()) == (1, 0)
    other.write_bytes(small.read_bytes()[:-40])
    assert ask() == 1


def test_a_bad_address_fails_its_own_cells(tmp_path, small):
    pytest.importorskip("fsspec")
    found = forebay.sweep(SIMULATE, ["zzz://a/b", small], output=tmp_path / "answers", processes=1)
    assert (len(found), len(found.failed())) == (8, 4)
    assert all("zzz" in row["error"] for row in found.failed())


def test_what_makes_no_sense_is_refused(tmp_path, small):
    kept = {"output": tmp_path / "answers"}
    for grid, traces, options, said in (
        ("simulate", small, kept, "grid: got 'simulate'"),
        ({"simulate": ["device"]}, small, kept, "grid: simulate: got"),
        (SIMULATE, 5, kept, "traces: got 5"),
        (SIMULATE, [], kept, "traces: got none"),
        (SIMULATE, small, {"output": 5}, "output: got 5"),
        (SIMULATE, small, {"output": "s3://b/a"}, "output: got 's3://b/a'"),
        (SIMULATE, small, {"output": small}, "output: .*expected a folder"),
        (SIMULATE, small, kept | {"processes": 0}, "processes: got 0"),
        (SIMULATE, small, kept | {"executor": 5}, "executor: got 5"),
        (SIMULATE, small, kept | {"shard": "1/2"}, "shard: got '1/2'"),
    ):
        with pytest.raises(forebay.Error, match=said):
            forebay.sweep(grid, traces, **options)


def test_workers_end_with_their_parent(tmp_path, small):
    """Killing a process also ends the processes that it started."""
    script = tmp_path / "script.py"
    script.write_text(
        "import forebay, multiprocessing, sys\n"
        "def tell(done, of, failed):\n"
        "    print(*[child.pid for child in multiprocessing.active_children()], flush=True)\n"
        "if __name__ == '__main__':\n"
        f"    grid = {{'simulate': {{'device': 'st1000nm0011', 'intensity': [1 + n / 1000 for n in range(3000)]}}}}\n"
        f"    forebay.sweep(grid, {str(small)!r}, output={str(tmp_path / 'answers')!r}, processes=2, progress=tell)\n"
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(workers) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(1200):
        if not any(os.path.exists(f"/proc/{pid}") for pid in workers):
            return
        time.sleep(0.1)
    pytest.fail(f"{workers} are still there")


class Deadly(Processes):
    """Works immediately; the cell `deadly` kills the worker with everything that is unfinished."""

    def __init__(self, deadly):
        self.deadly, self.renewed, self.is_broken = deadly, 0, False

    def submit(self, work, batch, *what):
        if self.is_broken:
            raise BrokenProcessPool("nothing is taken any more")
        future = Future()
        if any(cell.name == self.deadly for cell in batch):
            self.is_broken = True
            future.set_exception(BrokenProcessPool("it died"))
        else:
            future.set_result(work(batch, *what))
        return future

    def renew(self):
        self.renewed, self.is_broken = self.renewed + 1, False


def test_a_cell_that_kills_its_workers_fails_alone(small):
    asked = cells(many(12), small)
    engine, kept = Deadly(asked[5].name), []
    drive(engine, [asked[:4], asked[4:8], asked[8:]], kept.extend)
    assert sorted(row["cell"] for row in kept) == sorted(cell.name for cell in asked)
    (failed,) = [row for row in kept if row["error"] is not None]
    assert failed["cell"] == asked[5].name and "died 2 times" in failed["error"]
    assert engine.renewed >= 2


def test_a_batch_that_an_executor_cannot_do_is_asked_cell_by_cell(small):
    asked = cells(many(6), small)

    class Refusing(ThreadPoolExecutor):
        def submit(self, work, batch, *what):
            return super().submit(self.work, batch, *what)

        def work(self, batch, *what):
            if any(cell.name == asked[2].name for cell in batch):
                raise MemoryError
            return answer_all(batch, *what)

    kept = []
    with Refusing(1) as executor:
        drive(executor, [asked[:3], asked[3:]], kept.extend)
    assert len(kept) == 6
    assert [row["cell"] for row in kept if row["error"]] == [asked[2].name]


def test_shards_have_each_cell_once_and_share_a_folder(tmp_path, small):
    grid = {"simulate": {"device": "fixed:300", "intensity": [1 + n / 10 for n in range(10)]}}
    questions = tmp_path / "questions.json"
    asked = {"grid": grid, "traces": [str(small)], "output": str(tmp_path / "answers")}
    questions.write_text(json.dumps(asked))

    def run(*words, code=0):
        command = [sys.executable, "-m", "forebay.sweep", str(questions), *words]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    said = [run("--shard", f"{part}/3", "--processes", "1") for part in (1, 2, 3)]
    assert sum(int(one.split(" cells")[0]) for one in said) == 10
    once(tmp_path / "answers", 10)
    assert "10 were answered before, 0 now" in run()
    assert "expected 1/3 to 3/3" in run("--shard", "4/3", code=2)
    assert "expected I/N" in run("--shard", "four", code=2)
    questions.write_text("{")
    assert run(code=2).count("\n") == 1
    questions.write_text(json.dumps(asked | {"shards": 3}))
    assert "got grid, traces, output, shards" in run(code=2)
    questions.write_text(json.dumps(asked | {"traces": ["nothing"]}))
    assert "10 failed" in run("--processes", "1", code=1)


def interrupted_sweep(questions, output):
    """Interrupts a sweep of 40 cells after its first answers; returns its exit status and its messages."""
    asked = {"grid": many(40), "traces": [str(TERASORT)], "output": str(output)}
    questions.write_text(json.dumps(asked))
    command = [sys.executable, "-m", "forebay.sweep", str(questions), "--processes", "2"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(output.glob("*.parquet")) and running.poll() is None:
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=120)
    return running.returncode, said


def test_ctrl_c_keeps_what_is_answered(tmp_path):
    for attempt in range(5):
        output = tmp_path / f"answers{attempt}"
        returncode, said = interrupted_sweep(tmp_path / "questions.json", output)
        if returncode != 0:
            break
        # This process had to wait for a processor, so all cells were answered before.
    assert returncode == 130, said
    assert said == "forebay.sweep: stopped; all answers so far are kept\n"
    kept = len(rows(output))
    assert 0 < kept < 40 and not list(output.glob(".*"))
    found = forebay.sweep(many(40), TERASORT, output=output, processes=2)
    assert found.fresh == 40 - kept
    once(output, 40)


def test_workers_that_die_after_ctrl_c_do_not_crash_the_pool(monkeypatch, small):
    def interrupted(_):
        raise KeyboardInterrupt

    crashed = []
    engine = Processes(1)
    with pytest.raises(KeyboardInterrupt):
        drive(engine, [[cell] for cell in cells(many(40), small)], interrupted)
    monkeypatch.setattr(threading, "excepthook", crashed.append)
    manager = engine.pool._executor_manager_thread
    for process in list(engine.pool._processes.values()):
        process.terminate()
    manager.join(120)
    engine.__exit__(None)
    assert not manager.is_alive() and not crashed, crashed


def test_what_cannot_be_asked_is_said_before_anything_is(tmp_path):
    output = tmp_path / "answers"
    for grid, why in [
        ({"simulat": {}}, "expected one of: simulate"),
        ({}, "no questions"),
        ({"cache": {"sizes_mib": {1, 2}}}, "expected values that JSON can represent"),
    ]:
        with pytest.raises(forebay.Error, match=why):
            forebay.sweep(grid, TERASORT, output=output)
    with ThreadPoolExecutor() as executor, pytest.raises(forebay.Error, match="one of them"):
        forebay.sweep(SIMULATE, TERASORT, output=output, executor=executor, client="tcp://x:1")
    assert not output.exists()
    output.mkdir()
    (output / "x.parquet").write_text("nonsense")
    with pytest.raises(forebay.Error, match="remove it"):
        forebay.sweep(SIMULATE, TERASORT, output=output)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


def test_a_dask_cluster_loses_a_worker_and_no_cell(tmp_path, cluster, small):
    killed = []

    def kill(done, total, failed):
        if done >= 3 and not killed:
            worker = next(iter(cluster.workers.values()))
            os.kill(worker.process.pid, signal.SIGKILL)
            killed.append(worker)

    found = forebay.sweep(
        many(60), small, output=tmp_path, client=cluster.scheduler_address, progress=kill
    )
    assert killed and (found.fresh, found.failed()) == (60, [])
    once(tmp_path, 60)


def test_a_dask_client_asks_as_its_own(tmp_path, cluster):
    with cluster.get_client() as client:
        found = forebay.sweep(SIMULATE, [TERASORT, "missing"], output=tmp_path, client=client)
        assert (found.fresh, len(found.failed())) == (8, 4)
        assert client.status == "running"


@pytest.fixture(scope="module")
def store():
    """Returns the options of a local S3 server with the bundled trace in a bucket."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    s3fs = pytest.importorskip("s3fs")
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "k", "secret": "s", "endpoint_url": f"http://{host}:{port}"}
    system = s3fs.S3FileSystem(**options)
    system.mkdir("bucket")
    system.put(str(TERASORT), "bucket/day1.parquet")
    yield options, system
    server.stop()


def test_traces_come_from_an_object_store(tmp_path, store, trace):
    options, system = store
    address = "s3://bucket/day1.parquet"
    traces = [address, "s3://bucket/missing.parquet"]
    found = forebay.sweep(SIMULATE, traces, output=tmp_path, storage=options, processes=2)
    assert {row["trace"] for row in found.failed()} == {traces[1]} and found.fresh == 8
    run = forebay.simulate(trace, device="st1000nm0011", policy=["none"]).runs[0]
    assert found.to_pyarrow().to_pylist()[0]["busy_s"] == run["busy_s"]
    again = forebay.sweep(SIMULATE, address, output=tmp_path, storage=options, processes=1)
    assert again.fresh == 0
    # If the object at an address has changed, its cells are computed again.
    system.pipe("bucket/day1.parquet", (ROOT / "README.md").read_bytes())
    other = forebay.sweep({"cache": {}}, address, output=tmp_path, storage=options, processes=1)
    assert other.fresh == 1 and len(other.failed()) == 1


def test_a_cell_can_be_made_by_hand():
    cell = Cell("cache", str(TERASORT), "", str(TERASORT), "{}", "")
    (row,) = answer_all([cell])
    assert row["error"] is None and row["cell"] == cell.name and len(cell.name) == 32


def test_a_scheduler_that_is_not_there_is_told(tmp_path, small, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("forebay.sweep.ask._SCHEDULER_S", 1)
    with pytest.raises(forebay.Error, match="client: got no scheduler at 'tcp://127.0.0.1:1'"):
        forebay.sweep(SIMULATE, small, output=tmp_path, client="tcp://127.0.0.1:1")
