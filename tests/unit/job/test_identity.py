# SPDX-License-Identifier: Apache-2.0
"""Who called, from small trees of /proc."""

import os
import pwd
import resource
from dataclasses import replace

import pytest

from tracer.errors import PermissionDenied, UsageError
from tracer.job.identity import Caller, find_caller, find_user

SOMEONE = Caller(uid=4321, gid=1, groups=(), environ={"PATH": "/theirs"}, oom_score_adj=5, caveat="something")
TRACER, MONITOR, SUDO, SHELL = 400, 300, 200, 100
PERSON = 4321


@pytest.fixture
def proc(tmp_path):
    """A /proc in which user 4321's shell called sudo, with a monitor as `use_pty` makes it."""
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text("")
    sudo.chmod(0o4755)
    tree = Proc(tmp_path / "proc", sudo)
    tree.add(SHELL, parent=1, uid=PERSON, exe=tmp_path / "bin" / "bash", adj=17)
    tree.add(
        SUDO,
        parent=SHELL,
        exe=sudo,
        environ={"PATH": "/home/p/conda/bin:/bin", "LD_LIBRARY_PATH": "/x", "HOME": "/home/p"},
    )
    tree.add(MONITOR, parent=SUDO, exe=sudo)
    tree.add(TRACER, parent=MONITOR, exe=tmp_path / "bin" / "python3", adj=-500)
    return tree


class Proc:
    def __init__(self, root, sudo):
        self.root, self.sudo = root, sudo

    def add(self, pid, *, parent, exe, uid=0, environ=(), adj=0, name="x", effective=0):
        folder = self.root / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text(
            f"Name:\t{name}\nUmask:\t0027\nPPid:\t{parent}\nUid:\t{uid}\t{effective}\t0\t0\n"
            f"Gid:\t{uid + 1}\t0\t0\t0\nGroups:\t7 8 \n"
        )
        (folder / "oom_score_adj").write_text(f"{adj}\n")
        (folder / "cmdline").write_bytes(b"sudo\0CUDA_VISIBLE_DEVICES=3\0A=forged\0oomtrace\0")
        (folder / "environ").write_bytes(b"".join(f"{k}={v}\0".encode() for k, v in dict(environ).items()))
        (folder / "limits").write_text(
            f"{'Limit':26}{'Soft Limit':21}{'Hard Limit':21}Units\n"
            f"{'Max open files':26}{77:<21}{'unlimited':21}files\n"
            f"{'Max file locks':26}{1:<21}{1:<21}locks\n{'Max cpu time':26}?\n"
        )
        (folder / "exe").unlink(missing_ok=True)
        (folder / "exe").symlink_to(exe)

    def caller(self, **environ):
        return find_caller(environ, pid=TRACER, proc_root=str(self.root), sudo_owner=os.getuid())


def test_under_sudo_the_caller_is_who_called_sudo(proc):
    caller = proc.caller(SUDO_UID=str(PERSON), HOME="/root", PATH="/sbin")

    assert (caller.uid, caller.gid, caller.groups) == (PERSON, PERSON + 1, (7, 8))
    assert (caller.umask, caller.oom_score_adj, caller.caveat) == (0o027, 17, None)


def test_the_job_gets_the_environment_that_sudo_stripped(proc):
    caller = proc.caller(SUDO_UID=str(PERSON), HOME="/root", PATH="/sbin", SUDO_COMMAND="x")

    assert caller.environ["PATH"] == "/home/p/conda/bin:/bin"
    assert caller.environ["LD_LIBRARY_PATH"] == "/x"
    assert caller.environ["HOME"] == "/home/p"
    assert not [name for name in caller.environ if name.startswith("SUDO_")]


def test_variables_given_to_sudo_itself_reach_the_job(proc):
    caller = proc.caller(SUDO_UID=str(PERSON), CUDA_VISIBLE_DEVICES="3")

    assert caller.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert "A" not in caller.environ


def test_without_sudo_the_caller_is_as_we_are(proc):
    caller = proc.caller(HOME="/root")

    assert (caller.uid, caller.environ, caller.caveat) == (os.getuid(), {"HOME": "/root"}, None)
    assert caller.oom_score_adj == -500
    assert caller.is_us


@pytest.mark.parametrize("claimed", ["", "x", "-1", "0x10", "\u0664"])
def test_what_is_no_number_is_no_claim(proc, claimed):
    assert proc.caller(SUDO_UID=claimed).uid == os.getuid()


def test_sudo_uid_does_not_count_when_the_parent_is_not_sudo(proc, tmp_path):
    proc.add(MONITOR, parent=SUDO, exe=tmp_path / "bin" / "sh")

    caller = proc.caller(SUDO_UID=str(PERSON))

    assert caller.uid == os.getuid()
    assert "not sudo" in caller.caveat


def test_a_file_called_sudo_that_is_not_set_uid_is_not_sudo(proc):
    proc.sudo.chmod(0o755)

    assert proc.caller(SUDO_UID=str(PERSON)).uid == os.getuid()


def test_sudo_uid_does_not_count_when_another_user_called_sudo(proc, tmp_path):
    proc.add(SHELL, parent=1, uid=PERSON + 1, exe=tmp_path / "bin" / "bash")

    caller = proc.caller(SUDO_UID=str(PERSON))

    assert caller.uid == os.getuid()
    assert "no process of that user" in caller.caveat


def test_a_name_cannot_pose_as_the_lines_that_follow_it(proc, tmp_path):
    proc.add(SHELL, parent=1, uid=9, exe=tmp_path / "bin" / "bash", name=f"\x1cUid:\t{PERSON}\x85Uid:\t{PERSON}\x0b")

    assert proc.caller(SUDO_UID=str(PERSON)).uid == os.getuid()


def test_the_callers_limits_are_known_and_others_left_alone(proc):
    assert proc.caller(SUDO_UID=str(PERSON)).rlimits == {resource.RLIMIT_NOFILE: (77, resource.RLIM_INFINITY)}
    assert proc.caller().rlimits == {}


def test_sudo_under_sudo_is_called_by_who_called_the_first(proc):
    proc.add(MONITOR, parent=SUDO, exe=proc.sudo, environ={"PATH": "/sbin"})

    caller = proc.caller(SUDO_UID=str(os.getuid()))

    assert (caller.uid, caller.environ["PATH"], caller.caveat) == (PERSON, "/home/p/conda/bin:/bin", None)


@pytest.mark.parametrize("shell", ["root's", "none"])
def test_where_root_started_the_sudo_of_a_person_sudo_itself_tells_the_person(proc, tmp_path, shell):
    if shell == "none":
        (proc.root / str(SHELL) / "status").unlink()
    else:
        proc.add(SHELL, parent=1, uid=0, exe=tmp_path / "bin" / "cron")

    caller = proc.caller(SUDO_UID=str(PERSON), SUDO_GID="77")

    assert (caller.uid, caller.gid, caller.groups, caller.rlimits) == (PERSON, 77, (77,), {})
    assert (caller.environ["PATH"], caller.caveat) == ("/home/p/conda/bin:/bin", None)


def test_who_asked_sudo_for_another_user_than_root_gets_that_user(proc):
    caller = find_caller({"SUDO_UID": str(PERSON)}, pid=TRACER, proc_root=str(proc.root), sudo_owner=os.getuid() + 1)

    assert (caller.uid, caller.environ, caller.caveat) == (os.getuid(), {"SUDO_UID": str(PERSON)}, None)


@pytest.mark.parametrize("name", ["no such user", "", "-1", "4294967295", "99999999999999999999", "\u0664"])
def test_a_user_that_cannot_be_is_wrong_usage(name):
    with pytest.raises(UsageError, match="no such user"):
        find_user(name, SOMEONE, {})


def test_root_made_by_other_means_than_sudo_is_told(proc, tmp_path):
    proc.add(MONITOR, parent=1, uid=PERSON, effective=PERSON, exe=tmp_path / "bin" / "bash")  # it called doas

    caller = proc.caller(PATH="/sbin")

    assert (caller.uid, caller.environ) == (os.getuid(), {"PATH": "/sbin"})
    assert f"user {PERSON} started oomtrace as user {os.getuid()}, and not by sudo" in caller.caveat


def test_root_made_by_su_is_what_was_asked_for(proc, tmp_path):
    proc.add(MONITOR, parent=1, uid=PERSON, effective=0, exe=tmp_path / "bin" / "su")

    assert proc.caller().caveat is None


def test_the_callers_own_name_changes_nothing_and_explains_all():
    assert find_user(str(PERSON), SOMEONE, {"PATH": "/sbin"}) == replace(SOMEONE, caveat=None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can become anyone")
def test_only_root_can_run_a_job_as_someone_else():
    with pytest.raises(PermissionDenied, match="root"):
        find_user("0", SOMEONE, {})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_named_user_gets_what_names_them_and_otherwise_our_environment():
    given = {"PATH": "/x", "HOME": "/root", "USER": "root", "SUDO_UID": "1", "SUDO_ASKPASS": "/ask"}
    user = pwd.getpwuid(1)

    caller = find_user(user.pw_name, SOMEONE, given)

    assert (caller.uid, caller.gid, caller.oom_score_adj, caller.umask) == (1, user.pw_gid, 5, None)
    assert user.pw_gid in caller.groups
    assert caller.environ == {
        "PATH": "/x",
        "SUDO_ASKPASS": "/ask",
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "SHELL": user.pw_shell,
    }


def test_root_under_sudo_gets_its_own_environment_back(proc, tmp_path):
    proc.add(SHELL, parent=1, uid=os.getuid(), exe=tmp_path / "bin" / "bash")

    caller = proc.caller(SUDO_UID=str(os.getuid()), PATH="/sbin")

    assert (caller.environ["PATH"], caller.caveat) == ("/home/p/conda/bin:/bin", None)


def test_root_in_a_shell_that_root_got_by_sudo_is_nothing_to_speak_of(proc, tmp_path):
    proc.add(MONITOR, parent=SUDO, exe=tmp_path / "bin" / "sh")

    caller = proc.caller(SUDO_UID=str(os.getuid()), PATH="/sbin")

    assert (caller.environ["PATH"], caller.caveat) == ("/sbin", None)


def test_a_parent_that_has_gone_is_no_sudo(proc):
    (proc.root / str(MONITOR) / "exe").unlink()

    assert proc.caller(SUDO_UID=str(PERSON)).uid == os.getuid()
