# SPDX-License-Identifier: Apache-2.0
"""Every error becomes one line and one exit code, whatever happened to the standard streams."""

import os
import platform
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tracer import __version__
from tracer.cli import main
from tracer.errors import (
    CgroupUnavailable,
    InputError,
    KernelUnavailable,
    LoaderFailed,
    OomtraceError,
    PermissionDenied,
    RecordingError,
    UsageError,
)

VERSION = f"oomtrace {__version__} (Python {platform.python_version()})\n"


def oomtrace(*arguments, shell=None):
    command = [sys.executable, "-m", "tracer", *arguments]
    if shell is not None:
        command = ["bash", "-c", shell.replace("OOMTRACE", f"{sys.executable} -m tracer")]
    return subprocess.run(
        command, cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == VERSION


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["run", "--nonsense"], ["run"], ["run", "--"], ["report"]])
def test_wrong_usage_is_2(argv, capsys):
    assert main(argv) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "report", "doctor", "selftest"])
def test_help_tells_what_the_command_does(command, capsys):
    assert main([command, "--help"]) == 0
    assert "usage: oomtrace" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error, code",
    [
        (UsageError("x"), 2),
        (InputError("x"), 3),
        (RecordingError("x"), 3),
        (PermissionDenied("x"), 4),
        (KernelUnavailable("x"), 5),
        (LoaderFailed("start", "x"), 5),
        (CgroupUnavailable("x"), 5),
        (OomtraceError("x"), 5),
        (KeyboardInterrupt(), 130),
        (OSError(28, "No space left on device"), 3),
    ],
)
def test_each_error_has_its_exit_code(error, code, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("tracer.cli._discard_output", lambda: None)
    monkeypatch.setattr("tracer.cli.report.ReportCommand.run", fail)

    assert main(["report", "x"]) == code


def test_an_error_is_one_line_and_the_next_command(capsys):
    assert main(["report", "/no/such/file"]) == 3

    assert capsys.readouterr().err == (
        "oomtrace: /no/such/file: cannot be read: No such file or directory\ntry: oomtrace run --help\n"
    )


def test_python_m_tracer_is_the_same_command():
    assert oomtrace("--version").stdout == VERSION


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing(closed):
    done = oomtrace(shell=f"OOMTRACE report /no/such {closed}")

    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_an_output_that_takes_nothing_is_told_in_one_line(argument):
    done = oomtrace(shell=f"OOMTRACE {argument} >/dev/full")

    assert (done.returncode, done.stderr) == (3, "oomtrace: output: No space left on device\n")
