"""A loop device over nbdfuse over an export. Needs root."""

import contextlib
import subprocess
import time


@contextlib.contextmanager
def loop_device(socket, folder):
    """A loop device over nbdfuse."""
    mounted = folder / "mounted"
    mounted.mkdir(exist_ok=True)
    fuse = subprocess.Popen(["nbdfuse", mounted / "nbd", "--unix", socket])
    try:
        (mounted / "nbd").exists() or time.sleep(0.5)
        while not (mounted / "nbd").is_file():
            time.sleep(0.05)
        made = ["losetup", "--find", "--show", "--direct-io=on", mounted / "nbd"]
        device = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield device
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
    finally:
        subprocess.run(["umount", mounted], check=False)
        fuse.wait()
