# SPDX-License-Identifier: Apache-2.0
"""Samples as rows: one for each sample and subject, the same whether all of them are given or some.

A row has what was read, in units that its name tells, and what the subject is. Nothing is added up or filled in.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from tracer.events import (
    AnyEvent,
    CgroupSample,
    CudaTotals,
    GpuSample,
    PressureSample,
    ProcessId,
    ProcessSample,
    ReclaimSample,
    process_id,
)
from tracer.units import has_limit
from tracer.verdict.model import Role
from tracer.verdict.story import Story
from tracer.verdict.tracks.naming import cgroup_paths, name_of

SubjectKind = Literal["process", "cgroup", "machine", "reclaim", "device", "device_process"]
Number = int | float

MEASURES: Mapping[str, str] = {
    "rss_anon_bytes": "process: anonymous memory, pages that a fork shares among it",
    "rss_file_bytes": "process: mapped pages of files",
    "rss_shmem_bytes": "process: mapped shared memory and tmpfs",
    "swap_bytes": "process: swapped out",
    "usage_bytes": "cgroup: in use, with all below",
    "limit_bytes": "cgroup: its limit; empty where it has none",
    "swap_usage_bytes": "cgroup v2: swap in use",
    "swap_limit_bytes": "cgroup v2: limit of that",
    "memsw_usage_bytes": "cgroup v1: memory and swap together",
    "memsw_limit_bytes": "cgroup v1: limit of that",
    "anon_bytes": "cgroup, machine: anonymous memory",
    "file_bytes": "cgroup: page cache, shared memory among it",
    "shmem_bytes": "cgroup, machine: shared memory and tmpfs",
    "kernel_bytes": "cgroup: memory of the kernel on its behalf",
    "oom_kills": "cgroup: the kernel's count of OOM kills",
    "total_bytes": "machine, device: all that there is",
    "available_bytes": "machine: MemAvailable",
    "free_bytes": "machine, device: unused",
    "swap_total_bytes": "machine: swap",
    "swap_free_bytes": "machine: unused swap",
    "psi_some_avg10_percent": "machine: of the last 10 s some task waited for memory",
    "psi_full_avg10_percent": "machine: of the last 10 s all tasks waited for memory",
    "limit_reclaim_runs": "reclaim: runs at a cgroup's limit so far, by tasks of this cgroup",
    "limit_reclaim_stall_ns": "reclaim: time that these took, of all tasks together",
    "machine_reclaim_runs": "reclaim: runs for the whole machine so far",
    "machine_reclaim_stall_ns": "reclaim: time that these took",
    "used_bytes": "device, device_process: device memory in use, as NVML says",
    "cuda_device_bytes": "process: device memory that it allocated and did not free, as its calls of CUDA say",
    "cuda_managed_bytes": "process: managed memory, likewise",
    "cuda_pinned_bytes": "process: pinned host memory, likewise, what was registered among it",
}
"""Every number that a row may have, and what it is."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What a row is about."""

    kind: SubjectKind
    name: str
    """`rank 0 worker 2`, the path of a cgroup, `machine`, `GPU 0`."""
    key: str
    """Of one recording's subjects of this kind no other has it."""
    id: ProcessId | None = None
    pid: int | None = None
    start_ns: int | None = None
    comm: str | None = None
    role: Role | None = None
    rank: int | None = None
    worker: int | None = None


class Row(msgspec.Struct, frozen=True, gc=False):
    """One sample of one subject."""

    at_ns: int
    subject: Subject
    values: dict[str, Number | None]


class Samples:
    """Makes rows of the events of one recording, which may be others than the story was made of."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._v1 = story.header is not None and story.header.cgroup_version == 1
        self._subjects: dict[object, Subject] = {}
        self._paths = cgroup_paths(story)
        self._makers: Mapping[type, Callable[[Any], Iterator[Row]]] = {
            ProcessSample: self._process,
            CudaTotals: self._cuda,
            CgroupSample: self._cgroup,
            PressureSample: self._machine,
            ReclaimSample: self._reclaim,
            GpuSample: self._device,
        }

    def rows(self, event: AnyEvent) -> Iterator[Row]:
        """The rows of one event; none for what is no sample."""
        maker = self._makers.get(type(event))
        if maker is not None:
            yield from maker(event)

    def _of_process(self, tgid: int, start_ns: int) -> Subject:
        identity = process_id(tgid, start_ns)
        subject = self._subjects.get(identity)
        if subject is None:
            member = self._story.tree.processes.get(identity)
            role = self._story.roles.get(identity)
            subject = self._subjects[identity] = Subject(
                kind="process",
                name=name_of(self._story, identity),
                key=f"{tgid}.{identity.start_tick}",
                id=identity,
                pid=tgid,
                start_ns=start_ns if member is None else member.start_ns,
                comm=None if member is None else member.comm,
                role=None if role is None else role.name,
                rank=None if role is None else role.rank,
                worker=None if role is None else role.worker,
            )
        return subject

    def _named(self, kind: SubjectKind, key: str, name: str, pid: int | None = None) -> Subject:
        subject = self._subjects.get((kind, key))
        if subject is None:
            subject = self._subjects[kind, key] = Subject(kind=kind, name=name, key=key, pid=pid)
        return subject

    def _process(self, event: ProcessSample) -> Iterator[Row]:
        values: dict[str, Number | None] = {
            "rss_anon_bytes": event.rss_anon_bytes,
            "rss_file_bytes": event.rss_file_bytes,
            "rss_shmem_bytes": event.rss_shmem_bytes,
            "swap_bytes": event.swap_bytes,
        }
        yield Row(event.ts_ns, self._of_process(event.tgid, event.start_ns), values)

    def _cuda(self, event: CudaTotals) -> Iterator[Row]:
        values: dict[str, Number | None] = {
            "cuda_device_bytes": event.device_bytes,
            "cuda_managed_bytes": event.managed_bytes,
            "cuda_pinned_bytes": event.pinned_bytes + event.registered_bytes,
        }
        yield Row(event.ts_ns, self._of_process(event.tgid, event.start_ns), values)

    def _cgroup(self, event: CgroupSample) -> Iterator[Row]:
        prefix = "memsw" if self._v1 else "swap"
        values: dict[str, Number | None] = {
            "usage_bytes": event.usage_bytes,
            "limit_bytes": _limit(event.limit_bytes),
            f"{prefix}_usage_bytes": event.swap_usage_bytes,
            f"{prefix}_limit_bytes": _limit(event.swap_limit_bytes),
            "anon_bytes": event.anon_bytes,
            "file_bytes": event.file_bytes,
            "shmem_bytes": event.shmem_bytes,
            "kernel_bytes": event.kernel_bytes,
            "oom_kills": event.oom_kill,
        }
        yield Row(event.ts_ns, self._named("cgroup", f"{event.cgroup_id} {event.path}", event.path), values)

    def _machine(self, event: PressureSample) -> Iterator[Row]:
        values: dict[str, Number | None] = {
            "total_bytes": event.mem_total_bytes,
            "available_bytes": event.mem_available_bytes,
            "free_bytes": event.mem_free_bytes,
            "anon_bytes": event.anon_bytes,
            "shmem_bytes": event.shmem_bytes,
            "swap_total_bytes": event.swap_total_bytes,
            "swap_free_bytes": event.swap_free_bytes,
            "psi_some_avg10_percent": event.psi_some_avg10,
            "psi_full_avg10_percent": event.psi_full_avg10,
        }
        yield Row(event.ts_ns, self._named("machine", "", "machine"), values)

    def _reclaim(self, event: ReclaimSample) -> Iterator[Row]:
        values: dict[str, Number | None] = {
            "limit_reclaim_runs": event.memcg_runs,
            "limit_reclaim_stall_ns": event.memcg_stall_ns,
            "machine_reclaim_runs": event.direct_runs,
            "machine_reclaim_stall_ns": event.direct_stall_ns,
        }
        path = self._paths.get(event.cgroup_id, f"cgroup {event.cgroup_id}")
        yield Row(event.ts_ns, self._named("reclaim", str(event.cgroup_id), path), values)

    def _device(self, event: GpuSample) -> Iterator[Row]:
        values: dict[str, Number | None] = {
            "total_bytes": event.total_bytes,
            "used_bytes": event.used_bytes,
            "free_bytes": event.free_bytes,
        }
        name = f"GPU {event.index}"
        yield Row(event.ts_ns, self._named("device", event.uuid, f"{name} ({event.uuid})"), values)
        for one in event.processes or ():
            key, whose = f"{event.uuid} {one.pid}", self._user(one.pid, event.ts_ns)
            named = self._named("device_process", key, f"{name}: {whose}", one.pid)
            yield Row(event.ts_ns, named, {"used_bytes": one.used_bytes})

    def _user(self, pid: int, at_ns: int) -> str:
        member = self._story.tree.alive_at(pid, at_ns)
        return f"pid {pid}" if member is None else name_of(self._story, member.id)


def _limit(limit_bytes: int | None) -> int | None:
    return limit_bytes if has_limit(limit_bytes) else None
