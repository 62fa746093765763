# SPDX-License-Identifier: Apache-2.0
"""Each fact names the hook that told of it, and what nobody can tell to be the kernel's proves nothing."""

import pytest

from tests.unit.verdict.marks import TRIGGER, VICTIM, begun, decided, marked
from tests.unit.verdict.scenes import KILL_STACK, Scene, primary
from tracer.events import HookStatus, IdentityBy, KernelStack, LoggedDecision
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

MACHINE_STACK = (*KILL_STACK[:4], "__alloc_pages_slowpath")
HIDDEN = ("?",) * 6
PRINTED, LOGGED = "printk_console", "kmsg"


def told(
    scene: Scene,
    constraint: str = "CONSTRAINT_MEMCG",
    source: str = LOGGED,
    *,
    trusted: bool = True,
    owner: str | None = None,
) -> None:
    owner = owner or ("/run-7f3" if constraint == "CONSTRAINT_MEMCG" else None)
    scene.add(
        LoggedDecision(
            ts_ns=scene.now_ns, source=source, trusted=trusted, constraint=constraint, oom_memcg=owner,
            task_memcg="/run-7f3/worker", tgid=VICTIM,
        )
    )  # fmt: skip


def killed(
    scene: Scene, frames: tuple[str, ...] | None = KILL_STACK, *, owners: tuple[int, ...] = (1,), **more: object
) -> Incident:
    scene.add(HookStatus(ts_ns=scene.now_ns, hook="raw_tracepoint:console", attached=True))
    scene.oom_signal(VICTIM, TRIGGER)
    mark = marked(scene, None, **more)
    scene.levels(mark, owners=owners, oom=tuple(int(depth in owners) for depth in range(3)))
    scene.pass_time(1_000_000)
    scene.exit(VICTIM, 9, oom_marked=1)
    if frames is not None:
        scene.add(KernelStack(ts_ns=scene.now_ns, mark_ts_ns=mark.ts_ns, tgid=VICTIM, frames=frames))
    return primary(judge(scene.finish()))


@pytest.mark.parametrize("kind", ["fentry", "kprobe"])
def test_a_hook_of_the_function_is_named_by_its_kind(kind):
    scene = begun()
    scene.add(HookStatus(ts_ns=scene.now_ns, hook=f"{kind}:oom_kill_process", attached=True))
    decided(scene)
    incident = killed(scene)

    assert (incident.strength, incident.limit.constraint_by) == ("proved", f"{kind}:oom_kill_process")
    assert incident.limit.cgroup_by == incident.proof[1].via == (f"{kind}:oom_kill_process",)
    assert incident.proof[1].rung == "bpf"


def test_without_it_the_stack_tells_the_kind_and_the_mark_whose():
    incident = killed(begun())

    assert (incident.strength, incident.limit.constraint_by) == ("proved", "kernel_stack")
    assert incident.limit.cgroup_by == ("raw_tracepoint:mark_victim",)
    assert incident.proof[1].via == ("kernel_stack", "raw_tracepoint:mark_victim")


@pytest.mark.parametrize(("source", "hook", "rung"), [
    (LOGGED, "kmsg", "kernel_log"),
    (PRINTED, "raw_tracepoint:console", "printk_console"),
])  # fmt: skip
@pytest.mark.parametrize("constraint", ["CONSTRAINT_NONE", "CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"])
def test_which_nodes_ran_out_is_told_by_the_kernels_own_words(source, hook, rung, constraint):
    scene = begun()
    told(scene, constraint, source)
    incident = killed(scene, MACHINE_STACK, owners=())

    assert (incident.strength, incident.limit.constraint) == ("proved", constraint)
    assert (incident.limit.constraint_by, incident.proof[1].rung) == (hook, rung)


def test_what_was_printed_names_the_limit_as_the_log_does():
    scene = begun()
    told(scene, source=PRINTED)
    incident = killed(scene)

    assert incident.limit.cgroup_by == ("raw_tracepoint:mark_victim", "raw_tracepoint:console")
    assert "and the kernel printed its name" in incident.proof[1].statement


def test_what_user_space_may_have_printed_is_not_listened_to_where_stacks_have_names():
    scene = begun()
    told(scene, "CONSTRAINT_CPUSET", PRINTED, trusted=False)
    incident = killed(scene, MACHINE_STACK, owners=())

    assert (incident.cause, incident.strength) == ("host_oom_unknown_scope", "likely")


def test_where_stacks_have_no_names_it_is_better_than_nothing_and_proves_nothing():
    scene = begun()
    told(scene, "CONSTRAINT_CPUSET", PRINTED, trusted=False)
    incident = killed(scene, HIDDEN, owners=())

    assert (incident.cause, incident.strength) == ("host_oom_cpuset", "likely")
    assert [link.status for link in incident.proof[:2]] == ["not_observed", "not_observed"]
    assert incident.proof[1].rung == "printk_console"


def test_then_it_does_not_choose_between_limits_that_cannot_be_told_apart():
    scene = begun()
    told(scene, source=PRINTED, trusted=False, owner="/run-7f3/worker")
    incident = killed(scene, HIDDEN, owners=(0, 2))

    assert incident.strength == "likely"
    assert incident.proof[1].status == "not_observed"
    assert len(incident.limit.cgroups) == 2


def test_a_line_of_a_log_is_not_believed_without_names_either():
    scene = begun()
    told(scene, "CONSTRAINT_CPUSET", LOGGED, trusted=False)
    incident = killed(scene, HIDDEN, owners=())

    assert incident.cause == "host_oom_unknown_scope"


@pytest.mark.parametrize(
    ("by", "hook"),
    [
        (None, "raw_tracepoint:mark_victim"),
        (IdentityBy.TASK, "raw_tracepoint:mark_victim"),
        (IdentityBy.SIGNAL, "raw_tracepoint:mark_victim(pid)"),
        (IdentityBy.CURRENT, "raw_tracepoint:mark_victim(pid)"),
    ],
)
def test_a_mark_that_gives_a_pid_alone_is_told_from_one_that_gives_the_task(by, hook):
    incident = killed(begun(), identity_by=by)

    assert incident.proof[0].via == ("raw_tracepoint:signal_generate", hook, "kernel_stack")
    assert incident.strength == "proved"


def test_what_tells_how_it_died_and_that_it_is_of_the_job_is_named():
    incident = killed(begun())

    assert incident.proof[2].via == ("raw_tracepoint:sched_process_fork",)
    assert incident.proof[3].via == ("raw_tracepoint:sched_process_exit",)
