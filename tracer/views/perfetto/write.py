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
_OOM, _CGROUPS = "OOM", "cgroups"
"""Groups stand in the order of their names, whatever is said of that: capital letters come first."""
_VERDICT, _LOG, _OTHERS = "verdict", "the job's log", "not of the job"
_LANES = {_VERDICT: 0, _LOG: 1, _OTHERS: 2}
_ELSEWHERE = "reclaim of others"
_LANES = {_VERDICT: 0, _LOG: 1, _OTHERS: 2}


def write(tracks: Tracks, rows: Iterable[Row], out: BinaryIO) -> None:
    """Write the trace. Of rows each number is drawn where it changed."""
    _Trace(tracks, Packets(out)).write(rows)


class _Trace:
    def __init__(self, tracks: Tracks, packets: Packets) -> None:
        self._tracks = tracks
        self._packets = packets
        self._named: dict[tuple[int | None, str], int] = {}
        self._people: dict[ProcessId, int] = {}
        self._counters: dict[tuple[str, str, str], int] = {}
        self._last: dict[int, float] = {}

    def write(self, rows: Iterable[Row]) -> None:
        tracks, packets = self._tracks, self._packets
        packets.begin(tracks.readings, tracks.kernel)
        self._lane(_VERDICT)
        for actor in tracks.actors:
            self._people[actor.id] = packets.process(actor)
            packets.begin_slice(self._people[actor.id], actor.began_ns, _life(actor), "process", _facts(actor))
        for span in tracks.spans:
            # A track of its own: spans of one cgroup follow each other and never overlap.
            above = self._cgroup(span.cgroup) if span.of_job else self._track(None, _ELSEWHERE)
            lane = self._track(above, "reclaim" if span.of_job else span.cgroup)
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
            return self._lane(_VERDICT)
        return self._lane(_LOG if moment.kind == "log" else _OTHERS)

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
            return known if known is not None else self._lane(_OTHERS)
        return self._cgroup(subject.name) if subject.kind == "cgroup" else self._track(None, subject.name)

    def _let_go(self, actor: Actor) -> None:
        """A process that has ended holds nothing: else its last numbers would be drawn to the end."""
        for measure in _OF_MEMORY:
            counter = self._counters.get(("process", f"{actor.id.tgid}.{actor.id.start_tick}", measure))
            if counter is not None and self._last.get(counter):
                self._packets.value(counter, actor.ended_ns, 0)

    def _lane(self, name: str) -> int:
        return self._track(self._track(None, _OOM), name, rank=_LANES[name])

    def _cgroup(self, path: str) -> int:
        """The one whose limit was hit stands first, of the others the innermost."""
        hit = path in self._tracks.limit_cgroups
        return self._track(self._track(None, _CGROUPS), path, rank=0 if hit else 10_000 - len(path))

    def _track(self, parent: int | None, name: str, *, rank: int = 0) -> int:
        known = self._named.get((parent, name))
        if known is None:
            known = self._named[parent, name] = self._packets.track(name, parent=parent, rank=rank)
        return known


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
