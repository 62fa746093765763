# SPDX-License-Identifier: Apache-2.0
"""Names of processes and cgroups where many stand in one list: what belongs together is sorted together."""

from collections.abc import Mapping

from tracer.attribution import roles
from tracer.events import Attached, CgroupSample, JobStarted, ProcessId
from tracer.verdict.story import Story


def name_of(story: Story, identity: ProcessId) -> str:
    """`launcher`, `rank 0`, `rank 0 worker 2`; of a process without a training role its own name."""
    role = story.roles.get(identity)
    member = story.tree.processes.get(identity)
    name = roles.short(role, member.comm if member is not None else None)
    if role is None or role.name in {"launcher", "rank"}:
        return name
    if role.rank is not None:
        return f"rank {role.rank} {name}"
    return name if role.local_rank is None else f"local rank {role.local_rank} {name}"


def cgroup_paths(story: Story) -> Mapping[int, str]:
    """Of each cgroup whose id the kernel's records have, its path as it was read."""
    found: dict[int, str] = {}
    for started in story.of(JobStarted):
        if started.cgroup_id is not None and started.cgroup is not None:
            found[started.cgroup_id] = started.cgroup
    for attached in story.of(Attached):
        if attached.cgroup_id is not None and attached.cgroup is not None:
            found[attached.cgroup_id] = attached.cgroup
    for sample in story.of(CgroupSample):
        if sample.cgroup_id is not None:
            found.setdefault(sample.cgroup_id, sample.path)
    for member in story.tree.processes.values():
        for seen in member.seen:
            if seen.cgroup_id is not None and seen.cgroup is not None:
                found.setdefault(seen.cgroup_id, seen.cgroup)
    return found
