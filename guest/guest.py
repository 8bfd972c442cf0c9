#!/usr/bin/env python3
"""Holds the simulator against Linux 6.12: `make guest`, docs/internals/kernel.md.

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
# A disk with an arm and a queue, and one that takes the same time for all, which shows who waits for what.
DEVICES = {"sata250": LOADS, "fixed:200": ["burst", "writers", "flusher", "sync-writer", "mixed", "poisson", "idle-burst"]}
ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "guest"
STATIC = "x86_64-unknown-linux-musl"


def build(target, package="forebay-guest", program="forebay-guest"):
    """Our program, for this machine or for the guest."""
    command = ["cargo", "build", "-q", "-p", package]
    subprocess.run(command + (["--target", target] if target else []), cwd=ROOT, check=True)
    return ROOT / "target" / target / "debug" / program


def output(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"guest: {' '.join(map(str, command))} failed")
    return done.stdout


class Case:
    """A load as one seed draws it, with the phases of the platters that it begins at: one to compare, one to repeat."""

    def __init__(self, ours, load, device, seed, phases_us, settings):
        self.load, self.device, self.phases_us, self.settings = load, device, phases_us, settings
        self.script = output(ours, "draw", load, seed, device)
        self.sum = hashlib.sha256(f"{device} {self.script}".encode()).hexdigest()[:16]
        self.folder = WORK / "runs" / f"{load}-{self.sum}"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "script").write_text(self.script)

    def result(self, scheduler, phase_us):
        settings = "".join(f",{each.replace('/', '.')}" for each in self.settings)
        return self.folder / f"{scheduler}{settings}-{phase_us}"


def wanted(cases, schedulers):
    """The commands whose results are not known yet, each with where that goes."""
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
    """What the kernel makes of cases; one virtual machine does all of them."""
    own = WORK / f"job-{number}"
    log = guest.run(WORK / "runs", "\n".join(line for line, _ in lines) + "\n", own)
    missing = [str(path) for _, path in lines if not path.exists()]
    if missing:
        raise SystemExit(f"guest: no result in {', '.join(missing)}; the guest said:\n{log}")


def simulate(ours, case, scheduler, parameters):
    """What the simulator makes of a case. It has no page cache: it is given what the kernel's flusher wrote."""
    script, phase = case.folder / "script", case.phases_us[0]
    if "pace=buffered" in case.script:
        script = case.folder / f"script-{scheduler}"
        script.write_text(output(ours, "flushed", case.folder / "script", case.result(scheduler, phase)))
    return runs.read(output(ours, "simulate", script, case.device, scheduler + parameters, phase))


def compare(ours, cases, scheduler, parameters):
    """The figures of a load under a scheduler: the kernel's, the kernel's once more, ours."""
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
    """Whether `forebay capture` sees every request: lines to print, and how many ways of it do not."""
    programs = [build(STATIC), build(STATIC, "forebay-cli", "forebay")]
    guest = machine.Machine(WORK, programs, capture.programs())
    script = output(ours, "draw", "mixed", seed, "sata250")
    return capture.check(guest, script, WORK / "job-capture")


def main():
    parser = argparse.ArgumentParser(prog="make guest", description=__doc__)
    parser.add_argument("--load", action="append", choices=LOADS, help="all by default")
    parser.add_argument("--scheduler", action="append", choices=SCHEDULERS, help="all by default")
    parser.add_argument("--device", action="append", help=f"{' and '.join(DEVICES)} by default")
    parser.add_argument("--seed", type=int, help="drawn and printed by default")
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--guests", type=int, default=1, help="virtual machines at a time")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a setting of the kernel's queue, as in nr_requests=256 or iosched/async_depth=128")
    parser.add_argument("--parameters", default="", help="what the simulator's schedulers are given, as in :writes-max=256")
    parser.add_argument("--page", type=Path, help="write the tables to this page")
    parser.add_argument("--capture", action="store_true", help="check `forebay capture` too")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"guest: SEED={seed}", flush=True)
    ours = build("")
    plan = {}
    for device in options.device or DEVICES:
        for load in options.load or DEVICES.get(device, LOADS):
            drawn = random.Random(f"{seed} {load} {device}")
            plan[load, device] = [
                Case(ours, load, device, drawn.randrange(1 << 32), [drawn.randrange(100_000) for _ in range(2)],
                     options.set)
                for _ in range(options.variants)
            ]
    schedulers = options.scheduler or SCHEDULERS
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
    (WORK / "results.json").write_text(json.dumps({"seed": seed, "results": results}, indent=1))
    print(page.table(results))
    print(f"guest: {page.summary(results)}")
    captured, wrong = check_capture(ours, seed) if options.capture else ([], 0)
    print("\n".join(captured))
    if options.page:
        version = machine.kernel_package(WORK)[1].partition("+")[0]
        options.page.write_text(page.whole(seed, results, version, captured))
    if misses := page.misses(results) + wrong:
        print(f"guest: {misses} figures miss their targets; the results are in {WORK / 'results.json'}")
        sys.exit(1)


if __name__ == "__main__":
    main()
