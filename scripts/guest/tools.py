# SPDX-License-Identifier: Apache-2.0
"""The host's programs: which packages they come from, how they are called, how root is asked for."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scripts.guest.errors import VmError

PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/bin/busybox": "busybox-static",
    "cpio": "cpio",
    "modprobe": "kmod",
    "mke2fs": "e2fsprogs",
    "dpkg-deb": "dpkg",
}
"""What must be there, and the Debian package that has it."""

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing_packages() -> list[str]:
    """Debian packages that `--setup` would install."""
    return [package for tool, package in PACKAGES.items() if not _is_there(tool)]


def _is_there(tool: str) -> bool:
    return Path(tool).exists() if tool.startswith("/") else shutil.which(tool, path=_PATH) is not None


def setup() -> int:
    """Install what is missing; exit code."""
    missing = missing_packages()
    if not missing:
        print("vm: every package is there")
        return 0
    print(f"vm: installing {' '.join(missing)}", flush=True)
    apt = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")
    install = (*apt, "install", "--yes", "--no-install-recommends", *missing)
    try:
        call(install, root=True)
    except VmError:  # the package lists may be old or absent
        call((*apt, "update"), root=True)
        call(install, root=True)
    return 0


def call(command: Sequence[str | Path], *, root: bool = False, cwd: Path | None = None, path: str = _PATH) -> str:
    """Run a program of the host, as root if that is asked; what it printed.

    Raises:
        VmError: it could not be started, or failed; with its last line.
    """
    words = [*(_as_root() if root else ()), *map(str, command)]
    env = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise VmError(
            f"cannot run {words[0]}: {error.strerror}; scripts/vm --setup installs what is missing"
        ) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines() or ["no word"]
        errors = [line for line in said if line.startswith("E: ")]
        raise VmError(f"{' '.join(words[:3])} ... failed: {errors[0] if errors else said[-1]}")
    return done.stdout.decode("utf-8", "replace")


def _as_root() -> tuple[str, ...]:
    if os.geteuid() == 0:
        return ()
    if shutil.which("sudo") is None:
        raise VmError("this step needs root (images with files of root's), and sudo is not installed")
    return ("sudo", "--")


def give_back(path: Path) -> None:
    """What root made for us becomes ours."""
    if os.geteuid() != 0:
        call(("chown", f"{os.getuid()}:{os.getgid()}", path), root=True)
