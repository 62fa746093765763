# SPDX-License-Identifier: Apache-2.0
"""A workload of many kills: children that eat until the kernel kills them, some at a time. Standard library only."""

import argparse
import contextlib
import errno
import json
import os
import signal
import time
from collections.abc import Sequence

CHUNK_BYTES = 4 << 20


def eat() -> None:
    """Grow until killed. The highest oom_score_adj makes sure that this process is chosen, never the parent."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as adj:
        adj.write("1000")
    kept = []
    while True:
        kept.append(b"x" * CHUNK_BYTES)


def fork() -> int:
    """As os.fork(). At a limit that dying children still fill the kernel may refuse one for a moment."""
    while True:
        try:
            return os.fork()
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            time.sleep(0.01)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the storm; print how each child ended as one JSON line. Exit status 0 if every child died of SIGKILL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how many children (default 50)")
    parser.add_argument("--at-once", type=int, default=1, help="how many of them run at the same time (default 1)")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two children (default 0)")
    args = parser.parse_args(argv)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as adj:
        adj.write("-1000")  # where that is allowed: a child's memory may still be being freed when more is needed
    running: set[int] = set()
    started = killed = 0
    while started < args.kills or running:
        if started < args.kills and len(running) < args.at_once:
            pid = fork()
            if pid == 0:
                eat()
            running.add(pid)
            started += 1
            continue
        pid, status = os.wait()
        running.discard(pid)
        killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if args.pause:
            time.sleep(args.pause)
    print(json.dumps({"started": started, "killed": killed}), flush=True)
    return 0 if killed == started else 1


if __name__ == "__main__":
    raise SystemExit(main())
