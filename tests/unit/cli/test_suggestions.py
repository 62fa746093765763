# SPDX-License-Identifier: Apache-2.0
"""Whatever was typed wrong: one line that says so, one with the next command to type, and nothing else."""

import os

import pytest

from tracer.cli import COMMANDS, main
from tracer.cli.parser import Program
from tracer.cli.suggestions import next_command, not_a_job
from tracer.errors import CgroupUnavailable, InputError, KernelUnavailable, OomtraceError, PermissionDenied, UsageError


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """What two lines a command line gets: the error, and what to type."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    def say(*words):
        code = main(list(words))
        captured = capsys.readouterr()
        assert captured.out == ""
        error, following, end = captured.err.split("\n")
        assert error.startswith("oomtrace: ")
        assert end == ""
        return code, error.removeprefix("oomtrace: "), following.removeprefix("try: ")

    return say


@pytest.mark.parametrize(
    "words",
    [
        ["rnu", "--", "tool", "--token", "hush-hush"],
        ["tool", "--api-key=hush-hush"],
        ["run", "--recod", "x", "--", "tool", "--token", "hush-hush"],
        ["run", "--", "train.py", "--token", "hush-hush"],
    ],
)
def test_a_command_to_type_repeats_no_secret(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool").touch(0o755)
    (tmp_path / "train.py").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    main([*words[:1], *(["--record", "-"] if words[1] == "--" and words[0] == "run" else []), *words[1:]])
    err = capsys.readouterr().err

    assert "***" in err
    assert "hush-hush" not in err


@pytest.mark.parametrize(
    "words, error, following",
    [
        (["rnu", "--", "true"], "there is no command 'rnu'", "oomtrace run -- true"),
        (["reprot", "x y"], "there is no command 'reprot'", "oomtrace report 'x y'"),
        (["zzz"], "there is no command 'zzz'", "oomtrace --help"),
        (["train.py", "--lr", "3"], "'train.py' is a job, and no command of oomtrace",
         "oomtrace run -- python train.py --lr 3"),
        (["run.py"], "'run.py' is a job, and no command of oomtrace", "oomtrace run -- python run.py"),
        (["tool", "a b"], "'tool' is a job, and no command of oomtrace", "oomtrace run -- tool 'a b'"),
        (["old.oomtrace"], "old.oomtrace is a recording, and no command", "oomtrace report old.oomtrace"),
        (["old.oomtrace", "--json"], "old.oomtrace is a recording, and no command",
         "oomtrace report old.oomtrace --json"),
        (["help", "rum"], "there is no command 'rum'", "oomtrace help run"),
        (["help", "zzz"], "there is no command 'zzz'", "oomtrace help"),
        (["run", "--memroy-max", "4G", "true"], "there is no option --memroy-max",
         "oomtrace run --memory-max 4G true"),
        (["run", "--memroy-max=4G", "--", "a b"], "there is no option --memroy-max",
         "oomtrace run --memory-max=4G -- 'a b'"),
        (["run", "--lr", "3", "x.py"], "there is no option --lr; options of the job stand behind its command",
         "oomtrace run -- COMMAND --lr"),
        (["run", "--lr", "--", "true"], "there is no option --lr", "oomtrace run --help"),
        (["--versoin"], "there is no option --versoin", "oomtrace --version"),
        (["--zzz"], "there is no option --zzz", "oomtrace --help"),
        (["run"], "no command to run", "oomtrace run -- python train.py"),
        (["run", "--"], "no command to run", "oomtrace run -- python train.py"),
        (["run", "--memory-max"], "argument --memory-max: expected one argument", "oomtrace run --help"),
        (["run", "--memory-max", "big", "true"], "'big' is not a size; write it as 512M, 64G, 1.5GiB or in bytes",
         "oomtrace run --help"),
        (["report"], "the following arguments are required: FILE", "oomtrace report --help"),
        (["attach", "4711"], "4711: a process is given with --pid", "oomtrace attach --pid 4711"),
        (["report", "a", "b"], "b: more than is taken", "oomtrace report --help"),
        (["completion", "tcsh"], None, "oomtrace completion --help"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_the_next_command(said, words, error, following):
    code, told, suggested = said(*words)

    assert code == 2
    assert error in (None, told)
    assert following == suggested


def test_a_recording_is_known_by_what_is_in_it(said, tmp_path):
    (tmp_path / "x").write_bytes(b'{"kind":"Header","ts_ns":1}')
    (tmp_path / "y").write_bytes(b"other")

    assert said("x")[2] == "oomtrace report x"
    assert said("y")[2] == "oomtrace --help"


def test_who_is_not_root_is_told_to_type_sudo(said, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert said("train.py")[2] == "sudo oomtrace run -- python train.py"


def test_a_recording_that_is_not_there_names_the_one_that_is(said, tmp_path):
    (tmp_path / "old.oomtrace").touch()
    (tmp_path / "new.oomtrace").touch()
    os.utime(tmp_path / "old.oomtrace", (1, 1))

    assert said("report", "none.of.them")[2] == "oomtrace report new.oomtrace"
    assert said("report", "od.oomtrace")[2] == "oomtrace report old.oomtrace"


def test_what_moves_a_cursor_is_not_printed_as_it_is(said, tmp_path):
    (tmp_path / "\x1b[2J.oomtrace").touch()
    code, error, following = said("report", "\x1b[1m\nx")

    assert code == 3
    assert error.startswith("\\x1b[1m\\nx: ")
    assert "\x1b" not in following


@pytest.mark.parametrize(
    "error, words, following",
    [
        (UsageError("x"), ["run"], "oomtrace run --help"),
        (UsageError("x", next_command="y"), ["run"], "y"),
        (KernelUnavailable("x"), ["run"], "sudo oomtrace doctor"),
        (CgroupUnavailable("x"), ["run"], "sudo oomtrace doctor"),
        (KernelUnavailable("x"), ["doctor"], None),
        (PermissionDenied("x"), ["report", "a b"], "sudo oomtrace report 'a b'"),
        (InputError("x", path="/no/such/folder/x"), ["report"], "oomtrace run --help"),
        (InputError("x"), ["run"], None),
        (OomtraceError("x"), [], None),
    ],
)
def test_each_kind_of_error_has_what_helps_against_it(error, words, following, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert next_command(error, words, Program(COMMANDS)) == following


def test_a_job_that_could_not_be_started_names_what_was_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "train.py").touch()

    assert not_a_job(["train.py", "--lr", "3"]) == "oomtrace run -- python train.py --lr 3"
    assert not_a_job(["--memory-max", "64G"]) == "oomtrace run --help"
    assert not_a_job(["x.oomtrace"]) == "oomtrace report x.oomtrace"
    assert not_a_job(["RANK=0", "train.py"]) == "oomtrace run -- env NAME=VALUE COMMAND"
    assert not_a_job(["no.py"]) is None
    assert not_a_job(["other"]) is None


@pytest.mark.parametrize(
    "words, following",
    [
        (["run", "--log", "a.log", "--", "tool", "a.log"], "oomtrace run --log a.3.log -- tool a.log"),
        (["run", "--record", "-", "--log=a.log", "tool", "a.log"], "oomtrace run --record - --log=a.3.log tool a.log"),
        (["run", "--record", "a.log", "--", "tool"], "oomtrace run --record a.3.log -- tool"),
        (["run", "--record", "-", "--log", "b.d/a", "--", "tool"], "oomtrace run --record - --log b.d/a.2 -- tool"),
    ],
)
def test_beside_a_file_that_is_there_already_a_free_name_is_found(said, tmp_path, following, words):
    (tmp_path / "a.log").touch()
    (tmp_path / "a.2.log").symlink_to("nowhere")
    (tmp_path / "b.d").mkdir()
    (tmp_path / "b.d" / "a").touch()

    code, error, found = said(*words)
    assert (code, found) == (2, following)
    assert "exists already, and " in error


def test_a_log_without_a_name_is_wrong_usage(said):
    wrong = "--log needs the name of a file"

    assert said("run", "--record", "-", "--log=", "--", "tool") == (2, wrong, "oomtrace run --help")
    assert said("run", "--record", "-", "--log", "-", "--", "tool") == (
        2, f"{wrong} (./- for one that is called so)", "oomtrace run --help",
    )  # fmt: skip
