# SPDX-License-Identifier: Apache-2.0
"""A selftest agrees only where the kernel, wait() and the verdict say the same; each can be the one that does not."""

import pytest

from tests.unit.views.building import links
from tracer.repro.comparisons import Counted, Ended, compare_control, compare_kill
from tracer.units import MIB
from tracer.verdict.model import Incident, Job, Limit, Process, Verdict

LIMIT_BYTES = 32 * MIB
PROOF = links("+ a", "+ b", "+ c", "+ d", "? e")
ONE, NONE = Counted(1, 1), Counted(0, 0)
LIMIT = Limit(cgroup="/outer/oomtrace-run-selftest-1", limit_bytes=LIMIT_BYTES)


def killed(*, status="exit 9", **changed):
    values = {
        "cause": "host_oom_cgroup",
        "strength": "proved",
        "victims": (Process(pid=7),),
        "limit": LIMIT,
        "proof": PROOF,
    }
    incident = Incident(**{**values, **changed})
    return Verdict(primary=0, incidents=(incident,), job=Job(status=status))


def disagreeing(verdict, *, status=9 << 8, counted=ONE):
    ended = Ended(verdict, status, "/oomtrace-run-selftest-1", counted)
    return {one.what for one in compare_kill(ended, LIMIT_BYTES) if not one.agrees}


def test_a_kill_that_all_tell_alike_agrees():
    assert disagreeing(killed()) == set()


def test_kills_of_others_on_the_machine_are_no_disagreement():
    assert disagreeing(killed(), counted=Counted(1, 5)) == set()


@pytest.mark.parametrize("counted", [Counted(None, None), Counted(1, None), Counted(None, 1)])
def test_what_a_kernel_does_not_count_is_not_compared(counted):
    assert disagreeing(killed(), counted=counted) == set()


@pytest.mark.parametrize(
    "counted, what",
    [
        (Counted(0, 1), {"OOM kills in its cgroup"}),
        (Counted(2, 2), {"OOM kills in its cgroup"}),
        (Counted(1, 0), {"OOM kills on the machine"}),
    ],
)
def test_other_counts_disagree(counted, what):
    assert disagreeing(killed(), counted=counted) == what


@pytest.mark.parametrize(
    "changed, what",
    [
        ({"cause": "host_oom_unknown_scope"}, {"cause"}),
        ({"strength": "likely"}, {"strength"}),
        ({"proof": links("? a", "+ b", "+ c", "+ d", "? e")}, {"strength"}),
        ({"proof": links("+ a", "+ b", "+ c", "? d", "? e")}, {"strength", "child, by its parent"}),
        ({"limit": None}, {"whose limit", "limit"}),
        ({"limit": Limit(cgroup="/other", limit_bytes=LIMIT_BYTES)}, {"whose limit"}),
        ({"limit": Limit(cgroup=LIMIT.cgroup, limit_bytes=LIMIT_BYTES + 4096)}, {"limit"}),
        ({"limit": Limit(cgroup=LIMIT.cgroup, limit_bytes=2 * LIMIT_BYTES)}, {"limit"}),
        ({"victims": ()}, {"OOM kills in its cgroup", "OOM kills on the machine"}),
        ({"status": "exit 1"}, {"exit status"}),
    ],
)
def test_another_verdict_disagrees(changed, what):
    assert disagreeing(killed(**changed)) == what


def test_a_kill_that_never_came_disagrees():
    told = Verdict(primary=0, incidents=(Incident(cause="exited", strength="proved"),), job=Job(status="exit 0"))

    assert {"cause", "OOM kills in its cgroup", "whose limit"} <= disagreeing(told, status=0, counted=Counted(0, 0))


def control(verdict, counted=NONE):
    return {one.what for one in compare_control(Ended(verdict, 0, "/x", counted)) if not one.agrees}


def test_a_control_that_ends_well_agrees():
    told = Verdict(primary=0, incidents=(Incident(cause="exited", strength="proved"),), job=Job(status="exit 0"))

    assert control(told) == set()
    assert control(told, Counted(1, 1)) == {"OOM kills in its cgroup"}
    assert control(told, Counted(0, 3)) == set()


def test_a_kill_that_verdict_and_kernel_agree_on_is_still_none_that_a_control_may_have():
    assert "OOM kills in its cgroup" in control(killed(), Counted(1, 1))


def test_a_kill_in_a_control_disagrees():
    assert control(killed()) == {"cause", "OOM kills in its cgroup", "exit status"}
