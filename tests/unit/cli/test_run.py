# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run` up to the point where the kernel is needed, and over stand-in sources from there on."""

import contextlib
import json
import os
from dataclasses import replace

import pytest

from tests.unit.pipeline.stand_ins import sources
from tracer.cli import main
from tracer.errors import InputError, LoaderFailed, PermissionDenied
from tracer.job.cgroup import Hierarchy
from tracer.job.identity import find_caller


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def machine(folder, monkeypatch):
    """A machine without BPF whose sources say what the stand-ins say; nothing here needs more than we may do."""

    @contextlib.contextmanager
    def opened(*, need_kernel=False):
        if need_kernel:
            raise LoaderFailed("import", "no bcc")
        yield sources()

    monkeypatch.setattr("tracer.cli.run.open_sources", opened)
    monkeypatch.setattr("tracer.cli.run.is_root", lambda: True)
    monkeypatch.delenv("SUDO_UID", raising=False)
    return folder


def recordings(folder):
    return sorted(path.name for path in folder.glob("*.oomtrace"))


AGAIN = "sudo \"$(command -v oomtrace)\" run {}-- touch 'a file'"


@pytest.fixture
def not_root(machine, monkeypatch):
    """The same for one who is nobody in particular."""
    monkeypatch.setattr("tracer.cli.run.is_root", lambda: False)
    return machine


def test_without_root_it_says_what_it_cannot_and_the_command_that_could_and_does_what_it_can(not_root, capfd):
    assert main(["run", "--record", "-", "--", "touch", "a file"]) == 0

    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("oomtrace: ")]
    assert len(said) == 2
    assert "no proof: no BPF here" in said[0]
    assert "likely at most, by counts of cgroup v2 and what /proc shows" in said[1]
    assert AGAIN.format("--record - ") in said[1]
    assert os.listdir(not_root) == ["a file"]


def test_without_root_no_identity_is_changed_whoever_stands_behind_sudo(not_root, monkeypatch, capfd):
    monkeypatch.setenv("SUDO_UID", "12345")

    assert main(["run", "--record", "-", "--", "sh", "-c", "echo $SUDO_UID; id -u"]) == 0
    assert capfd.readouterr().out == f"12345\n{os.getuid()}\n"


def test_without_root_a_limit_that_cannot_be_set_starts_no_job_and_says_the_command(not_root, monkeypatch, capsys):
    def refused(*_, **__):
        raise PermissionDenied("cannot make the memory cgroup /x: Permission denied", need="a cgroup of your own")

    monkeypatch.setattr("tracer.cli.watching.find_hierarchy", lambda: Hierarchy(2, "/nowhere", "/", "/"))
    monkeypatch.setattr("tracer.cli.run.make_cgroup", refused)
    assert main(["run", "--memory-max", "64M", "--", "touch", "a file"]) == 4

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert AGAIN.format("--memory-max 64M ") in err
    assert os.listdir(not_root) == []


def test_without_root_and_with_bpf_required_no_job_is_started(not_root, monkeypatch, capsys):
    @contextlib.contextmanager
    def refused(*, need_kernel):
        raise PermissionDenied("cannot load BPF programs", need="root, or CAP_BPF and CAP_PERFMON")
        yield

    monkeypatch.setattr("tracer.cli.run.open_sources", refused)
    assert main(["run", "--require-bpf", "--", "touch", "a file"]) == 4

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert AGAIN.format("--require-bpf ") in err
    assert os.listdir(not_root) == []


def test_in_a_folder_that_takes_no_file_the_job_runs_and_no_recording_is_kept(machine, monkeypatch, capfd):
    def refused(name, *_, **__):
        raise InputError("cannot be created: Read-only file system", path=name)

    monkeypatch.setattr("tracer.cli.recording.RecordingWriter.create", refused)

    assert main(["run", "--", "sh", "-c", "exit 7"]) == 7
    err = capfd.readouterr().err
    assert "no recording is kept: oomtrace-" in err
    assert "--record FILE, in a folder that user" in err
    assert main(["run", "--record", "a.rec", "--", "touch", "x"]) == 3
    assert os.listdir(machine) == []


@pytest.mark.parametrize(
    "options",
    [["--memory-max", size] for size in ("lots", "0", "1", "4096", "1023K")] + [["--swap-max", "-1"]],
    ids=" ".join,
)
def test_a_bad_size_is_wrong_usage_and_runs_nothing(machine, options):
    assert main(["run", *options, "--", "touch", "x"]) == 2
    assert os.listdir(machine) == []


def test_the_status_of_the_job_is_ours(machine, capfd):
    assert main(["run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]) == 3

    out, err = capfd.readouterr()
    assert out == "out\n"
    assert "err\n" in err


@pytest.mark.parametrize(
    "argv", [["--", "sh", "-c", "exit 4"], ["sh", "-c", "exit 4"], ["sh", "-c", "exit $2", "--", "--", "4"]]
)
def test_the_command_may_stand_with_and_without_dashes_before_it(machine, argv):
    assert main(["run", *argv]) == 4


def test_options_of_the_command_are_its_own(machine, capfd):
    assert main(["run", "echo", "--record", "-", "--help"]) == 0
    assert capfd.readouterr().out == "--record - --help\n"


def test_the_recording_lies_in_this_folder_and_is_private(machine):
    main(["run", "--", "true"])

    [name] = recordings(machine)
    assert name.endswith(f"-{os.getpid()}.oomtrace")
    assert (machine / name).stat().st_mode & 0o777 == 0o600


def test_the_recording_may_be_kept_elsewhere_or_not_at_all(machine, capfd):
    assert main(["run", "--record", "a.rec", "--", "true"]) == 0
    assert main(["run", "--record", "-", "--", "true"]) == 0

    assert os.listdir(machine) == ["a.rec"]
    assert "true" in capfd.readouterr().err


def test_a_recording_is_never_overwritten_and_the_job_not_started(machine):
    (machine / "a.rec").write_text("mine")

    assert main(["run", "--record", "a.rec", "--", "touch", "x"]) == 2
    assert os.listdir(machine) == ["a.rec"]
    assert (machine / "a.rec").read_text() == "mine"


def test_the_report_goes_to_a_file_that_is_asked_for(machine, capfd):
    assert main(["run", "--report", "out.txt", "--", "sh", "-c", "exit 3"]) == 3

    assert "exit 3" in (machine / "out.txt").read_text()
    assert "Proof" not in capfd.readouterr().err


def test_a_report_file_that_cannot_be_written_is_known_before_the_job_starts(machine):
    assert main(["run", "--report", "no/such/out.txt", "--", "touch", "x"]) == 3
    assert os.listdir(machine) == []


def test_live_and_replay_say_the_same(machine, capsys):
    main(["run", "--report", "live.txt", "--record", "a.rec", "--", "sh", "-c", "exit 3"])
    capsys.readouterr()

    assert main(["report", "a.rec"]) == 0
    assert capsys.readouterr().out == (machine / "live.txt").read_text()


def test_without_bpf_it_says_so_and_the_verdict_is_weaker(machine, capfd):
    main(["run", "--record", "a.rec", "--", "sh", "-c", "exit 3"])
    assert "no proof: no BPF here" in capfd.readouterr().err

    main(["report", "--json", "a.rec"])
    verdict = json.loads(capfd.readouterr().out)
    assert any("no BPF here" in caveat for caveat in verdict["caveats"])


def test_where_bpf_is_required_the_job_is_not_started_and_nothing_left_behind(machine, capsys):
    assert main(["run", "--require-bpf", "--", "touch", "x"]) == 5

    assert "no bcc" in capsys.readouterr().err
    assert os.listdir(machine) == []


@pytest.mark.parametrize(
    "command, code, line",
    [
        ("no-such-command", 127, "no-such-command: command not found"),
        ("./nothing", 127, "./nothing: not found, or the interpreter that it names is not"),
        ("/etc/passwd", 126, "/etc/passwd: Permission denied"),
        ("/", 126, "/: Permission denied"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--record", "a.rec"], ["--record", "-"]], ids=str)
def test_a_command_that_cannot_be_run_is_one_line_and_leaves_nothing(machine, capfd, command, code, line, options):
    assert main(["run", *options, "--", command]) == code

    out, err = capfd.readouterr()
    assert (out, [said for said in err.splitlines() if "no proof" not in said]) == ("", [f"oomtrace: {line}"])
    assert os.listdir(machine) == []


def test_the_report_stands_apart_from_what_the_job_wrote(machine, capfd):
    main(["run", "--", "sh", "-c", "echo err >&2"])

    lines = capfd.readouterr().err.splitlines()
    after = lines[lines.index("err") + 1 :]
    assert after[0] == ""
    assert after[1].strip()


def test_a_report_in_a_file_begins_with_itself(machine):
    main(["run", "--report", "out.txt", "--", "true"])

    assert (machine / "out.txt").read_text()[0].strip()


def test_who_waits_for_the_job_finds_its_pid_in_a_file(machine, capfd):
    main(["run", "--ready-file", "ready", "--", "sh", "-c", "echo $$"])

    assert (machine / "ready").read_text() == capfd.readouterr().out


def test_a_ready_file_that_cannot_be_written_is_known_before_the_job_starts(machine):
    assert main(["run", "--ready-file", "no/such/ready", "--", "touch", "x"]) == 3
    assert os.listdir(machine) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")
@pytest.mark.parametrize("option", ["--report", "--ready-file", "--record"])
def test_what_is_written_for_the_caller_is_written_with_the_callers_rights(machine, monkeypatch, option):
    real = find_caller
    monkeypatch.setattr("tracer.cli.run.find_caller", lambda environ: replace(real(environ), uid=65534, gid=65534))
    machine.chmod(0o755)
    (machine / "roots").write_text("precious")
    (machine / "roots").chmod(0o600)
    (machine / "link").symlink_to("roots")

    assert main(["run", option, "link", "--", "touch", "x"]) in (2, 4)
    assert main(["run", option, "new", "--", "touch", "x"]) == 4

    assert (machine / "roots").read_text() == "precious"
    assert sorted(os.listdir(machine)) == ["link", "roots"]


def test_a_report_that_fails_does_not_cost_the_status(machine, monkeypatch, capfd):
    monkeypatch.setattr("tracer.cli.judging.report_on", lambda _: 1 / 0)

    assert main(["run", "--record", "a.rec", "--", "sh", "-c", "exit 3"]) == 3

    err = capfd.readouterr().err
    assert "the report could not be made" in err
    assert "a.rec" in err


def test_secrets_in_the_command_line_stay_out_of_the_recording(machine):
    main(["run", "--record", "a.rec", "--", "true", "--api-key", "sesame123456"])

    assert b"sesame" not in (machine / "a.rec").read_bytes()


@pytest.mark.parametrize("option", ["--report", "--ready-file"])
def test_a_file_that_takes_nothing_does_not_cost_the_status(machine, option, capfd):
    assert main(["run", option, "/dev/full", "--record", "a.rec", "--", "sh", "-c", "exit 3"]) == 3

    err = capfd.readouterr().err
    assert "No space left on device" in err
    assert option == "--ready-file" or "try: oomtrace report a.rec\n" in err


def test_a_recording_that_is_removed_meanwhile_is_told_in_the_report_as_well(machine, capfd):
    assert main(["run", "--record", "a.rec", "--report", "why", "--", "sh", "-c", "rm a.rec; exit 3"]) == 3

    text = "the recording was removed, or replaced by another file, while the job ran"
    assert f"oomtrace: {text}\n" in capfd.readouterr().err
    assert text in " ".join((machine / "why").read_text().split())


def test_what_could_not_be_written_is_told_when_the_run_is_over(machine, monkeypatch, capfd):
    real = os.write

    def full(fd, data):
        if os.readlink(f"/proc/self/fd/{fd}").endswith("a.rec"):
            raise OSError(28, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr("os.write", full)

    assert main(["run", "--record", "a.rec", "--", "sh", "-c", "exit 3"]) == 3
    err = capfd.readouterr().err
    assert "oomtrace: the recording a.rec could not be written as it should: No space left on device; " in err
    assert "event(s) are missing in it\n" in err
    assert "The job exited with status 3" in err


def test_a_job_for_which_there_is_not_even_a_pipe_is_told_not_to_have_started(machine, monkeypatch, capfd):
    def none(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("tracer.pipeline.run.hold", none)

    assert main(["run", "--", "touch", "x"]) == 5
    assert "oomtrace: the job was not started: Too many open files\n" in capfd.readouterr().err
    assert os.listdir(machine) == []


def test_an_option_of_ours_behind_the_job_is_told_and_goes_to_the_job(machine, capfd):
    main(["run", "echo", "--memory-max", "64G"])

    out, err = capfd.readouterr()
    assert out == "--memory-max 64G\n"
    assert err.startswith("oomtrace: --memory-max stands behind echo, so the job gets it")


def test_a_launcher_whose_work_runs_elsewhere_is_told_and_recorded_and_run(machine, capfd):
    (machine / "docker").write_text("#!/bin/sh\nexit 3\n")
    (machine / "docker").chmod(0o755)

    assert main(["run", "--record", "a.rec", "--", "./docker", "run", "img"]) == 3

    err = capfd.readouterr().err
    assert "oomtrace: docker run: containerd starts the container's processes" in err
    assert "oomtrace: to watch them, on this machine: sudo oomtrace attach --pid" in err
    main(["report", "--json", "a.rec"])
    assert any("oomtrace attach --pid" in caveat for caveat in json.loads(capfd.readouterr().out)["caveats"])


def test_a_user_that_is_not_there_runs_nothing(machine, capsys):
    assert main(["run", "--user", "no such user", "--", "touch", "x"]) == 2

    assert "no such user" in capsys.readouterr().err
    assert os.listdir(machine) == []
