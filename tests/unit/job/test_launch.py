# SPDX-License-Identifier: Apache-2.0
"""The job's first process: what it is, what it gets, how it ends. Real forks, no root."""

import contextlib
import os
import resource
import signal
import sys

import pytest

from tracer.job.identity import Caller
from tracer.job.launch import Stage, hold, reset_oom_score_adj, shun_oom_killer

ENVIRON = {"PATH": os.environ["PATH"], "GIVEN": "yes"}


def as_we_are(**changes):
    given = {"uid": os.getuid(), "gid": os.getgid(), "groups": (), "environ": ENVIRON} | changes
    return Caller(**given)


@contextlib.contextmanager
def held(*argv, caller=None):
    job = hold(argv, caller or as_we_are())
    try:
        yield job
    finally:
        if job.status is None:
            job.release()
            with contextlib.suppress(ProcessLookupError):
                os.kill(job.pid, signal.SIGKILL)
            job.wait()
        job.close()


def ended(*argv, caller=None):
    with held(*argv, caller=caller) as job:
        job.release()
        return job.wait(), job.start_failure()


def said(tmp_path, program, **kwargs):
    """What a Python program prints, with descriptors and handlers as they are in a job."""
    out = tmp_path / "out"
    code = f"import os, signal, sys; sys.stdout = open({str(out)!r}, 'w')\n{program}"
    assert ended(sys.executable, "-S", "-c", code, **kwargs) == (0, None)
    return out.read_text().split()


def test_a_held_job_has_run_nothing(tmp_path):
    mark = tmp_path / "mark"
    with held("sh", "-c", f": > {mark}") as job:
        assert not job.poll()
        assert not mark.exists()

        job.release()
        assert job.wait() == 0
        assert mark.exists()


def test_a_held_job_that_is_given_up_never_runs(tmp_path):
    mark = tmp_path / "mark"
    job = hold(("sh", "-c", f": > {mark}"), as_we_are())

    job.close()

    assert os.waitstatus_to_exitcode(job.status) == 125
    assert not mark.exists()


def test_it_leads_a_process_group_of_its_own_and_keeps_our_session(tmp_path):
    pid, group, session = map(int, said(tmp_path, "print(os.getpid(), os.getpgrp(), os.getsid(0))"))

    assert (group, session) == (pid, os.getsid(0))


def test_it_gets_the_callers_environment_and_nothing_of_ours(tmp_path):
    names = set(said(tmp_path, "print(*sorted(os.environ))"))

    assert {"GIVEN", "PATH"} <= names
    assert not names & {"PYTEST_CURRENT_TEST", "HOME"}


def test_it_gets_no_descriptor_of_ours(tmp_path):
    fds = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
    inherited = {os.readlink(f"/proc/self/fd/{fd}") for fd in fds if os.get_inheritable(int(fd))}
    program = (
        "print(*(os.readlink('/dev/fd/' + fd) for fd in os.listdir('/dev/fd') if os.path.exists('/dev/fd/' + fd)))"
    )

    pipes = {link for link in said(tmp_path, program) if link.startswith("pipe:")}

    assert pipes <= inherited


def test_signals_are_as_they_were_before_python_came(tmp_path):
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        ignored = said(tmp_path, "print([l for l in open('/proc/self/status') if 'SigIgn' in l][0])", caller=None)
    finally:
        signal.signal(signal.SIGUSR1, handler)
    by_itself = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)  # that child is a Python as well

    assert int(ignored[1], 16) & ~by_itself == 0


def test_sigpipe_ends_it_as_it_ends_any_program():
    status, _ = ended("sh", "-c", "kill -PIPE $$; exit 3")

    assert os.WTERMSIG(status) == signal.SIGPIPE


def test_a_signal_that_we_were_told_to_ignore_stays_ignored():
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        status, _ = ended("sh", "-c", "kill -HUP $$; exit 3")
    finally:
        signal.signal(signal.SIGHUP, handler)

    assert os.waitstatus_to_exitcode(status) == 3


def test_the_callers_umask_holds(tmp_path):
    assert said(tmp_path, "print(oct(os.umask(0)))", caller=as_we_are(umask=0o037)) == ["0o37"]


@pytest.mark.parametrize(
    "command, why",
    [
        ("no-such-program-anywhere", "command not found"),
        ("", "command not found"),
        ("/no/such/program", "not found, or the interpreter that it names is not"),
        ("/etc/passwd/program", "not found, or the interpreter that it names is not"),
    ],
)
def test_what_is_not_there_gives_127(command, why):
    status, failure = ended(command)

    assert os.waitstatus_to_exitcode(status) == 127
    assert failure.stage is Stage.EXEC
    assert failure.why(command) == why


def test_what_cannot_be_executed_gives_126(tmp_path):
    file = tmp_path / "script"
    file.write_text("echo")
    status, failure = ended(str(file))

    assert os.waitstatus_to_exitcode(status) == 126
    assert failure.why(str(file)) == "Permission denied"


def test_a_program_that_cannot_be_executed_is_passed_over_for_the_next_in_path(tmp_path):
    for folder, mode in (("a", 0o644), ("b", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "prog").write_text("#!/bin/sh\nexit 7\n")
        (tmp_path / folder / "prog").chmod(mode)

    status, _ = ended("prog", caller=as_we_are(environ={"PATH": f"{tmp_path}/a:{tmp_path}/b"}))

    assert os.waitstatus_to_exitcode(status) == 7


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become someone else")
def test_a_folder_in_path_that_may_not_be_looked_into_is_passed_over(tmp_path):
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "private" / "prog").write_text("#!/bin/sh\n")
    (tmp_path / "private" / "prog").chmod(0o755)
    someone = as_we_are(uid=65534, gid=65534, environ={"PATH": f"{tmp_path}/private:/usr/bin:/bin"})

    status, failure = ended("prog", caller=someone)

    assert (os.waitstatus_to_exitcode(status), failure.why("prog")) == (127, "command not found")
    assert ended("true", caller=someone) == (0, None)


def test_a_script_without_an_interpreter_line_runs_in_a_shell(tmp_path):
    file = tmp_path / "script"
    file.write_text("exit $1\n")
    file.chmod(0o755)

    assert os.waitstatus_to_exitcode(ended(str(file), "9")[0]) == 9


def test_a_job_that_ran_has_no_start_failure_even_if_it_exits_as_one():
    status, failure = ended("sh", "-c", "exit 127")

    assert (os.waitstatus_to_exitcode(status), failure) == (127, None)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become someone else")
def test_as_root_it_becomes_the_caller_for_good():
    lines = 'awk \'/^(Uid|Gid|Groups|CapEff):/ { $1 = ""; printf "%s", $0 }\' /proc/self/status'
    wanted = " 65534 65534 65534 65534 65533 65533 65533 65533 65532 0000000000000000"
    caller = as_we_are(uid=65534, gid=65533, groups=(65532,))

    assert ended("sh", "-c", f'[ "$({lines})" = "{wanted}" ]', caller=caller) == (0, None)


def test_stopping_is_seen_and_going_on_is(tmp_path):
    with held("sh", "-c", "kill -STOP $$; exit 4") as job:
        job.release()
        os.waitid(os.P_PID, job.pid, os.WSTOPPED | os.WNOWAIT)
        assert not job.poll()
        assert job.stopped_by == signal.SIGSTOP

        assert job.signal(signal.SIGCONT)
        assert os.waitstatus_to_exitcode(job.wait()) == 4
        assert job.stopped_by is None


def test_a_signal_to_a_group_that_is_gone_is_no_error():
    with held("true") as job:
        job.release()
        job.wait()

        assert not job.signal(signal.SIGTERM)


def test_oom_score_adj_is_left_alone_where_it_is_right_and_set_where_not(tmp_path):
    file = tmp_path / "1" / "oom_score_adj"
    file.parent.mkdir()
    file.write_text("-900\n")

    assert reset_oom_score_adj(1, as_we_are(oom_score_adj=100), proc_root=str(tmp_path)) is None
    assert file.read_text() == "100"
    assert reset_oom_score_adj(1, as_we_are(), proc_root=str(tmp_path)) is None
    assert "could not" in reset_oom_score_adj(2, as_we_are(oom_score_adj=1), proc_root=str(tmp_path))


def test_the_oom_killer_is_shunned_where_that_is_allowed(tmp_path):
    file = tmp_path / "self" / "oom_score_adj"
    assert not shun_oom_killer(proc_root=str(tmp_path))
    file.parent.mkdir()

    assert shun_oom_killer(proc_root=str(tmp_path))
    assert file.read_text() == "-1000"


def test_the_callers_limits_hold_and_one_that_cannot_be_set_does_not_cost_the_job(tmp_path):
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = {resource.RLIMIT_NOFILE: (files - 1, files - 1), resource.RLIMIT_CORE: (2, 1)}

    assert (
        said(
            tmp_path,
            "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))",
            caller=as_we_are(rlimits=limits),
        )
        == [str(files - 1)] * 2
    )


def test_the_first_process_alone_can_be_signalled_until_it_has_ended():
    with held("sleep", "60") as job:
        job.release()
        job.signal_first(signal.SIGKILL)
        assert os.WTERMSIG(job.wait()) == signal.SIGKILL

        job.signal_first(signal.SIGKILL)
