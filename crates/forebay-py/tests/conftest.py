"""Fixtures that the tests share: the bundled trace, and the command to compare with."""

import faulthandler
import json
import os
import signal
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import forebay

ROOT = Path(__file__).resolve().parents[3]
TERASORT = ROOT / "traces" / "terasort.parquet"
# After this many seconds, print where a test hangs.
SECONDS_MAX = 300

# Under nohup or in a script's background job, Ctrl-C is ignored by this process and its children,
# so tests that send it would wait forever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter):
    """Appends the skipped tests to those that `make test` lists at its end: .ci/stage."""
    if path := os.environ.get("FOREBAY_SKIPS"):
        with open(path, "a", encoding="utf-8") as file:
            for report in terminalreporter.stats.get("skipped", []):
                file.write(f"{report.longrepr[2].removeprefix('Skipped: ')}\t{report.nodeid}\n")


@pytest.fixture(autouse=True)
def _ends():
    faulthandler.dump_traceback_later(SECONDS_MAX, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def trace():
    return forebay.read(TERASORT)


@pytest.fixture(scope="session")
def short_path(tmp_path_factory):
    """The beginning of the bundled trace, for verbs that run many simulations."""
    path = tmp_path_factory.mktemp("short") / "short.parquet"
    table = pq.read_table(TERASORT).slice(0, 2500)
    pq.write_table(table, path)
    return path


@pytest.fixture(scope="session")
def binary():
    """The command."""
    binary = Path(os.environ.get("FOREBAY_COMMAND", ROOT / "target" / "debug" / "forebay"))
    if not binary.exists():
        pytest.skip(f"no command at {binary} to compare with; build it with cargo build")
    return binary


@pytest.fixture(scope="session")
def command(binary):
    """Runs the command and returns its outcome."""

    def run(*arguments):
        words = [str(binary), *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def answer(command):
    """Returns the JSON output of the command without the schema version, which Python's answers do not have."""

    def run(*arguments):
        ended = command(*arguments, "--format", "json")
        assert ended.returncode == 0, ended.stderr
        told = json.loads(ended.stdout)
        assert told.pop("schema_version") == 4
        return told

    return run
