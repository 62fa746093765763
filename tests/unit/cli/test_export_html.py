# SPDX-License-Identifier: Apache-2.0
"""`oomtrace export --to html`: a file for its owner alone, the same each time, also of a damaged recording."""

import stat

import pytest

from tests.unit.views.webpage.pages import killed, parsed, text_of
from tracer.cli import main
from tracer.recording import RecordingWriter


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "run.oomtrace"
    header, *events = killed()
    with RecordingWriter.create(path, header) as writer:
        for event in events:
            writer.append(event)
    return path


def test_the_page_is_a_new_file_of_its_owner_alone(recording, tmp_path):
    page = tmp_path / "run.html"

    assert main(["export", str(recording), "--to", "html", "--output", str(page)]) == 0

    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_a_page_that_is_there_is_not_written_over(recording, tmp_path):
    (tmp_path / "run.html").write_text("mine")

    assert main(["export", str(recording), "--to", "html", "--output", str(tmp_path / "run.html")]) != 0
    assert (tmp_path / "run.html").read_text() == "mine"


def test_the_same_recording_makes_the_same_page(recording, tmp_path):
    for name in ("a.html", "b.html"):
        main(["export", str(recording), "--to", "html", "--output", str(tmp_path / name)])

    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_damage_of_the_recording_stands_among_the_caveats(recording, tmp_path):
    recording.write_bytes(recording.read_bytes()[:-40])

    assert main(["export", str(recording), "--to", "html", "--output", str(tmp_path / "run.html")]) == 0

    caveats = parsed((tmp_path / "run.html").read_text(encoding="utf-8")).find(".//ul[@class='caveats']")
    assert "end" in text_of(caveats)
