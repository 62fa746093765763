# SPDX-License-Identifier: Apache-2.0
"""Where victims ran and whose limit it was, in the document; pids of everyone involved as their container sees them."""

import msgspec
import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, changed, primary, without, worker_killed
from tests.unit.verdict.test_counted import Unwatched
from tracer.events import AnyEvent, CgroupSample, Header, LoggedDecision, OomLevel, ProcessForked, ProcessSeen
from tracer.units import NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

ID = "77aa0c31d5e9f284" * 4
NAMES = {0: f"cri-containerd-{ID}.scope", 1: "kubepods-pod9b1d04c2_6f3e_4a7b_8c55_1e2f3a4b5c6d.slice", 2: ""}
POD = "9b1d04c2-6f3e-4a7b-8c55-1e2f3a4b5c6d"


def in_a_pod(events: list[AnyEvent]) -> list[AnyEvent]:
    """The same kill, by the limit of a pod that the container stands in; the log says nothing of cgroups."""
    kept = [e for e in events if not isinstance(e, LoggedDecision)]
    numbered = [msgspec.structs.replace(e, seq=n) for n, e in enumerate(kept)]
    return [msgspec.structs.replace(e, name=NAMES[e.depth]) if isinstance(e, OomLevel) else e for e in numbered]


def inner(events: list[AnyEvent]) -> list[AnyEvent]:
    """The same in a pid namespace, where every pid is smaller by 41,000."""
    return [
        msgspec.structs.replace(e, ns_level=1, ns_tgid=e.tgid - 41_000) if isinstance(e, ProcessForked) else
        msgspec.structs.replace(e, ns_pids=(e.tgid, e.tgid - 41_000)) if isinstance(e, ProcessSeen) else e
        for e in events
    ]  # fmt: skip


def test_the_victim_is_told_with_its_container_and_pod_and_the_limit_with_its_owner() -> None:
    incident = primary(judge(in_a_pod(worker_killed())))

    assert incident.victim is not None
    assert incident.limit is not None
    place, of_limit = incident.victim.place, incident.limit.place
    assert place is not None
    assert of_limit is not None
    assert (place.container, place.runtime, place.pod_uid, place.qos) == (ID, "containerd", POD, "guaranteed")
    assert (of_limit.itself, of_limit.pod_uid, of_limit.container) == ("pod", POD, None)
    assert [level.place and level.place.itself for level in incident.limit.chain] == ["container", "pod", None]


def test_the_limit_of_a_cgroup_of_no_known_kind_is_nobodys() -> None:
    incident = primary(judge(worker_killed()))

    assert incident.limit is not None
    assert incident.limit.place is None
    assert incident.victim is not None
    assert incident.victim.place is None


def test_of_limits_that_cannot_be_told_apart_none_is_said_to_be_the_pods() -> None:
    scene = Scene()
    scene.job()
    scene.cgroup_sample(78, "/pod/container", oom_local=0)
    scene.pass_time(NS_PER_S)
    scene.oom_signal(WORKERS[2], WORKERS[2])
    mark = scene.mark(WORKERS[2], WORKERS[2])
    scene.levels(mark, owners=(0, 1), oom=(1, 1, 0))
    scene.stack(mark)
    scene.exit(WORKERS[2], 9)
    incident = primary(judge(in_a_pod(scene.finish())))

    assert incident.limit is not None
    assert len(incident.limit.cgroups) == 2
    assert incident.limit.place is None


def test_the_place_is_that_of_the_kill_and_not_of_an_earlier_cgroup() -> None:
    events = changed(in_a_pod(worker_killed()), ProcessSeen, cgroup="/user.slice/user-5.slice/session-1.scope")
    incident = primary(judge(events))

    assert incident.victim is not None
    assert incident.victim.place is not None
    assert (incident.victim.place.container, incident.victim.place.session) == (ID, None)


def test_a_limit_that_only_counts_tell_of_has_its_owner_too() -> None:
    scene = Unwatched()
    scene.start()
    scene.child(RANK)
    scene.pass_time(NS_PER_S)
    scene.zombie(RANK, 9)
    scene.gone(RANK)
    events = changed(scene.over(1 << 8, counted=1), CgroupSample, path="/slurm/uid_5/job_88")
    incident = primary(judge(events))

    assert incident.limit is not None
    assert incident.limit.place is not None
    assert (incident.limit.place.itself, incident.limit.place.slurm_job) == ("slurm_job", "88")
    assert incident.limit.chain[0].place == incident.limit.place


def test_where_nobody_looked_at_the_victim_in_time_the_kernels_log_says_where_it_ran() -> None:
    unseen = without(worker_killed(), OomLevel)
    events = changed(unseen, LoggedDecision, task_memcg="/slurm/uid_5/job_88/step_0")
    for seen, job in ((None, "88"), ("/slurm/uid_5/job_9", "9")):
        incident = primary(judge(changed(events, ProcessSeen, cgroup=seen)))
        assert incident.victim is not None
        assert incident.victim.place is not None
        assert incident.victim.place.slurm_job == job


def all_ns_pids(incident: Incident) -> dict[int, tuple[int, ...] | None]:
    people = [*incident.victims, incident.trigger, incident.culprit, incident.sender, *incident.collateral]
    return {one.pid: one.ns_pids for one in people if one is not None and one.pid is not None}


def test_victim_trigger_culprit_and_collateral_are_told_with_their_inner_pids() -> None:
    scene = Scene()
    scene.job()
    scene.grow()
    scene.kill(trigger=RANK, ns_level=1, ns_tgid=WORKERS[2] - 41_000)
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 1 << 8)
    incident = primary(judge(inner(scene.finish())))
    told = all_ns_pids(incident)

    assert told.keys() >= {WORKERS[2], RANK, LAUNCHER}
    assert told == {pid: (pid, pid - 41_000) for pid in told}
    assert incident.culprit is not None
    assert incident.culprit.ns_pids == (WORKERS[2], WORKERS[2] - 41_000)
    assert {one.who for one in incident.collateral} >= {"rank 0", "launcher"}


def test_so_is_a_sender_of_the_job_and_of_one_outside_it_nothing_is_said() -> None:
    for sender, told in ((RANK, (RANK, RANK - 41_000)), (7, None)):
        scene = Scene()
        scene.job()
        scene.pass_time(NS_PER_S)
        start_ns = scene.events[-1].ts_ns if sender == 7 else None
        more = {} if start_ns is None else {"sender_start_ns": start_ns}
        scene.signal(WORKERS[0], sender_tgid=sender, sender_tid=sender, **(more or start(sender)))
        scene.exit(WORKERS[0], 9)
        found = next(i for i in judge(inner(scene.finish())).verdict.incidents if i.sender is not None)
        assert found.sender is not None
        assert found.sender.ns_pids == told


def start(pid: int) -> dict[str, int]:
    return {"sender_start_ns": next(e for e in worker_killed() if getattr(e, "tgid", 0) == pid).start_ns}  # type: ignore[union-attr]


@pytest.mark.parametrize(("own", "whose"), [(False, "host"), (True, "tracer"), (None, "host")])
def test_the_document_says_whose_pids_these_are(own: bool | None, whose: str) -> None:
    assert judge(changed(worker_killed(), Header, own_pid_namespace=own)).verdict.pids_of == whose
