# SPDX-License-Identifier: Apache-2.0
"""The smallest workload: one child that grows to a given size, never beyond, and a parent that waits for it.

Standard library only and no import of this package, so any Python runs it as a file.
"""

import argparse
import contextlib
import os
import signal
import sys

MIB = 1024 * 1024
CHILD_KILLED, CHILD_FAILED = 9, 1


def grow(size_bytes: int) -> None:
    """Touch so much, a piece at a time. The highest oom_score_adj makes sure that this process is chosen."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as adj:
        adj.write("1000")
    kept = [b"x" * MIB for _ in range(size_bytes // MIB)]
    del kept


def main() -> int:
    """The child grows; the exit status says what wait() told of it: 0 well, 9 killed by SIGKILL, 1 anything else."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--mib", type=int, default=64, help="how far the child grows (default 64)")
    options = parser.parse_args()
    pid = os.fork()
    if pid == 0:
        grow(options.mib * MIB)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return CHILD_KILLED if os.WTERMSIG(status) == signal.SIGKILL else CHILD_FAILED
    return 0 if os.WEXITSTATUS(status) == 0 else CHILD_FAILED


if __name__ == "__main__":
    sys.exit(main())
