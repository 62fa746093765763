# SPDX-License-Identifier: Apache-2.0
"""The workload of attach: a parent and its children, which fork all the while; it logs the truth about itself.

Started as `forking.py FOLDER CHILDREN`. A line of FOLDER/log is `B pid tick parent-pid parent-tick ns`, of a process
that has been born, with a time before its birth, or `E pid tick ns`, of one that is about to end. A child eats all
the memory that it gets once there is a file FOLDER/eat.PID; all end once there is a file FOLDER/stop. On a slower
machine it forks less often, or nobody else would get to run there.
"""

import os
import random
import sys
import time

folder, children = sys.argv[1], int(sys.argv[2])
slower = float(os.environ.get("OOMTRACE_TESTS_SLOWER", "1"))
log = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def ident():
    with open("/proc/self/stat") as file:
        return f"{os.getpid()} {file.read().rpartition(')')[2].split()[19]}"


def say(*words):
    os.write(log, (" ".join(map(str, words)) + "\n").encode())


def fork(then):
    """A child that does something and ends; its pid."""
    parent, before = me, time.monotonic_ns()
    pid = os.fork()
    if pid == 0:
        globals()["me"] = ident()
        say("B", me, parent, before)
        then()
        say("E", me, time.monotonic_ns())
        os._exit(0)
    return pid


def short():
    time.sleep(random.random() / 20)


def double():
    fork(short)  # and is gone at once: who is left has another parent then


def live():
    random.seed()
    held = []
    while not os.path.exists(f"{folder}/stop"):
        if os.path.exists(f"{folder}/eat.{os.getpid()}"):
            held.append(bytes([1]) * (1 << 20))
            continue
        fork(random.choice((short, double)))
        time.sleep(random.random() * slower)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


me = ident()
say("B", me, "0 0", 0)
pids = [fork(live) for _ in range(children)]
for pid in pids:
    os.waitpid(pid, 0)
say("E", me, time.monotonic_ns())
