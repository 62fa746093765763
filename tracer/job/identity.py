# SPDX-License-Identifier: Apache-2.0
"""Who called: whose identity, environment and settings the job must get. Starts nothing."""

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

MAX_ANCESTORS = 32
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class Caller:
    """The person (or service) whose job it is."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    environ: Mapping[str, str]
    """What the job gets; under sudo the one that sudo stripped from us."""
    umask: int | None = None
    """`None`: ours, as inherited."""
    oom_score_adj: int | None = None
    """What the job would have without us; it is inherited, and a protected tracer must not protect the job."""
    caveat: str | None = None
    """Why the job runs as root although someone seems to stand behind sudo."""

    @property
    def is_us(self) -> bool:
        """Whether nothing has to be dropped."""
        return (self.uid, self.gid) == (os.getuid(), os.getgid())


@dataclass(frozen=True)
class _Status:
    """The lines of /proc/PID/status that say who a process is."""

    parent: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    umask: int | None


def find_caller(
    environ: Mapping[str, str], *, pid: int | None = None, proc_root: str = "/proc", sudo_owner: int = 0
) -> Caller:
    """The caller of process `pid` (this one), whose environment is `environ`.

    SUDO_UID is only text that anyone can set. It counts when our parent really is sudo (a file of
    that name, set-uid, owned by `sudo_owner`) and the first ancestor that is not has that very uid.
    """
    pid = os.getpid() if pid is None else pid
    ours = Caller(
        uid=os.getuid(),
        gid=os.getgid(),
        groups=tuple(os.getgroups()),
        environ=dict(environ),
        oom_score_adj=_oom_score_adj(proc_root, pid),
    )
    claimed = environ.get("SUDO_UID", "")
    if not (claimed.isascii() and claimed.isdecimal()):
        return ours
    own = _status(proc_root, pid)
    sudo = own.parent if own else 0
    if not is_sudo(proc_root, sudo, sudo_owner):
        return _as_is(ours, claimed, "the parent process is not sudo")
    ancestor = _above_sudo(proc_root, sudo, sudo_owner)
    who = None if ancestor is None else _status(proc_root, ancestor)
    if ancestor is None or who is None or who.uid != int(claimed):
        return _as_is(ours, claimed, "no process of that user called sudo")
    stripped = _environ(proc_root, sudo)
    if stripped is None:
        return _as_is(ours, claimed, "the environment of that sudo cannot be read")
    return Caller(
        uid=who.uid,
        gid=who.gid,
        groups=who.groups,
        environ=_complete({**stripped, **_given_to_sudo(proc_root, sudo, environ)}, who.uid),
        umask=who.umask,
        oom_score_adj=_oom_score_adj(proc_root, ancestor),
    )


def _as_is(ours: Caller, claimed: str, why: str) -> Caller:
    if int(claimed) == ours.uid:
        return ours  # root under sudo, some processes further up: nobody else stands behind it
    return replace(ours, caveat=f"SUDO_UID is {claimed}, but {why}: the job runs as user {ours.uid}")


def _above_sudo(proc_root: str, sudo: int, sudo_owner: int) -> int | None:
    # With `use_pty` sudo runs a monitor between itself and the command: two sudos in a row.
    pid = sudo
    for _ in range(MAX_ANCESTORS):
        if not is_sudo(proc_root, pid, sudo_owner):
            return pid
        status = _status(proc_root, pid)
        if status is None or status.parent <= 0:
            return None
        pid = status.parent
    return None


def is_sudo(proc_root: str, pid: int, sudo_owner: int = 0) -> bool:
    """Whether a process is sudo: a set-uid file of that name that root owns."""
    exe = f"{proc_root}/{pid}/exe"
    try:
        name = os.path.basename(os.readlink(exe)).removesuffix(" (deleted)")
        file = os.stat(exe)
    except OSError:
        return False
    return name.startswith("sudo") and file.st_uid == sudo_owner and bool(file.st_mode & 0o4000)


def _status(proc_root: str, pid: int) -> _Status | None:
    try:
        with open(f"{proc_root}/{pid}/status", "rb") as file:
            # Not splitlines(): the name may hold any control byte but a newline, which the kernel escapes.
            lines = file.read().decode("ascii", "replace").split("\n")
        found: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            found.setdefault(name, value.strip())
        return _Status(
            parent=int(found["PPid"]),
            uid=int(found["Uid"].split()[0]),
            gid=int(found["Gid"].split()[0]),
            groups=tuple(map(int, found.get("Groups", "").split())),
            umask=int(found["Umask"], 8) if "Umask" in found else None,
        )
    except (OSError, KeyError, ValueError, IndexError):
        return None


def _environ(proc_root: str, pid: int) -> dict[str, str] | None:
    try:
        with open(f"{proc_root}/{pid}/environ", "rb") as file:
            block = file.read()
    except OSError:
        return None
    pairs = (os.fsdecode(entry).partition("=") for entry in block.split(b"\0"))
    return {name: value for name, equals, value in pairs if name and equals}


def _given_to_sudo(proc_root: str, sudo: int, environ: Mapping[str, str]) -> dict[str, str]:
    # `sudo CUDA_VISIBLE_DEVICES=0 oomtrace run ...`: meant for the job, and not in sudo's own environment.
    try:
        with open(f"{proc_root}/{sudo}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")]
    except OSError:
        return {}
    pairs = (word.partition("=") for word in words if _ASSIGNMENT.match(word))
    return {name: value for name, _, value in pairs if environ.get(name) == value}


def _complete(environ: dict[str, str], uid: int) -> dict[str, str]:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return environ
    known = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell or "/bin/sh"}
    return {**known, **environ}


def _oom_score_adj(proc_root: str, pid: int) -> int | None:
    try:
        with open(f"{proc_root}/{pid}/oom_score_adj", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
