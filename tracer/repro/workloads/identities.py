# SPDX-License-Identifier: Apache-2.0
"""Acts: who the victim is: threads, sharers of memory, pid namespaces, names that lie. Standard library only."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable

from tracer.repro.workloads import stage
from tracer.repro.workloads.stage import MIB

NAMES = (
    b"two\nlines",
    b"x) (y",
    "f\u00fcnf \u20ac".encode(),
    b"\x1b[31mred\x07",
    b"Killed process",
    b"\xff\xfe bytes",
)
CLONE_VM = 0x100
EXIT_SYSCALL = {"x86_64": 60, "aarch64": 93}
SLEEPERS = 3


def memory_sharer() -> None:
    """A child that shares the parent's memory map, as after vfork: both are killed, and one of them is named."""
    stage.be(b"sharer")
    stack_bytes = 64 * 1024
    stack = ctypes.create_string_buffer(stack_bytes)
    stage.kept.append(stack)
    top = (ctypes.addressof(stack) + stack_bytes) & ~15
    # It runs no Python: pause(2) is all that it does.
    pause = ctypes.cast(stage.libc.pause, ctypes.c_void_p)
    if stage.libc.clone(pause, ctypes.c_void_p(top), CLONE_VM | signal.SIGCHLD, None) < 0:
        stage.cannot(f"no process can share memory: {os.strerror(ctypes.get_errno())}")
    stage.eat()


def leader_gone() -> None:
    """The main thread has left and another one grows: what the kernel marks is a thread's id."""
    stage.be(b"leaderless")
    threading.Thread(target=_eat_alone).start()
    stage.libc.syscall(EXIT_SYSCALL[os.uname().machine], 0)


def _eat_alone() -> None:
    def left() -> bool:
        with open(f"/proc/{os.getpid()}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"

    stage.be(b"leaderless")  # from Python 3.14 on a thread has a name of its own
    stage.wait_for(left)
    stage.eat()


def namespace_init() -> None:
    """Pid 1 of a pid namespace is killed, and the kernel takes all others in it with it."""
    stage.be(b"job")
    stage.unshare(stage.CLONE_NEWPID)
    init = stage.child(_be_init, b"init")
    stage.finish(stage.end_of(init))


def _be_init() -> None:
    for number in range(SLEEPERS):
        stage.child(lambda number=number: _be_inmate(number), b"inmate%d" % number)  # type: ignore[misc]
    stage.be_chosen()
    for number in range(SLEEPERS):
        stage.hear(f"inmate{number}")
    stage.eat()


def _be_inmate(number: int) -> None:
    stage.say(f"inmate{number}")
    stage.sleep()


def nested_namespaces() -> None:
    """A process two pid namespaces below is killed."""
    stage.be(b"job")
    stage.unshare(stage.CLONE_NEWPID)
    stage.finish(stage.end_of(stage.child(_one_deeper, b"outer")))


def _one_deeper() -> None:
    stage.unshare(stage.CLONE_NEWPID)
    os._exit(stage.end_of(stage.child(_grow_deep, b"inner")))


def _grow_deep() -> None:
    def grow() -> None:
        stage.be_chosen()
        stage.eat(pause_s=0.005)

    os._exit(stage.end_of(stage.child(grow, b"deep")))


def grow_in_a_container(node: str) -> None:
    """As a runtime does it: a cgroup and a pid namespace, and in them a first process and one that grows."""
    stage.be(b"job")
    stage.be_spared()
    stage.finish(stage.end_of(stage.child(lambda: _be_runtime(node), b"shim")))


def _be_runtime(node: str) -> None:
    stage.enter(node)
    stage.unshare(stage.CLONE_NEWPID)
    os._exit(stage.end_of(stage.child(_be_entrypoint, b"entrypoint")))


def _be_entrypoint() -> None:
    os._exit(stage.end_of(stage.child(_grow_chosen, b"grower")))


def cgroup_gone(node: str) -> None:
    """The cgroup of the victim is removed as soon as that is dead."""
    stage.be(b"job")
    code = stage.end_of(stage.child(lambda: _eat_in(node), b"grower"))
    stage.wait_for(lambda: _removed(stage.cgroup(node)))
    stage.finish(code)


def _eat_in(node: str) -> None:
    stage.enter(node)
    stage.eat()


def _removed(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def names() -> None:
    """One after the other is killed, and each has a name that could be taken for something else."""
    stage.be(b"job")
    stage.be_spared()
    codes = [stage.end_of(stage.child(_grow_chosen, name)) for name in NAMES]
    stage.finish(0 if set(codes) == {9} else 1)


def _grow_chosen() -> None:
    stage.be_chosen()
    stage.eat()


def pid_reuse() -> None:
    """A process ends, another one gets its pid at once and is killed."""
    stage.be(b"job")
    first = stage.child(lambda: None, b"first")
    os.waitpid(first, 0)
    for _ in range(50):
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
            file.write(str(first - 1))
        second = stage.child(lambda: _grow_if_mine(first), b"second")
        code = stage.end_of(second)
        if second == first:
            stage.finish(code)
    stage.cannot("the pid was always taken by somebody else")


def _grow_if_mine(pid: int) -> None:
    if os.getpid() == pid:
        stage.eat()


def unkillable() -> None:
    """A process that the OOM killer may not take runs into the limit: nothing is left to be killed."""
    stage.be(b"immune")
    try:
        stage.be_chosen(-1000)
    except PermissionError:
        stage.cannot("CAP_SYS_RESOURCE is missing: oom_score_adj cannot be lowered")
    stage.say("pid", str(os.getpid()))
    stage.eat()


def frozen() -> None:
    """Takes memory and waits: to be frozen, killed and marked by others."""
    stage.be(b"frozen")
    stage.be_chosen()
    stage.take(30 * MIB)
    stage.say("pid", str(os.getpid()))
    stage.sleep()


ACTS: dict[str, Callable[..., None]] = {
    "memory-sharer": memory_sharer,
    "leader-gone": leader_gone,
    "namespace-init": namespace_init,
    "nested-namespaces": nested_namespaces,
    "grow-in-a-container": grow_in_a_container,
    "cgroup-gone": cgroup_gone,
    "names": names,
    "pid-reuse": pid_reuse,
    "unkillable": unkillable,
    "frozen": frozen,
}
