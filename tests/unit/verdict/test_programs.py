# SPDX-License-Identifier: Apache-2.0
"""What a sender is by trade: by the file that runs, by its unit, by its name alone; never by a name that lies."""

import pytest
from hypothesis import given, strategies as st

from tracer.events import SeenProgram
from tracer.verdict.programs import TRADES, recognise


def seen(comm, exe=None, cgroup=None, uid=None, *, foreign=False):
    return SeenProgram(depth=0, tgid=8, start_ns=1, comm=comm, exe=exe, cgroup=cgroup, uid=uid, foreign_user_ns=foreign)


@pytest.mark.parametrize(
    ("comm", "exe", "cgroup", "found"),
    [
        ("earlyoom", "/usr/bin/earlyoom", None, ("earlyoom", "oom_daemon", "its program /usr/bin/earlyoom", True)),
        ("systemd-oomd", "/usr/lib/systemd/systemd-oomd", "/system.slice/systemd-oomd.service",
         ("systemd-oomd", "oom_daemon", "its program /usr/lib/systemd/systemd-oomd", True)),
        ("earlyoom", "/usr/bin/earlyoom (deleted)", None,
         ("earlyoom", "oom_daemon", "its program /usr/bin/earlyoom (deleted)", True)),
        ("nohang", "/usr/bin/python3.11", "/system.slice/nohang.service",
         ("nohang", "oom_daemon", "its unit nohang.service", True)),
        # The kernel cuts a name after 15 bytes.
        ("containerd-shim", "/usr/bin/containerd-shim-runc-v2", None,
         ("containerd-shim-runc-v2", "container_runtime", "its program /usr/bin/containerd-shim-runc-v2", True)),
        ("systemd", "/usr/lib/systemd/systemd", "/init.scope",
         ("systemd", "service_manager", "its program /usr/lib/systemd/systemd", True)),
        # What runs in the unit of somebody who runs others' programs.
        ("bash", "/usr/bin/bash", "/system.slice/slurmd.service", None),
        ("python3", "/usr/bin/python3.11", "/system.slice/kubelet.service/x", None),
        ("podman", "/usr/bin/python3.11", "/system.slice/podman.service",
         ("podman", "container_runtime", "its unit podman.service", True)),
        ("kill", "/usr/bin/kill", "/system.slice/earlyoom.service",
         ("earlyoom", "oom_daemon", "its unit earlyoom.service", True)),
        ("slurmstepd", None, None, ("slurmstepd", "batch_system", "its name alone", False)),
        ("earlyoom", None, "/user.slice/earlyoom.service", ("earlyoom", "oom_daemon", "its name alone", False)),
        # Called so, and another program.
        ("earlyoom", "/usr/bin/python3.11", None, None),
        ("bash", "/tmp/earlyoom", None, None),
        ("earlyoomx", None, None, None),
        ("bash", "/usr/bin/bash", "/system.slice/cron.service", None),
        ("bash", None, None, None),
        ("", None, None, None),
    ],
)  # fmt: skip
def test_a_program_is_known_by_what_it_is_and_not_by_what_it_calls_itself(comm, exe, cgroup, found):
    program = recognise(comm, seen(comm, exe, cgroup))

    assert found == (None if program is None else tuple(program))


@pytest.mark.parametrize(
    ("exe", "uid", "certain"),
    [
        ("/tmp/earlyoom", 1000, False),
        ("/home/user/bin/earlyoom", 1000, False),
        ("/dev/shm/usr/earlyoom", None, False),
        ("usr/bin/earlyoom", 1000, False),
        ("/usr/local/bin/earlyoom", 1000, True),
        ("/nix/store/abc-earlyoom/bin/earlyoom", 62583, True),
        ("/root/earlyoom/earlyoom", 0, True),
    ],
)  # fmt: skip
def test_a_file_that_anybody_may_have_called_so_is_told_and_not_certain(exe, uid, certain):
    program = recognise("earlyoom", seen("earlyoom", exe, None, uid))

    assert ("earlyoom", "oom_daemon", f"its program {exe}", certain) == tuple(program)


@pytest.mark.parametrize(
    ("uid", "foreign", "certain"),
    [(1000, False, True), (1000, True, False), (1000, None, False), (None, True, False), (0, True, True)],
)
def test_where_a_file_lies_means_nothing_where_anybody_may_have_mounted_it_there(uid, foreign, certain):
    program = recognise("earlyoom", seen("earlyoom", "/usr/bin/earlyoom", None, uid, foreign=foreign))

    assert ("earlyoom", certain) == (program.name, program.certain)


def test_a_daemon_with_a_user_of_its_own_is_known_by_its_unit_where_its_file_does_not_tell():
    program = recognise("earlyoom", seen("earlyoom", "/usr/bin/earlyoom", "/system.slice/earlyoom.service", 62583))

    assert program.certain
    cgroup = "/system.slice/earlyoom.service"
    program = recognise("earlyoom", seen("earlyoom", "/usr/bin/earlyoom", cgroup, 62583, foreign=True))

    assert ("its unit earlyoom.service", True) == (program.known_by, program.certain)


@pytest.mark.parametrize("name", TRADES)
def test_one_that_is_gone_already_is_known_by_its_name_alone_however_long(name):
    program = recognise(name[:15], None)

    assert program is not None
    assert (TRADES[name], False) == (program.trade, program.certain)


@given(comm=st.text(max_size=15), exe=st.none() | st.text(max_size=40), cgroup=st.none() | st.text(max_size=40))
def test_whatever_it_is_called_it_is_certain_only_by_a_file_or_a_unit_of_that_name(comm, exe, cgroup):
    program = recognise(comm, seen(comm, exe, cgroup))

    if program is not None and program.certain:
        assert program.name in f"{exe} {cgroup}"
