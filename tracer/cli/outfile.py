# SPDX-License-Identifier: Apache-2.0
"""Where a command writes what was asked of it: a file that is there whole or not at all, or standard output."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

from tracer.errors import InputError, NameTaken, PermissionDenied
from tracer.job.identity import Caller
from tracer.rights import acting_as

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
"""What link(2) says on a file system without hard links."""


@contextlib.contextmanager
def new_file(path: str, caller: Caller) -> Iterator[BinaryIO]:
    """A new file of the caller's, mode 0600: under its name once all of it is written, and never in place of another.

    Raises:
        NameTaken: there is such a file already.
        PermissionDenied: the caller may not create it.
        InputError: it cannot be written for another reason, as on a full disk.
    """
    folder, name = os.path.split(path)
    unfinished = os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.part")
    try:
        with acting_as(caller.uid, caller.gid, caller.groups):
            if os.path.lexists(path):
                raise NameTaken("what is there is never written over", path=path)
            fd = os.open(unfinished, _FLAGS, 0o600)
    except OSError as error:
        raise _told(path, "created", error) from error
    except ValueError as error:
        raise InputError(f"cannot be created: {error}", path=path) from error
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fdatasync(fd)
        with acting_as(caller.uid, caller.gid, caller.groups):
            _name(unfinished, path)
    except OSError as error:
        raise _told(path, "written", error) from error
    finally:
        with contextlib.suppress(OSError), acting_as(caller.uid, caller.gid, caller.groups):
            os.unlink(unfinished)


@contextlib.contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Standard output, for bytes.

    Raises:
        OSError: it takes no more.
    """
    if sys.stdout is None:  # we were started without one
        with open(os.devnull, "wb") as nowhere:
            yield nowhere
        return
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def _name(unfinished: str, path: str) -> None:
    try:
        os.link(unfinished, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Between this look and the rename somebody may make such a file, where no file system offers better.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
        os.rename(unfinished, path)


def _told(path: str, what: str, error: OSError) -> NameTaken | PermissionDenied | InputError:
    if isinstance(error, FileExistsError):
        return NameTaken("what is there is never written over", path=path)
    if isinstance(error, PermissionError):
        return PermissionDenied(f"cannot create {path}: {error.strerror}")
    return InputError(f"cannot be {what}: {error.strerror or error}", path=path)
