# SPDX-License-Identifier: Apache-2.0
"""Which track has what, and in which order the tracks stand."""

from collections.abc import Iterable
from typing import BinaryIO

from tracer.events import ProcessId
from tracer.verdict.tracks import Actor, Moment, Row, Subject, Tracks
from tracer.views.perfetto.packets import BYTES, PERCENT, Packets, Unit

COUNTERS: dict[str, dict[str, tuple[str, Unit]]] = {
    "process": {
        "rss_anon_bytes": ("memory anon", BYTES),
        "rss_shmem_bytes": ("memory shmem", BYTES),
        "swap_bytes": ("memory swap", BYTES),
        "rss_file_bytes": ("memory file", BYTES),
        "cuda_device_bytes": ("CUDA device", BYTES),
        "cuda_managed_bytes": ("CUDA managed", BYTES),
        "cuda_pinned_bytes": ("CUDA pinned", BYTES),
    },
    "cgroup": {
        "usage_bytes": ("usage", BYTES),
        "limit_bytes": ("limit", BYTES),
        "anon_bytes": ("anon", BYTES),
        "shmem_bytes": ("shmem", BYTES),
        "file_bytes": ("file", BYTES),
        "kernel_bytes": ("kernel", BYTES),
        "swap_usage_bytes": ("swap", BYTES),
        "memsw_usage_bytes": ("memory and swap", BYTES),
    },
    "machine": {
        "available_bytes": ("available", BYTES),
        "swap_free_bytes": ("swap free", BYTES),
        "psi_some_avg10_percent": ("PSI memory some", PERCENT),
        "psi_full_avg10_percent": ("PSI memory full", PERCENT),
    },
    "device": {"used_bytes": ("used", BYTES), "total_bytes": ("total", BYTES)},
    "device_process": {"used_bytes": ("used", BYTES)},
}
"""What is drawn of a subject, from the top down."""
_OF_MEMORY = ("rss_anon_bytes", "rss_shmem_bytes", "swap_bytes", "rss_file_bytes")
_RANKS = {"verdict": 0, "kernel": 1, "log": 2, "cgroup": 3, "machine": 4, "device": 5, "device_process": 6}
"""Of the tracks that are no process's."""


def write(tracks: Tracks, rows: Iterable[Row], out: BinaryIO) -> None:
    """Write the trace. Of rows each number is drawn where it changed."""
    _Trace(tracks, Packets(out)).write(rows)


class _Trace:
    def __init__(self, tracks: Tracks, packets: Packets) -> None:
        self._tracks = tracks
        self._packets = packets
        self._named: dict[tuple[str, str], int] = {}
        self._people: dict[ProcessId, int] = {}
        self._counters: dict[tuple[str, str, str], int] = {}
        self._last: dict[int, float] = {}

    def write(self, rows: Iterable[Row]) -> None:
        tracks, packets = self._tracks, self._packets
        packets.begin(tracks.readings, tracks.kernel)
        self._track("verdict", "oomtrace: verdict")
        for actor in tracks.actors:
            self._people[actor.id] = packets.process(actor)
            packets.begin_slice(self._people[actor.id], actor.began_ns, _life(actor), "process", _facts(actor))
        for span in tracks.spans:
            # A track of its own below the cgroup: spans follow each other and never overlap.
            lane = self._track(
                "reclaim", "reclaim", parent=self._track("cgroup", _cgroup(span.cgroup)), key=span.cgroup
            )
            packets.begin_slice(lane, span.from_ns, span.what, "reclaim", span.facts)
            packets.end_slice(lane, span.to_ns)
        self._moments()
        for row in rows:
            self._row(row)
        for actor in tracks.actors:
            if actor.end is not None:
                self._let_go(actor)
            packets.end_slice(self._people[actor.id], actor.ended_ns)

    def _moments(self) -> None:
        begun: dict[int, list[int]] = {}
        ended: dict[int, list[int]] = {}
        for number, flow in enumerate(self._tracks.flows):
            begun.setdefault(flow.cause, []).append(number)
            ended.setdefault(flow.effect, []).append(number)
        for place, moment in enumerate(self._tracks.moments):
            self._packets.instant(
                self._place_of(moment),
                moment.at_ns,
                (moment.what, moment.kind),
                moment.facts,
                flows=(begun.get(place, ()), ended.get(place, ())),
            )

    def _place_of(self, moment: Moment) -> int:
        if moment.actor is not None and moment.actor in self._people:
            return self._people[moment.actor]
        if moment.kind == "incident":
            return self._track("verdict", "oomtrace: verdict")
        if moment.kind == "log":
            return self._track("log", "the job's log")
        return self._track("kernel", "not of the job")

    def _row(self, row: Row) -> None:
        subject = row.subject
        shown = COUNTERS.get(subject.kind)
        if shown is None:
            return
        for rank, (measure, (name, unit)) in enumerate(shown.items()):
            value = row.values.get(measure)
            if value is None:
                continue
            key = (subject.kind, subject.key, measure)
            counter = self._counters.get(key)
            if counter is None:
                counter = self._packets.counter(name, unit, self._parent_of(subject), rank)
                self._counters[key] = counter
            if self._last.get(counter) != value:
                self._last[counter] = value
                self._packets.value(counter, row.at_ns, value)

    def _parent_of(self, subject: Subject) -> int:
        if subject.id is not None:
            known = self._people.get(subject.id)
            return known if known is not None else self._track("kernel", "not of the job")
        name = _cgroup(subject.name) if subject.kind == "cgroup" else subject.name
        return self._track(subject.kind, name)

    def _let_go(self, actor: Actor) -> None:
        """A process that has ended holds nothing: else its last numbers would be drawn to the end."""
        for measure in _OF_MEMORY:
            counter = self._counters.get(("process", f"{actor.id.tgid}.{actor.id.start_tick}", measure))
            if counter is not None and self._last.get(counter):
                self._packets.value(counter, actor.ended_ns, 0)

    def _track(self, kind: str, name: str, *, parent: int | None = None, key: str = "") -> int:
        known = self._named.get((kind, key or name))
        if known is None:
            known = self._packets.track(name, parent=parent, rank=_RANKS.get(kind))
            self._named[kind, key or name] = known
        return known


def _cgroup(path: str) -> str:
    return f"cgroup {path}"


def _life(actor: Actor) -> str:
    parts = f" ({', '.join(actor.parts)})" if actor.parts else ""
    return f"{actor.comm or actor.name}{parts}: {actor.end or 'running at the end'}"


def _facts(actor: Actor) -> dict[str, str | int]:
    told: dict[str, str | int | None] = {
        "pid": actor.id.tgid,
        "role": actor.role,
        "rank": actor.rank,
        "worker": actor.worker,
        "parent_pid": actor.parent.tgid if actor.parent is not None else None,
        "ns_pids": ", ".join(map(str, actor.ns_pids)) if actor.ns_pids else None,
        "command": actor.command,
        "cgroup": actor.cgroup,
        "end": actor.end,
    }
    return {name: value for name, value in told.items() if value is not None}
