# SPDX-License-Identifier: Apache-2.0
"""Senders of fatal signals are looked at once, with those above them, and never those of the job or of others."""

import pytest

from tests.unit.pipeline.stand_ins import START_NS
from tracer.events import ProcessSeen, SignalInfo, SignalSent
from tracer.pipeline.members import Members
from tracer.pipeline.senders import MAX_LINE, MAX_LOOKS, Senders

OWN, KILL, SHELL, SSHD = 99, 812, 700, 600


class AtOnce:
    """A helper that does its work when it is given."""

    def __init__(self):
        self.done = []

    def submit(self, work):
        self.done.append(work())


class Proc:
    def __init__(self, parents, *, other_start=()):
        self.parents, self.other_start = parents, other_start

    def seen(self, tgid):
        if tgid not in self.parents:
            return None
        parent = self.parents[tgid]
        return ProcessSeen(
            ts_ns=5, source="proc", start_ns=7 if tgid in self.other_start else START_NS, tgid=tgid, comm=f"c{tgid}",
            parent_tgid=parent, parent_start_ns=START_NS if parent in self.parents else None, exe=f"/bin/c{tgid}",
            cmdline=("secret",), environ={"RANK": "0"}, cgroup="/u", cgroup_id=4, foreign_user_ns=True,
        )  # fmt: skip


def signal(**changes):
    fields = {
        "ts_ns": 1, "cpu": 0, "start_ns": 1, "sender_start_ns": START_NS, "sender_parent_start_ns": START_NS,
        "tgid": 41, "tid": 41, "sender_tgid": KILL, "sender_tid": KILL, "sender_parent_tgid": SHELL, "sender_uid": 0,
        "signal": 9, "info": SignalInfo.POINTER, "code": 0, "errno": 0, "group": 1, "result": 0, "sender_flags": 0,
        "in_tree": 1, "comm": "python", "sender_comm": "kill", "sender_parent_comm": "bash",
    }  # fmt: skip
    return SignalSent(**(fields | changes))


def look(sent, proc, members=None):
    helper = AtOnce()
    Senders(proc, helper, members or Members()).at(sent, OWN)
    return helper.done


ALL = {KILL: SHELL, SHELL: SSHD, SSHD: 1, 1: 0}


def test_the_sender_and_all_above_it_are_kept_and_nothing_of_theirs_but_their_program():
    (event,) = look(signal(), Proc(ALL))

    assert [(0, KILL), (1, SHELL), (2, SSHD), (3, 1)] == [(one.depth, one.tgid) for one in event.line]
    assert (KILL, START_NS) == (event.tgid, event.start_ns)
    assert {"/bin/c812", "c812", "/u", 4} <= {getattr(event.line[0], n) for n in ("exe", "comm", "cgroup", "cgroup_id")}
    assert event.line[0].foreign_user_ns is True
    assert "secret" not in repr(event)


def test_of_one_that_is_gone_already_those_above_it_are_kept():
    (event,) = look(signal(), Proc({SHELL: SSHD, SSHD: 1, 1: 0}))

    assert [(1, SHELL), (2, SSHD), (3, 1)] == [(one.depth, one.tgid) for one in event.line]


@pytest.mark.parametrize(
    ("proc", "line"),
    [
        (Proc(ALL, other_start={KILL}), [SHELL, SSHD, 1]),  # its pid is another's by now
        (Proc(ALL, other_start={KILL, SHELL}), None),
        (Proc({KILL: SHELL}), [KILL]),
        (Proc({}), None),
    ],
)
def test_no_process_is_taken_for_another_one_that_had_its_pid(proc, line):
    (event,) = look(signal(), proc)

    assert line == (None if event is None else [one.tgid for one in event.line])


def test_a_line_that_does_not_end_is_cut():
    (event,) = look(signal(), Proc({KILL: SHELL, SHELL: KILL}))

    assert MAX_LINE == len(event.line)


@pytest.mark.parametrize(
    ("changes", "looks"),
    [
        ({}, 1),
        ({"signal": 15}, 1),
        ({"info": SignalInfo.NOINFO}, 1),  # cgroup.kill
        ({"in_tree": 0, "tgid": OWN}, 1),  # what oomtrace gets goes on to the job
        ({"in_tree": 0}, 0),
        ({"signal": 11}, 0),
        ({"info": SignalInfo.PRIV}, 0),  # an OOM kill: `current` is whoever allocated
        ({"info": SignalInfo.FORCED}, 0),
        ({"code": 128}, 0),
        ({"code": -2}, 0),
        ({"sender_tgid": OWN}, 0),
    ],
)
def test_only_processes_outside_that_sent_the_job_something_are_looked_at(changes, looks):
    assert looks == len(look(signal(**changes), Proc(ALL)))


def test_one_of_the_job_is_known_already():
    members = Members()
    members.add(KILL, START_NS)

    assert [] == look(signal(), Proc(ALL), members)


def test_each_is_looked_at_once_and_a_storm_of_them_has_an_end():
    helper = AtOnce()
    senders = Senders(Proc(ALL), helper, Members())
    for pid in (*[KILL] * 5, *range(1000, 2000)):
        senders.at(signal(sender_tgid=pid), OWN)

    assert MAX_LOOKS == len(helper.done)
