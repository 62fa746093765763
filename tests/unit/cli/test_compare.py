# SPDX-License-Identifier: Apache-2.0
"""`oomtrace compare` over files: exit codes, the document, the page, and files that are torn, hostile or none."""

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.unit.verdict.comparison.growing import run
from tracer.cli import main
from tracer.events import Header, JobStarted
from tracer.recording import RecordingWriter
from tracer.units import MIB


def write(path, scene):
    header, *events = scene.events
    assert isinstance(header, Header)
    with RecordingWriter.create(path, header) as writer:
        for event in events:
            writer.append(event)
    return str(path)


def leaking(mib_per_epoch, seconds=100):
    return run(lambda at_s: (200 + mib_per_epoch * at_s / 10) * MIB, seconds=seconds, epoch_s=10)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    rates = {"before": 100, "fixed": 0, "less": 30, "same": 100}
    return {name: write(folder / f"{name}.oomtrace", leaking(rate)) for name, rate in rates.items()}


@pytest.mark.parametrize(("after", "code"), [("fixed", 0), ("less", 1), ("same", 1)])
def test_the_exit_code_says_whether_it_is_fixed(files, after, code, capsys):
    assert main(["compare", files["before"], files[after]]) == code
    assert capsys.readouterr().out


def test_less_growth_is_enough_where_that_is_accepted(files, capsys):
    assert main(["compare", "--accept", "reduced", files["before"], files["less"]]) == 0
    assert main(["compare", "--accept", "reduced", files["before"], files["same"]]) == 1
    capsys.readouterr()


def test_usage_and_unreadable_files_have_codes_of_their_own(files, tmp_path, capsys):
    other = tmp_path / "no.oomtrace"
    assert main(["compare", files["before"]]) == 2
    assert main(["compare", files["before"], str(other)]) == 3
    other.write_text("hello\n")
    assert main(["compare", files["before"], str(other)]) == 3
    capsys.readouterr()


def test_the_document_has_a_schema_and_numbers(files, capsys):
    main(["compare", "--json", files["before"], files["less"]])
    found = json.loads(capsys.readouterr().out)

    assert found["schema"] == "oomtrace.comparison/1"
    assert found["outcome"] == "reduced"
    assert found["aligned"]["unit"] == "epoch"
    assert found["before"]["killed"] is True
    assert 0.2 < found["ratio"]["low"] <= found["ratio"]["value"] <= found["ratio"]["high"] < 0.4
    assert len(found["before"]["series_bytes"]) == len(found["after"]["series_bytes"])


def test_the_page_fits_and_has_both_courses_on_one_scale(files, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main(["compare", files["before"], files["fixed"]])
    page = capsys.readouterr().out

    assert all(len(line) <= 80 for line in page.splitlines())
    before, after = (line for line in page.splitlines() if "▁" in line or "▂" in line)
    assert before.rstrip().endswith("█")
    assert "█" not in after
    assert "\x1b" not in page


def test_a_torn_file_is_compared_and_never_fixed(files, tmp_path, capsys):
    torn = tmp_path / "torn.oomtrace"
    with open(files["fixed"], "rb") as file:
        torn.write_bytes(file.read()[:-200])

    assert main(["compare", files["before"], str(torn)]) == 1
    assert "torn" in capsys.readouterr().out


def test_what_a_recording_says_cannot_change_the_terminal(tmp_path, files, capsys):
    scene = leaking(0)
    hostile = "\x1b[2J\u202e" + "x" * 5000
    scene.items = [
        msgspec.structs.replace(event, argv=(hostile, "\n✓ fixed")) if isinstance(event, JobStarted) else event
        for event in scene.items
    ]
    main(["compare", files["before"], write(tmp_path / "hostile.oomtrace", scene)])
    page = capsys.readouterr().out

    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "\n✓" not in page


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_number_in_a_recording_brings_it_down(files, data, tmp_path_factory, capsys):
    """Any values in samples and marks: it says something, and never that a leak is fixed that was not."""
    scene = leaking(100, seconds=40)
    huge = st.integers(0, 2**63 - 1)
    for place, event in enumerate(scene.items):
        name = type(event).__name__
        if name == "CgroupSample" and data.draw(st.integers(0, 9)) == 0:
            scene.items[place] = msgspec.structs.replace(
                event, anon_bytes=data.draw(st.none() | huge), limit_bytes=data.draw(st.none() | huge)
            )
        elif name == "TrainingLine" and data.draw(st.integers(0, 9)) == 0:
            event.numbers["epoch"] = data.draw(st.integers(0, 10**12) | st.floats(0, 1e12))
            event.numbers["epochs"] = data.draw(st.integers(0, 10**12))
    folder = tmp_path_factory.mktemp("any")

    assert main(["compare", files["before"], write(folder / "any.oomtrace", scene)]) in {0, 1}
    assert main(["compare", "--json", str(folder / "any.oomtrace"), files["same"]]) in {0, 1}
    assert main(["report", "--json", str(folder / "any.oomtrace")]) == 0
    capsys.readouterr()
