# SPDX-License-Identifier: Apache-2.0
"""Which error file is read when, and whose it is: a rank's workers have its environment."""

import json
import os

import pytest

from tracer.events import ProcessExited, ProcessSeen
from tracer.pipeline.error_files import ErrorFiles
from tracer.sources.environ_names import ERROR_FILE
from tracer.sources.error_file import UserReader


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "error.json")


@pytest.fixture
def files():
    """With all that was read so far, at once."""
    lines = []

    def submit(work):
        line = work()
        if line is not None and found.take(line):
            lines.append(line)

    ours = UserReader(os.getuid(), os.getgid(), tuple(os.getgroups()))
    found = ErrorFiles(lambda seen: None if seen.comm == "stranger" else ours, submit)
    found.lines = lines
    return found


def seen(pid, environ, start_ns=None, comm="x"):
    start_ns = pid * 10_000_000 if start_ns is None else start_ns
    return ProcessSeen(ts_ns=1, source="proc", start_ns=start_ns, tgid=pid, parent_tgid=1, comm=comm, environ=environ)


def exited(pid, status=1 << 8):
    fields = {name: 0 for name in ProcessExited.__struct_fields__ if name not in ("source", "comm")}
    given = {"ts_ns": 2, "tgid": pid, "tid": pid, "start_ns": pid * 10_000_000 + 5, "status": status, "comm": "x"}
    return ProcessExited(**(fields | given))


def write(path, message="RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed. "):
    with open(path, "w") as file:
        json.dump({"message": {"message": message, "extraInfo": {"timestamp": "1"}}}, file)


def test_a_ranks_file_is_read_once_it_has_failed(files, path):
    files.seen(seen(10, {ERROR_FILE: path, "RANK": "3", "LOCAL_RANK": "1"}))
    write(path)
    files.ended(exited(10))

    [line] = files.lines
    assert (line.about, line.pids, line.signal, line.stream) == ("worker_killed", (77,), 9, "error_file")
    assert (line.tgid, line.rank, line.local_rank, line.what) == (10, 3, 1, path)


def test_a_worker_that_dies_first_is_not_called_the_writer(files, path):
    files.seen(seen(20, {ERROR_FILE: path}))
    files.seen(seen(10, {ERROR_FILE: path, "RANK": "0"}))
    files.ended(exited(20, 9))
    assert files.lines == []
    write(path, "ValueError: x")
    files.ended(exited(10))

    assert [(line.tgid, line.about, line.text) for line in files.lines] == [(10, "exception", "ValueError: x")]


def test_a_file_is_told_once(files, path):
    for pid in (10, 11):
        files.seen(seen(pid, {ERROR_FILE: path}))
    write(path)
    for pid in (10, 11):
        files.ended(exited(pid))
    files.hurry()

    assert len(files.lines) == 1


def test_of_one_whose_end_was_not_seen_it_is_read_at_the_end(files, path):
    files.seen(seen(10, {ERROR_FILE: path}))
    write(path)
    files.hurry()

    assert len(files.lines) == 1


@pytest.mark.parametrize("environ", [None, {}, {ERROR_FILE: ""}, {ERROR_FILE: "/" + "x" * 255}], ids=range(4))
def test_without_a_whole_name_nothing_is_read(files, environ):
    files.seen(seen(10, environ))
    files.ended(exited(10))
    files.hurry()

    assert files.lines == []


def test_where_nobodys_rights_are_to_be_had_nothing_is_read(files, path):
    files.seen(seen(10, {ERROR_FILE: path}, comm="stranger"))
    write(path)
    files.ended(exited(10))
    files.hurry()

    assert files.lines == []


def test_one_that_ended_well_is_not_looked_at(files, path):
    files.seen(seen(10, {ERROR_FILE: path}))
    write(path)
    files.ended(exited(10, 0))

    assert files.lines == []


@pytest.mark.parametrize("told", ["hf_hunter2abcdefghijklmnopqrstuvwxyz0123", "password='hunter2'", "--token hunter2"])
def test_a_secret_in_a_message_is_masked(files, path, told):
    files.seen(seen(10, {ERROR_FILE: path}))
    write(path, f"ValueError: bad {told}")
    files.ended(exited(10))

    assert "hunter2" not in files.lines[0].text
