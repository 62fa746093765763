# SPDX-License-Identifier: Apache-2.0
"""Acting with another user's rights for a moment: files of the caller are opened as the caller would open them.

And the words by which a person gets root's.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def acting_as(uid: int | None, gid: int | None = None, groups: Sequence[int] | None = None) -> Iterator[None]:
    """With the ids and groups of another user: root must not be led along a path that its caller could not go.

    Of the whole process, so only while no thread needs root. Whoever is not root stays as it is.

    Args:
        uid: `None`: as we are.
        gid: `None`: our own.
        groups: supplementary groups; `None`: the group alone.
    """
    own_uid, own_gid, own_groups = os.geteuid(), os.getegid(), os.getgroups()
    if uid is None or own_uid != 0 or (uid == 0 and gid in (None, own_gid)):
        yield
        return
    wanted_gid = own_gid if gid is None else gid
    try:
        os.setgroups([wanted_gid] if groups is None else list(groups))
        os.setegid(wanted_gid)
        os.seteuid(uid)  # last: it takes the right to do the other two
        yield
    finally:
        os.seteuid(own_uid)
        os.setegid(own_gid)
        os.setgroups(own_groups)


def as_root(words: str) -> str:
    """The command line that does `oomtrace WORDS`, quoted already, with root's rights.

    sudo has a PATH of its own: an `oomtrace` in a venv or in ~/.local/bin is found like this alone.
    """
    return f'sudo "$(command -v oomtrace)" {words}'
