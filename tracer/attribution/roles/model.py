# SPDX-License-Identifier: Apache-2.0
"""What a role is, and how it is told to people."""

from typing import Literal

import msgspec

RoleName = Literal[
    "launcher",
    "rank",
    "dataloader_worker",
    "auxiliary",
    "forkserver",
    "resource_tracker",
    "shm_manager",
    "job",
    "outside",
]
LauncherKind = Literal[
    "torch_elastic", "accelerate", "deepspeed", "lightning", "multiprocessing", "mpi", "horovod", "slurm", "ray"
]
Hosted = Literal["pin_memory_thread", "dataloader_threads"]


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is, and how that is known."""

    name: RoleName
    known_by: str | None = None
    rank: int | None = None
    """Global rank of it or of the rank above it."""
    worker: int | None = None
    """Number within one loader start, by fork order; `None` where starts cannot be told apart."""
    local_rank: int | None = None
    """Its number, or that of the rank above it, on this node."""
    node_rank: int | None = None
    world_size: int | None = None
    restart: int | None = None
    """Of a rank under torch elastic: which attempt, from 0."""
    launcher: LauncherKind | None = None
    """Of a launcher: which."""
    below_launcher: bool = False
    """Of a launcher: another one stands above it in the tree, as srun does above torchrun."""
    service: str | None = None
    """Of an auxiliary process: what it is, in words. Of a launcher that is called by its name: that name."""
    hosts: tuple[Hosted, ...] = ()
    """What runs in threads of it, and so is no process."""


_NAMES: dict[RoleName, str] = {
    "forkserver": "forkserver",
    "resource_tracker": "resource tracker",
    "shm_manager": "shared-memory manager",
}


def describe(role: Role | None, comm: str | None) -> str:
    """`DataLoader worker 2 of rank 0`, `rank 3`, `launcher`, `forkserver of rank 1`, else the name in quotes."""
    of_rank = "" if role is None else _of_rank(role)
    if role is not None and role.name == "dataloader_worker":
        number = "" if role.worker is None else f" {role.worker}"
        return f"DataLoader worker{number}{of_rank}"
    if role is not None and role.name == "rank":
        if role.rank is None and role.local_rank is not None:
            return f"local rank {role.local_rank}"
        return "rank" if role.rank is None else f"rank {role.rank}"
    if role is not None and role.name == "launcher":
        if role.service is not None:
            return role.service
        return "elastic agent" if role.launcher == "torch_elastic" and role.below_launcher else "launcher"
    if role is not None and role.name in _NAMES:
        return f"{_NAMES[role.name]}{of_rank}"
    if role is not None and role.name == "auxiliary" and role.service is not None:
        return f"{role.service}{of_rank}"
    return f"{comm!r}{of_rank}" if comm else f"a process{of_rank}"


def short(role: Role | None, comm: str | None) -> str:
    """`worker 2`, `rank 0`, `launcher`, else the bare name: for a column."""
    if role is not None and role.name == "dataloader_worker":
        return "worker" if role.worker is None else f"worker {role.worker}"
    if role is not None and role.name in {"rank", "launcher"}:
        return describe(role, comm)
    if role is not None and role.name in {"forkserver", "resource_tracker"}:
        return _NAMES[role.name].rpartition(" ")[2]
    return comm or "?"


def _of_rank(role: Role) -> str:
    if role.rank is not None:
        return f" of rank {role.rank}"
    return "" if role.local_rank is None else f" of local rank {role.local_rank}"
