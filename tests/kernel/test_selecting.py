# SPDX-License-Identifier: Apache-2.0
"""`oomtrace attach` to a container, a Slurm job and a unit: cgroups of their shapes, and a real kill in each."""

import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kernel.workload import MemoryCgroup
from tests.waiting import wait_for

MIB = 1 << 20
LIMIT_BYTES = 48 * MIB


@dataclass(frozen=True)
class Setup:
    """Cgroups as a runtime makes them, and how a person names them."""

    limited: MemoryCgroup
    inside: MemoryCgroup
    options: tuple[str, ...]
    attached_to: str
    itself: str
    ran_in: str
    limit_of: str


def pod(base: MemoryCgroup) -> Setup:
    """The pod's limit is hit, and not the container's."""
    name, uid = secrets.token_hex(32), "5e0b7c92-41aa-4d0f-b3e6-77c1d20f9a48"
    above = base.child("kubepods").child("burstable").child(f"pod{uid}")
    own = above.child(name)
    told = f"container {name[:12]} (runtime not known)"
    return Setup(
        above, own, ("--container", f"containerd://{name}"), told, "pod",
        f"{told}, pod {uid}, QoS burstable", f"pod {uid}",
    )  # fmt: skip


def slurm_step(base: MemoryCgroup) -> Setup:
    """The job's limit is hit, while one step is looked at."""
    job = str(secrets.randbelow(10**9) + 1)
    whole = base.child("slurm").child("uid_0").child(f"job_{job}")
    task = whole.child("step_batch").child("task_0")
    return Setup(
        whole, task, ("--slurm-job", f"{job}.batch"), f"step batch of Slurm job {job}", "slurm_job",
        f"Slurm job {job}, step batch, task 0, user 0", f"Slurm job {job}",
    )  # fmt: skip


def unit(base: MemoryCgroup) -> Setup:
    name = f"train-{secrets.token_hex(4)}"
    own = base.child(f"{name}.service")
    told = f"unit {name}.service"
    return Setup(own, own, ("--unit", name), told, "unit", told, told)


@pytest.fixture
def base(memory_cgroup: MemoryCgroup) -> Iterator[MemoryCgroup]:
    """A slice, which stands at the top."""
    made = MemoryCgroup(memory_cgroup.path.with_suffix(".slice"))
    yield made
    made.remove()


@pytest.mark.parametrize("made_by", [pod, slurm_step, unit])
def test_a_kill_in_what_was_named_is_proved_and_told_where_it_was(attach, hog, base, made_by):
    setup = made_by(base)
    setup.limited.limit(LIMIT_BYTES)
    process = hog(setup.inside)
    watching = attach.start(*setup.options)
    process.tell(f"child('anon({2 * LIMIT_BYTES})')")
    wait_for(lambda: setup.inside.key("memory.events", "memory.oom_control", "oom_kill") > 0, "the kill")
    watching.send_signal(signal.SIGINT)
    run = attach.finish(watching)
    said = " ".join(run.err.split())

    assert (run.code, run.primary["cause"], run.primary["strength"]) == (0, "host_oom_cgroup", "proved")
    assert f"attached to {setup.attached_to}, cgroup /{base.path.name}/" in run.err
    assert run.primary["limit"]["place"]["itself"] == setup.itself
    assert run.primary["victim"]["cgroup"].endswith(setup.inside.path.name)
    assert f"ran in {setup.ran_in} " in said
    assert f"limit of {setup.limit_of} " in said


def test_what_is_not_there_is_told_in_one_line_and_nothing_is_left(attach, base):
    base.child(f"docker-{'ab' * 32}.scope")
    expected = {
        ("--container", "dead"): "no container dead runs here: there is ",
        ("--slurm-job", "1.5"): "no Slurm job 1 ",
        ("--unit", "no-such-unit"): "no memory cgroup of unit no-such-unit.service",
    }
    for options, told in expected.items():
        done = attach.run("attach", *options)
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert told in done.stderr
    assert list(attach.folder.iterdir()) == []
