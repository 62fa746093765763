# SPDX-License-Identifier: Apache-2.0
"""In which pid and time namespaces we live, and whether /proc is of ours: where pids and clocks are the kernel's own.

The kernel's records speak of pids of the initial namespace and of its own clocks. In a container /proc and
the clocks of user space may speak of others, and /proc need not even be that of our own namespace.
"""

import os
from dataclasses import dataclass

from tracer.kernel.handover import FIRST_PID_NAMESPACE
from tracer.pseudofiles import read_bytes
from tracer.sources.procfs import read_status
from tracer.units import NS_PER_S


@dataclass(frozen=True)
class Namespaces:
    """Where this process stands. The defaults: in the initial namespaces."""

    own_pids: bool | None = False
    """Whether pids here are others than the kernel's; `None`: it could not be told."""
    proc_above: int | None = 0
    """So many pid namespaces above ours lies the one that /proc shows. 0: it is ours; `None`: it does not show us."""
    monotonic_shift_ns: int = 0
    boottime_shift_ns: int = 0
    """What our time namespace adds to the kernel's clocks."""

    @property
    def own_clocks(self) -> bool:
        """Whether our clocks are others than the kernel's."""
        return bool(self.monotonic_shift_ns or self.boottime_shift_ns)


INITIAL = Namespaces()


def read_namespaces(proc_root: str = "/proc") -> Namespaces:
    """As they are now; they stay so for as long as a process lives."""
    status = read_status(proc_root, "self")
    shown = None if status is None else status.ns_pids
    monotonic_ns, boottime_ns = _time_offsets(proc_root)
    return Namespaces(
        own_pids=own_pid_namespace(proc_root),
        # NSpid: from the namespace of /proc down to that of the process.
        proc_above=len(shown) - 1 if shown else None,
        monotonic_shift_ns=monotonic_ns,
        boottime_shift_ns=boottime_ns,
    )


def own_pid_namespace(proc_root: str = "/proc") -> bool | None:
    """Whether pids here are other ones than those in the kernel's own records."""
    try:
        return os.stat(f"{proc_root}/self/ns/pid").st_ino != FIRST_PID_NAMESPACE
    except OSError:
        return None


def _time_offsets(proc_root: str) -> tuple[int, int]:
    """Of CLOCK_MONOTONIC and CLOCK_BOOTTIME. What is not known is 0: whoever uses them checks the outcome."""
    links = [_link(f"{proc_root}/self/ns/{name}") for name in ("time", "time_for_children")]
    if links[0] is None or links[0] != links[1]:
        return 0, 0  # no such namespaces here (before 5.6), or the file speaks of the children's
    found = {b"monotonic": 0, b"boottime": 0}
    for line in (read_bytes(f"{proc_root}/self/timens_offsets") or b"").splitlines():
        words = line.split()
        if len(words) == 3 and words[0] in found:
            try:
                found[words[0]] = int(words[1]) * NS_PER_S + int(words[2])
            except ValueError:
                return 0, 0
    return found[b"monotonic"], found[b"boottime"]


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
