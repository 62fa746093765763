# SPDX-License-Identifier: Apache-2.0
"""Recordings that were cut, flipped, holed or written to a full disk: every command that reads one copes."""

import json
import os
import random
import re
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tests.recordings import everything, written
from tracer.cli import main
from tracer.events import CgroupSample, Disarmed, Header, Note
from tracer.recording import RecordingWriter

FLIPS = 500
READERS = (
    ("report", "FILE"),
    ("report", "--json", "FILE"),
    ("export", "FILE", "--to", "json"),
    ("export", "FILE", "--to", "csv"),
    ("export", "FILE", "--to", "markdown"),
    ("export", "FILE", "--to", "html", "--output", "-"),
    ("compare", "FILE", "WHOLE"),
    ("compare", "WHOLE", "FILE", "--json"),
    ("verify", "FILE"),
    ("verify", "FILE", "--json"),
)


@pytest.fixture
def whole(tmp_path):
    return written(tmp_path / "whole.oomtrace", everything())


@pytest.fixture
def ask(capsys, tmp_path, whole):
    """What a command says of some bytes: its exit code and its output; whatever they are, there is no traceback."""
    path = tmp_path / "damaged.oomtrace"

    def asked(content: bytes, command: tuple[str, ...]) -> tuple[int, str]:
        path.write_bytes(content)
        words = [{"FILE": str(path), "WHOLE": str(whole)}.get(word, word) for word in command]
        code = main(words)
        said = capsys.readouterr()
        assert code in (0, 1, 3)
        assert (code == 3) == said.err.startswith("oomtrace: ")
        assert said.err.count("\n") <= 2
        return code, said.out

    return asked


def flipped(content: bytes, dice: random.Random) -> tuple[bytes, int]:
    place = dice.randrange(len(content))
    damaged = bytearray(content)
    damaged[place] ^= 1 << dice.randrange(8)
    return bytes(damaged), place


def test_each_of_500_flipped_bits_is_found_and_its_line_is_told(whole, ask):
    content = whole.read_bytes()
    ends = [match.end() for match in re.finditer(b"\n", content)]
    dice = random.Random(9)
    for _ in range(FLIPS):
        damaged, place = flipped(content, dice)
        code, out = ask(damaged, ("verify", "FILE", "--json"))
        found = json.loads(out)
        number = sum(end <= place for end in ends) + 1

        assert (code, found["state"]) == (1, "damaged"), place
        assert [flaw["line"] for flaw in found["flaws"]] == [number], place
        # A newline that is gone takes the line behind it along.
        assert found["events"] >= len(ends) - 2


def test_cut_at_every_byte_the_whole_lines_are_read_and_the_torn_end_has_its_place(tmp_path, ask):
    header, *_ = everything()
    assert isinstance(header, Header)
    small = [header, *(Note(ts_ns=header.ts_ns + n, source="tracer", text=f"note {n}") for n in range(4))]
    content = written(tmp_path / "small", small).read_bytes()
    ends = [match.end() for match in re.finditer(b"\n", content)]
    for size in range(len(content)):
        code, out = ask(content[:size], ("verify", "FILE", "--json"))
        whole = sum(end - 1 <= size for end in ends)
        if whole == 0:
            assert (code, out) == (3, "")
            continue
        found = json.loads(out)
        assert found["events"] == whole
        if size in ends:
            assert (code, found["state"], found["flaws"]) == (0, "unfinished", [])
        else:
            (flaw,) = found["flaws"]
            start = max((end for end in ends if end < size), default=0)
            assert (code, flaw["wrong"], flaw["offset_bytes"]) == (1, "torn", start)


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_every_command_that_reads_one_copes_with_cuts_flips_and_holes(whole, ask, command):
    content = whole.read_bytes()
    dice = random.Random(" ".join(command))
    for _ in range(4):
        damaged, _ = flipped(content, dice)
        hole = dice.randrange(len(content))
        ask(damaged, command)
        ask(content[: dice.randrange(len(content))], command)
        ask(content[:hole] + bytes(700) + content[hole + 700 :], command)
        ask(content[: dice.randrange(len(content))] + content[hole:], command)


@pytest.mark.parametrize("command", [("report", "--json", "FILE"), ("export", "FILE", "--to", "json")], ids=" ".join)
def test_no_kill_is_proved_by_a_recording_that_lacks_something(whole, ask, command):
    content = whole.read_bytes()
    lines = content.splitlines(keepends=True)
    assert "proved" in ask(content, command)[1]
    for number in range(1, len(lines), 7):
        _, out = ask(b"".join([*lines[:number], b"?" + lines[number], *lines[number + 1 :]]), command)
        verdict = json.loads(out)

        assert any(incident["strength"] == "proved" for incident in verdict["incidents"]) is False
        assert any(f"line {number + 1}, at byte" in caveat for caveat in verdict["caveats"]), verdict["caveats"]


FULL_DISK = """
import os, resource, subprocess, sys
from tracer.events import Disarmed, Header, Note
from tracer.recording import RecordingWriter

folder = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], check=True)
header = Header(ts_ns=1, source="tracer", version="0", realtime_ns=2, boottime_ns=3)
with RecordingWriter.create(f"{folder}/run.oomtrace", header) as writer:
    taken = 0
    for number in range(2000):
        writer.append(Note(ts_ns=number, source="tracer", text=f"note {number} " * 9))
        taken += writer.flush()
    assert writer.trouble.why == "No space left on device", writer.trouble
sys.stdout.buffer.write(open(f"{folder}/run.oomtrace", "rb").read())
print(taken, file=sys.stderr)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, in a mount namespace of its own")
def test_on_a_disk_that_is_really_full_all_that_was_acknowledged_is_read(tmp_path, ask):
    (tmp_path / "disk").mkdir()
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", FULL_DISK, str(tmp_path / "disk")],
        cwd=ROOT, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    if b"Operation not permitted" in done.stderr or b"permission denied" in done.stderr:
        pytest.skip("no mount namespace can be made here")
    assert done.returncode == 0, done.stderr
    code, out = ask(done.stdout, ("verify", "FILE", "--json"))
    found = json.loads(out)

    assert (code, found["state"], found["flaws"]) == (0, "unfinished", [])
    assert found["events"] - 1 == int(done.stderr)


def test_what_a_full_disk_did_not_take_is_told_with_its_place(tmp_path, ask, monkeypatch):
    header, *_ = everything()
    assert isinstance(header, Header)
    path = tmp_path / "run.oomtrace"
    writer = RecordingWriter.create(path, header)
    size, write = path.stat().st_size, os.write

    def full(fd, data):
        if os.fstat(fd).st_size >= size + 300:
            raise OSError(28, "No space left on device")
        return write(fd, bytes(data[: size + 300 - os.fstat(fd).st_size]))

    with monkeypatch.context() as disk:
        disk.setattr("tracer.recording.writer.os.write", full)
        for number in range(9):
            # A sample: those are let go while the disk is full, and facts are held.
            writer.append(CgroupSample(ts_ns=header.ts_ns + number, cgroup_id=1, path="/x" * 50))
            writer.flush()
    writer.flush()
    writer.append(Disarmed(ts_ns=header.ts_ns + 20, source="tracer"))
    writer.close()
    code, out = ask(path.read_bytes(), ("verify", "FILE", "--json"))
    found = json.loads(out)

    assert writer.trouble is not None
    assert (code, found["missing"]) == (1, writer.trouble.lost)
    (flaw,) = found["flaws"]
    assert flaw["wrong"] == "missing"
    assert flaw["before_ns"] == header.ts_ns + 20
