# SPDX-License-Identifier: Apache-2.0
"""`oomtrace report` over recordings that are whole, torn, or none."""

import json
import os
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tracer.cli import main
from tracer.events import Armed, Disarmed, HookStatus, JobEnded, JobStarted, Losses
from tracer.pipeline.clocks import header_now
from tracer.recording import RecordingWriter

HOOKS = ("mark_victim", "signal_generate", "sched_process_exit", "sched_process_fork")


@pytest.fixture
def recording(tmp_path):
    """A job that ran well."""
    path = tmp_path / "run.oomtrace"
    header = header_now(cgroup_version=2)
    t = header.ts_ns
    with RecordingWriter.create(path, header) as writer:
        for hook in HOOKS:
            writer.append(HookStatus(ts_ns=t, source="tracer", hook=f"raw_tracepoint:{hook}", attached=True))
        writer.append(Armed(ts_ns=t + 1, source="tracer"))
        writer.append(JobStarted(ts_ns=t + 2, source="job", tgid=10, start_ns=50_000_000, argv=("train",)))
        writer.append(JobEnded(ts_ns=t + 3, source="job", tgid=10, start_ns=50_000_000, status=0))
        writer.append(Disarmed(ts_ns=t + 4, source="tracer"))
        writer.append(Losses(ts_ns=t + 5, source="tracer"))
    return path


def test_it_is_shown_as_text(recording, capsys):
    assert main(["report", str(recording)]) == 0

    out = capsys.readouterr().out
    assert "train" in out
    assert "\x1b" not in out


def test_it_is_printed_as_one_json_document(recording, capsys):
    assert main(["report", "--json", str(recording)]) == 0

    verdict = json.loads(capsys.readouterr().out)
    assert verdict["schema"] == "oomtrace.verdict/1"
    assert verdict["incidents"][verdict["primary"]]["cause"] == "exited"


def test_a_torn_end_is_a_caveat_and_no_error(recording, capsys):
    whole = recording.read_bytes()
    recording.write_bytes(whole[:-20])

    assert main(["report", "--json", str(recording)]) == 0

    assert any("torn end" in caveat for caveat in json.loads(capsys.readouterr().out)["caveats"])


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"hello\n", b'{"kind":"Header"}\n', os.urandom(300)])
def test_what_is_no_recording_is_unreadable_input(tmp_path, capsys, content):
    path = tmp_path / "x"
    path.write_bytes(content)

    assert main(["report", str(path)]) == 3
    assert capsys.readouterr().err.startswith("oomtrace: ")


def test_a_folder_is_unreadable_input(tmp_path):
    assert main(["report", str(tmp_path)]) == 3


def test_a_reader_that_leaves_early_gets_no_complaint(recording):
    command = f"{sys.executable} -m tracer report {recording} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode in (0, 141)  # 0: the text was in the pipe before `true` had left
    assert done.stderr == ""
