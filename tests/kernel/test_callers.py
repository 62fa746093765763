# SPDX-License-Identifier: Apache-2.0
"""Whose the job is: under a real sudo from an environment like conda's, under su, as plain root, without a terminal."""

import grp
import json
import os
import pwd
import shlex
import stat
import sys

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.people import SYSTEM_PYTHON, WHO_AM_I, run_quietly, told
from tracer.events import JobStarted, Note
from tracer.recording import read_recording

WHO = ("oomtrace", "run", "--", "python", "whoami.py")


@pytest.fixture(autouse=True)
def no_recording_is_left(request):
    yield
    for name in {"person", "sudoer"}.intersection(request.fixturenames):
        for path in request.getfixturevalue(name).recordings():
            path.unlink()


def events(path, kind):
    return [event for event in read_recording(path) if isinstance(event, kind)]


def is_the_persons(job, person):
    return (
        job["uids"] == [str(person.uid)] * 4
        and job["gids"] == [str(person.gid)] * 4
        and job["groups"] == person.groups
        and int(job["capabilities"], 16) == 0
    )


def test_under_sudo_from_a_conda_environment_all_is_as_without_sudo(sudoer):
    without = told(sudoer.run("python", "whoami.py"))

    job = told(sudoer.run("sudo", *WHO))

    assert without["environ"]["CONDA_PREFIX"] == str(sudoer.conda)
    assert is_the_persons(job, sudoer)
    assert job["python"] == f"{sudoer.conda}/bin/python"
    volatile = ("pid", "group")
    assert {name: job[name] for name in job if name not in volatile} == {
        name: without[name] for name in without if name not in volatile
    }


def test_the_recording_belongs_to_the_caller_and_is_theirs_alone(sudoer):
    process = sudoer.run("sudo", *WHO)

    [path] = sudoer.recordings()
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (sudoer.uid, sudoer.gid, 0o600)
    assert [event.uid for event in events(path, JobStarted)] == [sudoer.uid]
    assert not [note for note in events(path, Note) if "SUDO" in note.text or "cannot enter" in note.text]
    assert "oomtrace: " not in process.stderr
    assert str(path.name) in process.stderr
    assert sudoer.run("cat", path).returncode == 0


@pytest.mark.parametrize("prefix", [("-E",), ("sudo",), ("-i", "--")], ids=" ".join)
def test_however_sudo_is_called_the_job_is_the_callers(person, prefix):
    options = ("run", "--record", person.home / "r.oomtrace", "--", "python", person.home / "whoami.py")
    process = person.run("sudo", *prefix, person.oomtrace, *options)

    job = told(process)
    assert is_the_persons(job, person)
    assert job["environ"] == told(person.run("python", "whoami.py"))["environ"]


def test_variables_that_are_given_to_sudo_reach_the_job(person):
    job = told(person.run("sudo", "CUDA_VISIBLE_DEVICES=3", *WHO))

    assert job["environ"]["CUDA_VISIBLE_DEVICES"] == "3"
    assert job["environ"]["CONDA_PREFIX"] == str(person.conda)


def test_limits_that_the_caller_has_are_the_jobs(person):
    job = told(person.run("sh", "-c", f"ulimit -S -n 77; ulimit -H -n 99; sudo {shlex.join(WHO)}"))

    assert job["files"] == [77, 99]


def test_in_roots_shell_by_sudo_the_job_is_roots_and_that_is_said(person):
    process = person.run("sudo", "sh", "-c", f"{shlex.join(WHO[:3])} {sys.executable} whoami.py; exit $?")

    job = told(process)
    assert job["uids"] == ["0"] * 4
    assert f"SUDO_UID is {person.uid}, but the parent process is not sudo: the job runs as user 0" in process.stderr


def test_under_su_the_person_became_root_and_so_is_the_job(person):
    # As root, so that su asks for no password.
    command = f"PATH='{person.home}/secure path':$PATH exec {shlex.join(WHO[:3])} /usr/bin/python3 whoami.py"
    for su in (("su", "-c", command), ("su", "-", "-c", f"cd {person.home}; {command}")):
        process = run_as_root(*su, folder=person.home)

        assert told(process)["uids"] == ["0"] * 4
        assert "oomtrace: " not in process.stderr


def test_after_su_to_a_person_sudo_knows_that_person(person):
    process = run_as_root("su", person.name, "-c", f"sudo {shlex.join(WHO[:3])} /usr/bin/python3 whoami.py",
                          folder=person.home)  # fmt: skip

    assert is_the_persons(told(process), person)


def run_as_root(*command, folder, environ=(), **kwargs):
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LC_ALL": "C", **dict(environ)}
    return run_quietly(command, cwd=folder, env=environ, **kwargs)


def oomtrace_as_root(folder, *words, environ=(), **kwargs):
    environ = {"PYTHONPATH": str(ROOT), **dict(environ)}
    return run_as_root(sys.executable, "-m", "tracer", "run", *words, folder=folder, environ=environ, **kwargs)


def test_as_plain_root_the_job_is_roots_and_nothing_is_said(can_trace, tmp_path):
    process = oomtrace_as_root(tmp_path, "--", sys.executable, "-S", "-c", WHO_AM_I)

    assert told(process)["uids"] == ["0"] * 4
    assert "oomtrace: " not in process.stderr


@pytest.mark.parametrize("claimed", ["1", "65534"])
def test_who_only_says_that_sudo_was_there_is_not_believed(can_trace, tmp_path, claimed):
    environ = {"SUDO_UID": claimed, "SUDO_USER": "x"}
    process = oomtrace_as_root(tmp_path, "--", sys.executable, "-S", "-c", WHO_AM_I, environ=environ)

    assert told(process)["uids"] == ["0"] * 4
    assert f"SUDO_UID is {claimed}, but the parent process is not sudo" in process.stderr
    [path] = tmp_path.glob("*.oomtrace")
    assert path.stat().st_uid == 0
    assert [note for note in events(path, Note) if "SUDO_UID" in note.text]


def test_without_a_terminal_and_with_little_environment_it_works_as_under_cron(can_trace, tmp_path):
    process = oomtrace_as_root(tmp_path, "--", "sh", "-c", "cat; exit 7", start_new_session=True)

    assert process.returncode == 7
    assert "exit 7" in process.stderr


def test_a_user_can_be_named_and_gets_their_own_identity_and_home(person):
    root = {"PATH": "/usr/bin:/bin", "KEPT": "yes", "SUDO_COMMAND": "x"}
    process = oomtrace_as_root(person.home, "--user", person.name, "--", "python3", "whoami.py", environ=root)

    job = told(process)
    assert is_the_persons(job, person)
    assert {name: job["environ"][name] for name in ("HOME", "USER", "LOGNAME", "SHELL", "KEPT")} == {
        "HOME": str(person.home),
        "USER": person.name,
        "LOGNAME": person.name,
        "SHELL": "/bin/sh",
        "KEPT": "yes",
    }
    assert "SUDO_COMMAND" not in job["environ"]
    assert job["cwd"] == str(person.home)
    [path] = person.recordings()
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (person.uid, 0o600)


def test_a_user_can_be_named_by_number_and_under_sudo(person):
    job = told(person.run("sudo", "oomtrace", "run", "--user", person.uid, "--", "python", "whoami.py"))

    assert is_the_persons(job, person)
    assert job["environ"]["CONDA_PREFIX"] == str(person.conda)


def test_in_a_folder_that_the_user_cannot_write_in_no_recording_is_kept_and_one_that_was_asked_for_is_an_error(
    person, tmp_path
):
    started = person.home / "started"
    unasked = oomtrace_as_root(tmp_path, "--user", person.name, "--", "touch", started)

    assert unasked.returncode == 0
    assert f"--record FILE, in a folder that user {person.uid} can write in" in unasked.stderr
    started.unlink()
    asked = oomtrace_as_root(tmp_path, "--user", person.name, "--record", "x.oomtrace", "--", "touch", started)
    assert asked.returncode == 4
    assert asked.stderr.startswith("oomtrace: cannot create x.oomtrace")
    assert not started.exists()


def test_a_folder_that_the_user_cannot_enter_is_told_and_the_job_still_starts_there(person, tmp_path):
    tmp_path.chmod(0o700)
    process = oomtrace_as_root(tmp_path, "--record", "-", "--user", person.name, "--", "sh", "-c", "id -u")

    assert process.stdout == f"{person.uid}\n"
    assert f"user {person.uid} cannot enter {tmp_path}" in process.stderr


def test_a_user_that_is_not_there_is_wrong_usage(can_trace, tmp_path):
    process = oomtrace_as_root(tmp_path, "--user", "no-such-user-here", "--", "touch", "started")

    assert process.returncode == 2
    assert process.stderr.startswith("oomtrace: --user no-such-user-here: no such user")
    assert os.listdir(tmp_path) == []


def test_a_number_without_an_entry_gets_a_group_of_that_number(can_trace, tmp_path):
    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    free = next(number for number in range(54321, 65000) if number not in taken)
    process = oomtrace_as_root(tmp_path, "--record", "-", "--user", str(free), "--", SYSTEM_PYTHON, "-c", WHO_AM_I)

    job = json.loads(process.stdout)
    assert (job["uids"], job["gids"], job["groups"]) == ([str(free)] * 4, [str(free)] * 4, [free])
    assert job["environ"]["HOME"] == "/"
    assert f"user {free} is in no passwd" in process.stderr
