# SPDX-License-Identifier: Apache-2.0
"""For each process the window in which its calls of libcuda were watched, or until when it had none mapped.

Probes stand on a library's inode, in whatever process maps it. What matters is from when on a process can have
called it unseen: from the last moment at which it was known not to have it mapped, until the probes stood.
"""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

import msgspec

from tracer.attribution.tree import MAX_DEPTH, Member
from tracer.events import CodeLooked, CudaProbed, GpuLibrary, PressureSample, ProcessId, ProcessSample, process_id
from tracer.units import NS_PER_S, format_duration
from tracer.verdict.story import Story

DRIVER = "libcuda.so"
UNSEEN_NS = 3 * NS_PER_S
"""A process that was last seen without a GPU library so long before is said to have none; rounds are a second apart."""
GAP_NS = 2 * NS_PER_S
"""So long a library may have been mapped before the probes stood: making a context alone takes most of that."""
YOUNG_NS = 500_000_000
"""In so short a time a fork has not loaded a GPU's driver: until then it has what its parent had."""
FREES = ("cuMemFree", "cuMemRelease", "cuMemHostUnregister", "cuMemGetInfo")
"""A probe that is missing on one of these makes a balance wrong, and hides no failure."""

State = Literal["watched", "unmapped", "other_vendor", "unknown"]


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one process's use of GPU libraries, as of some moment."""

    id: ProcessId
    state: State
    why: str = ""
    """Of `unknown` and `other_vendor`: the reason, to follow the process's name."""
    from_ns: int | None = None
    """Its calls were watched from here on."""
    until_ns: int | None = None
    """It was known so until here; `None`: until its end."""
    gap_ns: int | None = 0
    """How long it may have had the library mapped before that; `None`: not known."""
    libraries: tuple[GpuLibrary, ...] = ()
    evidence: tuple[int, ...] = ()


class _Absence(msgspec.Struct, frozen=True):
    """No GPU library was mapped until `until_ns`, while there was so much code."""

    until_ns: int
    code_bytes: int | None
    seq: int | None = None
    since_change_ns: int | None = None
    """When more code was first seen, that nobody looked at."""


class _Life(msgspec.Struct, frozen=True):
    """One program of a process: from its exec, or its fork, to the next one or its end."""

    member: Member
    began_ns: int | None
    forked: bool
    end_ns: int
    looks: tuple[CodeLooked, ...]
    samples: tuple[ProcessSample, ...]


class Coverage:
    """Of all processes of one recording."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._of_the_ended: dict[ProcessId, tuple[int, Watch]] = {}

    @cached_property
    def looked(self) -> bool:
        """Whether anybody looked at what processes had mapped."""
        return bool(self._story.of(CodeLooked)) or bool(self._story.of(CudaProbed))

    @cached_property
    def probed(self) -> Mapping[tuple[str, int], Sequence[CudaProbed]]:
        """By device and inode."""
        found: dict[tuple[str, int], list[CudaProbed]] = {}
        for probed in self._story.of(CudaProbed):
            found.setdefault((probed.device, probed.inode), []).append(probed)
        return found

    def of(self, identity: ProcessId, at_ns: int) -> Watch:
        """What is known of a process as of a moment, by whatever was seen before or after."""
        known = self._of_the_ended.get(identity)
        if known is not None and known[0] <= at_ns:
            return known[1]
        found = self._of(identity, at_ns, 0)
        member = self._story.tree.processes.get(identity)
        if member is not None and member.exit is not None and member.exit.ts_ns <= at_ns:
            self._of_the_ended[identity] = (at_ns, found)  # nothing changes after its end
        return found

    def _of(self, identity: ProcessId, at_ns: int, depth: int) -> Watch:
        member = self._story.tree.processes.get(identity)
        if member is None or depth > min(MAX_DEPTH, 64):
            return Watch(id=identity, state="unknown", why="is known by its calls alone")
        life = self._life(member, at_ns)
        inherited = self._inherited(life, depth)
        if not life.looks and not (inherited is not None and self._as_forked(life, at_ns)):
            return Watch(id=identity, state="unknown", why="was not looked at")
        libraries = self._libraries(life, inherited, at_ns)
        other = [lib for lib in libraries if lib.vendor != "nvidia"]
        drivers = [lib for lib in libraries if lib.vendor == "nvidia" and lib.name.startswith(DRIVER)]
        evidence = tuple(look.seq for look in life.looks if look.libraries)[:4]
        if other:
            names = ", ".join(sorted({f"{lib.name} ({lib.vendor})" for lib in other})[:3])
            why = f"had {names} mapped: not NVIDIA's, and its calls are not watched"
            return Watch(id=identity, state="other_vendor", why=why, libraries=tuple(other), evidence=evidence)
        if drivers:
            return self._watched(life, inherited, tuple(drivers), evidence)
        return self._unmapped(life, inherited, at_ns)

    def _libraries(self, life: _Life, inherited: Watch | None, at_ns: int) -> Sequence[GpuLibrary]:
        """What it had mapped by then, or may have had: what is mapped stays so."""
        found: dict[tuple[str, int], GpuLibrary] = {}
        for look in life.looks:
            late = look.ts_ns > at_ns
            for lib in look.libraries:
                if late and (lib.device, lib.inode) not in found:
                    absence = self._absence(life, inherited, look)
                    if absence is not None and absence.until_ns >= at_ns:
                        continue
                found.setdefault((lib.device, lib.inode), lib)
        # What a fork has of its parent's is in its own mappings, once somebody looked there.
        if inherited is not None and not any(look.complete for look in life.looks):
            found = {**{(lib.device, lib.inode): lib for lib in inherited.libraries}, **found}
        return tuple(found.values())

    def _life(self, member: Member, at_ns: int) -> _Life:
        execs = [one.ts_ns for one in member.execs]
        before = [ts_ns for ts_ns in execs if ts_ns <= at_ns]
        after = [ts_ns for ts_ns in execs if ts_ns > at_ns]
        ended_ns = next((e.ts_ns for e in (member.exit, member.ended, member.gone) if e is not None), None)
        end_ns = min([*after, *([] if ended_ns is None else [ended_ns])], default=self._last_ns)
        forked = not before and member.fork is not None
        began_ns = before[-1] if before else member.fork.ts_ns if member.fork is not None else None
        if began_ns is None and member.id in self._story.tree.roots and not self._story.tree.roots[member.id].attached:
            began_ns = self._story.tree.roots[member.id].ts_ns
        since_ns = began_ns or 0
        looks = tuple(one for one in self._looks.get(member.id, ()) if since_ns <= one.ts_ns <= end_ns)
        samples = tuple(s for s in member.samples if since_ns <= s.ts_ns <= end_ns and s.code_bytes is not None)
        return _Life(member, began_ns, forked, end_ns, looks, samples)

    @cached_property
    def _looks(self) -> Mapping[object, list[CodeLooked]]:
        return self._story.by(CodeLooked, lambda e: process_id(e.tgid, e.start_ns), "code")

    @cached_property
    def _last_ns(self) -> int:
        return self._story.events[-1].ts_ns if self._story.events else 0

    @cached_property
    def _rounds(self) -> Sequence[int]:
        """When rounds of samples began: first the machine's, of which something has always changed."""
        return [sample.ts_ns for sample in self._story.of(PressureSample)]

    def _last_round(self, ts_ns: int) -> int:
        """The beginning of the last round that was over by then; the one after may not have come to a process."""
        place = bisect.bisect_right(self._rounds, ts_ns)
        return self._rounds[place - 2] if place > 1 else 0

    def _inherited(self, life: _Life, depth: int) -> Watch | None:
        """A fork has what its parent had mapped."""
        if not life.forked or life.began_ns is None or life.member.parent is None:
            return None
        return self._of(life.member.parent, life.began_ns, depth + 1)

    def _absence(self, life: _Life, inherited: Watch | None, before: CodeLooked | None) -> _Absence | None:
        """Until when a program was known to have no GPU library, up to a look that found one."""
        last_ns = life.end_ns if before is None else before.ts_ns
        looks = [one for one in life.looks if before is None or one.ts_ns < before.ts_ns]
        if looks:
            return self._unchanged(life, looks[-1], last_ns) if looks[-1].complete else None
        if life.began_ns is None:
            return None
        if not life.forked:  # a program begins with nothing of the old one
            return _Absence(life.began_ns, None)
        if inherited is None or inherited.state != "unmapped":
            return None
        # Until its fork it had what its parent had, and as long as it has no more code.
        code = self._code_at(life.member.parent, life.began_ns)
        samples = [s for s in life.samples if s.ts_ns <= last_ns]
        if code is None or not samples or any(s.code_bytes != code for s in samples):
            return _Absence(life.began_ns, code)
        return _Absence(self._seen_until(samples[-1].ts_ns, last_ns), code)

    def _unchanged(self, life: _Life, look: CodeLooked, last_ns: int) -> _Absence:
        if look.code_bytes is None:
            return _Absence(look.ts_ns, None, look.seq)
        later = [s for s in life.samples if look.ts_ns < s.ts_ns <= last_ns]
        changed = next((s for s in later if s.code_bytes != look.code_bytes), None)
        if changed is not None:
            same = [s.ts_ns for s in later if s.ts_ns < changed.ts_ns]
            until_ns = max([look.ts_ns, self._last_round(changed.ts_ns), *same])
            return _Absence(until_ns, look.code_bytes, look.seq, changed.ts_ns)
        sampled = [s for s in life.samples if s.ts_ns <= last_ns]
        if not sampled:  # nobody samples it: the look stands alone
            return _Absence(look.ts_ns, look.code_bytes, look.seq)
        return _Absence(self._seen_until(max(look.ts_ns, sampled[-1].ts_ns), last_ns), look.code_bytes, look.seq)

    def _seen_until(self, from_ns: int, last_ns: int) -> int:
        """Rounds went on, and what had changed would have been recorded."""
        return max(from_ns, self._last_round(last_ns))

    def _as_forked(self, life: _Life, at_ns: int) -> bool:
        """Whether one that nobody looked at can have mapped nothing of its own by then."""
        began_ns, last_ns = life.began_ns or 0, min(at_ns, life.end_ns)
        if last_ns - began_ns <= YOUNG_NS:
            return True
        code = self._code_at(life.member.parent, began_ns)
        samples = [s for s in life.samples if s.ts_ns <= last_ns]
        same = code is not None and bool(samples) and all(s.code_bytes == code for s in samples)
        return same and last_ns - self._seen_until(samples[-1].ts_ns, last_ns) <= UNSEEN_NS

    def _code_at(self, identity: ProcessId | None, ts_ns: int) -> int | None:
        looks = [one for one in self._looks.get(identity, ()) if one.ts_ns <= ts_ns]
        return looks[-1].code_bytes if looks else None

    def _unmapped(self, life: _Life, inherited: Watch | None, at_ns: int) -> Watch:
        identity = life.member.id

        def unknown(why: str) -> Watch:
            return Watch(id=identity, state="unknown", why=why)

        if life.looks and not life.looks[-1].complete:
            return unknown(f"could not be looked into ({life.looks[-1].why_not or 'not to the end'})")
        if not life.looks and inherited is not None and inherited.state != "unmapped":
            return unknown("was not looked at")
        absence = self._absence(life, inherited, None)
        if absence is None:
            return unknown("was not looked at")
        until_ns = min(absence.until_ns, at_ns)
        if absence.since_change_ns is not None and absence.since_change_ns <= at_ns:
            return unknown(f"loaded code {format_duration(at_ns - absence.since_change_ns)} before, not looked at")
        if min(at_ns, life.end_ns) - absence.until_ns > UNSEEN_NS:
            return unknown(f"was last looked at {format_duration(at_ns - absence.until_ns)} before")
        seq = () if absence.seq is None else (absence.seq,)
        return Watch(id=identity, state="unmapped", until_ns=until_ns, evidence=seq)

    def _watched(
        self, life: _Life, inherited: Watch | None, drivers: tuple[GpuLibrary, ...], evidence: tuple[int, ...]
    ) -> Watch:
        from_ns, gaps, seqs = life.began_ns or 0, [], list(evidence)
        for lib in drivers:
            told = self.probed.get((lib.device, lib.inode), ())
            probed = next((one for one in told if one.why_not is None and one.symbols), None)
            if probed is None:
                why = next((one.why_not for one in told if one.why_not is not None), None) or "no probes on it"
                why = f"had {lib.name} mapped, and its calls were not watched ({why})"
                return Watch(id=life.member.id, state="unknown", why=why, libraries=drivers, evidence=evidence)
            refused = [name for name in probed.refused if not name.startswith(FREES)]
            if refused:
                why = f"may have called {', '.join(refused[:3])}, which could not be watched"
                return Watch(id=life.member.id, state="unknown", why=why, libraries=drivers, evidence=evidence)
            seqs.append(probed.seq)
            from_ns = max(from_ns, probed.ts_ns)
            gaps.append(self._gap(life, inherited, lib, probed))
        gap_ns = None if None in gaps else max(gap for gap in gaps if gap is not None)
        return Watch(
            id=life.member.id,
            state="watched",
            from_ns=from_ns,
            gap_ns=gap_ns,
            libraries=drivers,
            evidence=tuple(dict.fromkeys(seqs)),
        )

    def _gap(self, life: _Life, inherited: Watch | None, lib: GpuLibrary, probed: CudaProbed) -> int | None:
        first = next((one for one in life.looks if _has(one.libraries, lib)), None)
        if life.forked and life.began_ns is not None and inherited is not None and _has(inherited.libraries, lib):
            return max(0, probed.ts_ns - life.began_ns)
        if life.began_ns is not None and probed.ts_ns <= life.began_ns:
            return 0
        absence = self._absence(life, inherited, first)
        return None if absence is None else max(0, probed.ts_ns - absence.until_ns)


def _has(libraries: Iterable[GpuLibrary], wanted: GpuLibrary) -> bool:
    return any((lib.device, lib.inode) == (wanted.device, wanted.inode) for lib in libraries)
