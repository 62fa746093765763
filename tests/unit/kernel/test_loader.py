# SPDX-License-Identifier: Apache-2.0
"""What of the loader child needs neither bcc nor rights."""

import pytest

from tracer.kernel import handover, loader


def test_the_first_folder_that_can_be_written_to_is_used_and_made_private(monkeypatch, tmp_path):
    monkeypatch.setattr(handover, "FOLDERS", (str(tmp_path / "none"), str(tmp_path)))
    made = loader._own_folder()

    assert made.startswith(f"{tmp_path}/oomtrace-")
    assert (tmp_path / made).stat().st_mode & 0o777 == 0o700


def test_where_no_folder_can_be_made_each_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(handover, "FOLDERS", (str(tmp_path / "a"), str(tmp_path / "b")))

    with pytest.raises(loader.LoadError, match=r"/a: No such file or directory; .*/b: No such"):
        loader._own_folder()
