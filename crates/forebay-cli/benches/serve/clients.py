"""Servers and clients for the measurements in this folder: `forebay serve` and fio."""

import contextlib
import json
import pathlib
import signal
import subprocess
import time

# Give clients and servers real-time priority, so that other processes do not disturb them.
FIRST = ["chrt", "-f", "1"]


@contextlib.contextmanager
def serving(forebay, config, folder):
    """Serves a configuration (text after `socket`) until the end; yields its socket."""
    socket = folder / "serve.sock"
    path = folder / "serve.toml"
    path.write_text(f'socket = "{socket}"\n{config}')
    server = subprocess.Popen([*FIRST, forebay, "serve", path], stderr=subprocess.PIPE, text=True)
    try:
        while not socket.exists():
            if server.poll() is not None:
                raise SystemExit(server.stderr.read())
            time.sleep(0.05)
        yield socket
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def fio(*words):
    """Starts fio; `told` waits for its end."""
    words = [*FIRST, "fio", "--time_based", "--group_reporting", "--output-format=json", *words]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def told(client):
    """Returns fio's results for all its jobs together."""
    text, _ = client.communicate()
    if client.returncode:
        raise SystemExit(f"fio failed: {text}")
    return json.loads(text[text.index("{"):])["jobs"][0]


def uri(socket, export=""):
    """The name of an export for fio's nbd engine."""
    return f"--uri=nbd+unix:///{export}?socket={socket}"


def say(forebay, *words):
    """Returns the JSON output of a verb."""
    done = subprocess.run([forebay, *words, "--format", "json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def load():
    """The load average of the last minute."""
    return pathlib.Path("/proc/loadavg").read_text().split()[0]
