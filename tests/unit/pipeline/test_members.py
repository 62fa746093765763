# SPDX-License-Identifier: Apache-2.0
"""Who of the job lives."""

from tracer.events import JobStarted, ProcessExeced, ProcessExited, ProcessForked, process_id
from tracer.pipeline.members import GONE_AFTER_NS, Members
from tracer.sources.procfs import Row
from tracer.units import TICK_NS


def started(tgid=10):
    return JobStarted(ts_ns=1, source="job", tgid=tgid, start_ns=5 * TICK_NS)


def forked(tgid, start_ns=6 * TICK_NS):
    return ProcessForked(
        ts_ns=2, cpu=0, start_ns=start_ns, parent_start_ns=5 * TICK_NS, anon_rss_bytes=0, tgid=tgid, parent_tgid=10,
        ns_tgid=tgid, ns_level=0, comm="x",
    )  # fmt: skip


def exited(tgid, start_ns=6 * TICK_NS):
    return ProcessExited(
        ts_ns=3,
        cpu=0,
        start_ns=start_ns,
        tgid=tgid,
        tid=tgid,
        status=0,
        oom_marked=0,
        parent_tgid=1,
        in_tree=1,
        comm="x",
    )


def execed(tgid, start_ns=6 * TICK_NS):
    return ProcessExeced(ts_ns=3, cpu=0, start_ns=start_ns, tgid=tgid, old_tid=tgid, comm="x")


def alive(members):
    return sorted(member.tgid for member in members)


def test_forks_come_and_exits_go():
    members = Members()
    for event in (started(), forked(11), forked(12), exited(11)):
        members.apply(event)

    assert alive(members) == [10, 12]


def test_the_exact_start_of_a_fork_and_the_floored_one_of_proc_are_one_process():
    members = Members()
    members.apply(forked(11, start_ns=6 * TICK_NS + 123))

    assert members.add(11, 6 * TICK_NS) is None
    assert process_id(11, 6 * TICK_NS) in members


def test_an_exit_of_an_earlier_owner_of_the_pid_ends_nobody_else():
    members = Members()
    members.apply(forked(11, start_ns=9 * TICK_NS))
    members.apply(exited(11, start_ns=6 * TICK_NS))

    assert alive(members) == [11]


def test_new_processes_and_new_programs_are_to_be_looked_at():
    members = Members()

    assert members.apply(forked(11)).tgid == 11
    assert members.apply(forked(11)) is None
    assert members.apply(execed(11)).tgid == 11
    assert members.apply(execed(99)) is None


def test_one_that_proc_has_forgotten_is_given_up_only_after_a_while():
    members = Members()
    member = members.apply(forked(11))

    assert not members.missing(member, 100)
    assert not members.missing(member, 100 + GONE_AFTER_NS - 1)
    assert members.missing(member, 100 + GONE_AFTER_NS)
    assert alive(members) == []


def row(tgid, parent_tgid, start_ns=6 * TICK_NS):
    return Row(tgid, parent_tgid, start_ns)


ROOT_ROW = row(10, 1, start_ns=5 * TICK_NS)


def test_a_scan_finds_descendants_and_those_of_orphans_that_are_members():
    members = Members()
    members.apply(started())
    members.add(50, 6 * TICK_NS)
    table = [row(1, 0), ROOT_ROW, row(11, 10), row(13, 12), row(12, 11), row(50, 1), row(51, 50), row(99, 1)]

    found = members.scan(table)

    assert sorted(member.tgid for member in found) == [11, 12, 13, 51]
    assert alive(members) == [10, 11, 12, 13, 50, 51]
    assert members.scan([*table, row(14, 13)])[0].tgid == 14


def test_a_scan_takes_in_neither_the_tracer_nor_whom_it_started():
    members = Members()
    members.apply(started())
    members.not_ours = {11}

    found = members.scan([ROOT_ROW, row(11, 10), row(12, 11), row(13, 10)])

    assert [member.tgid for member in found] == [13]


def test_a_scan_does_not_take_the_children_of_a_stranger_who_got_a_members_pid():
    members = Members()
    members.apply(started())

    assert members.scan([row(10, 1, start_ns=9 * TICK_NS), row(11, 10, start_ns=9 * TICK_NS)]) == []
    assert members.scan([row(11, 10)]) == [], "and a member that is gone has none"


def test_a_scan_is_in_the_order_of_nothing_and_ends_on_any_table():
    members = Members()
    members.apply(started())

    found = members.scan([row(12, 11), row(11, 12), row(13, 13), ROOT_ROW, row(14, 10), row(10, 14)])

    assert [member.tgid for member in found] == [14, 10]


def test_a_process_that_proc_does_not_show_is_not_sampled_and_so_never_missed():
    members = Members()
    members.apply(started())

    assert members.apply(ProcessForked(**fields_of(forked(11)) | {"own_tgid": 0})) is None
    assert members.apply(ProcessForked(**fields_of(forked(12)) | {"own_tgid": 4})) is not None
    assert alive(members) == [10, 12]


def test_where_proc_is_of_another_namespace_there_is_nobody_to_sample():
    members = Members()
    members.hidden = True
    members.apply(started())
    members.apply(forked(11))

    assert alive(members) == []


def fields_of(event):
    return {name: getattr(event, name) for name in event.__struct_fields__}
