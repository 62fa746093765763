# SPDX-License-Identifier: Apache-2.0
"""Reads off the path of a cgroup where its processes run.

A path is read from its top down, a component at a time; what a component means depends on the one above it
(`job_88` is a Slurm job below `slurm/uid_1000`, and any name elsewhere). Nothing is guessed: what the path does
not say is `None`. Paths are made by anyone who may make a cgroup, so no more is read than names of the exact form.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tracer.attribution.places import Place, Runtime

LONGEST_PATH = 16_384
"""The kernel's own paths end at 4,096 bytes, each of which may be shown as four characters."""
LONGEST_NAME = 255


def place_of(path: str | None) -> Place | None:
    """What the path of a cgroup says of where it stands; `None`: nothing that is known.

    Args:
        path: in the hierarchy of the memory controller, version 1 or 2, as /proc/PID/cgroup or the kernel shows it.
    """
    if path is None or not path.startswith("/") or len(path) > LONGEST_PATH:
        return None
    reading = _Reading()
    for name in path.split("/"):
        if name not in ("", ".", ".."):  # a path from outside of a cgroup namespace begins with /..
            reading.take(name)
    found = Place(**reading.known)
    return None if found == _NOWHERE else found


_NOWHERE = Place()
_RUNTIMES: Mapping[str, Runtime] = {
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "cri-o",
    "docker": "docker",
    "libpod": "podman",
    "libpod-payload": "podman",
}
_CONTAINER = re.compile(
    r"(?:(?P<word>cri-containerd|nerdctl|crio|docker|libpod|libpod-payload)-)?(?P<id>[0-9a-f]{64})(?P<scope>\.scope)?"
)
"""Of CRI-O and podman `...-conmon-HASH` is the monitor, which is not in the container."""
_UNSPLIT = re.compile(
    r"(?P<slice>[^:]+\.slice):(?P<word>cri-containerd|nerdctl|crio|docker|libpod):(?P<id>[0-9a-f]{64})"
)
"""A path that was meant for systemd and went to cgroupfs."""
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_POD = re.compile(rf"pod(?P<uid>{_UUID}|[0-9a-f]{{32}})")
_KUBE_SLICE = re.compile(
    r"(?:[A-Za-z0-9_.]+-)*kubepods(?:-(?P<qos>burstable|besteffort))?"
    rf"(?:-pod(?P<uid>{_UUID.replace('-[', '_[')}|[0-9a-f]{{32}}))?\.slice"
)
_PODMAN_POD = re.compile(r"[0-9a-f]{64}")
_PODMAN_POD_SLICE = re.compile(r"(?:machine|user)-libpod_pod_(?P<pod>[0-9a-f]{64})\.slice")
_ECS_TASK = re.compile(rf"{_UUID}|[0-9a-f]{{32}}")
_ECS_CONTAINER = re.compile(r"[0-9a-f]{32}-[0-9]{1,10}")
_ECS_SLICE = re.compile(r"ecstasks-(?P<task>[0-9a-f]{32})\.slice")
_NUMBER = r"0|[1-9][0-9]{0,9}"
_SLURM = re.compile(r"slurm(?:_(?P<node>[A-Za-z0-9.-]+))?")
_SLURM_SCOPE = re.compile(r"(?:(?P<node>[A-Za-z0-9.-]+)_)?slurmstepd\.scope")
_SLURM_UID = re.compile(rf"uid_(?P<uid>{_NUMBER})")
_SLURM_JOB = re.compile(rf"job_(?P<job>{_NUMBER})")
_SLURM_STEP = re.compile(rf"step_(?P<step>{_NUMBER}|batch|extern|interactive)")
_SLURM_TASK = re.compile(rf"task_(?P<task>{_NUMBER}|special)")
_LXC = re.compile(r"lxc\.payload\.(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)")
_LXC_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LSF_JOB = re.compile(r"job\.(?P<job>[1-9][0-9]{0,9})\..+")
_PBS_JOB = re.compile(r"(?P<job>[1-9][0-9]*(?:\[[0-9]+\])?\.[A-Za-z0-9.-]+)")
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.(?:service|scope|socket|mount|swap)")
_SLICE = re.compile(r"[A-Za-z0-9:_.\\@-]+\.slice")
_USER_SLICE = re.compile(rf"user-(?P<uid>{_NUMBER})\.slice")
_USER_MANAGER = re.compile(rf"user@(?P<uid>{_NUMBER})\.service")
_SESSION = re.compile(r"session-(?P<session>[A-Za-z0-9]+)\.scope")
_NSPAWN = re.compile(r"systemd-nspawn@(?P<name>[A-Za-z0-9:_.\\-]+)\.service")
_MACHINE = re.compile(r"machine-(?P<name>[A-Za-z0-9:_.\\-]+)\.scope")
_ESCAPE = re.compile(r"\\x([2-7][0-9a-f])")

_Region = Literal[
    "slices", "user_slices", "kubepods", "qos", "ecs", "ecs_task", "lxc", "nspawn", "machine",
    "slurm", "slurm_jobs", "slurm_job", "slurm_step", "lsf", "lsf_cluster", "pbs", "pbs_ids", "libpod",
    "inside",
]  # fmt: skip
"""What the component above was, and so what a name below it means. slices: the top, or slices alone so far."""


@dataclass
class _Reading:
    """A path in the course of being read."""

    known: dict[str, Any] = field(default_factory=dict)
    region: _Region = "slices"
    above: str = ""
    at_top: bool = True
    """Nothing stands above, but for the container that this is within."""
    within: bool = False
    """In a container in which no unit was met so far: a unit that is met now is of another systemd."""

    def take(self, name: str) -> None:
        """The next component, downwards."""
        self.known["itself"] = None
        region, at_top = self.region, self.at_top
        self.region, self.at_top = "inside", False
        if len(name) > LONGEST_NAME:
            return
        if not (
            self._is_podman_pod(name, region, at_top=at_top)
            or self._is_container(name, region)
            or self._is_kubernetes(name, region)
            or self._is_slurm(name, region)
            or self._is_named(name, region, at_top=at_top)
        ):
            self._is_systemd(name, region)
        self.above = name

    def _is_podman_pod(self, name: str, region: _Region, *, at_top: bool) -> bool:
        """Podman's pod, whose id looks as a container's does; its containers are below."""
        if name == "libpod_parent" and at_top:
            self.region = "libpod"
        elif region == "libpod" and _PODMAN_POD.fullmatch(name):
            self.known |= {"itself": "podman_pod", "podman_pod": name}
        else:
            return False
        return True

    def _is_container(self, name: str, region: _Region) -> bool:
        found = _CONTAINER.fullmatch(name) or _UNSPLIT.fullmatch(name)
        if found is None:
            return False
        word = found["word"] or ("docker" if self.above == "docker" else "")
        if found.re is _UNSPLIT:
            around = self.known.get("slice")
            self._is_kubernetes(found["slice"], "slices")
            self.known["slice"] = around  # systemd has no such slice
        elif found["scope"] and region in ("slices", "user_slices"):
            self._knows_unit(name, of_user=region == "user_slices")
        self._enter(found["id"], _RUNTIMES.get(word))
        return True

    def _enter(self, container: str, runtime: Runtime | None) -> None:
        outer = self.known.get("container")
        if outer is not None:
            self.known["outer_containers"] = (*self.known.get("outer_containers", ()), outer)
        self.known |= {"container": container, "runtime": runtime, "itself": "container"}
        self.region, self.at_top, self.within = "slices", True, True

    def _is_kubernetes(self, name: str, region: _Region) -> bool:
        if found := _KUBE_SLICE.fullmatch(name):
            self._leave_outer_systemd()
            uid, qos = found["uid"], found["qos"]
            itself = "pod" if uid else "qos" if qos else "pods"
            # Pods of the guaranteed class have no slice of their class.
            self.known |= {"itself": itself, "slice": name, "qos": qos or ("guaranteed" if uid else None)}
            self.known["pod_uid"] = None if uid is None else uid.replace("_", "-")
            self.region = "slices"
        elif name == "kubepods":
            self.known |= {"itself": "pods"}
            self.region = "kubepods"
        elif region == "kubepods" and name in ("burstable", "besteffort"):
            self.known |= {"itself": "qos", "qos": name}
            self.region = "qos"
        elif region in ("kubepods", "qos") and (found := _POD.fullmatch(name)):
            qos = self.known.get("qos") if region == "qos" else "guaranteed"
            self.known |= {"itself": "pod", "pod_uid": found["uid"], "qos": qos}
        else:
            return False
        return True

    def _is_slurm(self, name: str, region: _Region) -> bool:
        if found := _SLURM_SCOPE.fullmatch(name):
            self._knows_unit(name)
            self.known |= {"itself": "slurm", "slurm_node": found["node"]}
            self.region = "slurm_jobs"
        elif region == "slurm" and (found := _SLURM_UID.fullmatch(name)):
            self.known |= {"itself": "slurm_user", "uid": int(found["uid"])}
            self.region = "slurm_jobs"
        elif region == "slurm_jobs" and (found := _SLURM_JOB.fullmatch(name)):
            self.known |= {"itself": "slurm_job", "slurm_job": found["job"]}
            self.region = "slurm_job"
        elif region == "slurm_job" and (found := _SLURM_STEP.fullmatch(name)):
            self.known |= {"itself": "slurm_step", "slurm_step": found["step"]}
            self.region = "slurm_step"
        elif region == "slurm_step" and (found := _SLURM_TASK.fullmatch(name)):
            self.known |= {"itself": "slurm_task", "slurm_task": found["task"]}
        elif region == "slurm_step" and name in ("user", "slurm"):  # the second is slurmstepd's own
            self.region = "slurm_step" if name == "user" else "inside"
        elif found := _SLURM.fullmatch(name):
            self.known |= {"itself": "slurm", "slurm_node": found["node"]}
            self.region = "slurm"
        else:
            return False
        return True

    def _is_named(self, name: str, region: _Region, *, at_top: bool) -> bool:
        return (
            self._is_named_container(name, region, at_top=at_top)
            or self._is_ecs(name, region, at_top=at_top)
            or self._is_batch(name, region, at_top=at_top)
        )

    def _is_named_container(self, name: str, region: _Region, *, at_top: bool) -> bool:
        if found := _LXC.fullmatch(name):
            self._enter(found["name"], "lxc")
        elif name in ("lxc", "lxc.payload") and at_top:
            self.region = "lxc"
        elif region == "lxc" and _LXC_NAME.fullmatch(name):
            self._enter(name, "lxc")
        elif name == "ns" and self.within and at_top and self.known.get("runtime") == "lxc":
            self.region, self.at_top = "slices", True
        elif region == "machine" and name == "payload":
            self._enter(self.known["machine"], "nspawn")
        elif region == "nspawn" and name == "payload":
            self.region, self.at_top = "slices", True
        elif region == "nspawn" and name == "supervisor":
            # What runs the container is not in it.
            outer = self.known.get("outer_containers", ())
            self.known |= {"container": outer[-1] if outer else None, "outer_containers": outer[:-1], "runtime": None}
        else:
            return False
        return True

    def _is_ecs(self, name: str, region: _Region, *, at_top: bool) -> bool:
        if name == "ecs" and at_top:
            self.region = "ecs"
        elif region == "ecs" and _ECS_TASK.fullmatch(name):
            self.known |= {"itself": "ecs_task", "ecs_task": name}
            self.region = "ecs_task"
        elif region == "ecs_task" and _ECS_CONTAINER.fullmatch(name):
            self._enter(name, None)
        else:
            return False
        return True

    def _is_batch(self, name: str, region: _Region, *, at_top: bool) -> bool:
        if name == "lsf" and at_top:
            self.region = "lsf"
        elif region == "lsf":
            self.region = "lsf_cluster"
        elif region == "lsf_cluster" and (found := _LSF_JOB.fullmatch(name)):
            self.known |= {"itself": "batch_job", "batch": "LSF", "batch_job": found["job"]}
        elif region == "pbs" and name == "jobid":
            self.region = "pbs_ids"
        elif region == "pbs_ids" and (found := _PBS_JOB.fullmatch(name)):
            self.known |= {"itself": "batch_job", "batch": "PBS", "batch_job": found["job"]}
        else:
            return False
        return True

    def _is_systemd(self, name: str, region: _Region) -> None:
        name = name.removeprefix("_")  # which systemd puts before names that cgroupfs has files of
        in_user = region == "user_slices"
        if region not in ("slices", "user_slices", "nspawn", "machine"):
            return
        if _SLICE.fullmatch(name):
            self._knows_slice(name, in_user=in_user)
        elif _UNIT.fullmatch(name):
            self._knows_unit(name, of_user=in_user)
            if not in_user:
                self._knows_kind_of_unit(name)

    def _knows_slice(self, name: str, *, in_user: bool) -> None:
        self.region = "user_slices" if in_user else "slices"
        if in_user:
            return
        self._leave_outer_systemd()
        self.known |= {"itself": "slice", "slice": name}
        if found := _USER_SLICE.fullmatch(name):
            self.known |= {"itself": "user", "uid": int(found["uid"])}
        elif found := _PODMAN_POD_SLICE.fullmatch(name):
            self.known |= {"itself": "podman_pod", "podman_pod": found["pod"]}
        elif found := _ECS_SLICE.fullmatch(name):
            self.known |= {"itself": "ecs_task", "ecs_task": found["task"]}

    def _knows_unit(self, name: str, *, of_user: bool = False) -> None:
        if of_user:
            self.known |= {"itself": "user_unit", "user_unit": name}
            return
        self._leave_outer_systemd()
        self.known |= {"itself": "unit", "unit": name, "user_unit": None}

    def _knows_kind_of_unit(self, name: str) -> None:
        if found := _USER_MANAGER.fullmatch(name):
            self.known["uid"] = int(found["uid"])
            self.region = "user_slices"
        elif (found := _SESSION.fullmatch(name)) and _USER_SLICE.fullmatch(self.above):
            self.known |= {"itself": "session", "session": found["session"]}
        elif found := _NSPAWN.fullmatch(name):
            self._enter(_unescaped(found["name"]), "nspawn")
            self.region = "nspawn"
        elif found := _MACHINE.fullmatch(name):
            self.known["machine"] = _unescaped(found["name"])
            self.region = "machine"
        elif name == "pbs_jobs.service":
            self.region = "pbs"

    def _leave_outer_systemd(self) -> None:
        if self.within:
            self.within = False
            self.known |= {"unit": None, "user_unit": None, "slice": None, "session": None, "uid": None}


def _unescaped(name: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)
