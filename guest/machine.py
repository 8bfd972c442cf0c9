"""A virtual machine with Debian 13's kernel: fetched, packed and started.

QEMU counts instructions (`-icount shift=1,sleep=off`): the guest's clock advances 2 ns with each and skips idle
time, so how busy the host is changes nothing that the guest measures.
"""

import hashlib
import io
import lzma
import re
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
INDEX = f"{MIRROR}/dists/trixie/main/binary-amd64/Packages.xz"
PACKAGE = re.compile(r"linux-image-6\.12\.(\d+)\+deb13-amd64")
# The modules that a guest needs; their dependencies are found automatically.
MODULES = ["9p", "9pnet_virtio", "ublk_drv", "kyber-iosched", "bfq", "nbd"]


def fetch(url, path):
    """Downloads the file at `url`, unless it exists."""
    if not path.exists():
        print(f"fetching {url}", flush=True)
        part = path.with_name(path.name + ".part")
        with urllib.request.urlopen(url, timeout=60) as answer, part.open("wb") as out:
            while chunk := answer.read(1 << 20):
                out.write(chunk)
        part.rename(path)
    return path


def kernel_package(work):
    """Returns the newest kernel package of the release on the mirror, with its checksum verified, and its version. A
    package that was downloaded before is used again; delete the work folder to look for a newer one.
    """
    fields = []
    for entry in lzma.open(fetch(INDEX, work / "Packages.xz"), "rt", encoding="utf-8").read().split("\n\n"):
        named = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line and line[0] != " ")
        if match := PACKAGE.fullmatch(named.get("Package", "")):
            fields.append((int(match[1]), named))
    if not fields:
        raise SystemExit(f"guest: {INDEX} lists no package linux-image-6.12.*+deb13-amd64")
    _, newest = max(fields, key=lambda pair: pair[0])
    package = fetch(f"{MIRROR}/{newest['Filename']}", work / f"{newest['Package']}.deb")
    with package.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != newest["SHA256"]:
        package.unlink()
        raise SystemExit(f"guest: {package.name} has the SHA-256 {got}, expected {newest['SHA256']}; try again")
    return package, newest["Package"].removeprefix("linux-image-")


def unpacked(package, version):
    """Returns the kernel, and its modules by name, decompressed."""
    folder = package.with_suffix("")
    kernel, modules = folder / "vmlinuz", folder / "modules"
    if not (folder / "complete").exists():
        modules.mkdir(parents=True, exist_ok=True)
        tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True).stdout
        for entry in tarfile.open(fileobj=io.BytesIO(tar)):
            if entry.name.endswith(f"/vmlinuz-{version}"):
                kernel.write_bytes(tar_bytes(tar, entry))
            elif entry.name.endswith(".ko.xz"):
                (modules / Path(entry.name).name).write_bytes(tar_bytes(tar, entry))
        (folder / "complete").touch()
    return kernel, modules


def tar_bytes(tar, entry):
    return tar[entry.offset_data : entry.offset_data + entry.size]


def with_dependencies(names, modules):
    """Returns modules in the order in which they can be loaded, each with its bytes. Modules without a file are built
    in.
    """
    order = {}

    def add(name):
        path = modules / f"{name}.ko.xz"
        if not path.exists():
            path = modules / f"{name.replace('_', '-')}.ko.xz"
        if name in order or not path.exists():
            return
        code = lzma.decompress(path.read_bytes())
        for needed in re.findall(rb"\0depends=([^\0]*)", code):
            for other in filter(None, needed.decode().split(",")):
                add(other)
        order[name] = code

    for name in names:
        add(name)
    return order


def cpio(files):
    """Returns an archive of `files` (name to bytes and mode) in the format that the kernel unpacks."""
    out = bytearray()

    def entry(name, mode, data, number):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out.extend(("070701" + "".join(f"{field:08x}" for field in fields)).encode() + name.encode() + b"\0")
        out.extend(b"\0" * (-len(out) % 4) + data)
        out.extend(b"\0" * (-len(out) % 4))

    folders = sorted({str(parent) for name in files for parent in Path(name).parents} - {"."})
    for number, folder in enumerate(folders):
        entry(folder, 0o040755, b"", number)
    for number, (name, (data, mode)) in enumerate(files.items(), len(folders)):
        entry(name, 0o100000 | mode, data, number)
    entry("TRAILER!!!", 0, b"", 0)
    return bytes(out)


def libraries(program):
    """Returns the shared libraries of a program of this machine, with their paths."""
    # This fails for static programs.
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


# The required programs, and the Debian packages that contain them.
NEEDS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "dpkg-deb": "dpkg", "strip": "binutils",
         "musl-gcc": "musl-tools"}


def check_needs():
    missing = [package for program, package in NEEDS.items() if not shutil.which(program)]
    if missing:
        raise SystemExit(f"guest: cannot run a virtual machine: install {' '.join(missing)}")
    if libraries(busybox()):
        raise SystemExit("guest: BusyBox is not static: install busybox-static")


def busybox():
    return shutil.which("busybox")


class Machine:
    """A guest with some of our programs, and others with their libraries."""

    def __init__(self, work, programs, others=(), needed=MODULES):
        check_needs()
        work.mkdir(parents=True, exist_ok=True)
        package, self.version = kernel_package(work)
        self.kernel, modules = unpacked(package, self.version)
        names = "-".join(Path(each).name for each in [*programs, *others])
        self.initramfs = work / f"initramfs-{names}"
        files = {"init": ((Path(__file__).parent / "init").read_bytes(), 0o755)}
        files["bin/busybox"] = (Path(busybox()).read_bytes(), 0o755)
        for program in programs:
            stripped = work / f"{program.name}.stripped"
            subprocess.run(["strip", "-o", stripped, program], check=True)
            files[f"usr/bin/{program.name}"] = (stripped.read_bytes(), 0o755)
        needs = [path for program in [*programs, *others] for path in libraries(program)]
        for path in [*others, *needs]:
            files[str(path).lstrip("/")] = (Path(path).read_bytes(), 0o755)
        loaded = with_dependencies(needed, modules)
        for name, code in loaded.items():
            files[f"lib/modules/{name}.ko"] = (code, 0o644)
        files["lib/modules/order"] = ("".join(f"{name}.ko\n" for name in loaded).encode(), 0o644)
        self.initramfs.write_bytes(cpio(files))

    def run(self, job, script, own, seconds_max=None):
        """Runs a shell script in the folder `job`, which the guest sees as /job; returns its output.

        `own` is a folder for this guest's script, log and console. Fails if the guest does not end by itself. With
        `seconds_max`, the guest's clock is that of this machine, and the guest is killed after that time.
        """
        own.mkdir(parents=True, exist_ok=True)
        (own / "run.sh").write_text(script)
        log, console = own / "log", own / "console"
        log.unlink(missing_ok=True)
        command = ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-accel", "tcg"]
        counted = ["-smp", "1", "-icount", "shift=1,sleep=off"]
        command += ["-cpu", "max", "-m", "2G", *(["-smp", "2"] if seconds_max else counted)]
        command += ["-serial", f"file:{console}", "-kernel", self.kernel, "-initrd", self.initramfs]
        command += ["-virtfs", f"local,path={job},mount_tag=job,security_model=none"]
        command += ["-virtfs", f"local,path={own},mount_tag=own,security_model=none"]
        command += ["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]
        try:
            subprocess.run(command, check=True, timeout=seconds_max)
        except subprocess.TimeoutExpired:
            said = log.read_text() if log.exists() else ""
            raise SystemExit(f"{said}\nguest: still at it after {seconds_max} s; see {console}") from None
        if not log.exists() or not re.search(r"^ended with \d+$", log.read_text(), re.M):
            raise SystemExit(f"guest: the guest ended early; see {console} and {log}")
        return log.read_text()
