# SPDX-License-Identifier: Apache-2.0
import os

import pytest
from hypothesis import given, strategies as st

from tests.strategies import hostile_comms
from tracer.events import ProcessLimits
from tracer.sources import procfs
from tracer.units import NO_LIMIT_BYTES


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "7").mkdir()
    return tmp_path


def stat_line(comm: str = "python3") -> bytes:
    return (
        b"7 ("
        + comm.encode("latin-1")
        + b") S 3 7 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 999 88 18446744073709551615\n"
    )


@given(comm=hostile_comms)
def test_a_stat_line_is_read_whatever_the_process_calls_itself(comm, tmp_path_factory):
    proc = tmp_path_factory.mktemp("proc")
    (proc / "7").mkdir()
    (proc / "7" / "stat").write_bytes(stat_line(comm))
    stat = procfs.read_stat(str(proc), 7)

    assert stat == procfs.Stat(
        comm=comm.encode("latin-1").decode("utf-8", "backslashreplace"),
        state="S", parent_tgid=3, session_id=5, start_tick=123456,
    )  # fmt: skip
    assert stat.start_ns == 1_234_560_000_000


@pytest.mark.parametrize(
    "content", [b"", b"7 (x", b"7 (x) S 1 2", b")", b"7 (x) S a b c d e f g h i j k l m n o p q r s t"]
)
def test_a_stat_line_that_is_cut_is_no_process(proc, content):
    (proc / "7" / "stat").write_bytes(content)

    assert procfs.read_stat(str(proc), 7) is None


def test_a_process_that_is_gone_is_none():
    assert procfs.read_stat("/proc", 1 << 22) is None
    assert procfs.read_status("/proc", 1 << 22) is None
    assert procfs.read_stat("/proc\0", 1) is None


def test_status_is_read_in_bytes(proc):
    (proc / "7" / "status").write_text(
        "Name:\ta\\nTgid:\t9\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nPid:\t7\nUid:\t1\t2\t3\t4\nNSpid:\t7\t1\n"
        "VmExe:\t     100 kB\nVmLib:\t       3 kB\nVmRSS:\tmany kB\nSigCgt:\t0000000000000005\n"
    )

    assert procfs.read_status(str(proc), 7) == procfs.Status(
        tgid=7, uid=2, state="S", ns_pids=(7, 1), code_bytes=105472, caught=5,
    )  # fmt: skip


LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max cpu time              unlimited            unlimited            seconds   \n"
    "Max data size             {}            unlimited            bytes     \n"
    "Max processes             96000                96000                processes \n"
    "Max address space         {}           4294967296           bytes     \n"
)


def test_limits_are_the_soft_ones(proc):
    (proc / "7" / "limits").write_text(LIMITS.format("unlimited", "2147483648"))

    assert procfs.read_limits(str(proc), 7) == ProcessLimits(address_bytes=2 << 30, data_bytes=NO_LIMIT_BYTES)


@pytest.mark.parametrize("content", ["", "Max address space\n", LIMITS.format("many", "-1")])
def test_limits_that_are_not_there_are_unknown(proc, content):
    (proc / "7" / "limits").write_text(content)

    assert procfs.read_limits(str(proc), 7) in {None, ProcessLimits()}
    assert procfs.read_limits(str(proc), 8) is None


def test_a_zombie_has_no_memory(proc):
    (proc / "7" / "status").write_text("Name:\tx\nState:\tZ (zombie)\nTgid:\t7\n")

    assert procfs.read_status(str(proc), 7) == procfs.Status(tgid=7, state="Z")


@given(st.binary(max_size=200))
def test_no_content_makes_a_reader_fail(tmp_path_factory, content):
    proc = tmp_path_factory.mktemp("proc")
    (proc / "7").mkdir()
    for name in ("stat", "status"):
        (proc / "7" / name).write_bytes(content)

    assert procfs.read_stat(str(proc), 7) is None or b")" in content
    procfs.read_status(str(proc), 7)
    procfs.read_keys(str(proc / "7" / "status"))


def test_keys_with_and_without_a_unit(tmp_path):
    (tmp_path / "keys").write_text(
        "MemTotal:  10 kB\nHugePages_Total: 3\noom_kill 4\nflat\nbad x\nnegative -1\nlong 1 2 3\n"
    )

    assert procfs.read_keys(str(tmp_path / "keys")) == {"MemTotal": 10240, "HugePages_Total": 3, "oom_kill": 4}
    assert procfs.read_keys(str(tmp_path / "none")) is None


def test_the_own_process_agrees_with_itself():
    stat, status = procfs.read_stat("/proc", os.getpid()), procfs.read_status("/proc", os.getpid())

    assert stat is not None
    assert status is not None
    assert (stat.parent_tgid, stat.session_id) == (os.getppid(), os.getsid(0))
    assert (status.tgid, status.uid) == (os.getpid(), os.geteuid())
    assert status.code_bytes is not None
    assert status.code_bytes > 1 << 20


@pytest.mark.parametrize(("own", "foreign"), [("user:[1]", False), ("user:[2]", True), (None, None)])
def test_a_user_namespace_is_foreign_where_it_is_not_the_readers(tmp_path, own, foreign):
    for name, namespace in (("self", "user:[1]"), ("7", own)):
        (tmp_path / name / "ns").mkdir(parents=True)
        if namespace is not None:
            (tmp_path / name / "ns" / "user").symlink_to(namespace)

    assert foreign is procfs.is_foreign_user_ns(str(tmp_path), 7)
