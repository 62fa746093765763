# SPDX-License-Identifier: Apache-2.0
"""Which samples of a very long recording are judged: all near what matters, of the rest every so many. Facts all are.

Two passes over the events, which are in memory in neither: the first one surveys, the second one chooses.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from tracer.events import (
    AnyEvent,
    CgroupSample,
    GpuSample,
    JobEnded,
    LoggedKill,
    OomGlimpse,
    OomMark,
    PressureSample,
    ProcessSample,
    ReclaimSample,
    SignalSent,
    TracerCost,
    TrainingLine,
    VmstatSample,
    process_id,
)
from tracer.events.signals import SIGKILL
from tracer.units import NS_PER_S
from tracer.verdict.model import Incident, Verdict

MOST_SAMPLES = 200_000
"""In memory they take some 100 MiB. A recording with no more of them is judged whole."""
BEFORE_NS, AFTER_NS = 310 * NS_PER_S, 10 * NS_PER_S
"""What rules look at before a kill (`growth.WINDOW_NS` is the longest) and behind it."""
NEAR_SHARE = 0.75
"""Of the samples that are kept: as many may be near what matters."""

Sample: TypeAlias = (
    ProcessSample | CgroupSample | PressureSample | ReclaimSample | VmstatSample | TracerCost | GpuSample
)
_SAMPLES = (ProcessSample, CgroupSample, PressureSample, ReclaimSample, VmstatSample, TracerCost, GpuSample)
_MOMENTS = (OomMark, OomGlimpse, LoggedKill, JobEnded)
_REFUSED = frozenset({"host_alloc", "shm"})
"""`TrainingLine.about`: what was near its bound then is a part of that verdict."""
_SLICE_NS = 10 * NS_PER_S


def few_enough(events: Iterable[AnyEvent], most: int = MOST_SAMPLES) -> list[AnyEvent] | None:
    """All of them, where no more than so many are samples; else `None`, and nothing is held."""
    kept: list[AnyEvent] = []
    samples = 0
    for event in events:
        kept.append(event)
        samples += isinstance(event, _SAMPLES)
        if samples > most:
            return None
    return kept


def _is_moment(event: AnyEvent) -> bool:
    killed = isinstance(event, SignalSent) and event.signal == SIGKILL
    return killed or (isinstance(event, TrainingLine) and event.about in _REFUSED)


class Thinning:
    """A choice of samples, made in a first pass over the events and carried out in a second one."""

    def __init__(self, events: Iterable[AnyEvent], most: int = MOST_SAMPLES) -> None:
        self._near = _Near()
        counts: Counter[int] = Counter()
        last = None
        for event in events:
            if isinstance(event, _SAMPLES):
                counts[event.ts_ns // _SLICE_NS] += 1
            elif isinstance(event, _MOMENTS) or _is_moment(event):
                self._near.add(event.ts_ns)
            last = event.ts_ns if last is None else max(last, event.ts_ns)
        if last is not None:
            self._near.add(last)  # a recording that has no kill may show what led to its end
        near = sum(count for slice_, count in counts.items() if slice_ in self._near)
        self.samples = sum(counts.values())
        """How many there are."""
        near_room = round(most * NEAR_SHARE)
        self.near_step = max(1, -(-near // near_room))
        far_room = max(1, most - near // self.near_step)
        self.far_step = max(1, -(-(self.samples - near) // far_room))
        self.left_out = 0
        """Samples that a pass of `kept` did not give."""

    def kept(self, events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
        """The events again without the samples that are left out.

        Of each subject the first sample and the last stay, and those between which a count rose or a state changed.
        """
        self.left_out = 0
        tellers: dict[Hashable, _Teller] = {}
        for event in events:
            if not isinstance(event, _SAMPLES):
                yield event
                continue
            teller = tellers.setdefault(_SUBJECTS[type(event)](event), _Teller())
            step = self.near_step if event.ts_ns // _SLICE_NS in self._near else self.far_step
            chosen = teller.chosen(event, step)
            self.left_out += 1 - len(chosen)
            yield from chosen
        for teller in tellers.values():
            if teller.held is not None:
                self.left_out -= 1
                yield teller.held

    def statement(self) -> str:
        """What was done, as a caveat."""
        near = "all" if self.near_step == 1 else f"1 of {self.near_step}"
        return (
            f"Of {self.samples} samples {self.samples - self.left_out} were looked at: {near} of those from "
            f"{BEFORE_NS // NS_PER_S} s before a kill or the end, of the others 1 of {self.far_step}; of what is no "
            "sample everything was."
        )

    def tempered(self, verdict: Verdict) -> Verdict:
        """What it says of why memory grew, where samples near a kill were left out as well.

        Which process grew, and by what steps, is read from those: with few of them the wrong mechanism may look like
        the right one. Who was killed and by whom is no sample.
        """
        if self.near_step == 1:
            return verdict
        why_not = f"near the kill 1 of {self.near_step} samples was looked at, as there are so many"
        return msgspec.structs.replace(verdict, incidents=tuple(_weaker(one, why_not) for one in verdict.incidents))


def _weaker(incident: Incident, why_not: str) -> Incident:
    mechanism = incident.mechanism
    if mechanism is None:
        return incident
    weaker = msgspec.structs.replace(mechanism, strength="possible", against=(*mechanism.against, why_not))
    return msgspec.structs.replace(incident, mechanism=weaker)


class _Near:
    """Slices of time near what matters."""

    def __init__(self) -> None:
        self._slices: set[int] = set()

    def add(self, at_ns: int) -> None:
        first, last = (at_ns - BEFORE_NS) // _SLICE_NS, (at_ns + AFTER_NS) // _SLICE_NS
        if not (first in self._slices and last in self._slices):
            self._slices.update(range(first, last + 1))

    def __contains__(self, slice_: object) -> bool:
        return slice_ in self._slices


class _Teller:
    """The samples of one subject as they come by."""

    def __init__(self) -> None:
        self.held: Sample | None = None
        """The last one, where it was not given out: if nothing follows, it is the subject's last."""
        self._since = 0
        self._state: tuple[object, ...] | None = None

    def chosen(self, sample: Sample, step: int) -> tuple[AnyEvent, ...]:
        """What is kept now that this one has come."""
        state = _STATES.get(type(sample), _nothing)(sample)
        turned = state != self._state
        self._state = state
        self._since += 1
        if not turned and self._since < step:
            self.held = sample
            return ()
        before = self.held
        self.held, self._since = None, 0
        return (before, sample) if turned and before is not None else (sample,)


def _nothing(_: Sample) -> tuple[object, ...]:
    return ()


# Of attributes each kind has its own: looked up by its type.
_SUBJECTS: dict[type, Callable[..., Hashable]] = {
    ProcessSample: lambda e: process_id(e.tgid, e.start_ns),
    CgroupSample: lambda e: ("cgroup", e.cgroup_id, e.path),
    PressureSample: lambda _: "machine",
    ReclaimSample: lambda e: ("reclaim", e.cgroup_id),
    VmstatSample: lambda _: "vmstat",
    TracerCost: lambda _: "tracer",
    GpuSample: lambda e: ("gpu", e.uuid),
}
_STATES: dict[type, Callable[..., tuple[object, ...]]] = {
    ProcessSample: lambda e: (e.comm, e.code_bytes, e.exit_status, e.state == "Z", e.rss_anon_bytes is None),
    CgroupSample: lambda e: (
        e.limit_bytes, e.swap_limit_bytes, e.high_limit_bytes, e.oom, e.oom_kill, e.oom_kill_local, e.oom_local,
        e.oom_group_kill, e.under_oom, e.oom_kill_disable,
    ),
    VmstatSample: lambda e: (e.oom_kill,),
}  # fmt: skip
