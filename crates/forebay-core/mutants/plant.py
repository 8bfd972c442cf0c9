"""Plants one-line bugs in the core, one at a time, and says which ones the tests catch.

    python3 crates/forebay-core/mutants/plant.py SEED COUNT OUT

cargo-mutants names the bugs (mutants), .cargo/mutants.toml leaves out those that are none. COUNT of
them that build, drawn by the seed, are planted in a copy of the tree under the folder OUT. Each meets
first the core's unit tests, then its other tests, then the laws of content (forebay-live), until
something fails. What loops or eats memory is stopped, which counts as caught.

It does not leave planting to cargo-mutants, which builds all tests for every mutant, where most are
caught by the first, and whose --re does not hold for mutants that delete fields (its issue 632).
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

STAGES = [
    ["-p", "forebay-core", "--lib"],
    ["-p", "forebay-core", "--tests"],
    ["-p", "forebay-live", "--test", "all", "laws"],
]
MEMORY_MAX_BYTES = 6_000_000_000
TEST_MAX_S = 300
BUILD_MAX_S = 1800


def cargo(tree: Path, build: Path, arguments: list[str], most_s: int) -> bool:
    """Whether it ends well in time."""
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
        # Also what it started.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def copy(tree: Path) -> None:
    """The files that git knows or would take, with their times: what is built stays built. The core alone is
    new, as the last bug of an earlier run may still be in its build."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, text=True).split("\0"):
        if name and Path(name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, tree / name)
            if name.startswith("crates/forebay-core/src/"):
                os.utime(tree / name)


def planted(source: str, mutant: dict) -> str:
    """`source` with the mutant in it."""
    lines = source.split("\n")
    start, end = mutant["span"]["start"], mutant["span"]["end"]
    before = lines[: start["line"] - 1] + [lines[start["line"] - 1][: start["column"] - 1]]
    after = [lines[end["line"] - 1][end["column"] - 1 :]] + lines[end["line"] :]
    return "\n".join(before) + mutant["replacement"] + "\n".join(after)


def fate(tree: Path, build: Path) -> str:
    """What becomes of the mutant in the tree."""
    for number, stage in enumerate(STAGES):
        if not cargo(tree, build, [*stage, "--no-run"], BUILD_MAX_S):
            return "does not build" if number == 0 else "caught"
        if not cargo(tree, build, stage, TEST_MAX_S):
            return "caught"
    return "ALIVE"


def main() -> int:
    seed, count, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).absolute()
    tree, build = out / "tree", out / "build"
    listed = ["cargo", "mutants", "--list", "--json", "-p", "forebay-core"]
    mutants = sorted(json.loads(subprocess.check_output(listed)), key=lambda it: it["name"])
    random.Random(seed).shuffle(mutants)
    copy(tree)
    if (before := fate(tree, build)) != "ALIVE":
        print(f"without any mutant: {before}; expected tests that pass", file=sys.stderr)
        return 1
    fates: list[str] = []
    alive: list[str] = []
    for mutant in mutants:
        if len(fates) == count:
            break
        path = tree / mutant["file"]
        source = path.read_text()
        path.write_text(planted(source, mutant))
        told = fate(tree, build)
        path.write_text(source)
        print(f"{told:14} {mutant['name']}", flush=True)
        if told != "does not build":
            fates.append(told)
        if told == "ALIVE":
            alive.append(mutant["name"])
    print(f"\n{fates.count('caught')} of {len(fates)} caught (seed {seed}); alive:")
    print("\n".join(alive) or "none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
