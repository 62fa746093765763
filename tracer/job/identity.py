# SPDX-License-Identifier: Apache-2.0
"""Who called: whose identity, environment and settings the job must get. Starts nothing."""

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tracer.errors import PermissionDenied, UsageError
from tracer.job.rlimits import Rlimits, read_rlimits
from tracer.rights import acting_as

MAX_ANCESTORS = 32
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SUDO_VARIABLES = re.compile(r"SUDO_(?:COMMAND|USER|UID|GID|HOME|TTY)\Z")
_HINT = "--user NAME runs it as someone else"
_MAX_ID = (1 << 32) - 2


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
    rlimits: Rlimits = field(default_factory=dict)
    """What the job gets where that may be something else than ours."""
    caveat: str | None = None
    """Why the job runs as root although someone seems to stand behind us, or what else is not as it should be."""

    @property
    def is_us(self) -> bool:
        """Whether nothing has to be dropped."""
        return (self.uid, self.gid) == (os.getuid(), os.getgid())


@dataclass(frozen=True)
class _Status:
    """The lines of /proc/PID/status that say who a process is."""

    parent: int
    uid: int
    effective_uid: int
    gid: int
    groups: tuple[int, ...]
    umask: int | None


def find_caller(
    environ: Mapping[str, str], *, pid: int | None = None, proc_root: str = "/proc", sudo_owner: int = 0
) -> Caller:
    """The caller of process `pid` (this one), whose environment is `environ`.

    SUDO_UID is only text that anyone can set. It counts when our parent really is sudo (a file of
    that name, set-uid, owned by `sudo_owner`) and the first ancestor that is not has that very uid,
    or is root's: then sudo is all that is left of the caller.
    """
    pid = os.getpid() if pid is None else pid
    ours = Caller(
        uid=os.getuid(),
        gid=os.getgid(),
        groups=tuple(os.getgroups()),
        environ=dict(environ),
        oom_score_adj=_oom_score_adj(proc_root, pid),
    )
    if os.geteuid() != sudo_owner:
        return ours  # perhaps by sudo -u NAME: someone else than root was asked for, and that is who we are
    own = _status(proc_root, pid)
    claimed = environ.get("SUDO_UID", "")
    if not (claimed.isascii() and claimed.isdecimal()):
        return _made_root(ours, _status(proc_root, own.parent) if own else None)
    chain = _sudos(proc_root, own.parent if own else 0, sudo_owner)
    if not chain:
        return _as_is(ours, claimed, "the parent process is not sudo")
    last = chain[-1]
    sudo = _status(proc_root, last)
    ancestor = sudo.parent if sudo else 0
    who = _status(proc_root, ancestor)
    # sudo opens a PAM session for root, whose limits may be others than the caller's.
    rlimits = read_rlimits(proc_root, ancestor)
    if who is None or who.uid == 0 != int(claimed):
        # cron, systemd and su start a person's command as root's child; where that is sudo, nobody else is between.
        who, rlimits = _by_name(int(claimed), environ.get("SUDO_GID", "")), {}
    # `sudo sudo`: the inner one says that root called it, and so it was: the root that the outer one had made.
    elif who.uid != int(claimed) and int(claimed) != ours.uid:
        return _as_is(ours, claimed, "no process of that user called sudo")
    stripped = _environ(proc_root, last)
    if stripped is None:
        return _as_is(ours, claimed, "the environment of that sudo cannot be read")
    given = {name: value for sudo in chain for name, value in _given_to_sudo(proc_root, sudo, environ).items()}
    return Caller(
        uid=who.uid,
        gid=who.gid,
        groups=who.groups,
        environ={**_known_of(who.uid), **stripped, **given},
        umask=who.umask,
        oom_score_adj=_oom_score_adj(proc_root, ancestor),
        rlimits=rlimits,
    )


def find_user(name: str, caller: Caller, environ: Mapping[str, str]) -> Caller:
    """The user who is to be the job's owner instead of `caller`: a name, or a number.

    The environment is the caller's own where it is the same user, else ours (`environ`) with what
    names a person (HOME, USER, LOGNAME, SHELL) replaced.

    Raises:
        UsageError: there is no such user.
        PermissionDenied: only root can become someone else.
    """
    number = int(name) if name.isascii() and name.isdecimal() and len(name) <= len(str(_MAX_ID)) else None
    try:
        user = pwd.getpwnam(name) if number is None else pwd.getpwuid(number)
    except (KeyError, OverflowError, ValueError):
        user = None
    if user is None and (number is None or number > _MAX_ID):
        raise UsageError(f"--user {name}: no such user (`getent passwd` lists them)")
    uid = user.pw_uid if user is not None else number or 0
    if uid == caller.uid:
        return replace(caller, caveat=None)
    if os.geteuid() != 0:
        raise PermissionDenied(f"cannot run the job as {name}", need="root, who alone can become someone else")
    gid = uid if user is None else user.pw_gid
    return Caller(
        uid=uid,
        gid=gid,
        groups=(gid,) if user is None else tuple(os.getgrouplist(user.pw_name, gid)),
        environ={**_without_sudo(environ), "HOME": "/", **_known_of(uid)},
        oom_score_adj=caller.oom_score_adj,
        caveat=f"user {uid} is in no passwd: the job has group {gid} and HOME=/" if user is None else None,
    )


def closed_to(caller: Caller) -> str | None:
    """What is to be said where the caller cannot reach the folder that the job starts in, ours."""
    if caller.is_us:
        return None
    try:
        folder = os.getcwd()
        with acting_as(caller.uid, caller.gid, caller.groups):
            allowed = os.access(folder, os.X_OK, effective_ids=True)
    except OSError:
        return None
    return None if allowed else f"user {caller.uid} cannot enter {folder}, where the job starts all the same"


def is_sudo(proc_root: str, pid: int, sudo_owner: int = 0) -> bool:
    """Whether a process is sudo: a set-uid file of that name (also sudo-rs) that root owns."""
    exe = f"{proc_root}/{pid}/exe"
    try:
        name = os.path.basename(os.readlink(exe)).removesuffix(" (deleted)")
        file = os.stat(exe)
    except OSError:
        return False
    return name.startswith("sudo") and file.st_uid == sudo_owner and bool(file.st_mode & 0o4000)


def _made_root(ours: Caller, parent: _Status | None) -> Caller:
    # doas and pkexec: the caller's own process became us. su stays between, and whoever calls that wants to be root.
    if parent is None or parent.effective_uid in (0, ours.uid):
        return ours
    by = f"user {parent.effective_uid} started oomtrace as user {ours.uid}, and not by sudo"
    return replace(ours, caveat=f"{by}: the job runs as user {ours.uid} as well ({_HINT})")


def _as_is(ours: Caller, claimed: str, why: str) -> Caller:
    if int(claimed) == ours.uid:
        return ours  # root under sudo, some processes further up: nobody else stands behind it
    return replace(ours, caveat=f"SUDO_UID is {claimed}, but {why}: the job runs as user {ours.uid} ({_HINT})")


def _sudos(proc_root: str, pid: int, sudo_owner: int) -> tuple[int, ...]:
    # With `use_pty` sudo runs a monitor between itself and the command: two sudos in a row. The last is the caller's.
    found: list[int] = []
    while len(found) < MAX_ANCESTORS and is_sudo(proc_root, pid, sudo_owner):
        found.append(pid)
        status = _status(proc_root, pid)
        pid = status.parent if status else 0
    return tuple(found)


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
            effective_uid=int(found["Uid"].split()[1]),
            gid=int(found["Gid"].split()[0]),
            groups=tuple(map(int, found.get("Groups", "").split())),
            umask=int(found["Umask"], 8) if "Umask" in found else None,
        )
    except (OSError, KeyError, ValueError, IndexError):
        return None


def _by_name(uid: int, gid: str) -> _Status:
    try:
        user = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        number = int(gid) if gid.isascii() and gid.isdecimal() else uid
        return _Status(parent=0, uid=uid, effective_uid=uid, gid=number, groups=(number,), umask=None)
    groups = tuple(os.getgrouplist(user.pw_name, user.pw_gid))
    return _Status(parent=0, uid=uid, effective_uid=uid, gid=user.pw_gid, groups=groups, umask=None)


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


def _without_sudo(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not _SUDO_VARIABLES.match(name)}


def _known_of(uid: int) -> dict[str, str]:
    try:
        user = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return {}
    return {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell or "/bin/sh"}


def _oom_score_adj(proc_root: str, pid: int) -> int | None:
    try:
        with open(f"{proc_root}/{pid}/oom_score_adj", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
