# SPDX-License-Identifier: Apache-2.0
"""Where people of a report ran, and what their containers call them: said once, and no more than is known."""

import msgspec

from tests.unit.views.building import report
from tests.unit.views.contained import CONTAINED, LOADER
from tests.unit.views.kills import RANKS, WORKER
from tracer.attribution.cgroup_paths import place_of
from tracer.verdict.model import Collateral, Incident, Limit, Process, Report, Sender
from tracer.views import terminal


def told(about: Report) -> str:
    return " ".join(terminal.render(about).split())


def incident(**fields: object) -> Incident:
    return Incident(cause="host_oom_cgroup", strength="proved", **fields)  # type: ignore[arg-type]


def test_pids_that_are_not_the_hosts_are_not_said_to_be() -> None:
    own = msgspec.structs.replace(CONTAINED.verdict, pids_of="tracer")
    said = told(msgspec.structs.replace(CONTAINED, verdict=own))

    assert "pid 17 in its container is pid 41233 outside of it: the victim" in said
    assert "on the host" not in said


def test_where_pids_are_the_same_inside_and_outside_nothing_is_said_of_them() -> None:
    for ns_pids in ((41233,), None, ()):
        assert " pids " not in told(report(incident(victim=msgspec.structs.replace(WORKER, ns_pids=ns_pids))))


def test_a_namespace_without_a_container_is_not_called_one() -> None:
    bare = msgspec.structs.replace(LOADER, place=None)

    assert "pid 17 in its pid namespace is pid 41233 on the host" in told(report(incident(victim=bare)))


def test_of_many_that_went_down_the_first_are_told_with_their_inner_pids() -> None:
    fallen = tuple(Collateral(pid=500 + n, ns_pids=(500 + n, n), who=f"rank {n}", how="exit 1") for n in range(2, 40))
    said = told(report(incident(victim=LOADER, collateral=fallen)))

    assert "pid 6 is pid 506: rank 6 and 33 more" in said
    assert "pid 507: rank 7" not in said


def test_a_name_that_ends_in_the_pid_does_not_say_it_twice() -> None:
    fallen = (Collateral(pid=512, ns_pids=(512, 1), who="python3 512", how="exit 1"),)

    assert "pid 1 in its pid namespace is pid 512 on the host: python3 went down" in told(
        report(incident(collateral=fallen))
    )


def test_a_sender_is_told_with_where_it_ran_and_else_with_its_cgroup() -> None:
    cgroup = "/user.slice/user-1000.slice/session-3.scope"
    by = Sender(pid=812, comm="kill", kind="outside", cgroup=cgroup, place=place_of(cgroup))

    assert "kill, pid 812, in session 3 of user 1000; from outside the job" in told(report(incident(sender=by)))
    unknown = msgspec.structs.replace(by, cgroup="/A1", place=None)
    assert "kill, pid 812, in /A1; from outside the job" in told(report(incident(sender=unknown)))


def test_each_place_is_told_once_and_of_many_the_first() -> None:
    places = [place_of(f"/slurm/uid_1/job_{n}") for n in (5, 5, 6, 7, 8, 9)]
    victims = tuple(Process(pid=n, place=place) for n, place in enumerate(places))
    said = told(report(incident(victims=victims)))

    assert said.count("Slurm job") == 3
    assert "and 2 more places" in said


def test_several_victims_have_their_inner_pids_in_the_table_alone() -> None:
    assert " pids " not in told(report(incident(victim=RANKS[0], victims=RANKS)))


def test_the_limit_of_what_is_nothing_of_its_own_is_nobodys() -> None:
    below = place_of("/slurm/uid_1/job_5/x")

    assert below is not None
    assert " limit of " not in told(report(incident(victim=WORKER, limit=Limit(cgroup="/x", place=below))))
    whole = Limit(cgroup="/slurm/uid_1/job_5", place=place_of("/slurm/uid_1/job_5"))
    assert "limit of Slurm job 5" in told(report(incident(victim=WORKER, limit=whole)))
