# SPDX-License-Identifier: Apache-2.0
"""Acts: ends that look like an OOM kill and are none. Standard library only."""

import os
import resource
import signal
import sys
import threading
from collections.abc import Callable

from tracer.repro.workloads import stage
from tracer.repro.workloads.stage import MIB

SIGKILLED = 137
"""What a shell makes of a death by SIGKILL, and what some launchers exit with by themselves."""


def trainer() -> None:
    """Waits for whatever is done to it."""
    stage.be(b"trainer")
    stage.take(8 * MIB)
    stage.say("pid", str(os.getpid()))
    stage.sleep()


def kill_itself() -> None:
    """SIGKILL from the very process."""
    stage.be(b"trainer")
    os.kill(os.getpid(), signal.SIGKILL)


def kill_a_rank() -> None:
    """A launcher ends one of its processes by SIGKILL, and fails."""
    stage.be(b"launcher")
    rank = stage.child(_say_and_sleep, b"rank")
    stage.hear("rank")
    os.kill(rank, signal.SIGKILL)
    os.waitpid(rank, 0)
    stage.finish(1)


def _say_and_sleep() -> None:
    stage.say("rank")
    stage.sleep()


def exit_137() -> None:
    """The status of a killed process, without a kill."""
    stage.be(b"trainer")
    stage.finish(SIGKILLED)


def exec_with_threads() -> None:
    """Starts another program while other threads run, each of which the kernel ends."""
    stage.be(b"trainer")
    for _ in range(4):
        threading.Thread(target=_never_end, daemon=True).start()
    # What runs then goes by this name again, which starting it takes away.
    again = "open('/proc/self/comm', 'w').write('trainer'); raise SystemExit(3)"
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", again])  # noqa: S606 - what this act is about


def _never_end() -> None:
    threading.Event().wait()


def cpu_time() -> None:
    """Runs into a hard limit on CPU time."""
    stage.be(b"trainer")
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


def parents_death() -> None:
    """A process that has asked for SIGKILL when its parent ends, and a parent that ends."""
    stage.be(b"job")
    stage.prctl(stage.PR_SET_CHILD_SUBREAPER, 1)
    parent = stage.child(_leave_a_child, b"parent")
    os.waitpid(parent, 0)
    os.waitpid(-1, 0)


def _leave_a_child() -> None:
    stage.child(_ask_for_the_end, b"child")
    stage.hear("asked")


def _ask_for_the_end() -> None:
    stage.prctl(stage.PR_SET_PDEATHSIG, signal.SIGKILL)
    stage.say("asked")
    stage.sleep()


def memory_error() -> None:
    """An address space that is limited: the allocation fails, and Python raises MemoryError."""
    stage.be(b"trainer")
    resource.setrlimit(resource.RLIMIT_AS, (256 * MIB, 256 * MIB))
    stage.kept.append(bytearray(512 * MIB))


def overcommit() -> None:
    """The same where the machine hands out no more than it has (vm.overcommit_memory=2): none of it is ever touched."""
    stage.be(b"trainer")
    # Each piece alone could be had: it is their sum that only this setting refuses.
    for _ in range(1024):
        stage.kept.append(bytes(256 * MIB))  # calloc(3): not touched, unlike a bytearray


ACTS: dict[str, Callable[..., None]] = {
    "trainer": trainer,
    "kill-itself": kill_itself,
    "kill-a-rank": kill_a_rank,
    "exit-137": exit_137,
    "exec-with-threads": exec_with_threads,
    "cpu-time": cpu_time,
    "parents-death": parents_death,
    "memory-error": memory_error,
    "overcommit": overcommit,
}
