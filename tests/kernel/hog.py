# SPDX-License-Identifier: Apache-2.0
"""The workload: runs the Python lines that it is told on stdin, one after the other, and says when each is done."""

import mmap
import os
import signal
import sys
import threading
import time

held = []


def anon(size_bytes):
    """Private anonymous memory, every page touched."""
    touch(mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def shared(size_bytes):
    """Shared anonymous memory, every page touched: shmem to the kernel."""
    touch(mmap.mmap(-1, size_bytes, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))


def touch(memory):
    held.append(memory)
    for at in range(0, len(memory), mmap.PAGESIZE):
        memory[at] = 1


def name(comm):
    """Any bytes: the kernel keeps fifteen."""
    with open("/proc/self/comm", "wb") as file:
        file.write(comm)


def adj(oom_score_adj):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(oom_score_adj))


def child(then):
    """Forks; the child does `then`, a line of Python, and waits to be ended. Its pid."""
    pid = os.fork()
    if pid == 0:
        exec(then, globals())
        while True:
            signal.pause()
    return pid


def thread(work):
    threading.Thread(target=work).start()


def leave_alone():
    """Ends the main thread and leaves the others running: the leader is a zombie until they are done."""
    import ctypes

    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)


def alone(work):
    """Waits until the main thread has left, then works."""
    state = ""
    while state != "Z":
        time.sleep(0.01)
        with open(f"/proc/{os.getpid()}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    work()


def after(seconds, work):
    time.sleep(seconds)
    work()


print("ready", flush=True)
for line in sys.stdin:
    result = None
    exec("result = " + line if line.startswith("child(") else line, globals())
    print(globals().get("result") if line.startswith("child(") else "done", flush=True)
