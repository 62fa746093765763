# SPDX-License-Identifier: Apache-2.0
"""Acts for a machine that may be used up: a test VM, never any other. Standard library only."""

import ctypes
import os
import sys
import time
from collections.abc import Callable

from tracer.repro.workloads import stage

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
MPOL_BIND = 2
EVERYTHING_MIB = 1 << 20


def machine() -> None:
    """Grows until the machine has no memory left."""
    stage.be(b"hog")
    stage.be_chosen(500)
    stage.eat(EVERYTHING_MIB)


def machine_beside() -> None:
    """Grows as well, until another process was killed for it."""
    stage.be(b"hog")
    bystander = stage.child(_be_killed_first, b"bystander")
    stage.hear("bystander")
    for _ in range(EVERYTHING_MIB):
        pid, status = os.waitpid(bystander, os.WNOHANG)
        if pid:
            stage.finish(os.WTERMSIG(status))
        stage.take(stage.MIB)


def _be_killed_first() -> None:
    stage.be_chosen()
    stage.take(300 * stage.MIB)
    stage.say("bystander")
    stage.sleep()


def swapped_in_a_scope() -> None:
    """Becomes a scope of systemd's that its OOM daemon watches, with little memory, and swaps."""
    stage.hear("watched")
    _go_on_in_a_scope("swapped", ("ManagedOOMSwap=kill", "MemoryHigh=32M", "MemorySwapMax=infinity"))


def _go_on_in_a_scope(act: str, properties: tuple[str, ...], *options: str) -> None:
    words = ["systemd-run", "--scope", "--quiet", *options, *(f"--property={each}" for each in properties)]
    folder = os.path.dirname(os.path.abspath(__file__))
    # It keeps the pid: systemd-run only has itself moved, then starts the program in its own place.
    os.execvp(words[0], [*words, "--", sys.executable, "-s", "-S", folder, act])  # noqa: S606


def grow_in_a_scope() -> None:
    """Becomes a scope of systemd's that has a name and a limit, and grows beyond that."""
    _go_on_in_a_scope("anon", ("MemoryMax=64M", "MemorySwapMax=0"), "--unit=oomtrace-repro")


def swapped() -> None:
    """What runs in that scope."""
    stage.be(b"hog")
    stage.say("pid", str(os.getpid()))
    for _ in range(80):
        stage.kept.append(os.urandom(stage.MIB))
    stage.sleep()


def machine_with_swap() -> None:
    """The same with memory that compressed swap cannot make smaller."""
    stage.be(b"hog")
    stage.be_chosen(500)
    for _ in range(EVERYTHING_MIB):
        stage.kept.append(os.urandom(stage.MIB))


def memory_policy(node: str) -> None:
    """Grows by memory of one NUMA node alone."""
    stage.be(b"hog")
    stage.be_chosen(500)
    mask = ctypes.c_ulong(1 << int(node))
    number = SET_MEMPOLICY[os.uname().machine]
    if stage.libc.syscall(number, MPOL_BIND, ctypes.byref(mask), ctypes.c_ulong(64)) != 0:
        stage.cannot(f"no memory policy can be set: {os.strerror(ctypes.get_errno())}")
    stage.eat(EVERYTHING_MIB)


def largest() -> None:
    """Is the first that an OOM killer would take, and waits for one that somebody asks for."""
    stage.be(b"largest")
    stage.be_chosen()
    stage.take(100 * stage.MIB)
    stage.say("pid", str(os.getpid()))
    stage.sleep()


def growing_slowly() -> None:
    """Leaves a daemon the time to act before the kernel does."""
    stage.be(b"hog")
    stage.be_chosen(500)
    stage.say("pid", str(os.getpid()))
    stage.hear("watched")
    stage.eat(EVERYTHING_MIB, pause_s=0.01)


def clock_steps() -> None:
    """The wall clock is set while the job runs: an hour ahead, behind where it was, and right again."""
    stage.be(b"grower")
    true_s = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()
    for offset_s in (3600.0, -3600.0, 0.0):
        time.clock_settime(time.CLOCK_REALTIME, true_s + time.monotonic() + offset_s)
        stage.take(4 * stage.MIB)
        time.sleep(0.3)
    stage.eat()


ACTS: dict[str, Callable[..., None]] = {
    "machine": machine,
    "machine-beside": machine_beside,
    "machine-with-swap": machine_with_swap,
    "swapped-in-a-scope": swapped_in_a_scope,
    "swapped": swapped,
    "grow-in-a-scope": grow_in_a_scope,
    "memory-policy": memory_policy,
    "largest": largest,
    "growing-slowly": growing_slowly,
    "clock-steps": clock_steps,
}
