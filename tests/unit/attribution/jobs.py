# SPDX-License-Identifier: Apache-2.0
"""Jobs made by hand, as their processes look from outside: command lines, variables, names, handlers."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.unit.verdict.scenes import LAUNCHER, Scene, start_of
from tracer.attribution.roles import Role, assign, describe
from tracer.attribution.tree import Tree
from tracer.events import JobStarted, ProcessExeced, ProcessLooked
from tracer.units import NS_PER_MS

PYTHON = "/usr/bin/python3"
SPAWN = (
    PYTHON,
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)",
    "--multiprocessing-fork",
)
FORKSERVER = (PYTHON, "-B", "-c", "from multiprocessing.forkserver import main; main(14, 15, ['__main__'], **{})")
TRACKER = (PYTHON, "-c", "from multiprocessing.resource_tracker import main;main(11)")
TRAIN = (PYTHON, "-u", "train.py")
ROOT = LAUNCHER


def torchrun(rank: int, size: int = 2) -> dict[str, str]:
    return {
        "RANK": f"{rank}",
        "LOCAL_RANK": f"{rank}",
        "GROUP_RANK": "0",
        "WORLD_SIZE": f"{size}",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


class Job:
    """A scene whose root is any program."""

    def __init__(self, *cmdline: str, environ: Mapping[str, str] | None = None, comm: str | None = None) -> None:
        self.scene = Scene()
        self.given: dict[int, tuple[Sequence[str], dict[str, str] | None, str]] = {}
        start_ns = start_of(ROOT)
        self.scene.add(JobStarted(ts_ns=self.scene.now_ns, tgid=ROOT, start_ns=start_ns, own_cgroup=True))
        self._seen(ROOT, 1, cmdline, {} if environ is None else dict(environ), comm)

    def start(
        self, pid: int, parent: int, cmdline: Sequence[str], environ: Mapping[str, str] | None, comm: str | None = None
    ) -> None:
        """Fork and exec."""
        self.scene.fork(pid, parent, comm=self.given[parent][2])
        name = (comm or cmdline[0].rpartition("/")[2])[:15]
        self.scene.add(
            ProcessExeced(ts_ns=self.scene.now_ns, cpu=0, start_ns=start_of(pid), tgid=pid, old_tid=pid, comm=name)
        )
        self._seen(pid, parent, cmdline, None if environ is None else dict(environ), comm)

    def fork(self, pid: int, parent: int, comm: str | None = None, *, seen: bool = True) -> None:
        """A fork alone; the child names itself."""
        cmdline, environ, name = self.given[parent]
        self.scene.fork(pid, parent, comm=name)
        if seen:
            self._seen(pid, parent, cmdline, environ, comm or name)

    def name(self, pid: int, comm: str) -> None:
        self.look(pid, comm=comm)

    def look(self, pid: int, **found: Any) -> None:
        self.scene.pass_time(NS_PER_MS)
        self.scene.add(ProcessLooked(ts_ns=self.scene.now_ns, source="proc", start_ns=start_of(pid), tgid=pid, **found))

    @property
    def roles(self) -> dict[int, Role]:
        return {i.tgid: role for i, role in assign(Tree.of(self.scene.events)).items()}

    @property
    def told(self) -> dict[int, str]:
        """As people are told."""
        return {pid: describe(role, None) for pid, role in self.roles.items()}

    def _seen(
        self, pid: int, parent: int, cmdline: Sequence[str], environ: dict[str, str] | None, comm: str | None
    ) -> None:
        name = (comm or cmdline[0].rpartition("/")[2])[:15]
        self.given[pid] = (cmdline, environ, name)
        more = {"cmdline": tuple(cmdline), "exe": cmdline[0], "parent_start_ns": start_of(parent)}
        self.scene.seen(pid, parent, name, environ, **more)
