# SPDX-License-Identifier: Apache-2.0
"""What real kernels did, as it lies in tests/data/kernels; made by `scripts/vm --matrix --capture`.

`python -m tests.captured` judges the recordings anew and writes that into each verdict.json: for when a rule is meant
to say something else from now on.
"""

import functools
import json
import lzma
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tracer.events import AnyEvent, LogEvent
from tracer.logs.kernel import parse_record
from tracer.logs.kernel.devkmsg import KmsgRecord, parse_kmsg
from tracer.recording import RecordingReader
from tracer.repro.catalogue import by_name
from tracer.repro.expectations import Seen, declared, differences, found
from tracer.repro.replay import ground_in, seen_in
from tracer.repro.scenario import Scenario

DATA = Path(__file__).parent / "data" / "kernels"


class Capture(NamedTuple):
    """One scenario that passed on one kernel."""

    kernel: str
    name: str
    """The scenario's, with `-v1` where it was played under cgroup v1."""

    @property
    def folder(self) -> Path:
        return DATA / self.kernel / self.name

    def __str__(self) -> str:
        return f"{self.kernel}-{self.name}"


class Log(NamedTuple):
    """The kernel's log while the scenario was played."""

    records: tuple[KmsgRecord, ...]
    events: tuple[LogEvent, ...]
    """As the reader of oomtrace understands them; `ts_ns` is 0."""
    whole: bool
    """Nothing was overwritten before it was read, or cut off later."""


def kernels() -> list[str]:
    """Those whose layouts were kept, oldest first."""
    found = [path.parent.name for path in DATA.glob("*/layout.json")]
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")])


def captures() -> list[Capture]:
    """All of them, by kernel."""
    found = [Capture(path.parents[1].name, path.parent.name) for path in DATA.glob("*/*/verdict.json")]
    return sorted(found, key=lambda each: ([int(part) for part in each.kernel.split(".")], each.name))


def unpacked(path: Path) -> bytes:
    """What a packed file holds."""
    return lzma.decompress(path.read_bytes())


def verdict_of(capture: Capture) -> dict[str, Any]:
    """The document that `oomtrace repro --json` printed."""
    content: dict[str, Any] = json.loads((capture.folder / "verdict.json").read_text(encoding="utf-8"))
    return content


@functools.lru_cache(maxsize=4)
def recording_of(capture: Capture) -> tuple[AnyEvent, ...]:
    """Its events; a damaged recording is an error."""
    fd = os.memfd_create("recording", os.MFD_CLOEXEC)
    os.write(fd, data := unpacked(capture.folder / "recording.oomtrace.xz"))
    assert os.fstat(fd).st_size == len(data)
    with RecordingReader(fd, str(capture)) as reader:
        events = tuple(reader)
        assert not reader.damage.statements()
    return events


@functools.lru_cache(maxsize=4)
def log_of(capture: Capture) -> Log:
    """What /dev/kmsg gave, read once more."""
    return read_log(unpacked(capture.folder / "kmsg.xz"))


def read_log(raw: bytes) -> Log:
    """Records that were read from /dev/kmsg, one behind the other; lines that begin with # are the reader's own."""
    records, events, whole = [], [], True
    for line in raw.split(b"\n"):
        if line[:1] in (b"", b" "):  # the end, and what stands below a record
            continue
        if line.startswith(b"#"):
            whole = False
            continue
        record = parse_kmsg(line)
        assert record is not None, line
        records.append(record)
        if record.facility == 0:
            event = parse_record(
                record.text, ts_ns=0, log_usec=record.usec, log_seq=record.seq, trusted=True, source="kmsg"
            )
            events += [event] if event is not None else []
    return Log(tuple(records), tuple(events), whole)


def replayed(capture: Capture, events: Sequence[AnyEvent]) -> tuple[Scenario, Seen]:
    """Its declaration, and what today's rules make of some events."""
    document = verdict_of(capture)
    scenario = by_name()[document["scenario"]]
    return scenario, seen_in(events, scenario, ground_in(events, document["counters"]["kernel"]))


def judged_anew(capture: Capture) -> dict[str, Any]:
    """The document, as it would be now."""
    scenario, seen = replayed(capture, recording_of(capture))
    unlike = differences(scenario.expected, seen)
    now = {
        "outcome": "fail" if unlike else "pass",
        "reason": "; ".join(map(str, unlike)) or None,
        "expected": declared(scenario.expected),
        "found": found(seen),
        "counters": seen.counters,
    }
    content: dict[str, Any] = msgspec.to_builtins({**verdict_of(capture), **now})
    return content


def main() -> None:
    """Of all captures."""
    for capture in captures():
        before, now = verdict_of(capture), judged_anew(capture)
        if now != before:
            print(f"{capture}: {', '.join(name for name in now if now[name] != before.get(name))}")
            text = json.dumps(now, indent=1)
            (capture.folder / "verdict.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
