"""A virtual machine whose disk is an export, to run a kernel's own schedulers close to the export.

QEMU attaches `forebay serve` as the guest's virtio disk. Its queue is short, so that waiting requests stay in the
guest's scheduler. The guest is Debian's kernel with busybox and this machine's fio; it runs fio once and exits.
Requires /dev/kvm, `cpio`, a static busybox, and an unpacked `linux-image-*-amd64` (`dpkg-deb -x`).
"""

import json
import pathlib
import re
import shutil
import subprocess

# QEMU accepts 16 requests at a time on an NBD connection. With a queue of the same length, all waiting happens in the
# guest.
QUEUE = 16
# The number of requests that the guest's scheduler may hold.
HOLDS = 256
MODULES = ["drivers/virtio/virtio", "drivers/virtio/virtio_ring", "drivers/virtio/virtio_pci_legacy_dev",
           "drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci", "drivers/block/virtio_blk", "block/bfq"]
ANSWER_BYTES = 8 << 20

INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm; mount -t tmpfs tmp /dev/shm
for module in {' '.join(pathlib.Path(name).name for name in MODULES)}; do insmod /mod/$module.ko; done
cd /sys/block/vda/queue
echo 1 > rotational
sed 's/.*scheduler=\\([a-z-]*\\).*/\\1/' /proc/cmdline > scheduler
[ $(cat /proc/cmdline | grep -c scheduler=none) = 1 ] || echo {HOLDS} > nr_requests
cd /load
fio --output-format=json --output=/answer load.fio
(grep . /sys/block/vda/queue/scheduler /sys/block/vda/queue/nr_requests; cat /answer) > /dev/vdb
sync
reboot -f
"""


def libraries(program):
    """Returns the files that a program needs besides itself."""
    told = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", told)


def archive(root, to):
    """Packs a folder as an initramfs."""
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(to, "wb") as out:
        words = ["cpio", "--quiet", "--create", "--format=newc"]
        subprocess.run(words, cwd=root, input=names.encode(), stdout=out, check=True)


class Guest:
    """The properties that all runs of a guest share: its kernel and its programs."""

    def __init__(self, image, folder):
        """`image` is the folder with the unpacked kernel package; `folder` receives the files that are created here."""
        image = pathlib.Path(image)
        [self.kernel] = image.glob("boot/vmlinuz-*")
        [modules] = image.glob("lib/modules/*/kernel")
        self.folder, self.base = folder, folder / "base.cpio"
        root = folder / "root"
        for name in ["bin", "dev", "proc", "sys", "mod", "load"]:
            (root / name).mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "bin/busybox")
        fio = shutil.which("fio")
        for file in [fio, *libraries(fio)]:
            to = root / file.lstrip("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, to)
        for name in MODULES:
            shutil.copy(modules / f"{name}.ko", root / "mod")
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        archive(root, self.base)
        shutil.rmtree(root)

    def run(self, socket, scheduler, load, first):
        """Boots with the export at `socket`, runs the folder `load` (load.fio and the files that it names) under a
        scheduler, and returns fio's results.
        """
        start, answer = self.folder / "start.cpio", self.folder / "answer"
        root = self.folder / "added"
        shutil.copytree(load, root / "load")
        archive(root, start)
        shutil.rmtree(root)
        with open(self.folder / "initramfs", "wb") as out:
            for part in (self.base, start):
                out.write(part.read_bytes())
        with open(answer, "wb") as file:
            file.truncate(ANSWER_BYTES)
        blocks = [
            f"driver=nbd,node-name=disk,server.type=unix,server.path={socket},cache.direct=on",
            f"driver=file,node-name=answer,filename={answer}",
        ]
        devices = [
            "virtio-blk-pci,drive=disk,iothread=io,num-queues=1,seg-max-adjust=off,event_idx=on,"
            f"queue-size={QUEUE},write-cache=on",
            "virtio-blk-pci,drive=answer",
        ]
        words = [*first, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "1G", "-nodefaults",
                 "-no-reboot", "-display", "none", "-serial", f"file:{self.folder}/console", "-object",
                 "iothread,id=io", "-kernel", self.kernel, "-initrd", self.folder / "initramfs", "-append",
                 f"console=ttyS0 panic=-1 earlyprintk=ttyS0 scheduler={scheduler}"]
        for block in blocks:
            words += ["-blockdev", block]
        for device in devices:
            words += ["-device", device]
        subprocess.run(words, check=True)
        text = answer.read_bytes().rstrip(b"\0").decode()
        if "{" not in text:
            raise SystemExit(f"the guest said nothing: {(self.folder / 'console').read_text()[-3000:]}")
        held, told = text.split("{", 1)
        if f"[{scheduler}]" not in held:
            raise SystemExit(f"the guest has no {scheduler}: {held}")
        return json.loads("{" + told)
