# SPDX-License-Identifier: Apache-2.0
"""What of the loader child needs neither bcc nor rights."""

import pytest

from tracer.kernel import handover, loader
from tracer.kernel.btf import BtfError
from tracer.kernel.probes import Wanted


def test_the_first_folder_that_can_be_written_to_is_used_and_made_private(monkeypatch, tmp_path):
    monkeypatch.setattr(handover, "FOLDERS", (str(tmp_path / "none"), str(tmp_path)))
    made = loader._own_folder()

    assert made.startswith(f"{tmp_path}/oomtrace-")
    assert (tmp_path / made).stat().st_mode & 0o777 == 0o700


def test_where_no_folder_can_be_made_each_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(handover, "FOLDERS", (str(tmp_path / "a"), str(tmp_path / "b")))

    with pytest.raises(loader.LoadError, match=r"/a: No such file or directory; .*/b: No such"):
        loader._own_folder()


@pytest.mark.parametrize(
    ("has_ring_buffer", "asked_for", "perf_buffer"),
    [
        (True, None, 0),
        (False, None, 1),
        (True, handover.PERF_BUFFER, 1),
        (False, handover.RING_BUFFER, 0),
    ],
    ids=["new", "old", "forced", "forced back"],
)
def test_programs_are_compiled_for_what_the_kernel_has_unless_a_test_wants_another(
    monkeypatch, has_ring_buffer, asked_for, perf_buffer
):
    seen = []

    def refuse(_, constants):
        seen.append(constants["PERF_BUFFER"])
        raise BtfError("far enough")

    monkeypatch.setattr(loader, "_source", lambda *_: ("", b""))
    monkeypatch.setattr(loader.Btf, "load", lambda: None)
    monkeypatch.setattr(loader.headers, "kernel_h", refuse)
    monkeypatch.setattr(loader.bpfcalls, "has_ring_buffer", lambda _: has_ring_buffer)

    with pytest.raises(loader.LoadError, match="far enough"):
        loader.load("", handover.Limits(), Wanted(), asked_for)
    assert seen == [perf_buffer]
