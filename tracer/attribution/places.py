# SPDX-License-Identifier: Apache-2.0
"""Where a process ran, as far as the path of its cgroup says: container, pod, batch job, systemd unit, session."""

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

Runtime = Literal["containerd", "cri-o", "docker", "podman", "lxc", "nspawn"]
Qos = Literal["guaranteed", "burstable", "besteffort"]
Batch = Literal["LSF", "PBS"]
Itself = Literal[
    "container",
    "pod",
    "qos",
    "pods",
    "podman_pod",
    "ecs_task",
    "slurm",
    "slurm_user",
    "slurm_job",
    "slurm_step",
    "slurm_task",
    "batch_job",
    "unit",
    "user_unit",
    "session",
    "user",
    "slice",
]
"""What a cgroup is, and so whose limit its limit is. qos: all pods of one class; pods: all pods of the node."""

SHORT_ID = 12
"""So many digits of an id are what the runtimes' own tools show."""
_HASH = re.compile(r"[0-9a-f]{64}")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What the path of a cgroup says; all that it does not say is `None`."""

    itself: Itself | None = None
    """What this very cgroup is; `None`: a part of what the rest names, or not known."""
    runtime: Runtime | None = None
    container: str | None = None
    """Id of the innermost container; where the runtime has names and no ids (LXC, nspawn) its name."""
    outer_containers: tuple[str, ...] = ()
    """Those round it, outermost first."""
    pod_uid: str | None = None
    """Of the Kubernetes pod, with dashes as the API has it; of a static pod the 32 digits of its hash."""
    qos: Qos | None = None
    podman_pod: str | None = None
    """Id of a pod that podman made, without Kubernetes."""
    ecs_task: str | None = None
    slurm_node: str | None = None
    """Where several slurmd share a host."""
    slurm_job: str | None = None
    slurm_step: str | None = None
    """A number, `batch`, `extern` or `interactive`."""
    slurm_task: str | None = None
    batch: Batch | None = None
    batch_job: str | None = None
    unit: str | None = None
    """Of the innermost systemd, spelled as that spells it; a container's own scope, too."""
    user_unit: str | None = None
    """Of the user's own systemd (user@1000.service)."""
    slice: str | None = None
    session: str | None = None
    """Of logind."""
    uid: int | None = None
    """Whose slice, or whose Slurm jobs, these are."""
    machine: str | None = None
    """As systemd-machined names it: a container or a virtual machine."""


def describe(place: Place) -> str:
    """`container 3f2a91b0c1d2 (containerd), pod 7c1e..., QoS burstable`; what says the most stands first."""
    parts = []
    if place.container is not None:
        parts.append(_container(place))
        parts += [f"inside container {_short(outer)}" for outer in reversed(place.outer_containers)]
    elif place.machine is not None:
        parts.append(f"machine {place.machine}")
    if place.pod_uid is not None:
        parts.append(f"pod {place.pod_uid}")
    if place.qos is not None:
        parts.append(f"QoS {place.qos}")
    if place.podman_pod is not None:
        parts.append(f"podman pod {_short(place.podman_pod)}")
    if place.ecs_task is not None:
        parts.append(f"ECS task {place.ecs_task}")
    parts += _batch(place)
    if place.session is not None:
        parts.append(_session(place))
    elif place.user_unit is not None and not _is_own_scope(place, place.user_unit):
        parts.append(f"unit {place.user_unit}{_of_user(place)}")
    elif place.unit is not None and not _is_own_scope(place, place.unit) and place.slurm_job is None:
        parts.append(f"unit {place.unit}")
    elif place.uid is not None:
        parts.append(f"user {place.uid}")
    elif not parts and place.slice is not None:
        parts.append(place.slice)
    return ", ".join(parts) or describe_itself(place) or ""


def describe_itself(place: Place) -> str | None:
    """`pod 7c1e...`, `Slurm job 88`, `session 3 of user 1000`: what this cgroup is; `None`: nothing of its own."""
    return None if place.itself is None else _ITSELF[place.itself](place)


def _container(place: Place) -> str:
    return f"container {_short(place.container)} ({place.runtime or 'runtime not known'})"


def _short(container: str | None) -> str:
    return container[:SHORT_ID] if container is not None and _HASH.fullmatch(container) else container or "?"


def _batch(place: Place) -> list[str]:
    parts = []
    if place.slurm_job is not None:
        parts.append(f"Slurm job {place.slurm_job}")
    elif place.slurm_node is not None:
        parts.append(f"Slurm node {place.slurm_node}")
    if place.slurm_step is not None:
        parts.append(f"step {place.slurm_step}")
    if place.slurm_task is not None:
        parts.append(f"task {place.slurm_task}")
    if place.batch_job is not None:
        parts.append(f"{place.batch} job {place.batch_job}")
    return parts


def _session(place: Place) -> str:
    return f"session {place.session}{_of_user(place)}"


def _unit(place: Place) -> str:
    whole = place.machine is not None and (place.unit or "").startswith("machine-")
    return f"machine {place.machine}" if whole else f"unit {place.unit}"


def _of_user(place: Place) -> str:
    return "" if place.uid is None else f" of user {place.uid}"


def _is_own_scope(place: Place, unit: str) -> bool:
    """Whether the unit is the container's own, or merely what a user's sessions and units stand in."""
    own = place.container is not None and place.container in unit
    return own or unit.startswith(("machine-", "systemd-nspawn@", "user@"))


_ITSELF: Mapping[Itself, Callable[[Place], str]] = {
    "container": _container,
    "pod": lambda place: f"pod {place.pod_uid}",
    "qos": lambda place: f"all pods of QoS {place.qos}",
    "pods": lambda _: "all pods of the node",
    "podman_pod": lambda place: f"podman pod {_short(place.podman_pod)}",
    "ecs_task": lambda place: f"ECS task {place.ecs_task}",
    "slurm": lambda _: "all Slurm jobs of the node",
    "slurm_user": lambda place: f"all Slurm jobs{_of_user(place)}",
    "slurm_job": lambda place: f"Slurm job {place.slurm_job}",
    "slurm_step": lambda place: f"step {place.slurm_step} of Slurm job {place.slurm_job}",
    "slurm_task": lambda place: f"task {place.slurm_task} of step {place.slurm_step} of Slurm job {place.slurm_job}",
    "batch_job": lambda place: f"{place.batch} job {place.batch_job}",
    "unit": _unit,
    "user_unit": lambda place: f"unit {place.user_unit}{_of_user(place)}",
    "session": _session,
    "user": lambda place: f"user {place.uid}, all sessions and units",
    "slice": lambda place: f"{place.slice}",
}
