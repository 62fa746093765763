# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed, and what must hold of it: from any bytes to nothing, or to a `Broken`. No fuzzer is needed here.

Everything that is chosen (sizes of chunks, as what a text is given) follows from the bytes themselves, so that an input
is a plain file that can be read and tried again.
"""

import json
import os
import random
import re
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from tests.explained import passages_of
from tracer.attribution.cgroup_paths import LONGEST_NAME, place_of
from tracer.attribution.places import describe, describe_itself
from tracer.cli import judging
from tracer.cli.console import Look
from tracer.errors import OomtraceError
from tracer.events import AnyEvent, LogEvent, TrainingLine
from tracer.logs.kernel.reader import KernelLogReader
from tracer.logs.training import KINDS, TEXT_CHARS, TrainingReader
from tracer.recording import RecordingReader
from tracer.recording.line import intact
from tracer.verdict.textual import judge
from tracer.verdict.textual.model import TextVerdict
from tracer.verdict.textual.redact import redacted
from tracer.views import document
from tracer.views.explained import render, render_brief, render_editor

MOST_SECONDS = 1.0
"""However short a text is; a line may take more of its own."""
SECONDS_A_LINE = 0.004
SECONDS_A_BYTE = 4e-6
MOST_MEMORY_BYTES = 24 << 20
"""Beyond 64 bytes for each of the text."""
_LONGER = 4
_HOW_MUCH_LONGER = 10
"""So many times as long may a text take that is four times as long: 16 would be quadratic."""
PLAIN = frozenset(map(chr, (0x0A, *range(0x20, 0x7F))))


class Broken(Exception):
    """Something does not hold that must."""


def require(holds: object, what: str) -> None:
    """Raise if not."""
    if not holds:
        raise Broken(what)


def pieces(raw: bytes, largest: int = 97) -> Iterator[bytes]:
    """The same bytes in chunks of sizes that follow from them."""
    chance = random.Random(zlib.crc32(raw))
    largest = chance.choice((1, 7, largest, 4096))
    at = 0
    while at < len(raw):
        size = chance.randint(1, largest)
        yield raw[at : at + size]
        at += size


def kernel_events(chunks: Iterable[bytes]) -> list[LogEvent]:
    reader = KernelLogReader()
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.end()


def training_lines(chunks: Iterable[bytes]) -> list[TrainingLine]:
    reader = TrainingReader("both")
    return [line for chunk in chunks for line in reader.feed(chunk, 0)] + reader.end()


def kernel(raw: bytes) -> None:
    """The reader of kernel logs."""
    events = kernel_events([raw])
    require(kernel_events(pieces(raw)) == events, "a kernel log that is cut elsewhere is read otherwise")
    require(_back(events) == events, "an event of a kernel log does not survive a recording")
    lines = raw.count(b"\n") + 1
    for event in events:
        require(not event.trusted, "a text is trusted")
        require(len(event.text) <= 1024, "an event has more text than it may")
        require(1 <= (event.log_line or 1) <= lines, "an event stands beyond the end")
    scales(lambda data: kernel_events([data]), raw)


def training(raw: bytes) -> None:
    """The reader of training logs."""
    lines = training_lines([raw])
    require(training_lines(pieces(raw)) == lines, "a training log that is cut elsewhere is read otherwise")
    require(_back(lines) == lines, "a line of a training log does not survive a recording")
    for line in lines:
        require(line.about in KINDS, f"no kind is called {line.about}")
        require(len(line.text) <= TEXT_CHARS, "a line has more text than it may")
    scales(lambda data: training_lines([data]), raw)


_TEXT = re.compile(rb"^%% (kernel|training|mixed)\n", re.MULTILINE)
_ROW = re.compile(r"[^\n]{1,4200}:[1-9][0-9]*:[1-9][0-9]*: (?:error|warning|info): [^\n]+")


def texts_in(raw: bytes) -> list[tuple[str, str, bytes]]:
    """Texts as they are given: each behind a line `%% kernel`, `%% training` or `%% mixed`."""
    parts = _TEXT.split(raw)
    kinds = ("mixed", "kernel", "training")
    found = [] if not parts[0] and len(parts) > 1 else [(kinds[zlib.crc32(parts[0]) % 3], parts[0])]
    found += [(kind.decode(), body) for kind, body in zip(parts[1::2], parts[2::2], strict=True)]
    return [(f"text-{number}.log", kind, body) for number, (kind, body) in enumerate(found[:4], 1)]


def explain(raw: bytes) -> None:
    """From texts to everything that is shown of them."""
    given = texts_in(raw)
    passages, texts = passages_of(given, _whole)
    require(passages_of(given, pieces) == (passages, texts), "texts that are cut elsewhere are read otherwise")
    verdict = judge.explain(passages, texts)
    require(judge.explain(passages, texts) == verdict, "the same texts have another verdict a second time")
    shown(verdict, ascii_only=zlib.crc32(raw) % 2 == 0)
    shared = redacted(verdict, passages, texts)
    shown(shared, ascii_only=True)
    require(facts(shared) == facts(verdict), "what is made to be shared says something else")
    require(not any(one.text for one in shared.cited), "what is made to be shared quotes a line")
    name, kind, first = given[0]
    scales(lambda data: judge.explain(*passages_of([(name, kind, data)], _whole)), first)


def _whole(raw: bytes) -> list[bytes]:
    return [raw]


def facts(verdict: TextVerdict) -> list[tuple[object, ...]]:
    """What no form of a verdict may change."""
    return [
        (
            one.cause,
            one.strength,
            one.signal,
            [victim.pid for victim in one.victims],
            one.limit and one.limit.limit_bytes,
        )
        for one in verdict.incidents
    ]


def shown(verdict: TextVerdict, *, ascii_only: bool) -> None:
    """All forms of a verdict, and that they are fit to be seen."""
    require(verdict.incidents, "there is no answer")
    require(all(one.strength in {"likely", "possible"} for one in verdict.incidents), "a text proves something")
    for width in (40, 80):
        page = render(verdict, width=width, ascii_only=ascii_only)
        plain = page.isascii() if ascii_only else page.replace("\n", "").isprintable()
        require(plain and (not ascii_only or PLAIN.issuperset(page)), "a page has what a terminal obeys")
    require(render_brief(verdict).replace("\n", "").isprintable(), "a paragraph has what a terminal obeys")
    for row in render_editor(verdict).splitlines():
        require(row.isprintable() and _ROW.fullmatch(row), f"an editor cannot read {row!r}")
    written = document.render_document(verdict)
    require(PLAIN.issuperset(written), "a document has what a terminal obeys")
    require(json.loads(written)["incidents"], "a document is not read back")


def recording(raw: bytes) -> None:
    """A recording, as it is and with its checksums made right."""
    for content in (raw, signed(raw)):
        fd = os.memfd_create("fuzzed")
        os.write(fd, content)
        try:
            with RecordingReader(fd, "fuzzed") as reader:
                report = judging.report_on(reader)
        except OomtraceError as error:
            require(str(error), "an error says nothing")
            continue
        look = Look(width=80, color=False, ascii_only=True)
        page = judging.as_text(report, look)
        require(PLAIN.issuperset(page), "a page has what a terminal obeys")
        json.loads(judging.as_json(report))


def signed(raw: bytes) -> bytes:
    """Each line closed by a checksum that is right: what is damaged is then read all the same."""
    lines = []
    for line in raw.split(b"\n"):
        body = line[: line.rfind(b',"crc":"')] if b',"crc":"' in line else line.removesuffix(b"}")
        lines.append(body + b',"crc":"%08x"}' % zlib.crc32(body) if body and not intact(line) else line)
    return b"\n".join(lines)


def cgroup(raw: bytes) -> None:
    """Paths of cgroups, a line each."""
    for path in raw.decode("utf-8", "backslashreplace").split("\n")[:200]:
        begun = time.process_time()
        place = place_of(path)
        if place is None:
            continue
        require(time.process_time() - begun < MOST_SECONDS, "a path takes long")
        describe(place)
        describe_itself(place)
        for name in place.__struct_fields__:
            value = getattr(place, name)
            require(not isinstance(value, str) or len(value) <= LONGEST_NAME, f"{name} is longer than a name can be")
        require(place_of(path) == place, "a path is read otherwise a second time")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "kernel": kernel, "training": training, "explain": explain, "recording": recording, "cgroup": cgroup,
}  # fmt: skip


def _back(events: list[LogEvent] | list[TrainingLine]) -> object:
    return msgspec.json.decode(msgspec.json.encode(events), type=list[AnyEvent])


def scales(read: Callable[[bytes], object], raw: bytes) -> None:
    """Of each 64th input: its memory is bounded, and four times as much takes about four times as long.

    By the clock, which lies on a busy machine: what seems too slow is tried again before it is believed.
    """
    if not raw or zlib.crc32(raw) % 64 or os.environ.get("OOMTRACE_FUZZ_TIMES") != "1":
        return
    once = (raw.rstrip(b"\n") + b"\n") * max(1, 8_000 // len(raw))
    more = once * _LONGER
    for patience in (1, 3, 5):
        few = min(_seconds(read, once) for _ in range(patience))
        many = min(_seconds(read, more) for _ in range(patience))
        allowed = MOST_SECONDS + SECONDS_A_LINE * more.count(b"\n") + SECONDS_A_BYTE * len(more)
        if many < max(few * _HOW_MUCH_LONGER, 0.1) and many < allowed:
            break
    else:
        raise Broken(f"{len(once)} bytes take {few:.3f} s, {len(more)} take {many:.3f} s")
    tracemalloc.start()
    try:
        read(once)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    require(peak < MOST_MEMORY_BYTES + 64 * len(once), f"{len(once)} bytes take {peak >> 20} MiB")


def _seconds(read: Callable[[bytes], object], raw: bytes) -> float:
    begun = time.process_time()
    read(raw)
    return time.process_time() - begun
