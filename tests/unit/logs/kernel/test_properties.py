# SPDX-License-Identifier: Apache-2.0
"""The kernel's own printing, imitated with hostile names: what is read is true or unknown, never something else."""

from hypothesis import given, strategies as st

from tests.strategies import hostile_comms
from tracer.events import LoggedDecision, LoggedInvocation, LoggedKill
from tracer.logs.kernel import parse_record
from tracer.logs.kernel.devkmsg import parse_kmsg

pieces = st.sampled_from(
    [",task=", ",task_memcg=", ",oom_memcg=", ",mems_allowed=", "global_oom", ",pid=1", ",uid=0", "a", "b", " ", ")",
     "é", "\\", "0", "Killed process 1 (x) total-vm:1kB", "invoked oom-killer: gfp_mask=0x0, order=0", "\x01"]
)  # fmt: skip
components = st.lists(pieces, min_size=1, max_size=6).map("".join).filter(lambda name: name not in (".", ".."))
paths = st.lists(components, max_size=3).map(lambda names: "/" + "/".join(names))


def escaped(text: str) -> str:
    """As msg_add_ext_text() of kernel/printk/printk.c does it; one character is one byte here."""
    return "".join(char if " " <= char < "\x7f" and char != "\\" else f"\\x{ord(char):02x}" for char in text)


def shown(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "backslashreplace")


def bytes_of(text: str) -> str:
    """As bytes, one character each."""
    return text.encode().decode("latin-1")


def kmsg(text: str):
    return parse_record(escaped(text), ts_ns=1, trusted=True, source="kmsg")


@given(comm=hostile_comms)
def test_the_trigger_is_read_whole(comm):
    event = kmsg(f"{comm} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0")

    assert isinstance(event, LoggedInvocation)
    assert event.comm == shown(comm)


@given(comm=hostile_comms, pid=st.integers(1, 1 << 22), anon=st.integers(0, 1 << 40))
def test_the_victim_is_read_whole(comm, pid, anon):
    event = kmsg(
        f"Memory cgroup out of memory: Killed process {pid} ({comm}) total-vm:7kB, anon-rss:{anon}kB, file-rss:5kB, "
        "shmem-rss:0kB, UID:0 pgtables:144kB oom_score_adj:0"
    )

    assert isinstance(event, LoggedKill)
    assert (event.pid, event.comm, event.anon_rss_bytes) == (pid, shown(comm), anon * 1024)


@given(st.data())
def test_a_decision_is_read_right_or_not_at_all(data):
    owner, below = data.draw(paths), data.draw(st.lists(components, max_size=2))
    task = "/" + "/".join([*filter(None, owner.split("/")), *below])
    cpuset, comm = data.draw(components | st.just("/")), data.draw(hostile_comms)
    memcg = data.draw(st.booleans())
    constraint, limit = ("MEMCG", f"oom_memcg={bytes_of(owner)}") if memcg else ("NONE", "global_oom")
    event = kmsg(
        f"oom-kill:constraint=CONSTRAINT_{constraint},nodemask=(null),cpuset={bytes_of(cpuset)},mems_allowed=0-1,"
        f"{limit},task_memcg={bytes_of(task)},task={comm},pid=4242,uid=1000"
    )

    assert isinstance(event, LoggedDecision)
    assert (event.constraint, event.tgid, event.uid) == (f"CONSTRAINT_{constraint}", 4242, 1000)
    assert event.oom_memcg in (None, owner if memcg else None)
    assert event.task_memcg in (None, task)
    assert event.comm in (None, shown(comm))


names = st.from_regex(r"[a-z0-9._@:-]{1,40}", fullmatch=True).filter(lambda name: name not in (".", ".."))


@given(st.lists(names, min_size=1, max_size=4), st.from_regex(r"[A-Za-z0-9_#/ .:()\[\]-]{1,15}", fullmatch=True))
def test_a_decision_with_everyday_names_is_always_read(parts, comm):
    path = "/" + "/".join(parts)
    event = kmsg(
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={parts[-1]},mems_allowed=0,oom_memcg=/{parts[0]},"
        f"task_memcg={path},task={comm},pid=4242,uid=1000"
    )

    assert (event.oom_memcg, event.task_memcg, event.comm) == (f"/{parts[0]}", path, comm)


@given(st.text(max_size=300) | st.lists(pieces, max_size=30).map("".join), st.booleans())
def test_no_text_makes_the_parser_fail_or_trust(text, kmsg_escapes):
    event = parse_record(text, ts_ns=1, source="kmsg" if kmsg_escapes else "text")

    assert event is None or not event.trusted


@given(st.binary(max_size=100))
def test_no_bytes_make_the_record_parser_fail(raw):
    record = parse_kmsg(raw)

    assert record is None or record.facility >= 0


@given(st.integers(0, 2047), st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.text(max_size=50))
def test_a_record_is_taken_apart(priority, seq, usec, text):
    body = escaped(bytes_of(text))
    raw = f"{priority},{seq},{usec},-,caller=T12;{body}\n SUBSYSTEM=acpi\n DEVICE=+x\n"
    record = parse_kmsg(raw.encode())

    assert record is not None
    assert (record.facility, record.level, record.seq, record.usec) == (priority >> 3, priority & 7, seq, usec)
    assert "SUBSYSTEM" not in record.text
