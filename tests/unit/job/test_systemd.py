# SPDX-License-Identifier: Apache-2.0
"""How systemd is asked, with small programs that answer as `busctl` does, or do not answer at all."""

import os

import pytest

from tracer.errors import CgroupUnavailable
from tracer.job.systemd import Manager, Refused, Unit, find_busctl, is_booted


@pytest.fixture
def busctl(tmp_path):
    def write(body):
        path = tmp_path / "busctl"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    return write


def answering(*answers):
    cases = "".join(f"*'{question}'*) printf '%b' '{answer}';;\n" for question, answer in answers)
    return f'case "$*" in\n{cases}*) echo "Call failed: not foreseen: $*" >&2; exit 1;;\nesac'


PATH = ("GetUnitByPID u 7", r'o "/org/freedesktop/systemd1/unit/u"\n')


@pytest.mark.parametrize(
    "name, properties, unit",
    [
        (
            r's "session-3.scope"\n',
            (".Scope Slice ControlGroup", r's "user-0.slice"\ns "/user.slice/x"\n'),
            Unit("session-3.scope", "/user.slice/x", "user-0.slice"),
        ),
        (
            r's "user@1.service"\n',
            (".Service Slice ControlGroup", r's "user-1.slice"\ns "/u/s"\n'),
            Unit("user@1.service", "/u/s", "user-1.slice"),
        ),
        (
            r's "-.slice"\n',
            (".Slice Slice ControlGroup", r's ""\ns ""\n'),
            Unit("-.slice", "/", "-.slice"),
        ),
        (
            r's "we\\\\x2dird.service"\n',
            (".Service Slice", r's "a\\\\x2db.slice"\ns "/a/we\\\\x2dird.service"\n'),
            Unit(r"we\x2dird.service", r"/a/we\x2dird.service", r"a\x2db.slice"),
        ),
    ],
    ids=["a scope", "a service", "the root slice", "escapes"],
)
def test_a_unit_is_understood(busctl, name, properties, unit):
    assert Manager(busctl(answering(PATH, (".Unit Id", name), properties))).unit_of(7) == unit


def test_a_process_of_no_unit_is_none(busctl):
    assert (
        Manager(busctl("echo 'Call failed: PID 7 does not belong to any loaded unit.' >&2; exit 1")).unit_of(7) is None
    )


def test_a_unit_of_a_kind_without_processes_is_none(busctl):
    assert Manager(busctl(answering(PATH, (".Unit Id", r's "x.mount"\n')))).unit_of(7) is None


def test_an_answer_that_makes_no_sense_is_an_error_and_no_crash(busctl):
    with pytest.raises(CgroupUnavailable, match="not understood"):
        Manager(busctl("echo 42")).unit_of(7)
    with pytest.raises(CgroupUnavailable, match="not understood"):
        Manager(busctl("head -c 9999 /dev/urandom | tr -d '\\042'")).control_group()


@pytest.mark.parametrize("text", ["Call failed: Access denied", r"\033[0;1;31mCall failed: Access denied\033[0m"])
def test_a_refusal_is_told_in_systemds_own_words(busctl, text):
    with pytest.raises(Refused, match=r"^Access denied$"):
        Manager(busctl(f"printf '{text}\\n' >&2; exit 1")).start_scope("x.scope", [])


@pytest.mark.parametrize(
    "body", ["echo 'Failed to connect to bus: No such file or directory' >&2; exit 1", "exec sleep 60"]
)
def test_a_systemd_that_does_not_answer_is_no_refusal_and_is_not_waited_for(busctl, body):
    with pytest.raises(CgroupUnavailable, match=r"D-Bus.*leave out --memory-max") as caught:
        Manager(busctl(body), patience_s=0.2).unit_of(7)
    assert not isinstance(caught.value, Refused)


def test_a_program_that_cannot_be_run_is_told(tmp_path):
    with pytest.raises(CgroupUnavailable, match="cannot run"):
        Manager(str(tmp_path / "none")).control_group()


def test_the_callers_environment_names_only_the_users_own_bus(busctl, tmp_path, monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/evil")
    given = {"XDG_RUNTIME_DIR": "/run/x", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/x/bus", "LD_PRELOAD": "/evil"}
    program = busctl(f'env > {tmp_path}/environ; echo "$*" >> {tmp_path}/environ; echo \'s "/"\'')

    def seen(**arguments):
        Manager(program, **arguments).control_group()
        return (tmp_path / "environ").read_text()

    assert "/evil" not in seen(environ=given)
    assert "/run/x" not in seen(environ=given)
    users = seen(user=True, environ=given)
    assert "XDG_RUNTIME_DIR=/run/x\n" in users
    assert "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/x/bus\n" in users
    assert "--user" in users
    assert "LD_PRELOAD" not in users


def test_only_a_program_that_nobody_else_can_change_is_trusted(busctl, tmp_path):
    program, mine = busctl("exit 0"), os.getuid()

    assert find_busctl([str(tmp_path / "none"), program], owner=mine) == program
    assert find_busctl([program], owner=mine + 1) is None
    os.chmod(program, 0o775)
    assert find_busctl([program], owner=mine) is None
    assert find_busctl([str(tmp_path)], owner=mine) is None


@pytest.fixture
def machine(tmp_path):
    """A machine that systemd booted; /proc shows us as process 7."""
    (tmp_path / "run" / "systemd" / "system").mkdir(parents=True)
    (tmp_path / "proc" / "1").mkdir(parents=True)
    (tmp_path / "proc" / "1" / "comm").write_text("systemd\n")
    (tmp_path / "proc" / "self").symlink_to("7")
    return tmp_path


def booted(machine, own_pid=7):
    return is_booted(run_root=str(machine / "run"), proc_root=str(machine / "proc"), own_pid=own_pid)


def test_a_machine_that_systemd_booted_is_recognised(machine):
    assert booted(machine)


def test_a_folder_of_the_hosts_that_a_container_was_given_proves_no_systemd(machine):
    (machine / "proc" / "1" / "comm").write_text("sh\n")

    assert not booted(machine)


def test_pids_that_are_not_those_of_systemd_are_not_told_to_it(machine):
    assert not booted(machine, own_pid=8)


def test_another_init_is_not_taken_for_systemd(machine):
    (machine / "run" / "systemd" / "system").rmdir()

    assert not booted(machine)
    assert not is_booted(run_root=str(machine / "run"), proc_root=str(machine / "none"))
