# SPDX-License-Identifier: Apache-2.0
"""Root file systems: one disk image for each suite, with its own Python, bcc, systemd and what scenarios start."""

import json
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.guest.debian import Suite, host_settings
from scripts.guest.tools import call, give_back

PACKAGES = (
    "python3", "python3-bpfcc", "systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "iproute2",
    "libpam-systemd", "dbus-user-session", "sudo", "earlyoom", "bpftrace",
)  # fmt: skip
WHERE_THERE_IS_ONE = ("systemd-oomd", "libbpf-tools", "bpfcc-tools")
"""Some suites have no such package: what needs it does not apply there."""

_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_OFF = "earlyoom.service systemd-oomd.service systemd-oomd.socket apt-daily.timer apt-daily-upgrade.timer"
"""A scenario starts what it needs; until then nothing kills but the kernel."""
_ROOM_BYTES = 768 << 20


@dataclass(frozen=True)
class Root:
    """A finished image."""

    image: str
    python: str
    """Of the suite's /usr/bin/python3, such as 3.11."""
    bcc: str
    stamp: str
    """Tells one making of it from another."""


def cached(folder: Path, suite: str) -> Root | None:
    """The root of a suite in the cache, if one was finished."""
    try:
        root = Root(**json.loads((folder / f"{suite}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return root if Path(root.image).exists() else None


def make(suite: Suite, folder: Path) -> Root:
    """Have the suite's packages installed into a folder, and make that an image."""
    folder.mkdir(parents=True, exist_ok=True)
    tree, image = folder / f"{suite.name}.tree", folder / f"{suite.name}.ext4"
    names = suite.names()
    packages = [*PACKAGES, *(each for each in WHERE_THERE_IS_ONE if each in names)]
    call(("rm", "-rf", "--one-file-system", tree), root=True)
    try:
        call(
            (
                # What it mounts is gone with it, however it ends.
                "unshare", "--mount", "--", "mmdebstrap", "--mode=root", "--variant=minbase",
                f"--include={','.join(packages)}",
                '--aptopt=Acquire::Languages "none"', *(f"--aptopt={each}" for each in host_settings()),
                *(f"--dpkgopt=path-exclude={each}" for each in _LEFT_OUT),
                f'--customize-hook=chroot "$1" systemctl disable {_OFF} || true',
                '--customize-hook=mkdir -p "$1/oomtrace" "$1/results" "$1/older" "$1/usr/lib/modules"',
                '--customize-hook=echo guest >"$1/etc/hostname"; echo 127.0.0.1 localhost guest >"$1/etc/hosts"',
                '--customize-hook=rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap" "$1/etc/apt/sources.list"',
                suite.name, tree, suite.source,
            ), root=True,
        )  # fmt: skip
        python = os.readlink(tree / "usr/bin/python3").removeprefix("python")  # noqa: PTH115
        version = ("-W", "-f", "${Version}", "python3-bpfcc")
        bcc = call(("dpkg-query", f"--admindir={tree}/var/lib/dpkg", *version)).split("+")[0].split("-")[0]
        used_bytes = int(call(("du", "-sb", tree), root=True).split()[0])
        new = image.with_suffix(".new")
        new.unlink(missing_ok=True)
        with new.open("wb") as file:
            file.truncate(used_bytes * 5 // 4 + _ROOM_BYTES)
        call(("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", tree, new), root=True)
        give_back(new)
        new.rename(image)
    finally:
        call(("rm", "-rf", "--one-file-system", tree), root=True)
    root = Root(str(image), python, bcc, time.strftime("%Y-%m-%dT%H:%M:%S"))
    (folder / f"{suite.name}.json").write_text(json.dumps(asdict(root)), encoding="utf-8")
    return root


def free_bytes(folder: Path) -> int:
    """Room on the disk that the cache is on."""
    return shutil.disk_usage(folder).free
