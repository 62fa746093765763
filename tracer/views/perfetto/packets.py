# SPDX-License-Identifier: Apache-2.0
"""Packets of a trace: the only place that knows Perfetto's own names."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BUILTIN_CLOCK_BOOTTIME,
    BUILTIN_CLOCK_MONOTONIC,
    BUILTIN_CLOCK_REALTIME,
    CounterDescriptor,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from tracer.verdict.legible import legible
from tracer.verdict.tracks import Actor, Reading

BYTES = CounterDescriptor.UNIT_SIZE_BYTES
COUNT = CounterDescriptor.UNIT_COUNT
PERCENT = "%"
Unit = int | str

_SEQUENCE = 1
_FIRST_UUID = 0x6F6F6D00_00000000
"""Tracks of this trace; "oom", so that traces laid side by side can be told apart."""

_MOST = (1 << 63) - 1
_MOST_PID = (1 << 31) - 1
"""What the fields hold. A damaged recording, or a forged one, may have numbers that no machine has."""


class Packets:
    """Writes packets, and gives tracks their numbers."""

    def __init__(self, out: BinaryIO) -> None:
        self._builder = StreamingTraceProtoBuilder(out)
        self._uuid = _FIRST_UUID

    def begin(self, readings: Sequence[Reading], kernel: str | None) -> None:
        """What holds for all that follows: the clocks first, since each time is translated as it is read.

        The timeline is wall time, which several machines share; where that was set back while the job ran,
        it is the time since boot, as Perfetto takes none that runs backwards.
        """
        steady = all(a.realtime_ns <= b.realtime_ns for a, b in itertools.pairwise(readings))
        primary = BUILTIN_CLOCK_REALTIME if steady else BUILTIN_CLOCK_BOOTTIME
        first = self._packet()
        first.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        first.first_packet_on_sequence = True
        first.trace_packet_defaults.timestamp_clock_id = BUILTIN_CLOCK_MONOTONIC
        self._write(first)
        for reading in readings:
            packet = self._packet()
            packet.clock_snapshot.primary_trace_clock = primary
            for clock, value_ns in (
                (BUILTIN_CLOCK_REALTIME, reading.realtime_ns),
                (BUILTIN_CLOCK_MONOTONIC, reading.monotonic_ns),
                (BUILTIN_CLOCK_BOOTTIME, reading.boottime_ns),
            ):
                packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=_moment(value_ns))
            self._write(packet)
        if kernel is not None:
            packet = self._packet()
            packet.system_info.utsname.sysname = "Linux"
            packet.system_info.utsname.release = legible(kernel)
            self._write(packet)

    def track(self, name: str, *, parent: int | None, rank: int) -> int:
        """A track for slices and instants, or one that others stand below."""
        descriptor, packet = self._described(name, parent)
        descriptor.child_ordering = TrackDescriptor.EXPLICIT
        descriptor.sibling_order_rank = rank
        self._write(packet)
        return self._uuid

    def process(self, actor: Actor) -> int:
        """The track of a process."""
        packet = self._packet()
        descriptor = packet.track_descriptor
        descriptor.uuid = self._uuid = self._uuid + 1
        descriptor.process.pid = max(0, min(actor.id.tgid, _MOST_PID))
        descriptor.process.process_name = legible(actor.name)
        if actor.role is not None:
            descriptor.process.process_labels.append(actor.role)
        if actor.command is not None:
            descriptor.process.cmdline.append(legible(actor.command))
        self._write(packet)
        return self._uuid

    def counter(self, name: str, unit: Unit, parent: int, rank: int) -> int:
        """A track of numbers."""
        descriptor, packet = self._described(name, parent)
        descriptor.sibling_order_rank = rank
        descriptor.counter.y_axis_share_key = str(unit)  # what stands side by side is drawn to one scale
        if isinstance(unit, str):
            descriptor.counter.unit_name = unit
        else:
            descriptor.counter.unit = unit
        self._write(packet)
        return self._uuid

    def value(self, track: int, at_ns: int, value: float) -> None:
        """A number from a moment on."""
        packet = self._event(track, at_ns, TrackEvent.TYPE_COUNTER)
        if isinstance(value, int):
            packet.track_event.counter_value = _whole(value)
        else:
            packet.track_event.double_counter_value = value
        self._write(packet)

    def begin_slice(self, track: int, at_ns: int, name: str, category: str, facts: Mapping[str, str | int]) -> None:
        """What lasts from here on."""
        self._write(self._named(self._event(track, at_ns, TrackEvent.TYPE_SLICE_BEGIN), name, category, facts))

    def end_slice(self, track: int, at_ns: int) -> None:
        """The end of what began last on this track."""
        self._write(self._event(track, at_ns, TrackEvent.TYPE_SLICE_END))

    def instant(
        self,
        track: int,
        at_ns: int,
        named: tuple[str, str],
        facts: Mapping[str, str | int],
        *,
        flows: tuple[Iterable[int], Iterable[int]] = ((), ()),
    ) -> None:
        """A moment.

        Args:
            track: where it stands.
            at_ns: when it was.
            named: its name and its category.
            facts: shown with it.
            flows: arrows that begin here, and those that end here.
        """
        packet = self._named(self._event(track, at_ns, TrackEvent.TYPE_INSTANT), *named, facts)
        begun, ended = flows
        packet.track_event.flow_ids.extend(_FIRST_UUID + flow for flow in begun)
        packet.track_event.terminating_flow_ids.extend(_FIRST_UUID + flow for flow in ended)
        self._write(packet)

    def _described(self, name: str, parent: int | None) -> tuple[Any, Any]:
        packet = self._packet()
        descriptor = packet.track_descriptor
        descriptor.uuid = self._uuid = self._uuid + 1
        descriptor.name = legible(name)
        if parent is not None:
            descriptor.parent_uuid = parent
        return descriptor, packet

    def _event(self, track: int, at_ns: int, kind: int) -> Any:
        packet = self._packet()
        packet.timestamp = _moment(at_ns)
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _packet(self) -> Any:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _named(self, packet: Any, name: str, category: str, facts: Mapping[str, str | int]) -> Any:
        packet.track_event.name = legible(name)
        packet.track_event.categories.append(category)
        for key, value in facts.items():
            if isinstance(value, int):
                packet.track_event.debug_annotations.add(name=legible(key), int_value=_whole(value))
            else:
                packet.track_event.debug_annotations.add(name=legible(key), string_value=legible(value))
        return packet

    def _write(self, packet: Any) -> None:
        self._builder.write_packet(packet)


def _moment(at_ns: int) -> int:
    return max(0, min(at_ns, _MOST))


def _whole(value: int) -> int:
    return max(-_MOST, min(value, _MOST))
