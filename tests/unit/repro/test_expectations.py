# SPDX-License-Identifier: Apache-2.0
"""A verdict is compared with a declaration: what is as declared passes, and each single thing that is not shows."""

import msgspec
import pytest

from tracer.attribution.places import Place
from tracer.repro.expectations import Seen, declared, differences, found
from tracer.repro.scenario import HOST_OOM, Counters, Expected
from tracer.verdict.model import Collateral, Culprit, Incident, Job, Limit, Link, Process, Sender, Verdict

MIB = 1 << 20
BASE = "/above/oomtrace-run-repro-0a1b"
VICTIM = Process(
    pid=20,
    ns_pids=(20, 2),
    comm="worker",
    role="dataloader_worker",
    rss_shmem_bytes=50 * MIB,
    swap_bytes=8 * MIB,
    cgroup=BASE,
    place=Place(container="7", runtime="podman"),
)
KILL = Incident(
    cause="host_oom_cgroup",
    strength="proved",
    victim=VICTIM,
    victims=(VICTIM, Process(pid=21, comm="other")),
    trigger=Process(pid=22, comm="trigger"),
    culprit=Culprit(pid=20, start_ns=200, why="it grew"),
    limit=Limit(
        constraint="CONSTRAINT_MEMCG",
        cgroup=f"{BASE}/a",
        swap_free_bytes=1,
        swap_total_bytes=100,
        place=Place(itself="unit", unit="train.service"),
    ),
    collateral=(Collateral(pid=23, how="went down"),),
    caveats=("A kill of many.",),
)
SIGNAL = Incident(
    cause="sigkill",
    strength="likely",
    sender=Sender(pid=9, comm="killer", kind="outside"),
    victim=Process(pid=20, comm="worker"),
    proof=(Link(link=3, name="it is yours", status="not_observed", statement="who knows"),),
)  # fmt: skip
EXPECTED = Expected(
    cause=("host_oom_cgroup",),
    killed=(2, 2),
    victim="worker",
    victim_role="dataloader_worker",
    victims=("other", "worker"),
    trigger="trigger",
    limit="a",
    limit_of="unit train.service",
    ran_in="container 7 (podman)",
    constraint="CONSTRAINT_MEMCG",
    not_blamed="reader",
    status="signal 9",
    collateral=1,
    never=("sigkill",),
    ns_pids=2,
    shmem_mib=40,
    swapped_mib=8,
    swap_exhausted=True,
    caveat="of many",
)


def seen(*incidents, counters=None, leftover=None, status="signal 9 (SIGKILL)"):
    verdict = Verdict(primary=0, incidents=incidents or (KILL,), job=Job(status=status))
    comms = {(20, 200): "worker", (24, 240): "reader", (20, 100): "reader"}
    return Seen(verdict, BASE, comms, counters or Counters(seen=2, lost=0, kernel=2), leftover)


def changed(**fields):
    return seen(msgspec.structs.replace(KILL, **fields))


def what(expected, case):
    return [each.what for each in differences(expected, case)]


def test_what_is_as_declared_passes():
    assert what(EXPECTED, seen()) == []


@pytest.mark.parametrize(
    "case, named",
    [
        (changed(cause="host_oom_global"), "cause"),
        (changed(strength="likely"), "strength"),
        (changed(victims=(VICTIM,)), "killed for want of memory"),
        (changed(victims=(*KILL.victims, VICTIM)), "killed for want of memory"),
        (changed(victim=msgspec.structs.replace(VICTIM, comm="x")), "victim"),
        (changed(victim=msgspec.structs.replace(VICTIM, role="job")), "victim_role"),
        (changed(victims=(VICTIM, Process(pid=21, comm="x"))), "victims"),
        (changed(victims=(VICTIM, Process(pid=21, comm="reader"))), "blamed"),
        (changed(culprit=Culprit(pid=24, start_ns=240, why="it grew")), "blamed"),
        (changed(trigger=None), "trigger"),
        (changed(limit=msgspec.structs.replace(KILL.limit, cgroup=BASE)), "limit"),
        (changed(limit=msgspec.structs.replace(KILL.limit, cgroup="/elsewhere/a")), "limit"),
        (changed(limit=msgspec.structs.replace(KILL.limit, place=None)), "limit_of"),
        (changed(victim=msgspec.structs.replace(VICTIM, place=None)), "ran_in"),
        (changed(victim=msgspec.structs.replace(VICTIM, place=Place(container="8", runtime="podman"))), "ran_in"),
        (changed(limit=msgspec.structs.replace(KILL.limit, constraint=None)), "constraint"),
        (changed(limit=msgspec.structs.replace(KILL.limit, swap_free_bytes=50)), "swap exhausted"),
        (changed(limit=None), "limit"),
        (changed(collateral=()), "collateral"),
        (changed(victim=msgspec.structs.replace(VICTIM, ns_pids=None)), "pids of the victim"),
        (changed(victim=msgspec.structs.replace(VICTIM, rss_shmem_bytes=None)), "shmem_mib of the victim"),
        (changed(victim=msgspec.structs.replace(VICTIM, rss_shmem_bytes=39 * MIB)), "shmem_mib of the victim"),
        (changed(victim=msgspec.structs.replace(VICTIM, swap_bytes=7 * MIB)), "swapped_mib of the victim"),
        (changed(caveats=()), "caveats"),
        (seen(KILL, SIGNAL), "incidents"),
        (seen(status="exit 9"), "status of the job"),
        (seen(status=None), "status of the job"),
        (seen(leftover="processes"), "left behind"),
        (seen(counters=Counters(seen=1, lost=0, kernel=2)), "kills that the kernel counted"),
    ],
)
def test_each_thing_that_is_not_as_declared_is_named(case, named):
    assert named in what(EXPECTED, case)


def test_more_than_is_allowed_is_as_wrong_as_less():
    possible = Expected(cause=("host_oom_cgroup",), at_least="possible", at_most="likely", killed=(2, 2))

    assert what(possible, seen()) == ["strength"]
    assert what(possible, changed(strength="possible")) == []


def test_of_several_causes_one_will_do_and_a_further_one_must_be_there():
    expected = Expected(cause=("sigterm", "host_oom_cgroup"), killed=(2, 2), also=("sigkill",))

    assert what(expected, seen(KILL, SIGNAL)) == []
    assert what(expected, seen(KILL)) == ["further incidents"]


def test_the_sender_is_compared_by_kind_and_name():
    counted = Counters(seen=0, lost=0, kernel=0)
    expected = Expected(cause=("sigkill",), at_least="likely", sender="outside", sender_comm="killer", never=HOST_OOM)

    assert what(expected, seen(SIGNAL, counters=counted)) == []
    other = msgspec.structs.replace(SIGNAL, sender=Sender(pid=9, comm="x", kind="self"))
    assert what(expected, seen(other, counters=counted)) == ["sender", "sender_comm"]


@pytest.mark.parametrize(
    "counters, twice, agrees",
    [
        ((500, 0, 500), 0, True),
        ((480, 20, 500), 0, True),
        ((480, 19, 500), 0, False),
        ((2, 0, None), 0, True),
        ((4, 0, 5, 1), 1, True),
        ((4, 0, 4, 0), 1, True),
        ((4, 0, 5, 0), 1, False),
        ((4, 0, 4, 1), 1, False),
        ((4, 0, 5, 1), 0, False),
        ((4, 0, 5, 0, 1), 0, True),
        ((4, 0, 6, 0, 1), 0, False),
        ((4, 0, 3, 0, 1), 0, False),
    ],
)
def test_kills_seen_and_lost_are_those_that_the_kernel_counted_to_the_unit(counters, twice, agrees):
    values = dict(zip(("seen", "lost", "kernel", "counted_again", "maybe"), counters, strict=False))
    case = seen(counters=Counters(**values))
    expected = Expected(cause=("host_oom_cgroup",), killed=(2, 2), counted_twice=twice)

    assert (differences(expected, case) == ()) == agrees


def test_a_weaker_verdict_is_told_with_the_link_that_was_missing():
    expected = Expected(cause=("sigkill",))
    [difference] = differences(expected, seen(SIGNAL, counters=Counters(seen=0, lost=0, kernel=None)))

    assert "who knows" in str(difference)


def test_the_document_has_what_is_declared_and_leaves_out_what_is_open():
    document = declared(Expected(cause=("exited",)))

    assert document == {"cause": ["exited"], "at_least": "proved", "at_most": "proved", "killed": [0, 0]}
    assert found(seen())["limit"] == "a"
    assert msgspec.json.encode(found(seen(SIGNAL)))
