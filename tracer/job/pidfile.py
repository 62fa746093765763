# SPDX-License-Identifier: Apache-2.0
"""Pid files of recorders in the background: who they are, how they are found again, that they still run.

A recorder holds a lock on its file for life, and the kernel lets go of it however the recorder ends: a file
without a lock is stale. Who holds it stands in /proc/locks, so a pid that is someone else's by now is never
taken for the recorder's.
"""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import final

from tracer.errors import InputError, PermissionDenied, UsageError
from tracer.job.identity import Caller
from tracer.rights import acting_as

SCHEMA = "oomtrace.recorder/1"
ROOTS_FOLDER = "/run/oomtrace"
MAX_BYTES = 64 * 1024
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_THERE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Recorder:
    """One recorder in the background."""

    pid: int
    target: str
    """What it watches, for a person."""
    recording: str | None
    """Absolute; `None`: it keeps none."""
    report: str | None
    since: str
    """UTC."""


@final
class PidFile:
    """A file that says who records, for as long as that process lives. A context manager."""

    def __init__(self, path: str, fd: int, owner: Caller | None) -> None:
        self.path = path
        self._fd = fd
        self._owner = owner

    @classmethod
    def create(cls, path: str, recorder: Recorder, owner: Caller | None = None) -> "PidFile":
        """Write one, locked by this process before it can be seen. A stale one in its place is replaced.

        Args:
            owner: whose rights it is made with; `None`: ours.

        Raises:
            UsageError: there is a file that is no pid file, or one of a recorder that runs.
            PermissionDenied: this user may not write it.
            InputError: it cannot be written for another reason.
        """
        hidden = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{recorder.pid}")
        try:
            with _as(owner):
                if os.path.lexists(path) and find(path) is not None:
                    raise UsageError(f"{path}: a recorder runs with this pid file: oomtrace stop {path}")
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(hidden)
                fd = os.open(hidden, _NEW, 0o600)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.write(fd, json.dumps({"schema": SCHEMA, **asdict(recorder)}).encode() + b"\n")
                os.rename(hidden, path)
        except PermissionError as error:
            raise PermissionDenied(f"cannot write {path}: {error.strerror}") from error
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be written: {getattr(error, 'strerror', error)}", path=path) from error
        return cls(path, fd, owner)

    def __enter__(self) -> "PidFile":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError), _as(self._owner):
            named, ours = os.lstat(self.path), os.fstat(self._fd)
            if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino):
                os.unlink(self.path)
        os.close(self._fd)


def folder_of(uid: int, environ: Mapping[str, str]) -> str:
    """Where the recorders of a user are listed."""
    if uid == 0:
        return ROOTS_FOLDER
    for folder in (environ.get("XDG_RUNTIME_DIR"), f"/run/user/{uid}"):
        if folder and os.path.isabs(folder) and os.path.isdir(folder):
            return os.path.join(folder, "oomtrace")
    return f"/tmp/oomtrace-{uid}"  # noqa: S108 - nobody else's folder is used, see below


def make_folder(folder: str) -> None:
    """The list of recorders, for its owner alone.

    Raises:
        PermissionDenied: it belongs to someone else, or cannot be made.
    """
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        if not _is_ours(folder):
            raise PermissionDenied(f"{folder} is not a folder of this user alone")
    except OSError as error:
        raise PermissionDenied(f"cannot make {folder}: {error.strerror}", need="a folder in XDG_RUNTIME_DIR") from error


def running(folder: str) -> list[tuple[str, Recorder]]:
    """The recorders in a list that run, with their files; stale files are removed."""
    found: list[tuple[str, Recorder]] = []
    try:
        names = sorted(os.listdir(folder)) if _is_ours(folder) else []
    except OSError:
        return []
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith(".") or not name.endswith(".json"):
            continue
        with contextlib.suppress(InputError, UsageError, PermissionDenied):
            recorder = find(path)
            if recorder is not None:
                found.append((path, recorder))
            else:
                _remove_stale(path)
    return found


def find(path: str) -> Recorder | None:
    """Who records under this pid file; `None`: it is stale.

    Raises:
        InputError: there is no such file.
        PermissionDenied: it may not be read.
        UsageError: it is no pid file.
    """
    try:
        fd = os.open(path, _THERE)
    except PermissionError as error:
        raise PermissionDenied(f"cannot read {path}: {error.strerror}", need="its owner or root") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', error)}", path=path) from error
    try:
        recorder = _parsed(path, os.read(fd, MAX_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b"")
        return recorder if recorder.pid in _holders(fd) and _has_open(recorder.pid, fd) else None
    finally:
        os.close(fd)


def _parsed(path: str, raw: bytes) -> Recorder:
    try:
        fields = json.loads(raw)
        if fields.pop("schema") == SCHEMA and isinstance(fields["pid"], int) and fields["pid"] > 1:
            return Recorder(**{name: fields[name] for name in Recorder.__dataclass_fields__})
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UsageError(f"{path}: this is no pid file of a recorder")


def _holders(fd: int, locks: str = "/proc/locks") -> set[int]:
    """Who may be the process that holds the lock on a file: those that hold one on a file of this number."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        inode = str(os.fstat(fd).st_ino)
        with open(locks, encoding="ascii", errors="replace") as lines:
            # 1: FLOCK  ADVISORY  WRITE 1234 00:1b:5678 0 EOF. The device may be another than stat's (overlayfs),
            # and files of other devices may have the same number.
            words = (line.split() for line in lines)
            return {
                int(each[4])
                for each in words
                if len(each) > 5 and each[1] == "FLOCK" and each[5].rpartition(":")[2] == inode and each[4].isdigit()
            }
    fcntl.flock(fd, fcntl.LOCK_UN)
    return set()


def _has_open(pid: int, fd: int, proc_root: str = "/proc") -> bool:
    """Whether a process has this very file open; where we may not look, nothing speaks against it."""
    wanted = os.fstat(fd)
    try:
        names = os.listdir(f"{proc_root}/{pid}/fd")
    except OSError as error:
        return isinstance(error, PermissionError)
    for name in names:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"{proc_root}/{pid}/fd/{name}"), wanted):
                return True
    return False


def _remove_stale(path: str) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(path, _THERE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            named, opened = os.lstat(path), os.fstat(fd)
            if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino):
                os.unlink(path)
        finally:
            os.close(fd)


def _is_ours(folder: str) -> bool:
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _as(owner: Caller | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if owner is None else acting_as(owner.uid, owner.gid, owner.groups)
