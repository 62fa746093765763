# SPDX-License-Identifier: Apache-2.0
"""What real launchers did, as it lies in tests/data/launchers: a recording of each run, and what is said of it.

    python -m tests.launched                        judges all of them anew, and writes that down
    python -m tests.launched NAME FILE TEXT         takes a recording in: TEXT says which launcher of which version
    python -m tests.launched --replace OLD NEW ...  and spells names of one machine otherwise

Made for when a rule is meant to say something else from now on, and for a launcher that is new here.
"""

import argparse
import functools
import json
import lzma
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tracer.attribution.places import describe as where
from tracer.attribution.roles import describe
from tracer.events import AnyEvent
from tracer.recording import RecordingReader
from tracer.recording.line import LineEncoder
from tracer.verdict.judge import judge
from tracer.verdict.story import Story

DATA = Path(__file__).parent / "data" / "launchers"
_LATER = re.compile(r", [^,]+ later$")


def names() -> list[str]:
    """Of all captures."""
    return sorted(path.parent.name for path in DATA.glob("*/verdict.json"))


def verdict_of(name: str) -> dict[str, Any]:
    """What is to be said of it."""
    content: dict[str, Any] = json.loads((DATA / name / "verdict.json").read_text(encoding="utf-8"))
    return content


@functools.lru_cache(maxsize=4)
def recording_of(name: str) -> tuple[AnyEvent, ...]:
    """Its events; a damaged recording is an error."""
    return _read(lzma.decompress((DATA / name / "recording.oomtrace.xz").read_bytes()), name)


def said_of(events: Sequence[AnyEvent]) -> dict[str, Any]:
    """What today's rules make of a recording: who was who and how that is known, what came first and what followed."""
    report, story = judge(events), Story(events)
    primary = report.verdict.incidents[report.verdict.primary]
    people = [(member, story.roles[identity]) for identity, member in story.tree.members.items()]
    roles = {
        f"{describe(role, member.comm)} {member.id.tgid}": msgspec.to_builtins(
            {
                name: value
                for name, value in msgspec.structs.asdict(role).items()
                if name not in {"hosts", "service"} and value is not None and value is not False
            }
        )
        for member, role in people
        if role.name != "job"
    }
    return {
        "cause": primary.cause,
        "strength": primary.strength,
        "headline": primary.headline,
        "victim": _who(primary.victim),
        "sender": _who(primary.sender),
        "job": report.verdict.job.status if report.verdict.job is not None else None,
        "incidents": [[one.cause, one.strength] for one in report.verdict.incidents],
        "collateral": [_LATER.sub("", one.how) for one in primary.collateral],
        "roles": roles,
    }


def _who(one: Any) -> dict[str, Any] | None:
    if one is None:
        return None
    kept = ("pid", "comm", "role", "rank", "worker", "kind")
    found = {name: value for name in kept if (value := getattr(one, name, None)) is not None}
    return found if one.place is None else {**found, "place": where(one.place)}


def _read(data: bytes, name: str) -> tuple[AnyEvent, ...]:
    fd = os.memfd_create("recording", os.MFD_CLOEXEC)
    os.write(fd, data)
    with RecordingReader(fd, name) as reader:
        events = tuple(reader)
        assert not reader.damage.statements()
    return events


def _respelled(event: AnyEvent, pairs: Sequence[tuple[str, str]]) -> AnyEvent:
    def spell(value: Any) -> Any:
        if isinstance(value, str):
            for old, new in pairs:
                value = re.sub(old, new, value)
        elif isinstance(value, list | tuple):
            return [spell(one) for one in value]
        elif isinstance(value, dict):
            return {name: one if name == "kind" else spell(one) for name, one in value.items()}
        return value

    return msgspec.convert(spell(msgspec.to_builtins(event)), AnyEvent)


def _take(name: str, path: str, launcher: str, pairs: Sequence[tuple[str, str]]) -> None:
    buffer, encoder = bytearray(), LineEncoder()
    for event in _read(Path(path).read_bytes(), path):
        assert encoder.append(_respelled(event, pairs), buffer)
    (DATA / name).mkdir(parents=True, exist_ok=True)
    (DATA / name / "recording.oomtrace.xz").write_bytes(lzma.compress(bytes(buffer), preset=9 | lzma.PRESET_EXTREME))
    _write(name, launcher)


def _write(name: str, launcher: str) -> None:
    text = json.dumps({"launcher": launcher, **said_of(recording_of(name))}, indent=1)
    (DATA / name / "verdict.json").write_text(f"{text}\n", encoding="utf-8")


def main() -> None:
    """Of all captures, or a new one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("file", nargs="?")
    parser.add_argument("launcher", nargs="?")
    parser.add_argument("--replace", nargs=2, action="append", default=[], metavar=("OLD", "NEW"))
    given = parser.parse_args()
    if given.name is not None:
        _take(given.name, given.file, given.launcher, given.replace)
        return
    for name in names():
        before = verdict_of(name)
        _write(name, before["launcher"])
        changed = [key for key, value in verdict_of(name).items() if value != before.get(key)]
        if changed:
            print(f"{name}: {', '.join(changed)}")


if __name__ == "__main__":
    main()
