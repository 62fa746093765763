# SPDX-License-Identifier: Apache-2.0
"""A training log as it comes, in chunks of bytes: the lines that matter come out. Bounded work, bounded memory."""

from typing import Any

from tracer.events import TrainingLine
from tracer.logs.late import by_root, candidates
from tracer.logs.training import acts, blocks, collective, device, host, launchers, loader, progress
from tracer.logs.training.shape import LINE_BYTES, TEXT_CHARS, Found, Line, Rule, line_of
from tracer.masking import mask_fields, mask_line

RULES: tuple[Rule, ...] = (
    *loader.RULES,
    *launchers.RULES,
    *device.RULES,
    *host.RULES,
    *collective.RULES,
)
_ROOTS = (
    "memory", "alloc", " with ", "proces", "fail", " signa", "ecti", "nccl", "code", " to ", "killed", "cuda", "data",
    "from d", "gloo/t", "abrupt", "exited", "encoun", "on sta", "[errno", "manage", "resour", "watchd", "oom",
)  # fmt: skip
"""Each needle has one of these: few are looked for in a line, and needles only behind those that it has."""
_BY_ROOT = by_root(_ROOTS, (rule.needle for rule in RULES))
_NEEDLES = tuple(dict.fromkeys((*(rule.needle for rule in RULES), *progress.NEEDLES, *acts.NEEDLES, *blocks.NEEDLES)))
_RAW_NEEDLES = tuple(needle.encode() for needle in _NEEDLES)
_OF_COURSE = tuple(needle.encode() for needle in (*progress.NEEDLES, *acts.NEEDLES))


def recognise(text: str) -> Found | None:
    """What a single line says by itself, without prefix and colours."""
    lowered = text.lower()
    for place in candidates(_BY_ROOT, lowered):
        rule = RULES[place]
        if rule.needle in lowered:
            match = rule.pattern.search(text)
            told = None if match is None else rule.build(match, text)
            if told is not None:
                return told
    return None


class TrainingReader:
    """One stream.

    A line ends at a newline or a carriage return (progress bars); of a longer one than `LINE_BYTES` the rest is
    passed over. Its time is that of the chunk that brought its last byte.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._blocks = blocks.Blocks()
        self._pending = b""
        self._pending_ns = 0

    def feed(self, chunk: bytes, ts_ns: int) -> list[TrainingLine]:
        """What the lines say that end in this chunk."""
        lines = chunk.replace(b"\r", b"\n").split(b"\n")
        first, tail = self._pending + lines[0][: LINE_BYTES - len(self._pending)], lines[-1]
        first_ns = ts_ns if lines[0] else self._pending_ns
        if len(lines) == 1:
            self._pending, self._pending_ns = first, first_ns
            return []
        self._pending, self._pending_ns = tail[:LINE_BYTES], ts_ns
        if not self._blocks.open and not _may_matter(first) and not _may_matter(chunk):
            return []
        events = self._read(first, first_ns)
        for raw in lines[1:-1]:
            events += self._read(raw, ts_ns)
        return events

    def take(self, line: bytes, ts_ns: int) -> list[TrainingLine]:
        """What a whole line says, without its end; of lines alone of which somebody knows that they may matter."""
        shown = line_of(line)
        told = self._recognise(shown)
        return [] if told is None else [self._event(shown, told, ts_ns)]

    @property
    def wants_more(self) -> bool:
        """Whether the next line may belong to something that was begun, whatever it looks like."""
        return self._blocks.open

    def gap(self) -> None:
        """Something is missing between the last chunk and the next: what stood open stays so for good."""
        self._pending = b""

    def end(self) -> list[TrainingLine]:
        """Nothing more will come: what the last line says, which has no end."""
        last, self._pending = self._pending, b""
        return self._read(last, self._pending_ns)

    def _read(self, raw: bytes, ts_ns: int) -> list[TrainingLine]:
        if not self._blocks.open and not _may_matter(raw):
            return []  # looked at line by line, so that it does not matter which lines a chunk brought
        return self.take(raw, ts_ns)

    def _recognise(self, line: Line) -> Found | None:
        if self._blocks.begins(line):
            return None
        told = recognise(line.text)
        if told is not None:
            self._blocks.ends(line)
            return told
        told = self._blocks.report(line.text) if blocks.may_report(line.text) else None
        if told is None and may_have_course(line.text.encode("utf-8", "replace")):
            told = _course(line.text)
        return told or self._blocks.exception(line)

    def _event(self, line: Line, told: Found, ts_ns: int) -> TrainingLine:
        fields: dict[str, Any] = {"rank": line.rank, "local_rank": line.local_rank, **told.fields}
        text = line.text if told.text is None else told.text
        return TrainingLine(
            ts_ns=ts_ns,
            source="text",
            about=told.about,
            text=mask_line(text)[:TEXT_CHARS],
            stream=self._stream,
            **mask_fields({name: value for name, value in fields.items() if value is not None}),
        )


def may_have_course(lines: bytes) -> bool:
    """Whether one of these lines may say how far training is, or what it does just then."""
    if b"\x1b" in lines:  # a colour may stand within a word
        return True
    lowered = lines.lower()
    for needle in _OF_COURSE:  # noqa: SIM110 - most lines come here: half the time of any()
        if needle in lowered:
            return True
    return False


def _course(text: str) -> Found | None:
    """How far training is, what it does just then, or both in one line."""
    does, reached = acts.act(text), progress.progress(text)
    if reached is None or does is None:
        return reached or does
    return reached._replace(fields={**reached.fields, "what": does.fields["what"]})


def _may_matter(raw: bytes) -> bool:
    if b"\x1b" in raw:  # a colour may stand within a word
        return True
    lowered = raw.lower()
    return any(needle in lowered for needle in _RAW_NEEDLES)
