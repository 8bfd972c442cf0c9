"""Plants one-line bugs, one at a time, and reports which ones the tests catch.

    python3 mutants/plant.py SEED COUNT OUT

cargo-mutants lists the bugs (mutants), and .cargo/mutants.toml excludes those that are not bugs. COUNT mutants that
compile are drawn by the seed: first a line among all lines of all crates that could have one, then one of its
mutants. They are planted in a copy of the tree in the folder OUT. For each, the unit tests of its own crate run
first, then the other tests of that crate, then those of the crates that depend on it directly, until a test fails. A
mutant that loops or exhausts memory is stopped, which counts as caught.

The script does not use cargo-mutants to plant bugs, because that builds all tests for every mutant although most are
caught by the first test, and because its --re does not apply to mutants that delete fields (its issue 632).
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MEMORY_MAX_BYTES = 8_000_000_000
BUILD_MAX_S = 1800
# A mutant counts as looping if its tests take this many times as long as without it, plus a minute.
TIMES_MAX = 4
# The share of the mutants that the tests must catch.
CAUGHT_LEAST = 0.95
# These crates have no cargo tests, or are tests themselves.
NOT_ASKED = {"forebay-py", "forebay-fuzz", "forebay-testing", "forebay-rig", "forebay-guest"}


def cargo(tree: Path, build: Path, arguments: list[str], most_s: int) -> bool:
    """Returns whether a command succeeds in time."""
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(build),
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
    }
    limit = (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES)
    process = subprocess.Popen(
        ["nice", "cargo", "test", "-q", *arguments],
        cwd=tree,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )
    try:
        return process.wait(timeout=most_s) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        # This also ends the processes that it started.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def copy(tree: Path) -> None:
    """Copies the files that git tracks or would add, with their times, so that existing builds remain valid. Only our
    own sources count as new, because the last bug of an earlier run may still be in its build.
    """
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, text=True).split("\0"):
        # A link may be to a folder.
        if name and (Path(name).is_file() or Path(name).is_symlink()):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, tree / name, follow_symlinks=False)
            if "/src/" in name:
                os.utime(tree / name, follow_symlinks=False)


def planted(source: str, mutant: dict) -> str:
    """Returns `source` with the mutant applied."""
    lines = source.split("\n")
    start, end = mutant["span"]["start"], mutant["span"]["end"]
    before = lines[: start["line"] - 1] + [lines[start["line"] - 1][: start["column"] - 1]]
    after = [lines[end["line"] - 1][end["column"] - 1 :]] + lines[end["line"] :]
    return "\n".join(before) + mutant["replacement"] + "\n".join(after)


def dependents() -> dict[str, list[str]]:
    """Returns the crates that depend on each crate directly."""
    metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--no-deps"]))
    needs = {
        package["name"]: {it["name"] for it in package["dependencies"] if it["kind"] is None}
        for package in metadata["packages"]
    }
    return {
        name: sorted(other for other in needs if name in needs[other] and other not in NOT_ASKED)
        for name in needs
    }


def stages(package: str, others: list[str]) -> list[list[str]]:
    """Returns the tests to run, in order."""
    own = [["-p", package, "--lib"], ["-p", package]]
    if package == "forebay-cli":
        own = [["-p", package, "--bin", "forebay"], ["-p", package]]
    return own + [["-p", other] for other in others]


def fate(tree: Path, build: Path, asked: list[list[str]], most_s: list[int]) -> tuple[str, list[float]]:
    """Tests the mutant in the tree, each stage in at most `most_s`; returns the outcome and what each stage took."""
    took_s = []
    for number, stage in enumerate(asked):
        if not cargo(tree, build, [*stage, "--no-run"], BUILD_MAX_S):
            return "does not build" if number == 0 else "caught", took_s
        began = time.monotonic()
        if not cargo(tree, build, stage, most_s[number]):
            return "caught", took_s
        took_s.append(time.monotonic() - began)
    return "ALIVE", took_s


def drawn(seed: int):
    """Yields mutants endlessly: first draws a line among all lines that could have one, then one of its mutants."""
    listed = ["cargo", "mutants", "--list", "--json", "--workspace"]
    of_line: dict[tuple[str, int], list[dict]] = {}
    for mutant in sorted(json.loads(subprocess.check_output(listed)), key=lambda it: it["name"]):
        if mutant["package"] not in NOT_ASKED:
            place = (mutant["file"], mutant["span"]["start"]["line"])
            of_line.setdefault(place, []).append(mutant)
    dice = random.Random(seed)
    places = sorted(of_line)
    dice.shuffle(places)
    for place in places:
        yield dice.choice(of_line[place])


def main() -> int:
    seed, count, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).absolute()
    tree, build = out / "tree", out / "build"
    others = dependents()
    copy(tree)
    fates: list[str] = []
    alive: list[str] = []
    most_s: dict[str, list[int]] = {}
    began = time.monotonic()
    for mutant in drawn(seed):
        if len(fates) == count:
            break
        asked = stages(mutant["package"], others[mutant["package"]])
        if mutant["package"] not in most_s:
            before, took_s = fate(tree, build, asked, [BUILD_MAX_S] * len(asked))
            if before != "ALIVE":
                print(f"without any mutant {mutant['package']}: {before}; expected tests that pass", file=sys.stderr)
                return 1
            most_s[mutant["package"]] = [60 + round(TIMES_MAX * s) for s in took_s]
        path = tree / mutant["file"]
        source = path.read_text()
        path.write_text(planted(source, mutant))
        told, _ = fate(tree, build, asked, most_s[mutant["package"]])
        path.write_text(source)
        print(f"{told:14} {mutant['name']}", flush=True)
        if told != "does not build":
            fates.append(told)
        if told == "ALIVE":
            alive.append(mutant["name"])
    minutes = (time.monotonic() - began) / 60
    caught = fates.count("caught")
    print(f"\n{caught} of {len(fates)} caught in {minutes:.0f} minutes (seed {seed}); alive:")
    print("\n".join(alive) or "none")
    return 0 if len(fates) == count and caught >= CAUGHT_LEAST * count else 1


if __name__ == "__main__":
    sys.exit(main())
