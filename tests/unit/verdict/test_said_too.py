# SPDX-License-Identifier: Apache-2.0
"""What the training log says of an end stands beside what the kernel saw of it; it neither makes nor breaks a claim."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.strategies import events_of
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of, statuses
from tracer.events import AnyEvent, ProcessSeen, TmpfsFill, TmpfsSample, TrainingLine
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.said import QUOTED_CHARS, SOON_NS

HUMAN = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1, "sender_comm": "bash"}
WORKER, OWN_PID = WORKERS[0], 41


def job() -> Scene:
    """Of the worker and the rank the pids in a container are known as well."""
    scene = Scene()
    scene.job()
    for pid, inner in ((WORKER, OWN_PID), (RANK, OWN_PID + 1)):
        scene.seen(pid, LAUNCHER if pid == RANK else RANK, "python3", None, ns_pids=(pid, inner))
    for pid in WORKERS[1:]:
        scene.exit(pid, 0)
    scene.pass_time(NS_PER_S)
    return scene


def killed() -> Scene:
    scene = job()
    scene.signal(WORKER, 9, **HUMAN)
    scene.exit(WORKER, 9)
    return scene


def out_of_shm() -> Scene:
    scene = job()
    scene.signal(WORKER, 7, code=2)
    mounts = (TmpfsFill(mount_point="/dev/shm", size_bytes=64 * MIB, free_bytes=0),)
    scene.add(TmpfsSample(ts_ns=scene.now_ns, source="proc", tgid=RANK, signalled_tgid=WORKER, mounts=mounts))
    scene.exit(WORKER, 7)
    return scene


def crashed() -> Scene:
    scene = job()
    scene.signal(WORKER, 11, code=1)
    scene.exit(WORKER, 11)
    return scene


def failed() -> Scene:
    scene = job()
    scene.exit(WORKER, 0)
    scene.exit(RANK, 5 << 8)
    return scene


def stopped() -> Scene:
    scene = job()
    scene.exit(WORKER, 0)
    scene.signal(RANK, 15, **HUMAN)
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 1 << 8)
    return scene


def terminated() -> Scene:
    scene = job()
    scene.signal(WORKER, 15, **HUMAN)
    scene.exit(WORKER, 15)
    return scene


def short_of_memory() -> Scene:
    scene = job()
    scene.kill(WORKER)
    return scene


ENDS: list[tuple[Callable[[], Scene], str, int, dict[str, Any]]] = [
    (killed, "sigkill", WORKER, {"about": "worker_killed", "signal": 9}),
    (killed, "sigkill", WORKER, {"about": "exit_status", "exit_code": -9, "signal": 9}),
    (killed, "sigkill", WORKER, {"about": "exit_status", "exit_code": 137}),
    (out_of_shm, "shm_exhausted", WORKER, {"about": "worker_killed", "signal": 7}),
    (crashed, "crash", WORKER, {"about": "worker_killed", "signal": 11}),
    (failed, "exited", RANK, {"about": "failure_report", "exit_code": 5}),
    (stopped, "sigterm", RANK, {"about": "rank_failed", "exit_code": 1}),
    (terminated, "sigterm", WORKER, {"about": "worker_killed", "signal": 15}),
]
each = pytest.mark.parametrize(("scene", "cause", "pid", "fields"), ENDS)
OTHERWISE = {"signal": 4, "exit_code": None}


def finished(scene: Scene, *lines: dict[str, Any], after_ns: int = NS_PER_MS) -> list[AnyEvent]:
    for fields in lines:
        given: dict[str, Any] = {"text": "it is gone", "stream": "stderr"}
        scene.add(TrainingLine(ts_ns=scene.now_ns + after_ns, source="text", **(given | fields)))
    return scene.finish()


def inner(pid: int) -> int:
    return OWN_PID if pid == WORKER else OWN_PID + 1


@each
def test_a_line_that_agrees_is_quoted_beside_the_end_whichever_of_its_pids_it_has(
    scene: Callable[[], Scene], cause: str, pid: int, fields: dict[str, Any]
) -> None:
    without = primary(judge(finished(scene())))
    for spoken in (pid, inner(pid)):
        found = primary(judge(finished(scene(), {**fields, "pids": (spoken,)})))

        assert cause == found.cause
        assert f'{without.proof[3].statement}; the training log says so too: "it is gone"' == found.proof[3].statement
        assert (without.strength, without.caveats, statuses(without)) == (
            found.strength, found.caveats, statuses(found)
        )  # fmt: skip


@each
def test_a_line_that_says_otherwise_is_a_caveat_and_no_more(
    scene: Callable[[], Scene], cause: str, pid: int, fields: dict[str, Any]
) -> None:
    without = primary(judge(finished(scene())))
    found = primary(judge(finished(scene(), {**fields, **OTHERWISE, "pids": (pid,)})))

    assert (cause, without.strength, statuses(without)) == (found.cause, found.strength, statuses(found))
    assert without.proof == found.proof
    told = f'The training log says otherwise of pid {pid}: "it is gone".'
    assert (*without.caveats, told) == found.caveats


def test_a_line_that_says_otherwise_of_an_oom_kill_is_a_caveat() -> None:
    found = primary(judge(finished(short_of_memory(), {"about": "worker_killed", "signal": 11, "pids": (WORKER,)})))

    assert ("host_oom_cgroup", "proved") == (found.cause, found.strength)
    assert f'The training log says otherwise of pid {WORKER}: "it is gone".' in found.caveats


@each
@pytest.mark.parametrize(
    ("change", "after_ns"),
    [
        ({"pids": (999,)}, NS_PER_MS),
        ({"pids": ()}, NS_PER_MS),
        ({"about": "collective"}, NS_PER_MS),
        ({"signal": None, "exit_code": None}, NS_PER_MS),
        ({}, SOON_NS + 5 * NS_PER_S),
    ],
    ids=str,
)
def test_a_line_of_another_process_time_or_kind_says_nothing_of_it(
    scene: Callable[[], Scene], cause: str, pid: int, fields: dict[str, Any], change: dict[str, Any], after_ns: int
) -> None:
    assert cause
    without = primary(judge(finished(scene())))
    found = primary(judge(finished(scene(), {**fields, "pids": (pid,), **change}, after_ns=after_ns)))

    assert (without.proof, without.caveats) == (found.proof, found.caveats)


def test_where_one_line_agrees_another_that_does_not_is_no_caveat() -> None:
    lines = [{"about": "worker_killed", "signal": number, "pids": (WORKER,)} for number in (11, 9)]

    assert not any("otherwise" in caveat for caveat in primary(judge(finished(killed(), *lines))).caveats)


def test_a_long_line_is_cut() -> None:
    fields = {"about": "worker_killed", "signal": 9, "pids": (WORKER,), "text": "x" * 500}
    statement = primary(judge(finished(killed(), fields))).proof[3].statement

    assert statement.endswith(f'"{"x" * (QUOTED_CHARS - 3)}..."')


def test_a_pid_that_two_may_have_says_nothing() -> None:
    scene = killed()
    for pid in WORKERS[1:]:
        scene.add(
            ProcessSeen(ts_ns=scene.now_ns, source="proc", start_ns=start_of(pid), tgid=pid, parent_tgid=RANK, comm="x",
                        ns_pids=(pid, OWN_PID))
        )  # fmt: skip
    found = primary(judge(finished(scene, {"about": "worker_killed", "signal": 9, "pids": (OWN_PID,)})))

    assert "training log" not in found.proof[3].statement


@given(
    scene=st.sampled_from([killed, out_of_shm, crashed, failed, stopped, terminated, short_of_memory]),
    lines=st.lists(events_of(TrainingLine), max_size=6),
    pid=st.sampled_from([WORKER, RANK, LAUNCHER, OWN_PID]),
    at=st.integers(-20, 20),
)
def test_whatever_is_said_no_cause_strength_or_link_changes(
    scene: Callable[[], Scene], lines: list[TrainingLine], pid: int, at: int
) -> None:
    before = judge(finished(scene())).verdict.incidents
    spoken = scene()
    for line in lines:
        spoken.add(msgspec.structs.replace(line, ts_ns=spoken.now_ns + at * NS_PER_MS, pids=(pid, *line.pids)))
    after = judge(spoken.finish()).verdict.incidents

    assert [(i.cause, i.strength, i.victim, statuses(i)) for i in before] == [
        (i.cause, i.strength, i.victim, statuses(i)) for i in after
    ]
