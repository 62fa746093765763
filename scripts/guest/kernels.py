# SPDX-License-Identifier: Apache-2.0
"""The kernels of the matrix: which suite each comes from, and its files unpacked, with an initrd, in the cache."""

import json
import os
import shutil
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.guest.debian import Suite, kernel_packages
from scripts.guest.errors import VmError
from scripts.guest.tools import call


@dataclass(frozen=True)
class Series:
    """One column of the matrix."""

    name: str
    """What a person calls it."""
    suite: str
    """The Debian release that has this kernel, and whose Python and bcc load the programs on it."""
    beside: str | None = None
    """The release whose Python runs the rest, where the suite's own is older than we run on."""


SERIES = (
    Series("5.10", "bullseye", beside="bookworm"),
    Series("6.1", "bookworm"),
    Series("6.12", "trixie"),
    Series("newest", "sid"),
)

IN_INITRD = ("virtio_pci", "virtio_blk", "ext4", "9pnet_virtio", "9p")
"""What it takes to reach the disks and the shared folders; all else is loaded from the shared modules."""

HERE = Path(__file__).resolve().parent


def series(name: str) -> Series:
    """By what a person calls it.

    Raises:
        VmError: nobody calls any so.
    """
    for each in SERIES:
        if name in (each.name, each.suite):
            return each
    raise VmError(f"no kernel is called {name}: there are {', '.join(each.name for each in SERIES)}")


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel."""

    release: str
    folder: str

    @property
    def image(self) -> Path:
        return Path(self.folder, "vmlinuz")

    @property
    def initrd(self) -> Path:
        return Path(self.folder, "initrd.gz")

    @property
    def modules(self) -> Path:
        return Path(self.folder, "lib", "modules")


def cached(folder: Path) -> Kernel | None:
    """The kernel in a folder of the cache, if one was finished there."""
    try:
        return Kernel(**json.loads((folder / "kernel.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def make(suite: Suite, folder: Path) -> Kernel:
    """Fetch and unpack the suite's newest kernel."""
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    release, packages = kernel_packages(suite.names())
    for package in packages:
        call(("dpkg-deb", "-x", suite.download(package, new / "debs"), new))
    shutil.rmtree(new / "debs")
    if (new / "usr" / "lib" / "modules").exists():
        shutil.copytree(new / "usr" / "lib" / "modules", new / "lib" / "modules", symlinks=True, dirs_exist_ok=True)
    images = [*new.glob("boot/vmlinuz-*"), *new.glob("lib/modules/*/vmlinuz*")]
    if not images:
        raise VmError(f"{packages[0]} holds no vmlinuz where one is looked for")
    shutil.move(images[0], new / "vmlinuz")
    for each in ("boot", "usr"):
        shutil.rmtree(new / each, ignore_errors=True)
    call(("depmod", "-b", new, release))
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    kernel = Kernel(release, str(folder))
    (folder / "kernel.json").write_text(json.dumps(asdict(kernel)), encoding="utf-8")
    return kernel


def write_initrd(kernel: Kernel, work: Path) -> None:
    """What the kernel boots first: loads a few modules, mounts the disks, hands over."""
    root = work / "initrd"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "mods", "proc", "sys", "dev", "root"):
        (root / name).mkdir(parents=True)
    shutil.copy2("/bin/busybox", root / "bin" / "busybox")
    shutil.copy2(HERE / "inside" / "initrd-init", root / "init")
    (root / "init").chmod(0o755)
    order: dict[str, None] = {}
    for module in IN_INITRD:
        shown = call(("modprobe", "-d", kernel.folder, "-S", kernel.release, "--show-depends", module))
        # A module that is built in is said to be so.
        order.update((line.split()[1], None) for line in shown.splitlines() if line.startswith("insmod "))
    for path in order:
        shutil.copy2(path, root / "mods")
    (root / "list").write_text("".join(f"{os.path.basename(path)}\n" for path in order), encoding="utf-8")  # noqa: PTH119
    target = kernel.initrd.with_name("initrd.new")
    command = f"find . | cpio --quiet -o -H newc | gzip -1 >'{target}'"
    call(("sh", "-c", command), cwd=root)
    target.chmod(target.stat().st_mode | stat.S_IROTH)
    target.rename(kernel.initrd)
