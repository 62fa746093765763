# SPDX-License-Identifier: Apache-2.0
"""`oomtrace verify` over recordings that are whole, unfinished, damaged, or none."""

import json
import re

import msgspec
import pytest
from rich.cells import cell_len

from tests.recordings import everything, written
from tracer.cli import main
from tracer.events import Armed, Clock, Disarmed, Header, Losses, Note, TracerCost, VmstatSample
from tracer.verdict.integrity import Integrity

HEADINGS = {"Where", "The file", "Events", "Verdict"}


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "run.oomtrace", everything())


@pytest.fixture
def verify(capsys):
    def asked(path) -> tuple[int, Integrity]:
        code = main(["verify", "--json", str(path)])
        return code, msgspec.json.decode(capsys.readouterr().out, type=Integrity)

    return asked


def test_a_whole_one_is_said_to_be_whole(path, verify, capsys):
    code, found = verify(path)
    events = everything()

    assert (code, found.state, found.closed, found.schema) == (0, "whole", True, "oomtrace.integrity/1")
    assert (found.events, found.lines, found.size_bytes) == (len(events), len(events), path.stat().st_size)
    assert found.flaws == ()
    assert sum(found.kinds.values()) == len(events)
    assert list(found.kinds.values()) == sorted(found.kinds.values(), reverse=True)
    assert found.begun is not None
    assert found.first_at == found.begun.at
    assert found.seconds == (max(event.ts_ns for event in events) - events[0].ts_ns) / 1e9
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("The recording is whole ")


def test_one_that_its_tracer_did_not_close_is_unfinished_and_not_damaged(tmp_path, verify):
    events = [event for event in everything() if not isinstance(event, Disarmed)]
    code, found = verify(written(tmp_path / "x", events))

    assert (code, found.state, found.closed) == (0, "unfinished", False)
    assert "did not close it" in found.statement


def test_one_of_a_tracer_without_probes_is_closed_by_its_last_words(tmp_path, verify):
    header, *_ = everything()
    t = header.ts_ns
    words = [
        VmstatSample(ts_ns=t + 1, source="pressure", oom_kill=0),
        Losses(ts_ns=t + 2, source="tracer"),
        Note(ts_ns=t + 3, source="tracer", text="x"),
        Clock(ts_ns=t + 4, source="tracer", realtime_ns=1, boottime_ns=1),
        TracerCost(ts_ns=t + 5, source="tracer", cpu_ns=1),
    ]
    assert verify(written(tmp_path / "a", [header, *words]))[1].state == "whole"
    assert verify(written(tmp_path / "b", [header, *words[:-1]]))[1].state == "unfinished"
    assert verify(written(tmp_path / "c", [header, *words, words[0]]))[1].state == "unfinished"
    armed = Armed(ts_ns=t, source="tracer")
    assert verify(written(tmp_path / "d", [header, armed, *words]))[1].state == "unfinished"


def test_damage_is_told_with_line_byte_numbers_and_times(path, verify, capsys):
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    start = sum(map(len, lines[:20]))
    path.write_bytes(content[: start + 9] + b"!" + content[start + 10 : -30])
    code, found = verify(path)

    assert (code, found.state, found.damaged_lines, found.missing) == (1, "damaged", 1, 1)
    damaged, torn = found.flaws
    assert (damaged.line, damaged.offset_bytes, damaged.first_seq, damaged.last_seq) == (21, start, 20, 20)
    assert damaged.after_ns == everything()[19].ts_ns
    assert damaged.before_ns == everything()[21].ts_ns
    assert damaged.after_at is not None
    assert (torn.wrong, torn.line) == ("torn", len(lines))
    assert "proves no kill" in found.verdict

    assert main(["verify", str(path)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert f"line 21, at byte {start}: 1 line damaged ({len(lines[20])} B); event 20 is missing" in out
    assert re.search(r"between 20\S+Z and \d\d:\d\d:\d\d\.\d{6}Z", out)


def test_without_its_header_it_says_what_is_left_and_that_no_verdict_can_be_had(path, verify):
    content = bytearray(path.read_bytes())
    content[3] ^= 4
    path.write_bytes(content)
    code, found = verify(path)

    assert (code, found.state, found.begun, found.format) == (1, "damaged", None, None)
    assert found.events == len(everything()) - 1
    assert found.statement.startswith("Its header is damaged")
    assert found.verdict.startswith("None can be had")
    assert main(["report", str(path)]) == 3


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 4000, b"some log\n" * 50, b'{"kind":"Header"', b"\x1f\x8b\x08"], ids=repr
)
def test_what_is_no_recording_at_all_is_unreadable_input(tmp_path, capsys, content):
    path = tmp_path / "x"
    path.write_bytes(content)

    assert main(["verify", str(path)]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"oomtrace: {path}")


def test_what_cannot_be_opened_is_said_and_so_is_wrong_usage(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 3
    assert main(["verify", str(tmp_path / "missing")]) == 3
    assert main(["verify"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_the_page_keeps_to_its_columns_and_outside_text_poses_as_nothing(tmp_path, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    header, *rest = everything()
    assert isinstance(header, Header)
    hostile = msgspec.structs.replace(header, hostname="a\nVerdict\x1b[2J\u202e" + "h" * 300, machine="m" * 90)
    path = written(tmp_path / ("n" * 150), [hostile, *rest])
    path.write_bytes(path.read_bytes()[:-100])
    main(["verify", str(path)])

    out = capsys.readouterr().out
    rows = out.splitlines()
    assert max(map(cell_len, rows)) <= min(int(columns), 120)
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert {row for row in rows if row and not row.startswith(" ")} - HEADINGS == {rows[0]}
    assert rows.count("Verdict") == 1


def test_the_document_is_ascii_and_has_every_field(path, capsys):
    main(["verify", "--json", str(path)])

    out = capsys.readouterr().out
    assert out.isascii()
    assert set(json.loads(out)) == set(Integrity.__struct_fields__)
