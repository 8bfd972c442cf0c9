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

import machine
import page
import runs

LOADS = ["burst", "writers", "flusher", "sync-writer", "mixed", "poisson", "sequential", "idle-burst", "shared-file"]
SCHEDULERS = ["none", "mq-deadline", "kyber", "bfq"]
DEVICES = ["sata250", "fixed:200"]
ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "guest"
STATIC = "x86_64-unknown-linux-musl"


def build(target):
    """Our program, for this machine or for the guest."""
    command = ["cargo", "build", "-q", "-p", "forebay-guest"]
    subprocess.run(command + (["--target", target] if target else []), cwd=ROOT, check=True)
    return ROOT / "target" / target / "debug" / "forebay-guest"


def output(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"guest: {' '.join(map(str, command))} failed")
    return done.stdout


class Case:
    """A load as one seed draws it, with the phases of the platters that it begins at: one to compare, one to repeat."""

    def __init__(self, ours, load, device, seed, phases_us):
        self.load, self.device, self.phases_us = load, device, phases_us
        self.script = output(ours, "draw", load, seed, device)
        self.sum = hashlib.sha256(f"{device} {self.script}".encode()).hexdigest()[:16]
        self.folder = WORK / "runs" / f"{load}-{self.sum}"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "script").write_text(self.script)

    def result(self, scheduler, phase_us):
        return self.folder / f"{scheduler}-{phase_us}"


def perform(guest, cases, schedulers, name):
    """What the kernel makes of cases, where that is not known yet."""
    lines, wanted = [], []
    for case in cases:
        for scheduler in schedulers:
            for phase in case.phases_us:
                path = case.result(scheduler, phase)
                if not path.exists():
                    wanted.append(path)
                    at = f"/job/{case.folder.name}"
                    lines.append(f"forebay-guest perform {at}/script {case.device} {phase} scheduler={scheduler}"
                                 f" >/tmp/out && mv /tmp/out {at}/{path.name}")
    if not wanted:
        return
    print(f"guest: {len(wanted)} runs of {name}", flush=True)
    job = WORK / "runs"
    log = guest().run(job, "\n".join(lines) + "\n", WORK / f"job-{name.replace(':', '-')}")
    missing = [str(path) for path in wanted if not path.exists()]
    if missing:
        raise SystemExit(f"guest: no result in {', '.join(missing)}; the guest said:\n{log}")


def simulate(ours, case, scheduler):
    """What the simulator makes of a case. It has no page cache: it is given what the kernel's flusher wrote."""
    script, phase = case.folder / "script", case.phases_us[0]
    if "pace=buffered" in case.script:
        script = case.folder / f"script-{scheduler}"
        script.write_text(output(ours, "flushed", case.folder / "script", case.result(scheduler, phase)))
    return runs.read(output(ours, "simulate", script, case.device, scheduler, phase))


def compare(ours, cases, scheduler):
    """The figures of a load under a scheduler: the kernel's, the kernel's once more, ours."""
    read = lambda case, which: runs.read(case.result(scheduler, case.phases_us[which]).read_text())
    kernel = [read(case, 0) for case in cases]
    repeated = [read(case, 1) for case in cases]
    simulated = [simulate(ours, case, scheduler) for case in cases]
    figures = {
        "kernel": runs.figures(kernel),
        "repeated": runs.figures(repeated),
        "ours": runs.figures(simulated),
        "order": runs.order(kernel, repeated, simulated),
    }
    return figures


def main():
    parser = argparse.ArgumentParser(prog="make guest", description=__doc__)
    parser.add_argument("--load", action="append", choices=LOADS, help="all by default")
    parser.add_argument("--scheduler", action="append", choices=SCHEDULERS, help="all by default")
    parser.add_argument("--device", action="append", help=f"{' and '.join(DEVICES)} by default")
    parser.add_argument("--seed", type=int, help="drawn and printed by default")
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--guests", type=int, default=1, help="virtual machines at a time")
    parser.add_argument("--page", type=Path, help="write the tables to this page")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"guest: SEED={seed}", flush=True)
    ours = build("")
    started = []

    def guest():
        if not started:
            started.append(machine.Machine(WORK, [build(STATIC)]))
        return started[0]

    plan = {}
    for device in options.device or DEVICES:
        for load in options.load or LOADS:
            drawn = random.Random(f"{seed} {load} {device}")
            plan[load, device] = [
                Case(ours, load, device, drawn.randrange(1 << 32), [drawn.randrange(100_000) for _ in range(2)])
                for _ in range(options.variants)
            ]
    schedulers = options.scheduler or SCHEDULERS
    with ThreadPoolExecutor(options.guests) as pool:
        list(pool.map(lambda item: perform(guest, item[1], schedulers, "-".join(item[0])), plan.items()))
    results = {
        f"{load} {device} {scheduler}": compare(ours, cases, scheduler)
        for (load, device), cases in plan.items()
        for scheduler in schedulers
    }
    (WORK / "results.json").write_text(json.dumps({"seed": seed, "results": results}, indent=1))
    print(page.table(results))
    print(f"guest: {page.summary(results)}")
    if options.page:
        version = machine.kernel_package(WORK)[1].partition("+")[0]
        options.page.write_text(page.whole(seed, results, version))
    if misses := page.misses(results):
        print(f"guest: {misses} figures miss their targets; the results are in {WORK / 'results.json'}")
        sys.exit(1)


if __name__ == "__main__":
    main()
