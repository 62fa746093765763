# SPDX-License-Identifier: Apache-2.0
"""A job that ran already: what is known of it since, what is not, and that nothing before is claimed."""

from collections.abc import Sequence

import msgspec
import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, changed, identity, primary, start_of, without
from tracer.attribution.tree import Tree
from tracer.events import (
    AnyEvent,
    Attached,
    Header,
    JobEnded,
    JobStarted,
    ProcessExited,
    ProcessForked,
    ProcessOrphaned,
    ProcessSeen,
    SignalSent,
)
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.story import Story

LATER = 41300
TICK_NS = 10 * NS_PER_MS


class Running(Scene):
    """A job that ran when oomtrace attached."""

    def attach(self, *, complete: bool = True, cgroup: str | None = None, found: Sequence[int] = WORKERS) -> None:
        self.begin(own_cgroup=False)
        self.items = changed(self.items, JobStarted, attached=True, argv=None)  # type: ignore[arg-type,assignment]
        began_ns = self.now_ns
        rank = {"RANK": "0", "LOCAL_RANK": "0"}
        self.seen(RANK, LAUNCHER, "python3", rank, parent_start_ns=start_of(LAUNCHER), cmdline=("python3", "t.py"))
        for pid in found:
            self.seen(pid, RANK, "pt_data_worker", rank, parent_start_ns=start_of(RANK))
        self.pass_time(NS_PER_MS)
        self.add(
            Attached(
                ts_ns=self.now_ns,
                source="tracer",
                began_ns=began_ns,
                processes=2 + len(found),
                complete=complete,
                passes=2,
                cgroup=cgroup,
                cgroup_id=4711 if cgroup else None,
            )
        )

    def root(self, pid: int) -> None:
        """One more that entered the cgroup."""
        self.add(JobStarted(ts_ns=self.now_ns, source="proc", tgid=pid, start_ns=start_of(pid), attached=True))

    def end(self, status: int | None = 1 << 8) -> list[AnyEvent]:
        if status is not None:
            self.exit(LAUNCHER, status, comm="pt_elastic")
        return self.finish(root_exit=False)


def killed(scene: Running, pid: int = WORKERS[2]) -> list[AnyEvent]:
    scene.grow()
    scene.pass_time(NS_PER_S)
    scene.kill(pid)
    return scene.end()


def link(events: list[AnyEvent], number: int = 3) -> tuple[str, str]:
    found = next(one for one in primary(judge(events)).proof if one.link == number)
    return found.status, found.statement


def test_a_kill_of_one_that_ran_already_is_proved_and_how_it_is_known_is_said() -> None:
    scene = Running()
    scene.attach()
    events = killed(scene)

    assert "proved" == primary(judge(events)).strength
    assert ("present", f"launcher {LAUNCHER} > rank 0 {RANK} > worker {WORKERS[2]}, seen in /proc at attach") == link(
        events
    )


def test_one_that_was_forked_since_is_recorded_at_fork_below_what_was_seen() -> None:
    scene = Running()
    scene.attach()
    scene.fork(LATER, RANK)
    events = killed(scene, LATER)

    assert link(events)[0] == "present"
    assert link(events)[1].endswith(", recorded at fork; above it seen in /proc at attach")
    assert "proved" == primary(judge(events)).strength


def test_a_child_of_the_very_process_that_was_asked_for_is_recorded_at_fork() -> None:
    scene = Running()
    scene.attach()
    scene.fork(LATER, LAUNCHER)

    assert link(killed(scene, LATER))[1].endswith(", recorded at fork")


def test_one_that_no_scan_at_attach_saw_is_not_proved_to_be_of_the_job() -> None:
    scene = Running()
    scene.attach()
    scene.pass_time(NS_PER_S)
    scene.seen(LATER, RANK, "python3", {}, parent_start_ns=start_of(RANK))
    events = killed(scene, LATER)

    assert link(events)[0] == "not_observed"
    assert "likely" == primary(judge(events)).strength


def test_without_the_end_of_the_scan_nothing_seen_in_proc_is_proved() -> None:
    scene = Running()
    scene.attach()

    assert "not_observed" == link(without(killed(scene), Attached))[0]


def test_what_the_kernel_never_confirmed_is_not_proved_to_be_the_same_process() -> None:
    scene = Running()
    scene.attach()
    events = killed(scene)
    foreign = changed(changed(events, SignalSent, in_tree=0), ProcessExited, in_tree=0)

    assert Story(events).follows_job
    assert not Story(foreign).follows_job
    assert "proved" != primary(judge(foreign)).strength


@pytest.mark.parametrize("in_tree", [0, 1])
def test_a_fork_that_names_a_process_seen_in_proc_as_its_parent_confirms_the_tree(in_tree: int) -> None:
    scene = Running()
    scene.attach()
    scene.fork(LATER, WORKERS[0])
    events = changed(scene.end(None), ProcessForked, in_tree=in_tree)

    assert bool(in_tree) == Story(events).follows_job


def test_a_fork_whose_parent_only_has_the_same_pid_confirms_nothing() -> None:
    scene = Running()
    scene.attach()
    scene.fork(LATER, WORKERS[0])
    events = changed(scene.end(None), ProcessForked, parent_start_ns=start_of(WORKERS[0]) + NS_PER_S)

    assert not Story(events).follows_job


def test_the_status_of_the_first_process_is_the_kernels_word_and_nothing_before_is_claimed() -> None:
    scene = Running()
    scene.attach()
    scene.pass_time(NS_PER_S)
    report = judge(scene.end(3 << 8))
    incident = primary(report)

    assert ("exited", "likely", 3) == (incident.cause, incident.strength, incident.exit_code)
    assert "exit 3" == (report.verdict.job.status if report.verdict.job else None)
    assert "for want of memory since oomtrace attached at " in incident.summary
    assert "not_observed" == link(scene.events, 2)[0]
    assert "before that nothing was watched" in link(scene.events, 2)[1]
    assert ("present", "seen by the kernel") == link(scene.events, 4)


@pytest.mark.parametrize("missing", ["complete", "hooks", "disarmed"])
def test_that_nothing_was_killed_since_is_said_only_where_all_was_watched(missing: str) -> None:
    scene = Running()
    scene.attach(complete=missing != "complete")
    events = scene.end(0)
    if missing == "hooks":
        events = [e for e in events if getattr(e, "hook", "") != "raw_tracepoint:sched_process_fork"]
    if missing == "disarmed":
        events = events[:-1]

    assert "since oomtrace attached" not in primary(judge(events)).summary


def test_a_job_that_runs_on_is_told_to_run_on() -> None:
    scene = Running()
    scene.attach()
    scene.fork(LATER, RANK)
    report = judge(scene.end(None))

    assert "The job still ran when the watching ended" == primary(report).headline
    assert "the kernel killed nothing of it for want of memory since" in primary(report).summary
    assert "running" == (report.verdict.job.status if report.verdict.job else None)


def test_a_quiet_job_that_runs_on_raises_no_doubt_about_namespaces() -> None:
    scene = Running()
    scene.attach()

    assert not any("namespace" in caveat for caveat in judge(scene.end(None)).verdict.caveats)


def test_the_job_began_before_and_its_command_is_what_was_seen() -> None:
    scene = Running()
    scene.attach()
    events = [
        msgspec.structs.replace(e, cmdline=("torchrun", "x"))
        if isinstance(e, ProcessSeen) and e.tgid == LAUNCHER
        else e
        for e in changed(scene.end(), Header, boottime_ns=scene.items[0].ts_ns + 400 * NS_PER_S)
    ]
    job = judge(events).verdict.job

    assert job is not None
    assert ("torchrun", "x") == job.argv
    assert job.started_at is not None
    assert job.attached_at is not None
    assert job.started_at < job.attached_at
    assert "attached to torchrun x" in next(e.text for e in judge(events).timeline if e.kind == "start")


def test_each_that_entered_the_cgroup_is_the_top_of_a_tree_of_the_job() -> None:
    scene = Running()
    scene.attach(cgroup="/box")
    scene.pass_time(NS_PER_S)
    scene.root(LATER)
    scene.fork(LATER + 1, LATER)
    events = killed(scene, LATER + 1)
    tree = Tree.of(events)

    assert [identity(LAUNCHER), identity(LATER)] == list(tree.roots)
    assert identity(LAUNCHER) == tree.root
    assert [LATER, LATER + 1] == [m.id.tgid for m in tree.chain(identity(LATER + 1)) or ()]
    assert "proved" == primary(judge(events)).strength


def test_one_that_entered_the_cgroup_is_told_to_be_in_it() -> None:
    scene = Running()
    scene.attach(cgroup="/box")
    scene.root(LATER)

    assert link(killed(scene, LATER))[1].endswith("(found in cgroup /box)")


def test_a_second_job_of_a_run_that_was_started_is_no_root() -> None:
    scene = Running()
    scene.begin()
    scene.root(LATER)

    assert [identity(LAUNCHER)] == list(Tree.of(scene.events).roots)


def test_a_kill_in_the_cgroup_of_one_that_was_never_seen_may_be_of_the_job() -> None:
    scene = Running()
    scene.attach(cgroup="/box")
    scene.oom_signal(999, 999, in_tree=0)
    mark = scene.mark(999, 999)
    scene.level(mark, 0, name="box", cgroup_id=4711, events_local_oom=1)
    scene.exit(LAUNCHER, 0)
    scene.stack(mark)

    assert any("could not be told" in caveat for caveat in judge(scene.end(None)).verdict.caveats)


def test_that_nothing_was_killed_is_not_said_beside_a_kill_in_the_cgroup_of_one_that_was_never_seen() -> None:
    scene = Running()
    scene.attach(cgroup="/box")
    scene.oom_signal(999, 999, in_tree=0)
    mark = scene.mark(999, 999)
    scene.level(mark, 0, name="box", cgroup_id=4711, events_local_oom=1)
    scene.stack(mark)
    running, ended = judge(scene.end(None)), judge(scene.end(1 << 8))

    assert not any("killed nothing" in primary(report).summary for report in (running, ended))
    assert "no OOM kill" not in "".join(link.statement for link in primary(ended).proof)


def test_a_kill_before_the_tree_was_found_is_not_told_to_be_outside_of_it() -> None:
    scene = Running()
    scene.attach()
    before = min(e.ts_ns for e in scene.items if isinstance(e, Attached)) - 1
    scene.oom_signal(999, 999, in_tree=0, ts_ns=before)
    scene.stack(scene.mark(999, 999, ts_ns=before))
    scene.exit(LAUNCHER, 0)
    caveats = judge(scene.end(None)).verdict.caveats

    assert not any("outside this job" in caveat for caveat in caveats)


def orphaned(pid: int, parent: int, ts_ns: int) -> ProcessOrphaned:
    return ProcessOrphaned(
        ts_ns=ts_ns, cpu=0, start_ns=start_of(pid), parent_start_ns=start_of(parent), tgid=pid, parent_tgid=parent,
        own_tgid=pid, own_parent_tgid=parent, comm="x",
    )  # fmt: skip


def test_an_orphan_is_below_whom_it_lost_and_not_below_who_adopted_it() -> None:
    scene = Running()
    scene.attach()
    attached = next(e for e in scene.items if isinstance(e, Attached))
    scene.add(orphaned(LATER, WORKERS[0], attached.began_ns))
    scene.seen(LATER, 1, "x", {}, parent_start_ns=0)
    tree = Tree.of(scene.events)

    assert identity(WORKERS[0]) == tree.members[identity(LATER)].parent
    assert "attach" == tree.how_known(identity(LATER))


def test_workers_that_began_beside_earlier_ones_have_no_number_and_those_after_them_do() -> None:
    scene = Running()
    scene.attach()
    scene.fork(LATER, RANK, comm="pt_data_worker")
    scene.pass_time(NS_PER_S)
    for pid in (*WORKERS, LATER):
        scene.exit(pid, 0)
    scene.pass_time(NS_PER_S)
    scene.fork(LATER + 1, RANK, comm="pt_data_worker")
    roles = Story(scene.end(None)).roles

    assert [None] * 5 == [roles[identity(pid)].worker for pid in (*WORKERS, LATER)]
    assert 0 == roles[identity(LATER + 1)].worker


def test_no_end_is_made_up_for_a_job_that_was_not_ours_to_wait_for() -> None:
    scene = Running()
    scene.attach()

    assert not any(isinstance(e, JobEnded) for e in scene.end())
