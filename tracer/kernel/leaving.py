# SPDX-License-Identifier: Apache-2.0
"""Descriptors that are slow to close, left to a process that closes them as it ends: nobody waits for that one.

A probe that goes waits for grace periods of the kernel, one after the other under one lock: seconds for those on a
whole library. The work falls to whoever drops the last reference to it.
"""

import os
import subprocess
import threading
from collections.abc import Sequence

_SHELL = "/bin/sh"
_UNTIL_THE_END_OF_ITS_INPUT = "read line"


def leave(descriptors: Sequence[int]) -> None:
    """Close descriptors without having to wait for what comes of it; where that cannot be had, close them here.

    What they stand for is gone soon after, also if this process ends meanwhile, however it does. The other one has
    nothing else of ours: no output that somebody reads to its end, no terminal, no folder.
    """
    child = _heir(descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    if child is not None and child.stdin is not None:
        child.stdin.close()  # not before: who has the last one has to do the work
        threading.Thread(target=child.wait, name="oomtrace-left", daemon=True).start()


def _heir(descriptors: Sequence[int]) -> "subprocess.Popen[bytes] | None":
    """It has them all when this returns; `None`: there is none."""
    if not descriptors:
        return None
    try:
        return subprocess.Popen(
            [_SHELL, "-c", _UNTIL_THE_END_OF_ITS_INPUT],
            pass_fds=tuple(descriptors),
            env={},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
