#!/usr/bin/env python3
"""Compares the simulator with Linux 6.12: `make guest`, docs/internals/kernel.md.

Every load runs in a virtual machine under each scheduler and in the simulator, on the same model of a disk.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import capture
import machine
import page
import runs

LOADS = ["burst", "writers", "flusher", "sync-writer", "mixed", "poisson", "sequential", "idle-burst", "shared-file"]
SCHEDULERS = ["none", "mq-deadline", "kyber", "bfq"]
# A disk with an arm and a queue, and one that takes the same time for all requests, which shows who waits for what.
DEVICES = {"sata250": LOADS, "fixed:200": ["burst", "writers", "flusher", "sync-writer", "mixed", "poisson", "idle-burst"]}
ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "guest"
STATIC = "x86_64-unknown-linux-musl"


def build(target, package="forebay-guest", program="forebay-guest"):
    """Returns the path of our program, for this machine or for the guest."""
    command = ["cargo", "build", "-q", "-p", package]
    subprocess.run(command + (["--target", target] if target else []), cwd=ROOT, check=True)
    return ROOT / "target" / target / "debug" / program


def output(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"guest: {' '.join(map(str, command))} failed")
    return done.stdout


class Case:
    """A script on a device, with the phases of the platters at its start: one to compare, one to repeat."""

    def __init__(self, load, device, script, drawn, settings):
        self.load, self.device, self.script, self.settings = load, device, script, settings
        self.phases_us = [drawn.randrange(100_000) for _ in range(2)]
        self.sum = hashlib.sha256(f"{device} {self.script}".encode()).hexdigest()[:16]
        self.folder = WORK / "runs" / f"{load}-{self.sum}"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "script").write_text(self.script)

    def result(self, scheduler, phase_us):
        settings = "".join(f",{each.replace('/', '.')}" for each in self.settings)
        return self.folder / f"{scheduler}{settings}-{phase_us}"


def wanted(cases, schedulers):
    """Returns the commands whose results are still missing, each with the path of its result."""
    lines = []
    for case in cases:
        for scheduler in schedulers:
            for phase in case.phases_us:
                path = case.result(scheduler, phase)
                if not path.exists():
                    at = f"/job/{case.folder.name}"
                    settings = " ".join([f"scheduler={scheduler}", *case.settings])
                    line = f"forebay-guest perform {at}/script {case.device} {phase} {settings}"
                    lines.append((f"{line} >/tmp/out && mv /tmp/out {at}/{path.name}", path))
    return lines


def perform(guest, lines, number):
    """Runs cases on the kernel, all in one virtual machine."""
    own = WORK / f"job-{number}"
    log = guest.run(WORK / "runs", "\n".join(line for line, _ in lines) + "\n", own)
    missing = [str(path) for _, path in lines if not path.exists()]
    if missing:
        raise SystemExit(f"guest: no result in {', '.join(missing)}; the guest said:\n{log}")


def simulate(ours, case, scheduler, parameters):
    """Simulates a case. The simulator has no page cache, so it gets the writes of the kernel's flusher as input."""
    script, phase = case.folder / "script", case.phases_us[0]
    if "pace=buffered" in case.script:
        script = case.folder / f"script-{scheduler}"
        script.write_text(output(ours, "flushed", case.folder / "script", case.result(scheduler, phase)))
    return runs.read(output(ours, "simulate", script, case.device, scheduler + parameters, phase))


def compare(ours, cases, scheduler, parameters):
    """Returns the figures of a load under a scheduler: the kernel's, those of a second run of the kernel, and ours."""
    read = lambda case, which: runs.read(case.result(scheduler, case.phases_us[which]).read_text())
    kernel = [read(case, 0) for case in cases]
    repeated = [read(case, 1) for case in cases]
    simulated = [simulate(ours, case, scheduler, parameters) for case in cases]
    figures = {
        "kernel": runs.figures(kernel),
        "repeated": runs.figures(repeated),
        "ours": runs.figures(simulated),
        "order": runs.order(kernel, repeated, simulated),
    }
    return figures


def check_capture(ours, seed):
    """Checks whether `forebay capture` sees every request. Returns lines to print, and the number of ways of
    capturing that fail.
    """
    programs = [build(STATIC), build(STATIC, "forebay-cli", "forebay")]
    guest = machine.Machine(WORK, programs, capture.programs())
    script = output(ours, "draw", "mixed", seed, "sata250")
    return capture.check(guest, script, WORK / "job-capture")


def parsed():
    """Parses the arguments."""
    parser = argparse.ArgumentParser(prog="make guest", description=__doc__)
    add = parser.add_argument
    add("--load", action="append", default=[], choices=LOADS, help="all by default")
    add("--script", action="append", default=[], type=Path, help="a script in place of a load")
    add("--scheduler", action="append", default=[], choices=SCHEDULERS, help="all by default")
    add("--device", action="append", default=[], help=f"{' and '.join(DEVICES)} by default")
    add("--seed", type=int, help="drawn and printed by default")
    add("--variants", type=int, default=5, help="how often each load is drawn")
    add("--guests", type=int, default=1, help="virtual machines at a time")
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="a setting of the kernel's queue, as in nr_requests=256 or iosched/async_depth=128")
    add("--parameters", default="", help="what the simulator's schedulers are given, as in :writes-max=256")
    add("--page", type=Path, help="write the tables to this page")
    add("--capture", action="store_true", help="check `forebay capture`; done by default where all loads run")
    options = parser.parse_args()
    options.capture |= not (options.load or options.script or options.scheduler or options.device)
    if options.seed is None:
        options.seed = random.randrange(1 << 32)
    return options


def planned(ours, options):
    """Returns the cases of each load, or script, and device."""
    plan = {}
    for device in options.device or DEVICES:
        for load in [] if options.script else options.load or DEVICES.get(device, LOADS):
            drawn = random.Random(f"{options.seed} {load} {device}")
            scripts = (output(ours, "draw", load, drawn.randrange(1 << 32), device) for _ in range(options.variants))
            plan[load, device] = [Case(load, device, script, drawn, options.set) for script in scripts]
        for path in options.script:
            drawn = random.Random(f"{options.seed} {device}")
            cases = (Case(path.stem, device, path.read_text(), drawn, options.set) for _ in range(options.variants))
            plan[path.stem, device] = list(cases)
    return plan


def main():
    options = parsed()
    print(f"guest: SEED={options.seed}", flush=True)
    ours, schedulers = build(""), options.scheduler or SCHEDULERS
    plan = planned(ours, options)
    lines = wanted([case for cases in plan.values() for case in cases], schedulers)
    if lines:
        print(f"guest: {len(lines)} runs of the kernel; they appear in {WORK / 'runs'}", flush=True)
        guest = machine.Machine(WORK, [build(STATIC)])
        with ThreadPoolExecutor(options.guests) as pool:
            parts = enumerate(lines[part :: options.guests] for part in range(options.guests))
            list(pool.map(lambda part: perform(guest, part[1], part[0]), parts))
    results = {
        f"{load} {device} {scheduler}": compare(ours, cases, scheduler, options.parameters)
        for (load, device), cases in plan.items()
        for scheduler in schedulers
    }
    (WORK / "results.json").write_text(json.dumps({"seed": options.seed, "results": results}, indent=1))
    captured, wrong = check_capture(ours, options.seed) if options.capture else ([], 0)
    print("\n".join([page.table(results), *captured, f"guest: {page.summary(results)}"]))
    if options.page:
        version = machine.kernel_package(WORK)[1].partition("+")[0]
        options.page.write_text(page.whole(options.seed, options.variants, results, version, captured))
    if misses := page.misses(results) + wrong:
        print(f"guest: {misses} figures miss their targets; the results are in {WORK / 'results.json'}")
        sys.exit(1)


if __name__ == "__main__":
    main()
