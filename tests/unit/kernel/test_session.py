# SPDX-License-Identifier: Apache-2.0
"""The parent's side of loading, against children that misbehave; real ones are in tests/kernel."""

import os
import signal
from pathlib import Path

import pytest

from tracer.errors import LoaderFailed, PermissionDenied
from tracer.kernel import session
from tracer.kernel.probes import Hook


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Puts a shell script in the place of the distribution's Python: $4 is the socket's descriptor."""
    monkeypatch.setattr(session, "_may_trace", lambda _: True)

    def write(script):
        path = tmp_path / "python3"
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(session, "PYTHON", str(path))

    return write


def failure() -> LoaderFailed:
    with pytest.raises(LoaderFailed) as caught:
        session.open_session()
    return caught.value


def test_without_an_interpreter_it_fails_at_the_start(monkeypatch, tmp_path):
    monkeypatch.setattr(session, "_may_trace", lambda _: True)
    monkeypatch.setattr(session, "PYTHON", str(tmp_path / "python3"))

    assert (failure().stage, "No such file" in failure().why) == ("start", True)


def test_a_child_that_dies_in_silence_is_told_with_its_status(child):
    child("exit 7")

    assert failure().why == "it ended without a word, status 7"


def test_a_child_that_the_compiler_kills_leaves_its_first_error(child):
    child("echo noise >&2; echo 'bpf/oom.c:3:5: error: no such thing' >&2; echo more >&2; kill -ABRT $$")

    assert failure().why == "bpf/oom.c:3:5: error: no such thing"


def test_a_child_that_says_very_much_does_not_hang(child):
    child("for i in {1..3000}; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done >&2; exit 1")

    assert failure().why.startswith("xxx")


def test_a_child_that_hangs_is_ended(child, monkeypatch):
    monkeypatch.setattr(session, "_DEADLINE_S", 0.05)
    child("exec sleep 100")

    assert failure().stage == "handover"


def test_a_message_that_is_not_ours_is_a_failed_handover(child):
    child("printf hello >&$4")

    assert failure().stage == "handover"


def test_a_child_that_reports_a_failure_is_believed(child):
    child('printf %s \'{"type": "Failure", "content": ["btf", "no types", false]}\' >&$4')

    assert (failure().stage, failure().why) == ("btf", "no types")


def test_a_refusal_by_the_kernel_is_a_question_of_permission(child):
    child('printf %s \'{"type": "Failure", "content": ["attach", "x", true]}\' >&$4')

    with pytest.raises(PermissionDenied, match="CAP_BPF"):
        session.open_session()


def test_a_report_without_descriptors_is_no_session(child):
    child('printf %s \'{"type": "Report", "content": ["digest", [], "ring_buffer"]}\' >&$4')

    assert failure().stage == "handover"


def test_its_environment_is_fixed_and_it_is_isolated(child, monkeypatch, tmp_path):
    for name in ("LD_PRELOAD_X", "PYTHONPATH", "BCC_KERNEL_SOURCE", "ARCH"):
        monkeypatch.setenv(name, "evil")
    child(f"env > {tmp_path}/env; echo $1 $2 $3 > {tmp_path}/argv; pwd > {tmp_path}/cwd")
    failure()
    names = {line.split("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    isolated, no_cache, loader = (tmp_path / "argv").read_text().split()

    assert names - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "LC_ALL"}
    assert (isolated, no_cache) == ("-I", "-B")
    assert Path(loader).is_absolute()
    assert (tmp_path / "cwd").read_text() == "/\n"


def test_nothing_is_left_open_after_a_failure(child):
    child("exit 1")
    before = os.listdir("/proc/self/fd")
    failure()

    assert os.listdir("/proc/self/fd") == before


def test_a_folder_that_a_crashed_child_left_is_removed(child):
    child("mkdir -p /tmp/oomtrace-$$-left/include; kill -ABRT $$")
    failure()

    assert not list(Path("/tmp").glob("oomtrace-*-left"))


def test_a_signal_that_ends_the_child_is_in_the_reason(child):
    child("kill -ABRT $$")

    assert failure().why == f"it ended without a word, status {-signal.SIGABRT}"


@pytest.mark.parametrize(
    "effective, may",
    [
        ("000001fffeffffff", True),
        ("0000000000200000", True),
        ("000000c000000000", True),
        ("0000008000000000", False),
        ("0", False),
    ],
    ids=["root", "sys_admin", "bpf_and_perfmon", "bpf_alone", "none"],
)
def test_capabilities_decide_who_may_trace(tmp_path, effective, may):
    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nCapEff:\t{effective}\n")

    assert session._may_trace(str(status)) is may


def test_without_capabilities_nothing_is_started(monkeypatch):
    monkeypatch.setattr(session, "_may_trace", lambda _: False)
    monkeypatch.setattr(session, "PYTHON", "/nonexistent")

    with pytest.raises(PermissionDenied, match="needs root"):
        session.open_session()


@pytest.mark.parametrize("came", [0, len(session.handover.MAPS), len(session.handover.MAPS) + 1])
def test_a_hook_whose_descriptor_did_not_come_is_no_hook(child, monkeypatch, came):
    hooks = tuple(Hook(f"raw_tracepoint:{name}", name != "c", None, True) for name in "abc")
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(came)]
    child("exit 0")
    monkeypatch.setattr(session.handover, "receive", lambda _: (session.Report("digest", hooks), list(descriptors)))

    assert failure().why.startswith(f"{came} of {len(session.handover.MAPS) + 2} descriptors came")
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.parametrize(
    ("state", "stage", "why"),
    [
        (
            "none integrity [confidentiality]",
            "attach",
            "lockdown=confidentiality, so the kernel lets nobody read its memory",
        ),
        ("none integrity [confidentiality]", "compile", "Invalid argument (processed 26 insns)"),
        ("none [integrity] x", "attach", "Invalid argument (processed 26 insns)"),
    ],
)
def test_lockdown_is_named_as_what_refuses_and_is_all_that_is_said(child, monkeypatch, tmp_path, state, stage, why):
    (tmp_path / "lockdown").write_text(state + "\n")
    monkeypatch.setattr(session, "_LOCKDOWN", str(tmp_path / "lockdown"))
    message = f'{{"type": "Failure", "content": ["{stage}", "Invalid argument", false]}}'
    child(f"echo processed 26 insns >&2; printf %s '{message}' >&$4")

    assert failure().why == why


@pytest.mark.parametrize(
    ("seccomp", "need"), [("2", "needs a container whose seccomp profile"), ("0", "needs CAP_BPF and CAP_PERFMON in")]
)
def test_whoever_has_the_capabilities_and_is_refused_is_told_what_may_refuse(
    child, monkeypatch, tmp_path, seccomp, need
):
    (tmp_path / "status").write_text(f"Name:\tx\nSeccomp:\t{seccomp}\n")
    monkeypatch.setattr(session, "_STATUS", str(tmp_path / "status"))
    monkeypatch.setattr(session, "_LOCKDOWN", str(tmp_path / "none"))
    child(
        "echo 'could not open bpf map: events, error: Operation not permitted' >&2; "
        'printf %s \'{"type": "Failure", "content": ["compile", "Failed to compile", false]}\' >&$4'
    )

    with pytest.raises(PermissionDenied, match=need):
        session.open_session()


def test_folders_of_loaders_that_were_killed_long_ago_are_removed_and_no_others(child, monkeypatch, tmp_path):
    monkeypatch.setattr(session.handover, "FOLDERS", (str(tmp_path / "places"),))
    names = ("oomtrace-11-abcdefgh", "oomtrace-12-abcdefgh", "oomtrace-demo.abcdef", "oomtrace-13", "other")
    for name in names:
        (tmp_path / "places" / name / "include").mkdir(parents=True)
        os.utime(tmp_path / "places" / name, (1, 1))
    os.utime(tmp_path / "places" / "oomtrace-12-abcdefgh")  # at work, for all that we know
    child("exit 7")
    failure()

    assert sorted(os.listdir(tmp_path / "places")) == sorted(names[1:])
