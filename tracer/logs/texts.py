# SPDX-License-Identifier: Apache-2.0
"""A text of any kind, in chunks of bytes: what it says of a death, each passage with its place. Pure, bounded."""

import re
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from tracer.events import LogEvent, LoggedUsage, Passage, ReportedLine, Text, TextKind, TrainingLine
from tracer.logs import reports
from tracer.logs.chunks import WholeLines
from tracer.logs.kernel.feed import LINE_BYTES
from tracer.logs.kernel.reader import KernelLogReader
from tracer.logs.kernel.shape import TEXT_CHARS as KERNEL_CHARS
from tracer.logs.near import Near, NearLines
from tracer.logs.prefixes import Line, WallTime, split
from tracer.logs.sieve import Sieve
from tracer.logs.training import TrainingReader
from tracer.logs.training.reader import may_have_course
from tracer.masking import mask_fields, mask_line

MOST_OF_A_KIND = 200
"""Lines of one kind that are kept of one text: the first ones, and the last."""
BEFORE_TIME = 40
"""So many lines may stand between a time and a line without one, for that to be of about that time."""
BLOCK_BYTES = 1 << 18
"""So much is searched at once: it fits into the caches of a processor, and little is passed on where something is."""
_MOST_KERNEL = 20_000
_KEPT_LAST = 50

_HINTS: tuple[tuple[str, tuple[bytes, ...], re.Pattern[bytes]], ...] = (
    (
        "kubernetes",
        (b"kube", b"pod/", b"CrashLoopBackOff", b"Last State:", b"OOMKilled"),
        re.compile(
            rb"kube(?:pods|let|ctl)|\bpod/|io\.kubernetes|CrashLoopBackOff|Last State:|eason\"?: {0,20}\"?OOMKilled"
        ),
    ),
    ("slurm", (b"slurm", b"srun: ", b"SLURM_", b"StepId="), re.compile(rb"\bslurm|\bsrun: |SLURM_|\bStepId=")),
    ("docker", (b"docker", b"OOMKilled"), re.compile(rb"\bdocker[d:-]|/docker/|OOMKilled\"")),
    (
        "cgroup-v1",
        (b"/sys/fs/cgroup/memory/", b"memory."),
        re.compile(rb"/sys/fs/cgroup/memory/|\bmemory\.(?:limit_in_bytes|failcnt|oom_control|memsw\.)"),
    ),
    ("ray", (b"raylet", b"ray.exceptions"), re.compile(rb"\braylet\b|\(raylet|ray\.exceptions")),
)
"""What is known of the place by a line: a name, words without which the pattern is not tried, and that."""
_OF_V1 = ("memory+swap", "kmem")
"""Counters that are none of cgroup v2's."""
_GLOG = re.compile(
    r"(?:\[rank\d{1,6}\]:\s?)?[EWIFVD]"
    r"(?P<month>\d\d)(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\.(?P<fraction>\d{1,9})"
)
_ANYWHERE = re.compile(
    r"(?P<year>20\d\d)[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_LIKE_DMESG_T = re.compile(rb"\d:\d\d(?:\.\d{1,9})? \d{4}\]")
_LOOKED_FOR_TIME = 120


class TextReader:
    """One text.

    Args:
        file: its place among the texts.
        name: what it is called.
        kind: what it was given as. In a training log nothing is a record of the kernel, whatever it looks like.
    """

    def __init__(self, file: int, name: str, kind: TextKind) -> None:
        self._file, self._name, self._kind = file, name, kind
        self._whole = WholeLines(LINE_BYTES)
        self._sieve = Sieve()
        self._near = NearLines()
        self._kernel = KernelLogReader()
        self._training = TrainingReader("both")
        self._counts: dict[str, int] = {}
        self._last: dict[str, list[Passage]] = {}
        self._left_out = 0
        self._boot_clock = False
        self._hints: set[str] = set()
        self._first = b""
        self._wide: bool | None = None
        """Whether it is UTF-16, as PowerShell writes: its zeros are taken out."""
        self._progress: Passage | None = None
        self._time: Line | None = None
        self._untold: deque[tuple[int, bytes]] = deque(maxlen=BEFORE_TIME + 1)
        """Lines behind it that told nothing: one of them may have a time."""

    def feed(self, chunk: bytes) -> list[Passage]:
        """What is known now."""
        if self._wide is None:
            chunk = self._first + chunk
            if len(chunk) < 2:
                self._first = chunk
                return []
            self._first, self._wide = b"", chunk[:2] in (b"\xff\xfe", b"\xfe\xff")
            chunk = chunk[2:] if self._wide else chunk
        return self._lines(self._whole.feed(chunk.translate(None, b"\0") if self._wide else chunk))

    def end(self) -> list[Passage]:
        """Nothing more will come."""
        passages = [*self._lines(self._whole.feed(self._first)), *self._lines(self._whole.end())]
        passages += [*self._of_kernel(self._kernel.end()), *self._of_lines(self._near.end())]
        for line in self._training.end():
            passages += self._keep(line, Line("", number=self._near.number))
        if self._progress is not None:
            passages.append(self._progress)
        for kept in self._last.values():
            passages += kept
            self._left_out -= len(kept)
        return passages

    @property
    def text(self) -> Text:
        """What is known of the whole."""
        return Text(
            name=self._name,
            kind=self._kind,
            lines=self._near.number,
            boot_clock=self._boot_clock,
            hints=frozenset(self._hints),
            left_out=self._left_out,
        )

    def _lines(self, data: bytes) -> list[Passage]:
        """Of whole lines, block by block: each reader is given what may have something for it."""
        passages: list[Passage] = []
        at = 0
        while at < len(data):
            end = data.rfind(b"\n", at, at + BLOCK_BYTES) + 1 or data.find(b"\n", at) + 1
            block = data[at:end]
            sifted = self._sieve.sift(block)
            if sifted.of_kernel or not self._kernel.passes_over(block, sifted.lines):
                passages += self._of_kernel(self._kernel.feed(block))
            passages += self._of_lines(self._near.feed(block, sifted))
            at = end
        return passages

    def _of_kernel(self, events: Iterable[LogEvent]) -> Iterator[Passage]:
        for event in events:
            if isinstance(event, LoggedUsage) and event.counter in _OF_V1:
                self._hints.add("cgroup-v1")
            count = self._counts["kernel"] = self._counts.get("kernel", 0) + 1
            if count > _MOST_KERNEL:
                self._left_out += 1
                continue
            wall_ns, zone, year = _moment(_wall_of(event.wall))
            yield Passage(
                event=_masked(event),
                file=self._file,
                line=event.log_line or 0,
                column=event.log_column or 1,
                wall=event.wall,
                wall_ns=wall_ns,
                zone_known=zone,
                year_known=year,
                host=event.host,
            )

    def _of_lines(self, near: Iterable[Near]) -> Iterator[Passage]:
        for first, raw, tells in near:
            whole = b"\n".join(raw)
            if b"\r" in whole:
                # A carriage return ends what a progress bar drew over and over: the last of it counts.
                raw = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in raw]  # noqa: PLW2901 - the same lines
                whole = b"\n".join(raw)
            self._hint(whole)
            if not (tells or self._training.wants_more or may_have_course(whole)):
                self._untold.extend(enumerate(raw, first))
                if not self._boot_clock and _LIKE_DMESG_T.search(whole):
                    self._boot_clock = any("dmesg-T" in _line(first, line).forms for line in raw)
                continue
            for number, shown in enumerate(raw, first):
                yield from self._of_line(number, shown, tells=tells)

    def _of_line(self, number: int, shown: bytes, *, tells: bool) -> Iterator[Passage]:
        line = _line(number, shown)
        if "dmesg-T" in line.forms:
            self._boot_clock = True
        if line.wall is None:
            line.wall = _other_time(line.text)
        if line.wall is not None:
            self._time = line
            self._untold.clear()
        reported = reports.parse(line.text) if tells else None
        if reported is not None:
            yield from self._keep(reported, line)
            return
        if self._kind == "kernel" or line.said_by == "name" or line.usec is not None:
            return  # the kernel's, or of some program beside it: never the job's own
        for told in self._training.take(_body(shown, line), 0):
            yield from self._keep(told, line)
        if self._training.wants_more:
            self._near.hold()

    def _last_time(self) -> Line | None:
        """The last line that has a time. Lines that told nothing are looked at only when that is asked for."""
        while self._untold:
            line = _line(*self._untold.pop())
            line.wall = line.wall or _other_time(line.text)
            if line.wall is not None:
                self._time = line
                self._untold.clear()
        return self._time

    def _hint(self, lines: bytes) -> None:
        for name, words, pattern in _HINTS:
            for word in words:
                if word in lines:
                    if pattern.search(lines):
                        self._hints.add(name)
                    break

    def _keep(self, event: ReportedLine | TrainingLine, line: Line) -> Iterator[Passage]:
        when = line if line.wall is not None else self._last_time()
        wall = when.wall if when is not None else None
        if line.wall is None and when is not None and line.number - when.number > BEFORE_TIME:
            wall = None
        wall_ns, zone, year = _moment(wall)
        passage = Passage(
            event=event,
            file=self._file,
            line=line.number,
            column=line.column,
            wall=None if wall is None else str(wall),
            wall_ns=wall_ns,
            zone_known=zone,
            year_known=year,
            host=line.host,
        )
        if event.about == "progress":
            self._progress = passage
            return
        if self._progress is not None:
            yield self._progress
            self._progress = None
        count = self._counts[event.about] = self._counts.get(event.about, 0) + 1
        if count <= MOST_OF_A_KIND:
            yield passage
            return
        last = self._last.setdefault(event.about, [])
        last.append(passage)
        self._left_out += 1
        if len(last) > _KEPT_LAST:
            last.pop(0)


def _masked(event: LogEvent) -> LogEvent:
    """Anyone can have written into a record: its own fields were read of the text, and are masked as it is."""
    shown = mask_line(event.text)
    if shown is event.text and len(shown) < KERNEL_CHARS:
        return event
    if len(event.text) >= KERNEL_CHARS:
        shown = shown.rpartition(" ")[0]  # the last word may be a part of a secret
    named = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _OF_PREFIX}
    return msgspec.structs.replace(event, **mask_fields(named) | {"text": shown})


_OF_PREFIX = frozenset({"wall", "host", "said_by", "source", "text"})


_TIME_ALONE = re.compile(rb"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?:? ?")
_OF_SYSLOG = re.compile(rb"\S{1,255} \S{1,64}\[\d{1,10}\]: ")


def _body(shown: bytes, line: Line) -> bytes:
    """What the job wrote: indented as it was, since that tells where a traceback ends."""
    if line.forms in ([], ["quoted"]):
        return shown
    if "iso-syslog" in line.forms:
        # `2026-11-30T17:25:59Z Epoch 3: ` reads like a host and a program; a program of syslog has its pid.
        time = _TIME_ALONE.match(shown)
        if time is not None and _OF_SYSLOG.match(shown, time.end()) is None:
            return shown[time.end() :]
    return line.text.encode("utf-8", "surrogateescape")


def _line(number: int, shown: bytes) -> Line:
    return split(shown.decode("utf-8", "backslashreplace").replace("\0", ""), number)


def _moment(wall: WallTime | None) -> tuple[int | None, bool, bool]:
    if wall is None:
        return None, False, False
    return wall.utc_ns(year=2000), wall.offset_minutes is not None, wall.year is not None


_WRITTEN = re.compile(
    r"(?:(?P<year>\d{4})|-)-(?P<month>\d\d)-(?P<day>\d\d)T(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:\.(?P<fraction>\d{1,9}))?(?P<zone>[+-]\d\d:\d\d)?"
)


def _wall_of(text: str | None) -> WallTime | None:
    match = _WRITTEN.fullmatch(text) if text else None
    return _time_of(match)


def _other_time(text: str) -> WallTime | None:
    """Of a line of glog or of Python's logging, or a report's own: with a time that is no prefix of a known format."""
    match = _GLOG.match(text) or _ANYWHERE.search(text, 0, _LOOKED_FOR_TIME)
    return _time_of(match)


def _time_of(match: re.Match[str] | None) -> WallTime | None:
    if match is None:
        return None
    parts = match.groupdict()
    month, day, hour, minute, second = (int(parts[name]) for name in ("month", "day", "hour", "minute", "second"))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    fraction = int(((parts.get("fraction") or "") + "0" * 9)[:9])
    year, zone = parts.get("year"), parts.get("zone")
    offset = None
    if zone:
        offset = 0 if zone == "Z" else (int(zone[1:3]) * 60 + int(zone[-2:])) * (-1 if zone[0] == "-" else 1)
    return WallTime(month, day, hour, minute, second, fraction, int(year) if year else None, offset)


def numbered(passages: Iterable[Passage]) -> list[Passage]:
    """In the order of their places, each event with a number by which it can be cited."""
    ordered = sorted(passages, key=_place)
    return [
        msgspec.structs.replace(passage, event=msgspec.structs.replace(passage.event, seq=seq))
        for seq, passage in enumerate(ordered)
    ]


def _place(passage: Passage) -> tuple[int, int, bool]:
    """Of one line what the kernel says comes first: it may have become known later."""
    return passage.file, passage.line, isinstance(passage.event, ReportedLine | TrainingLine)
