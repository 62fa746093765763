# SPDX-License-Identifier: Apache-2.0
"""From a recording to whether it is whole. Imported when it is needed and not before."""

from collections import Counter

from tracer.cli.console import Look
from tracer.events import (
    AnyEvent,
    Armed,
    Clock,
    Disarmed,
    GpuPeak,
    GpuProcess,
    GpuSample,
    Header,
    Losses,
    Note,
    TracerCost,
)
from tracer.recording import Damage, Inspection, Place
from tracer.units import NS_PER_S, format_utc
from tracer.verdict.integrity import Begun, Flaw, Integrity, State
from tracer.views import document, terminal

_LAST_WORDS = (Losses, Clock, TracerCost)
_ANYWHERE = (Note, GpuPeak, GpuProcess, GpuSample)
"""May stand between them and behind."""


def verified(inspection: Inspection) -> Integrity:
    """What is whole in it and what is not.

    Raises:
        RecordingError: there is no event in it that can be read, or it is of another format.
    """
    seen = _Seen()
    for event in inspection:
        seen.take(event)
    damage, header, walk = inspection.walk.damage, inspection.header, inspection.walk
    state = _state(damage, header, closed=seen.closed)
    lasted = None if seen.first_ns is None or seen.last_ns is None else (seen.last_ns - seen.first_ns) / NS_PER_S
    return Integrity(
        state=state,
        statement=_statement(state, damage, header),
        file=inspection.path,
        format=None if header is None else header.schema,
        begun=None if header is None else _begun(header),
        closed=seen.closed,
        size_bytes=walk.size_bytes,
        lines=walk.lines,
        events=walk.events,
        missing=damage.missing,
        gaps=damage.gaps,
        damaged_lines=damage.damaged_lines,
        repeated_lines=damage.duplicates,
        unknown=damage.unknown,
        torn=damage.torn,
        flaws=tuple(_flaw(place, seen) for place in damage.places),
        flaws_left_out=damage.places_left_out,
        first_at=seen.utc(seen.first_ns),
        last_at=seen.utc(seen.last_ns),
        seconds=lasted,
        kinds=dict(seen.kinds.most_common()),
        verdict=_of_a_verdict(damage, header, closed=seen.closed),
    )


def as_text(found: Integrity, look: Look) -> str:
    """For a person."""
    return terminal.render_integrity(found, width=look.width, color=look.color, ascii_only=look.ascii_only)


def as_json(found: Integrity) -> str:
    """For a program."""
    return document.render_document(found)


class _Seen:
    """What is kept of the events."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._armed = self._disarmed = False
        self._last_words = 0
        """Of a tracer that had no probes: what was lost, the clock, what watching cost, in a row."""
        self._clock: Clock | Header | None = None

    @property
    def closed(self) -> bool:
        """Whether the tracer came to its own end."""
        return self._disarmed or (not self._armed and self._last_words == len(_LAST_WORDS))

    def take(self, event: AnyEvent) -> None:
        self.kinds[type(event).__name__] += 1
        if isinstance(event, Clock | Header) and self._clock is None:
            self._clock = event
        self._armed = self._armed or isinstance(event, Armed)
        self._disarmed = self._disarmed or isinstance(event, Disarmed)
        if self._last_words < len(_LAST_WORDS) and isinstance(event, _LAST_WORDS[self._last_words]):
            self._last_words += 1
        elif not isinstance(event, _ANYWHERE):
            self._last_words = int(isinstance(event, Losses))
        if self.first_ns is None:
            self.first_ns = self.last_ns = event.ts_ns
        elif self.last_ns is not None:
            self.first_ns, self.last_ns = min(self.first_ns, event.ts_ns), max(self.last_ns, event.ts_ns)

    def utc(self, ts_ns: int | None) -> str | None:
        if ts_ns is None or self._clock is None:
            return None
        return format_utc(self._clock.realtime_ns + ts_ns - self._clock.ts_ns)


def _state(damage: Damage, header: Header | None, *, closed: bool) -> State:
    if header is None or not damage.whole:
        return "damaged"
    return "whole" if closed else "unfinished"


def _statement(state: State, damage: Damage, header: Header | None) -> str:
    if state == "whole":
        return "Every line is what was written, no number lacks, and its tracer closed it."
    if state == "unfinished":
        return (
            "Every line is what was written and no number lacks, but its tracer did not close it: it is still being "
            "written, or its tracer was killed."
        )
    wrong = [
        "its header is damaged" if header is None else "",
        _number(damage.damaged_lines, "line is damaged", "lines are damaged"),
        _number(damage.missing, "event is missing", "events are missing"),
        _number(damage.duplicates, "line is there twice", "lines are there twice"),
        "" if damage.torn is None else f"its end is torn ({damage.torn})",
    ]
    said = ", ".join(filter(None, wrong))
    return f"{said[:1].upper()}{said[1:]}. All the rest is read."


def _number(count: int, one: str, more: str) -> str:
    return "" if not count else f"1 {one}" if count == 1 else f"{count} {more}"


def _of_a_verdict(damage: Damage, header: Header | None, *, closed: bool) -> str:
    if header is None:
        return "None can be had: the header says whose clock and which machine it is, and no command reads on without."
    if damage.missing:
        return "`oomtrace report` judges what is there; what is missing could speak against it, so it proves no kill."
    if not damage.whole or not closed:
        return "`oomtrace report` judges what is there, and says among its caveats what it lacks."
    return "Nothing in the file stands in the way of a proof: `oomtrace report` judges it."


def _begun(header: Header) -> Begun:
    return Begun(
        at=format_utc(header.realtime_ns),
        version=header.version,
        pid=header.pid,
        hostname=header.hostname,
        boot_id=header.boot_id,
        kernel_release=header.kernel_release,
        machine=header.machine,
        cpus=header.cpus,
        cgroup_version=header.cgroup_version,
    )


def _flaw(place: Place, seen: _Seen) -> Flaw:
    return Flaw(
        wrong=place.wrong,
        line=place.line,
        offset_bytes=place.offset_bytes,
        lines=place.lines,
        size_bytes=place.size_bytes,
        first_seq=place.first_seq,
        last_seq=place.last_seq,
        missing=place.missing,
        after_ns=place.after_ns,
        before_ns=place.before_ns,
        after_at=seen.utc(place.after_ns),
        before_at=seen.utc(place.before_ns),
    )
