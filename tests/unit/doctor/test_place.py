# SPDX-License-Identifier: Apache-2.0
"""The folder of the recording, with the caller's rights, and the clock."""

import os
from types import SimpleNamespace

import pytest

from tests.unit.doctor.trees import by_id
from tracer.doctor.place import NOT_BEFORE_NS, ROOM_BYTES, check
from tracer.job.identity import Caller


def caller(uid=None):
    return Caller(
        uid=os.geteuid() if uid is None else uid, gid=os.getegid() if uid is None else uid, groups=(), environ={}
    )


def test_a_folder_of_ones_own_is_good(tmp_path):
    assert by_id(check(caller(), str(tmp_path)))["folder"].ok == "yes"


def test_a_missing_one_is_told(tmp_path):
    found = by_id(check(caller(), str(tmp_path / "absent")))["folder"]

    assert (found.ok, found.remedy) == ("no", "cd to another folder, or run --record FILE")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as someone else")
def test_it_is_the_caller_who_must_be_able_to_write(tmp_path):
    tmp_path.chmod(0o755)

    assert by_id(check(caller(65534), str(tmp_path)))["folder"].ok == "no"
    assert os.geteuid() == 0


@pytest.mark.parametrize("free_bytes, ok", [(ROOM_BYTES, "yes"), (ROOM_BYTES - 1, "no")])
def test_little_room_is_told(tmp_path, monkeypatch, free_bytes, ok):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free_bytes, f_frsize=1))

    assert by_id(check(caller(), str(tmp_path)))["folder"].ok == ok


@pytest.mark.parametrize("now_ns, ok", [(NOT_BEFORE_NS, "yes"), (NOT_BEFORE_NS - 1, "no"), (0, "no")])
def test_a_clock_that_was_never_set_is_told(now_ns, ok):
    assert by_id(check(caller(), realtime_ns=lambda: now_ns))["clock"].ok == ok
