# SPDX-License-Identifier: Apache-2.0
"""A job to be sampled: processes that each have so much memory mapped, shared since their fork, and some that compute.

Prints what the busy ones did in the second half of the time given. Needs nothing but the standard library.
"""

import mmap
import os
import sys
import time

CHANGES_BYTES = 512 * 1024
NAP_S = 0.02
BUSY = 2


def main() -> None:
    """PROCESSES MIB SECONDS."""
    processes, mib, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for place in range(0, mib << 20, mmap.PAGESIZE):
        memory[place] = 1
    done_fd, told_fd = os.pipe()
    end = time.monotonic() + seconds
    for number in range(processes - 1):
        if not os.fork():
            count = compute(end - seconds / 2, end) if number < BUSY else change(end)
            os.write(told_fd, b"%20d" % count)
            os._exit(0)
    total = 0
    for _ in range(processes - 1):
        total += int(os.read(done_fd, 20))
        os.wait()
    print(total)


def compute(begin: float, end: float) -> int:
    """Rounds done from `begin` on: that a new job is looked at is over by then."""
    count = 0
    while (now := time.monotonic()) < end:
        sum(range(1000))
        bytes(CHANGES_BYTES)
        count += now >= begin
    return count


def change(end: float) -> int:
    """Have a little more and a little less, all the time: so that each look finds something new."""
    while time.monotonic() < end:
        own = mmap.mmap(-1, CHANGES_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for place in range(0, time.monotonic_ns() // 1000 % CHANGES_BYTES, mmap.PAGESIZE):
            own[place] = 1
        time.sleep(NAP_S)
        own.close()
    return 0


if __name__ == "__main__":
    main()
