# SPDX-License-Identifier: Apache-2.0
"""Senders by trade, with those above them; why the kernel killed; who stops what an OOM kill left over."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.events import ProcessForked, SeenProgram, SenderSeen, SignalInfo
from tracer.events.signals import PF_EXITING
from tracer.units import NS_PER_S
from tracer.verdict.collateral import STOPPED_NS
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

START = 1


def seen(scene: Scene, pid: int, *line: SeenProgram) -> None:
    scene.add(SenderSeen(ts_ns=scene.now_ns, source="proc", tgid=pid, start_ns=START, line=line))


def one(depth: int, pid: int, comm: str, exe: str | None = None, **more: Any) -> SeenProgram:
    return SeenProgram(depth=depth, tgid=pid, start_ns=START, comm=comm, exe=exe, **({"foreign_user_ns": False} | more))


def by(comm: str, pid: int = 812) -> dict[str, Any]:
    return {"sender_tgid": pid, "sender_tid": pid, "sender_start_ns": START, "sender_comm": comm}


def ended(number: int, sent: dict[str, Any], *line: SeenProgram, code: int | None = None) -> Incident:
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    scene.signal(LAUNCHER, number, **sent)
    seen(scene, 812, *line)
    scene.pass_time(NS_PER_S)
    status = number if code is None else code << 8
    scene.exit(LAUNCHER, status)
    return primary(judge(scene.finish(status, root_exit=False)))


EARLYOOM = one(0, 812, "earlyoom", "/usr/bin/earlyoom", cgroup="/system.slice/earlyoom.service", cgroup_id=4)


@pytest.mark.parametrize(
    ("number", "line", "cause", "strength", "kind"),
    [
        (15, (EARLYOOM,), "userspace_oom_daemon", "proved", "daemon"),
        (9, (EARLYOOM,), "userspace_oom_daemon", "proved", "daemon"),
        # By its name alone it is less sure; and called so by another program it is nothing at all.
        (9, (), "userspace_oom_daemon", "likely", "outside"),
        (9, (one(0, 812, "earlyoom", "/usr/bin/python3"),), "sigkill", "proved", "outside"),
    ],
)
def test_an_oom_daemon_is_one_by_its_program_and_less_surely_by_its_name(
    number: int, line: tuple[SeenProgram, ...], cause: str, strength: str, kind: str
) -> None:
    found = ended(number, by("earlyoom"), *line)

    assert found.sender is not None
    assert (cause, strength, kind) == (found.cause, found.strength, found.sender.kind)
    assert "earlyoom" in found.headline
    assert ("OOM daemon" in found.headline) == (cause == "userspace_oom_daemon")


def test_a_job_that_handled_an_oom_daemons_sigterm_was_ended_by_it() -> None:
    found = ended(15, by("earlyoom"), EARLYOOM, code=1)

    assert ("userspace_oom_daemon", "likely", 1) == (found.cause, found.strength, found.exit_code)


@pytest.mark.parametrize(
    ("comm", "tid", "exe"), [("sh", 812, None), ("sleep", 812, "/usr/bin/sleep"), ("a thread", 813, "/usr/bin/sleep")]
)
def test_the_program_that_a_sender_began_afterwards_is_not_who_sent(comm: str, tid: int, exe: str | None) -> None:
    found = ended(9, {**by(comm), "sender_tid": tid}, one(0, 812, "sleep", "/usr/bin/sleep"))

    assert found.sender is not None
    assert (comm, exe) == (found.sender.comm, found.sender.exe)


def test_other_daemons_are_named_and_are_no_oom_daemons() -> None:
    found = ended(9, by("containerd-shim"), one(0, 812, "containerd-shim", "/usr/bin/containerd-shim-runc-v2"))

    assert found.sender is not None
    assert ("sigkill", "daemon", "container_runtime") == (found.cause, found.sender.kind, found.sender.trade)
    assert "Ended by SIGKILL from containerd-shim-runc-v2 (pid 812)" == found.headline
    assert "the container runtime by its program" in found.proof[0].statement


def test_those_above_a_sender_are_told_though_it_is_gone() -> None:
    above = (one(1, 700, "bash", cgroup="/user.slice", cgroup_id=9), one(2, 600, "sshd"), one(3, 1, "systemd"))
    found = ended(9, {**by("kill"), "sender_cgroup_id": 9}, *above)

    assert found.sender is not None
    assert [(700, "bash"), (600, "sshd"), (1, "systemd")] == [(a.pid, a.comm) for a in found.sender.ancestors]
    assert "'kill' (pid 812, uid 0, below 'sshd' > 'bash'), from outside the job" in found.proof[0].statement
    assert "/user.slice" == found.sender.cgroup


@pytest.mark.parametrize("number", [8, None])
def test_a_cgroup_of_another_number_is_not_the_senders(number: int | None) -> None:
    found = ended(9, {**by("kill"), "sender_cgroup_id": number}, one(1, 700, "bash", cgroup="/u", cgroup_id=9))

    assert found.sender is not None
    assert found.sender.cgroup is None


def test_cgroup_kill_is_told_by_its_form() -> None:
    found = ended(9, {**by("bash"), "info": SignalInfo.NOINFO})

    assert "SIGKILL (cgroup.kill) from 'bash'" in found.proof[0].statement


def killed_by_the_kernel(target: int, sender: int, **sent: Any) -> Incident:
    scene = Scene()
    scene.job()
    scene.items = [
        msgspec.structs.replace(e, ns_tgid=1, ns_level=1) if isinstance(e, ProcessForked) and e.tgid == RANK else e
        for e in scene.items
    ]
    scene.pass_time(NS_PER_S)
    context = {"sender_tgid": sender, "sender_tid": sender, "sender_start_ns": start_of(sender)}
    scene.signal(target, 9, **(context | {"info": SignalInfo.PRIV} | sent))
    scene.exit(target, 9)
    return next(i for i in judge(scene.finish(9)).verdict.incidents if i.victim and i.victim.pid == target)


@pytest.mark.parametrize(
    ("target", "sender", "sent", "why"),
    [
        (LAUNCHER, LAUNCHER, {}, "as for its hard limit on CPU time (RLIMIT_CPU)"),
        (WORKERS[0], RANK, {"sender_flags": PF_EXITING}, "which was pid 1 of its pid namespace"),
        (WORKERS[0], LAUNCHER, {"sender_flags": PF_EXITING}, f"({LAUNCHER}), as that ended; not from the OOM killer"),
        (WORKERS[0], LAUNCHER, {}, f"({LAUNCHER}); not from the OOM killer"),
        (LAUNCHER, LAUNCHER, {"info": SignalInfo.NOINFO}, "as it could not begin a program"),
    ],
)
def test_why_the_kernel_killed_without_its_oom_killer_is_told_by_the_context(
    target: int, sender: int, sent: dict[str, Any], why: str
) -> None:
    found = killed_by_the_kernel(target, sender, **sent)

    assert "kernel_sigkill_other" == found.cause
    assert why in found.proof[0].statement
    assert found.sender is not None
    assert "kernel" == found.sender.kind


def stopped(comm: str, exe: str | None, later_ns: int) -> Incident:
    """A worker is killed for want of memory; whoever runs the job then ends the rank."""
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    scene.kill(WORKERS[0])
    scene.exit(WORKERS[0], 9, oom_marked=1)
    scene.pass_time(later_ns)
    scene.signal(RANK, 15, **by(comm))
    seen(scene, 812, one(0, 812, comm, exe))
    scene.exit(RANK, 15)
    return primary(judge(scene.finish(15)))


@pytest.mark.parametrize(
    ("comm", "exe", "later_ns", "told"),
    [
        ("systemd", "/usr/lib/systemd/systemd", NS_PER_S, True),
        ("slurmstepd", "/usr/sbin/slurmstepd", NS_PER_S, True),
        ("systemd", "/usr/lib/systemd/systemd", 2 * STOPPED_NS, False),
        ("earlyoom", "/usr/bin/earlyoom", NS_PER_S, False),
        ("bash", "/usr/bin/bash", NS_PER_S, False),
        ("runc", None, NS_PER_S, False),  # by its name alone
        ("systemd", "/home/me/systemd", NS_PER_S, False),  # a file that anybody may have called so
    ],
)
def test_what_whoever_runs_the_job_stops_after_an_oom_kill_is_its_collateral(
    comm: str, exe: str | None, later_ns: int, told: bool
) -> None:
    found = stopped(comm, exe, later_ns)

    assert "host_oom_cgroup" == found.cause
    assert told == any(one.pid == RANK and f"from {comm}" in one.how for one in found.collateral)
