# SPDX-License-Identifier: Apache-2.0
"""Pieces of a line that the kernel is seen to print: joined as the log would have it, believed only from the kernel."""

import pytest
from hypothesis import given, strategies as st

from tests.unit.sources.test_live import Records, named
from tracer.events import LAYOUTS, KernelStack, Kind, LoggedDecision, OomMark, OomStack, Printed
from tracer.logs.kernel import parse_record
from tracer.sources.live import LiveSource
from tracer.sources.printing import MAX_LINES, Printing

# As 6.18 printed it.
PIECES = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)", ",cpuset=", "/", ",mems_allowed=0", ",oom_memcg=",
    "/a/limit", ",task_memcg=", "/a/limit/below", ",task=python3,pid=41,uid=0",
)  # fmt: skip
GENUINE = ("printk_sprint", "vprintk_store", "vprintk_emit", "_printk", "dump_header", "oom_kill_process.cold",
           "out_of_memory", "mem_cgroup_out_of_memory")  # fmt: skip
WRITTEN = ("printk_sprint", "vprintk_store", "vprintk_emit", "devkmsg_emit", "devkmsg_write.cold", "vfs_write")
FLUSHED = ("console_unlock", "vprintk_emit", "printk", "dump_header", "oom_kill_process", "out_of_memory")


def pieces(texts=PIECES, *, first_ns=100, tid=41, **more):
    return [
        Printed(
            ts_ns=first_ns + n, cpu=0, first_ns=first_ns, tgid=40, tid=tid, piece=n, text=text[:463],
            length=len(text.encode()), **more,
        )
        for n, text in enumerate(texts)
    ]  # fmt: skip


def stack(frames=GENUINE, first_ns=100):
    return KernelStack(ts_ns=first_ns, mark_ts_ns=first_ns, tgid=40, frames=tuple(frames))


def wire_stack(first_ns=100, depth=3):
    return OomStack(ts_ns=first_ns, cpu=0, tgid=40, depth=depth, addresses=(10, 20, 30))


def joined(found, frames=GENUINE):
    printing = Printing()
    printing.take(found[0])
    printing.expect(wire_stack())
    for piece in found[1:]:
        printing.take(piece)
    assert printing.finished() == []
    assert printing.is_of_a_line(stack(frames))
    return printing.finished()


def test_the_line_is_what_the_log_would_have_held():
    expected = parse_record("".join(PIECES), ts_ns=100, trusted=True, source="printk_console")

    assert joined(pieces()) == [expected]
    assert (expected.oom_memcg, expected.task_memcg, expected.tgid) == ("/a/limit", "/a/limit/below", 41)


def test_the_end_of_the_line_may_be_there_or_not():
    [event] = joined(pieces((*PIECES[:-1], PIECES[-1] + "\n")))

    assert (event.comm, event.uid) == ("python3", 0)


@pytest.mark.parametrize(
    "frames",
    [WRITTEN, FLUSHED, ("?",) * 8, (), ("printk_sprint", "some_driver"), ("out_of_memory",)],
    ids=["written to /dev/kmsg", "flushed by the OOM killer", "hidden", "none", "another printer", "no printk"],
)
def test_what_the_oom_killer_was_not_seen_to_print_may_be_forged(frames):
    assert [event.trusted for event in joined(pieces(), frames)] == [False]


def test_written_while_the_writer_itself_ran_out_of_memory_is_still_the_kernels():
    assert [event.trusted for event in joined(pieces(), (*GENUINE, *WRITTEN[3:]))] == [True]


def test_without_its_stack_it_is_not_believed():
    printing = Printing()
    for piece in pieces():
        printing.take(piece)

    assert [event.trusted for event in printing.finished()] == [False]


@pytest.mark.parametrize("missing", range(2, len(PIECES) - 1))
def test_a_missing_piece_leaves_what_is_certain(missing):
    found = pieces()
    [event] = joined(found[:missing] + found[missing + 1 :])

    assert (event.constraint, event.oom_memcg, event.tgid) == ("CONSTRAINT_MEMCG", None, None)


def test_a_piece_that_was_cut_leaves_what_is_certain():
    [event] = joined(pieces((*PIECES[:5], "/" + "x" * 600, *PIECES[6:])))

    assert (event.constraint, event.oom_memcg, event.tgid) == ("CONSTRAINT_MEMCG", None, None)


def test_a_line_that_another_message_came_into_names_no_cgroup_that_is_none():
    [event] = joined(pieces((*PIECES[:5], "nvme0: timeout", *PIECES[5:])))

    assert (event.constraint, event.oom_memcg) == ("CONSTRAINT_MEMCG", None)


def test_a_first_piece_alone_says_too_little():
    assert joined(pieces()[:1] + pieces()[2:]) == []


def test_the_mark_ends_a_line_whose_last_piece_was_lost():
    mark = OomMark(
        ts_ns=200, cpu=0, start_ns=1, trigger_start_ns=1, parent_start_ns=1, total_vm_bytes=0, anon_rss_bytes=0,
        file_rss_bytes=0, shmem_rss_bytes=0, swap_bytes=0, pgtables_bytes=0, tgid=40, tid=41, trigger_tgid=40,
        trigger_tid=41, parent_tgid=1, ns_tgid=40, ns_level=0, uid=0, oom_score_adj=0, task_flags=0, signal_flags=0,
        levels=0, comm="c", trigger_comm="c",
    )  # fmt: skip
    source = LiveSource(
        Records(
            LAYOUTS[Kind.PRINTED].encode(pieces()[0]),
            LAYOUTS[Kind.OOM_STACK].encode(wire_stack()),
            LAYOUTS[Kind.PRINTED].encode(pieces()[1]),
            LAYOUTS[Kind.OOM_MARK].encode(mark),
        ),
        resolve=named("vprintk_store", "out_of_memory", "mem_cgroup_out_of_memory"),
    )
    events = source.read()
    assert source.finish(5)
    events += source.read()

    assert [type(event) for event in events] == [OomMark, LoggedDecision]
    assert events[1].trusted
    assert not source.pending


def test_records_become_a_line_and_no_stack_is_left_over():
    encoded = [LAYOUTS[Kind.PRINTED].encode(piece) for piece in pieces()]
    encoded.insert(1, LAYOUTS[Kind.OOM_STACK].encode(wire_stack()))
    source = LiveSource(Records(*encoded), resolve=named("vprintk_store", "oom_kill_process", "out_of_memory"))
    first = source.read()
    assert source.finish(5)

    assert [type(event) for event in first + source.read()] == [LoggedDecision]


def test_another_line_of_the_same_thread_ends_the_one_before():
    printing = Printing()
    for piece in (*pieces(PIECES[:3]), *pieces(first_ns=500)):
        printing.take(piece)

    assert [(event.ts_ns, event.oom_memcg) for event in printing.finished()] == [(100, None), (500, "/a/limit")]


def test_lines_without_an_end_are_not_kept_for_ever():
    printing = Printing()
    for n in range(10 * MAX_LINES):
        printing.take(pieces(PIECES[:1], first_ns=n, tid=n)[0])

    assert len(printing._lines) == MAX_LINES


@given(st.lists(st.text(max_size=60), min_size=1, max_size=12))
def test_no_text_is_an_error_and_only_a_decision_comes_of_it(texts):
    printing = Printing()
    for piece in pieces((PIECES[0], *texts, PIECES[-1])):
        printing.take(piece)

    assert all(isinstance(event, LoggedDecision) and not event.trusted for event in printing.finished())
