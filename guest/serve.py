#!/usr/bin/env python3
"""Runs programs on a device of `forebay serve` in a virtual machine, with the server killed: `make guest-serve`."""

import shutil
import subprocess
import sys
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "guest"
# The programs of this machine that the guest runs, and the Debian packages that contain them.
PROGRAMS = {"fio": "fio", "git": "git", "sqlite3": "sqlite3", "mkfs.ext4": "e2fsprogs", "fsck.ext4": "e2fsprogs",
            "blkdiscard": "util-linux"}
MODULES = ["9p", "9pnet_virtio", "ublk_drv", "nbd", "ext4", "crc32c_generic"]
# A guest that hangs is ended after this time.
SECONDS_MAX = 1800


def programs():
    """Returns the paths of the programs."""
    found = {name: shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin") for name in PROGRAMS}
    missing = sorted({PROGRAMS[name] for name, path in found.items() if path is None})
    if missing:
        raise SystemExit(f"guest-serve: install {' '.join(missing)}")
    return list(found.values())


def main():
    subprocess.run(["cargo", "build", "-q", "-p", "forebay-cli"], cwd=ROOT, check=True)
    guest = machine.Machine(WORK, [ROOT / "target" / "debug" / "forebay"], programs(), MODULES)
    own = WORK / "serve"
    own.mkdir(parents=True, exist_ok=True)
    script = (Path(__file__).parent / "serve.sh").read_text()
    log = guest.run(own, script, own, seconds_max=SECONDS_MAX)
    print(log)
    if "passed: everything" not in log:
        print(f"guest-serve: failed; the kernel's messages are in {own / 'console'}")
        sys.exit(1)


if __name__ == "__main__":
    main()
