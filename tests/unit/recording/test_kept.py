# SPDX-License-Identifier: Apache-2.0
"""Recordings of older versions, as they lie in tests/data, are still read whole."""

import lzma
import os
from pathlib import Path

import pytest

from tracer.cli.verifying import verified
from tracer.recording import Inspection

DATA = Path(__file__).parents[2] / "data"
KEPT = sorted(DATA.rglob("*.oomtrace.xz"))
FOLDERS = sorted({path.relative_to(DATA).parts[0] for path in KEPT})


def test_there_are_some():
    assert {"kernels", "launchers", "mechanisms", "sampling"} <= set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_recording_that_is_kept_is_read_whole(folder):
    wrong = []
    for path in (one for one in KEPT if one.relative_to(DATA).parts[0] == folder):
        fd = os.memfd_create("recording")
        with open(fd, "wb", closefd=False) as file:
            file.write(lzma.decompress(path.read_bytes()))
        with Inspection(fd, str(path)) as recording:
            found = verified(recording)
        if found.state != "whole" or found.unknown or found.begun is None:
            wrong.append((path, found.statement))

    assert wrong == []
