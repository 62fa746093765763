# SPDX-License-Identifier: Apache-2.0
"""Probes on functions of a library, put there by the parent: by inode, in every process that maps it now or later.

perf_event_open(2) with the PMU `uprobe`, which came with 4.17. Each lives for as long as its descriptor does.
Runs in the loader child as well: Python 3.8, standard library only.
"""

from __future__ import annotations

import os

from tracer.kernel.bpfcalls import open_uprobe, run_at

PMU = "/sys/bus/event_source/devices/uprobe"


class NoUprobes(Exception):
    """This kernel has none; says why."""


class Uprobes:
    """Puts programs to functions.

    Args:
        pmu: folder that describes it.

    Raises:
        NoUprobes: there are none here.
    """

    def __init__(self, pmu: str = PMU) -> None:
        try:
            with open(f"{pmu}/type", encoding="ascii") as file:
                self.type = int(file.read())
            with open(f"{pmu}/format/retprobe", encoding="ascii") as file:
                self.returns = 1 << int(file.read().strip().replace("config:", ""))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise NoUprobes(f"the kernel has no uprobes ({pmu}: {why})") from error

    def attach(self, library: int, offset: int, program: int, *, returns: bool = False) -> int:
        """Descriptor of one probe.

        Args:
            library: descriptor of the file.
            offset: in it, where the function's code begins.
            program: descriptor of the program that is run.
            returns: as the function returns, and not as it is entered.

        Raises:
            OSError: this function cannot be probed.
        """
        path = f"/proc/self/fd/{library}".encode()  # resolves to the very file, whatever has become of its name
        probe = open_uprobe(self.type, self.returns if returns else 0, path, offset)
        try:
            run_at(probe, program)
        except OSError:
            os.close(probe)
            raise
        return probe
