"""Tests every command that the server lists, with redis-py, in both versions of the protocol."""

import shutil
import subprocess

import pytest
import redis

DISKS = ["a", "b", "c", "d"]
PASSWORD = "a pass word"


@pytest.fixture(scope="module")
def serving(command, binary, tmp_path_factory):
    """Starts a server with an empty store and a password; returns its port."""
    folder = tmp_path_factory.mktemp("served")
    disks = [folder / name for name in DISKS]
    for disk in disks:
        disk.mkdir()
    ended = command("store", "create", "--mb", "200", *disks)
    assert ended.returncode == 0, ended.stderr
    (folder / "password").write_text(PASSWORD + "\n")
    words = [binary, "store", "serve", "--listen", "127.0.0.1:0", *disks]
    words += ["--password-file", folder / "password"]
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        line = next(line for line in server.stderr if " at " in line)
        yield int(line.split(";")[0].rsplit(":", 1)[1])
    finally:
        server.terminate()
        server.communicate()
        # pytest would keep gigabytes of files.
        shutil.rmtree(folder)
    assert server.returncode == 0


@pytest.fixture(params=[2, 3])
def client(serving, request):
    with redis.Redis(port=serving, password=PASSWORD, protocol=request.param) as client:
        yield client
        keys = list(client.scan_iter(count=1000))
        if keys:
            client.delete(*keys)


def test_strings(client):
    assert client.set("a", b"\r\n\x00\xff") is True
    assert client.get("a") == b"\r\n\x00\xff" and client.get("none") is None
    assert client.mset({"b": "2", "c": ""}) is True
    assert client.mget("b", "none", "c") == [b"2", None, b""]
    assert client.exists("a", "b", "none", "a") == 3
    assert client.delete("a", "none") == 1 and client.unlink("b", "c") == 2
    assert client.exists("a", "b", "c") == 0
    assert client.set(b"big", bytes(5_000_000)) and client.get(b"big") == bytes(5_000_000)


def test_scans(client):
    there = {f"key:{number:04d}".encode(): b"%d" % number for number in range(500)}
    assert client.mset(there) is True
    assert list(client.scan_iter()) == sorted(there)
    assert list(client.scan_iter(match="key:00?[37]", count=50)) == [
        f"key:00{ten}{one}".encode() for ten in range(10) for one in (3, 7)
    ]
    cursor, keys = client.scan(0, count=7)
    assert cursor != 0 and keys == sorted(there)[:7]
    assert client.scan(cursor, count=10_000) == (0, sorted(there)[7:])
    assert client.dbsize() >= 500


def test_pipelines(client):
    with client.pipeline(transaction=False) as pipe:
        for number in range(2000):
            pipe.set(f"p{number}", number)
        for number in range(2000):
            pipe.get(f"p{number}")
        pipe.set("p0", "x", ex=1)
        pipe.dbsize()
        answers = pipe.execute(raise_on_error=False)
    assert answers[:2000] == [True] * 2000
    assert answers[2000:4000] == [b"%d" % number for number in range(2000)]
    assert isinstance(answers[4000], redis.ResponseError) and answers[4001] >= 2000
    assert client.get("p0") == b"0"


def test_transactions(client):
    with client.pipeline() as pipe:
        pipe.set("a", "1").get("a").mset({"b": "2", "c": "3"}).mget("a", "b", "none").delete("c", "none").exists("a", "c")
        assert client.get("a") is None, "nothing is done before"
        assert pipe.execute() == [True, b"1", True, [b"1", b"2", None], 1, 1]
    assert client.mget("a", "b", "c") == [b"1", b"2", None]
    with client.pipeline() as pipe:
        for number in range(20_000):
            pipe.set(f"t{number}", number)
        assert pipe.execute() == [True] * 20_000
    with client.pipeline() as pipe:
        pipe.get("t7").exists("t8", "none").mget("t9", "none")
        assert pipe.execute() == [b"7", 1, [b"9", None]]


@pytest.mark.parametrize(
    "wrong", [("SET", "b", "1", "EX", "5"), ("GET",), ("INCR", "n"), ("DBSIZE",), ("SCAN", "0"), ("SELECT", "1")]
)
def test_a_transaction_with_a_refused_command_is_not_done(client, wrong):
    with client.pipeline() as pipe:
        pipe.set("a", "1").execute_command(*wrong).set("b", "1")
        with pytest.raises(redis.ResponseError, match="Command # 2"):
            pipe.execute()
    assert client.mget("a", "b") == [None, None]
    # A discarded transaction has no effect, and neither has one whose WATCH fails.
    with client.pipeline() as pipe:
        pipe.set("a", "1")
        pipe.reset()
        with pytest.raises(redis.ResponseError, match="WATCH is not supported"):
            pipe.watch("a")
    assert client.get("a") is None


def test_what_clients_are_called(serving):
    # redis-py returns names as text with version 2 of the protocol, and as bytes with version 3.
    kwargs = {"port": serving, "password": PASSWORD, "protocol": 2}
    with redis.Redis(client_name="worker-7", **kwargs) as one, redis.Redis(**kwargs) as other:
        assert one.client_getname() == "worker-7" and other.client_getname() is None
        assert other.client_setname("b") and other.client_getname() == "b"
        with pytest.raises(redis.ResponseError, match="spaces"):
            other.client_setname("two words")
        assert one.client_id() != other.client_id()
        assert one.client_setinfo("LIB-NAME", "x")
        kill, pause = lambda: one.client_kill("127.0.0.1:1"), lambda: one.client_pause(1)
        for refused in (one.client_list, one.client_info, kill, pause):
            with pytest.raises(redis.ResponseError, match="unknown subcommand"):
                refused()


def test_what_clients_ask_besides(client):
    assert client.ping() is True and client.echo("said") == b"said"
    assert client.select(0) is True
    with pytest.raises(redis.ResponseError, match="DB index"):
        client.select(1)
    assert client.config_get("appendfsync")["appendfsync"] == "always"
    info = client.info()
    assert info["redis_mode"] == "standalone" and info["connected_clients"] >= 1
    assert [info[f"disk{disk}"] for disk in (1, 2, 3, 4)].count("log") <= 1
    hello = client.execute_command("HELLO")
    pairs = hello if isinstance(hello, dict) else dict(zip(hello[::2], hello[1::2]))
    version = int(client.get_connection_kwargs()["protocol"])
    assert pairs[b"server"] == b"forebay" and pairs[b"proto"] == version
    assert client.execute_command("COMMAND") in ([], {})
    assert client.execute_command("CLIENT", "SETNAME", "test") in (b"OK", True)
    assert client.execute_command("QUIT") in (b"OK", True)
    assert client.ping() is True, "it connects again"


def test_errors_are_errors(client):
    for words in (["SET", "a", "1", "EX", "5"], ["GET"], ["FLUSHALL"], ["SCAN", "x"], ["MSET", "a"]):
        with pytest.raises(redis.ResponseError):
            client.execute_command(*words)
    assert client.exists("a") == 0


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("password", [None, "another"])
def test_without_the_password_nothing_is_answered(serving, protocol, password):
    with redis.Redis(port=serving, password=password, protocol=protocol) as client:
        with pytest.raises((redis.AuthenticationError, redis.ResponseError)):
            client.get("a")
    with redis.Redis(port=serving, username="anybody", password=PASSWORD, protocol=protocol) as client:
        with pytest.raises(redis.AuthenticationError):
            client.get("a")
    with redis.Redis(port=serving, username="default", password=PASSWORD, protocol=protocol) as client:
        assert client.ping() is True
