# SPDX-License-Identifier: Apache-2.0
"""Where a cgroup's path says that its processes run: every shape of the runtimes and batch systems, and none other."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.unit.attribution.cgroup_shapes import ID, JOB_V1, JOB_V2, MANAGER, OUTER, POD_SLICE, SHAPES, TASK, UID, UID_
from tracer.attribution.cgroup_paths import place_of
from tracer.attribution.places import Place, describe, describe_itself


@pytest.mark.parametrize(("path", "known"), SHAPES.items(), ids=list(SHAPES))
def test_every_shape_says_what_it_says_and_nothing_more(path: str, known: dict[str, Any]) -> None:
    assert Place(**known) == place_of(path)


@pytest.mark.parametrize(
    "path",
    [
        "/", "", "/13", "/A1", "/job_51723", "/uid_2044/job_51723/step_0", "/step_0/task_0", "/burstable",
        f"/pod{UID}", f"/burstable/pod{UID}", "/kube/burstable", f"/docker/{ID[:12]}", f"/docker/{ID[:63]}",
        f"/docker/{ID.upper()}", f"/docker/x{ID}", "/docker/buildkit/a1b2c3", f"docker/{ID}", f"/cri-{ID}",
        "/lxc.monitor.web", "/a/lxc/web", f"/a/ecs/{TASK}", f"/{TASK}", "/lsf", "/jobid/12.pbs01", "/nothing.target",
        "/payload", "/session-3.scope\n", "/user-1007.slice\n",
        f"/docker/{ID}\n", "/a.service b", "/\x1b[2J.service", None,
        "/slurmx/uid_1/job_2", "cgroup 77 (worker)",
    ],
)  # fmt: skip
def test_what_is_of_no_known_shape_is_not_guessed(path: str | None) -> None:
    found = place_of(path)

    assert found is None


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        (f"/libpod_parent/{ID}", "container"),  # a pod, though it looks as a container does
        (f"/a/libpod_parent/{ID}", "podman_pod"),
        (f"/machine.slice/machine-libpod_pod_{ID[:12]}.slice", "podman_pod"),
        ("/slurm/job_5", "slurm_job"),
        ("/slurm/uid_5/x/job_5", "slurm_job"),
        ("/slurm/uid_5/job_5x", "slurm_job"),
        ("/slurm/uid_5/job_00", "slurm_job"),
        ("/slurm/uid_5/job_5/step_weird", "slurm_step"),
        ("/slurm/uid_5/job_5/task_1", "slurm_task"),
        ("/slurm/uid_\u0665/job_5", "uid"),
        ("/system.slice/session-3.scope", "session"),
        ("/system.slice/foo.service/bar.service", "user_unit"),
        (f"/kubepods/burstable/x/pod{UID}", "pod_uid"),
        (f"/kubepods/guaranteed/pod{UID}", "qos"),
        (f"/kubepods.slice/kubepods-guaranteed-pod{UID_}.slice", "pod_uid"),
        (f"/kubepods/burstable/pod{UID_}", "pod_uid"),
        (f"/kubepods.slice/kubepods-burstable-pod{UID}.slice", "pod_uid"),
        ("/user.slice/user-x.slice", "uid"),
        ("/machine.slice/machine-a.scope/load", "container"),
        (f"{JOB_V2}/step_0/slurm/task_1", "slurm_task"),
        (f"/{'x' * 250}.service", "unit"),
        (f"{'/a' * 9000}/docker/{ID}", "container"),
    ],
)
def test_a_name_out_of_its_place_says_nothing(path: str, missing: str) -> None:
    found = place_of(path)

    assert found is None or getattr(found, missing) is None


def test_a_unit_inside_of_a_container_is_not_mixed_with_what_stands_outside() -> None:
    inner = place_of(f"{MANAGER}/user.slice/libpod-{ID}.scope/container/system.slice/ssh.service")
    direct = place_of(f"{MANAGER}/user.slice/libpod-{ID}.scope/system.slice/ssh.service")

    assert inner is not None
    assert ("user@1007.service", 1007) == (inner.unit, inner.uid)
    assert direct is not None
    assert ("ssh.service", None, None) == (direct.unit, direct.user_unit, direct.uid)


STRANGE_NAMES = (
    "\n",
    "..",
    "x" * 300,
    "\x1b[31m",
    "job_1\n",
    "\udc80",
    "payload",
    "supervisor",
    "ns",
    "user",
    "task_1",
)
KNOWN_NAMES = st.sampled_from([*sorted({name for path in SHAPES for name in path.split("/")}), *STRANGE_NAMES])
PATHS = st.lists(KNOWN_NAMES | st.text(max_size=12), max_size=14).map(lambda names: "/" + "/".join(names))


@given(PATHS | st.text())
def test_of_any_path_only_visible_words_of_the_path_are_told(path: str) -> None:
    place = place_of(path)

    if place is None:
        return
    words = [v for v in msgspec.structs.asdict(place).values() if isinstance(v, str)] + list(place.outer_containers)
    assert all(word.isascii() and word.isprintable() and len(word) <= 255 for word in words)
    assert describe(place).isprintable()
    assert describe(place)
    assert (describe_itself(place) is None) == (place.itself is None)
    assert msgspec.json.decode(msgspec.json.encode(place), type=Place) == place


@given(PATHS, st.sampled_from(["a b", "\xe9", "x" * 256]))
def test_what_lies_below_a_place_is_in_it_and_not_it_itself(path: str, name: str) -> None:
    above, below = place_of(path) or Place(), place_of(f"{path}/{name}") or Place()

    assert msgspec.structs.replace(above, itself=None) == below


def test_a_path_of_any_length_is_read_quickly() -> None:
    began = time.process_time()
    for path in ("/a" * 500_000, "/" + "a-" * 120 + "kubepods.slice" + "/b" * 8000, "/" + "kubepods-" * 4000):
        place_of(path)

    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("path", "told", "itself"),
    [
        (f"{POD_SLICE}/cri-containerd-{ID}.scope",
         f"container {ID[:12]} (containerd), pod {UID}, QoS burstable", f"container {ID[:12]} (containerd)"),
        (POD_SLICE, f"pod {UID}, QoS burstable", f"pod {UID}"),
        (f"/kubepods/pod{UID}/{ID}",
         f"container {ID[:12]} (runtime not known), pod {UID}, QoS guaranteed",
         f"container {ID[:12]} (runtime not known)"),
        (f"/docker/{OUTER}/docker/{ID}",
         f"container {ID[:12]} (docker), inside container {OUTER[:12]}", f"container {ID[:12]} (docker)"),
        (f"{JOB_V1}/step_0/task_3", "Slurm job 51723, step 0, task 3, user 2044",
         "task 3 of step 0 of Slurm job 51723"),
        (JOB_V2, "Slurm job 51723", "Slurm job 51723"),
        ("/user.slice/user-1007.slice/session-41.scope", "session 41 of user 1007", "session 41 of user 1007"),
        (f"{MANAGER}/app.slice/app-x-1.scope", "unit app-x-1.scope of user 1007", "unit app-x-1.scope of user 1007"),
        ("/user.slice/user-1007.slice", "user 1007", "user 1007, all sessions and units"),
        ("/system.slice/train.service/a", "unit train.service", None),
        ("/lxc.payload.box", "container box (lxc)", "container box (lxc)"),
        (r"/machine.slice/machine-vm\x2d1.scope/x", "machine vm-1", None),
        (r"/machine.slice/machine-vm\x2d1.scope", "machine vm-1", "machine vm-1"),
        ("/machine.slice/libvirtd.service", "unit libvirtd.service", "unit libvirtd.service"),
        (f"/machine.slice/machine-libpod_pod_{OUTER}.slice/libpod-{ID}.scope/container",
         f"container {ID[:12]} (podman), podman pod {OUTER[:12]}", None),
        (f"/libpod_parent/{OUTER}", f"podman pod {OUTER[:12]}", f"podman pod {OUTER[:12]}"),
        ("/kubepods", "all pods of the node", "all pods of the node"),
        ("/azure.slice", "azure.slice", "azure.slice"),
        (f"/ecs/{TASK}/{ID}", f"container {ID[:12]} (runtime not known), ECS task {TASK}",
         f"container {ID[:12]} (runtime not known)"),
        ("/lsf/c/job.71.1.2", "LSF job 71", "LSF job 71"),
    ],
)  # fmt: skip
def test_a_place_in_words(path: str, told: str, itself: str | None) -> None:
    place = place_of(path)

    assert place is not None
    assert told == describe(place)
    assert itself == describe_itself(place)
