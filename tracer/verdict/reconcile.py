# SPDX-License-Identifier: Apache-2.0
"""The kernel's own counts of OOM kills against what was seen and what was lost, to the unit, for each counter.

A counter speaks of the time between two of its readings. What it says and the kills that were seen do not explain is
told as a number, whatever it may mean.
"""

from collections.abc import Sequence

import msgspec

from tracer.events import Armed, CgroupSample, Disarmed, Losses, OomLevel, VmstatSample
from tracer.units import NS_PER_MS
from tracer.verdict.calls import MARK, Call, calls, first_victims
from tracer.verdict.kills import Kills
from tracer.verdict.model import Counter, Reconciliation, Whose
from tracer.verdict.story import Story

EDGE_NS = 100 * NS_PER_MS
"""A sample is stamped when all of it has been read; so long before that its count may have been read."""
AFTER_NS = 20 * NS_PER_MS
"""The kernel counts just before it sends the signal, and may be held up in between."""
SIGNAL = "signal_sent"
FILES = {1: "memory.oom_control", 2: "memory.events"}


class Reading(msgspec.Struct, frozen=True):
    """A counter at one moment."""

    ts_ns: int
    value: int
    seq: int
    edge_ns: int = EDGE_NS
    """0: it was read at this very moment."""


class _Facts(msgspec.Struct, frozen=True):
    """What all counters are compared with."""

    calls: tuple[Call, ...]
    doubles: tuple[Call, ...]
    """Kills that may have been counted twice without that being seen; empty where it would have been seen."""
    lost: int
    """Marks that were lost, without those whose kill was seen by its signal."""
    missing: int
    not_counted: int
    watched: bool
    armed_ns: int | None
    ended: bool
    """All that the kernel sent was read to the end."""


class _Which(msgspec.Struct, frozen=True):
    """Which counter."""

    whose: Whose
    file: str
    cgroup: str | None = None
    cgroup_id: int | None = None
    version: int | None = None


def reconcile(story: Story, kills: Kills) -> Reconciliation | None:
    """Every counter that was read; `None`: there is none."""
    facts = _facts(story, kills)
    job = story.job
    counters: list[Counter] = []
    samples = {
        cgroup: [s for s in found if s.oom_kill is not None]
        for cgroup, found in story.by(CgroupSample, lambda s: s.cgroup_id, "id").items()
        if isinstance(cgroup, int)
    }
    # Parents are a part of their children's names: the job's own comes first.
    for cgroup_id, found in sorted(samples.items(), key=lambda item: -len(item[1][0].path) if item[1] else 0):
        own = job is not None and job.cgroup_id == cgroup_id
        version = _version(story, found)
        if not found or version is None:
            continue
        readings = [Reading(s.ts_ns, s.oom_kill or 0, s.seq) for s in found]
        if own and job is not None and job.own_cgroup:
            readings.insert(0, Reading(min(job.ts_ns, readings[0].ts_ns), 0, job.seq, edge_ns=0))
        readings += _at_marks(story, cgroup_id, version, readings[-1].ts_ns)
        which = _Which("job" if own else "above", FILES[version], found[0].path, cgroup_id, version)
        counters.append(_compare(which, readings, facts))
    counters.sort(key=lambda c: c.whose != "job")
    machine = [Reading(s.ts_ns, s.oom_kill, s.seq) for s in story.of(VmstatSample)]
    if machine:
        counters.append(_compare(_Which("machine", "/proc/vmstat"), machine, facts))
    if not counters:
        return None
    return Reconciliation(
        agree=all(counter.unexplained == 0 for counter in counters),
        watched=facts.watched,
        statement=_statement(counters, watched=facts.watched),
        counters=tuple(counters),
    )


def caveats(found: Reconciliation | None) -> tuple[str, ...]:
    """Every difference that nothing explains, in a sentence with its numbers; each once."""
    told: list[str] = []
    before = 0
    for counter in found.counters if found is not None else ():
        # What is missing in a cgroup is missing above it, and on the machine, as well.
        if counter.unexplained not in {0, before}:
            told.append(_difference(counter))
        before = counter.unexplained or before
    return tuple(told)


def plural(kills: int) -> str:
    """`1 OOM kill`, `14 OOM kills`."""
    return "1 OOM kill" if kills == 1 else f"{kills or 'no'} OOM kills"


def where(counter: Counter) -> str:
    """Whose count it is."""
    if counter.whose == "machine":
        return "on the machine"
    return "in the job's cgroup" if counter.whose == "job" else f"in {counter.cgroup}"


def _facts(story: Story, kills: Kills) -> _Facts:
    armed = next(iter(story.of(Armed)), None)
    hooks = {name for name, hook in story.hooks.items() if hook.attached}
    watched = armed is not None and "mark_victim" in hooks
    last = next(reversed(story.of(Losses)), None)
    # A record of unknown kind or size may have been of any.
    of_signals = last.dropped.get(SIGNAL, 0) + last.short + last.unknown if last is not None else 0
    found = calls(story, kills)
    signals_lost = of_signals or story.missing_events or "signal_generate" not in hooks
    return _Facts(
        calls=found,
        doubles=first_victims(kills) if signals_lost else (),
        lost=lost_kills(story, found) if watched else 0,
        missing=story.missing_events,
        not_counted=sum(1 for k in kills.kills if k.sharer_of is not None)
        + sum(1 for d in kills.dying if d.signal is None),
        watched=watched,
        armed_ns=armed.ts_ns if armed is not None else None,
        ended=bool(story.of(Disarmed)),
    )


def lost_kills(story: Story, found: Sequence[Call]) -> int:
    """Marks that were lost, less the kills that were seen without theirs."""
    last = next(reversed(story.of(Losses)), None)
    if last is None:
        return 0
    return max(0, last.dropped.get(MARK, 0) + last.short + last.unknown - sum(call.unmarked for call in found))


def _version(story: Story, samples: Sequence[CgroupSample]) -> int | None:
    """Of the hierarchy: v1 alone tells of `under_oom`, v2 alone counts `oom`."""
    if story.header is not None and story.header.cgroup_version in FILES:
        return story.header.cgroup_version
    if any(s.under_oom is not None or s.oom_kill_disable is not None for s in samples):
        return 1
    return 2


def _at_marks(story: Story, cgroup_id: int, version: int, after_ns: int) -> list[Reading]:
    """What the counter said at later marks: the only readings, where it went with its cgroup."""
    found = []
    for level in story.by(OomLevel, lambda v: v.cgroup_id, "cgroup").get(cgroup_id, ()):
        value = level.events_oom_kill if version == 2 else level.events_local_oom_kill
        if value is not None and level.ts_ns > after_ns:
            # Read under the lock that all OOM kills take, when its own had been counted.
            found.append(Reading(level.ts_ns, value, level.seq, edge_ns=0))
    return found


def _compare(which: _Which, readings: Sequence[Reading], facts: _Facts) -> Counter:
    first, last = _first(readings, facts), readings[-1]
    within = [(c, _counts(which, c), _within(first, last, c)) for c in facts.calls]
    sure = [c for c, counts, inside in within if counts and inside and c.sure]
    maybe = sum(1 for _, counts, inside in within if counts is not False and inside is not False) - len(sure)
    again, twice = sum(call.again for call in sure), _twice(which, first, last, facts)
    counted = last.value - first.value
    rest, lost, why = counted - len(sure), 0, list[str]()
    if rest < 0 and which.version == 2 and counted == sum(call.cgroups[:1] == (which.cgroup_id,) for call in sure):
        rest, why = 0, ["it counts those alone that were in this very cgroup (memory_localevents)"]
    if rest > 0:
        rest, lost, why = _explain(rest, maybe, twice, facts)
        unwatched = _unwatched(which, first, facts) if rest else None
        if unwatched is not None:
            rest, why = 0, [*why, unwatched]
    return Counter(
        whose=which.whose,
        file=which.file,
        cgroup=which.cgroup,
        counted=counted,
        seen=len(sure) - again,
        counted_again=again,
        maybe=maybe,
        maybe_again=twice,
        lost=lost,
        unexplained=rest,
        explained_by=tuple(why),
        not_counted=facts.not_counted,
        evidence=(first.seq, last.seq),
    )


def _first(readings: Sequence[Reading], facts: _Facts) -> Reading:
    """The last before the watch began, since what does not change is not recorded again; else the first of all."""
    early = [r for r in readings if facts.armed_ns is not None and r.ts_ns < facts.armed_ns]
    return early[-1] if early else readings[0]


def _explain(rest: int, maybe: int, twice: int, facts: _Facts) -> tuple[int, int, list[str]]:
    """What is left of more counts than kills, how many of the lost marks it takes, and what explains the others."""
    why = []
    for most, text in (
        (maybe, "{0} seen of which it cannot be told whether it counts them"),
        (twice, "{0} may have been counted twice, as the first of a group"),
    ):
        taken = min(rest, most)
        rest -= taken
        why += [text.format(taken)] if taken else []
    lost = min(rest, facts.lost)
    rest -= lost
    taken = min(rest, facts.missing)
    rest -= taken
    why += [f"{facts.missing} events are missing from the recording"] if taken else []
    return rest, lost, why


def _counts(which: _Which, call: Call) -> bool | None:
    """Whether it counts this; `None`: that cannot be told."""
    if which.version is None:
        return True
    if which.version == 1:
        return call.cgroups[0] == which.cgroup_id if call.own_known else None
    if which.cgroup_id in call.cgroups:
        return True
    return False if call.all_known else None


def _within(first: Reading, last: Reading, call: Call) -> bool | None:
    """Whether the kernel counted it after the first reading and before the last; `None`: that cannot be told."""
    after_first, before_last = _is_before(call, first), _is_before(call, last)
    if after_first is True or before_last is False:
        return False
    return None if after_first is None or before_last is None else True


def _is_before(call: Call, reading: Reading) -> bool | None:
    if reading.edge_ns == 0:
        return call.at_ns <= reading.ts_ns
    # What had been recorded when the counter was read had happened.
    if call.seq < reading.seq or call.at_ns < reading.ts_ns - EDGE_NS:
        return True
    return False if call.at_ns > reading.ts_ns + AFTER_NS else None


def _twice(which: _Which, first: Reading, last: Reading, facts: _Facts) -> int:
    return sum(_counts(which, c) is not False and _within(first, last, c) is not False for c in facts.doubles)


def _unwatched(which: _Which, first: Reading, facts: _Facts) -> str | None:
    """Why kills may not have been seen at all."""
    if not facts.watched:
        # Of the job's own cgroup the difference is news.
        return None if which.whose == "job" else "without BPF only kills of the job are looked for"
    if facts.armed_ns is not None and first.ts_ns < facts.armed_ns:
        return "it was read before the kernel was watched"
    return None if facts.ended else "the recording has no end"


def _statement(counters: Sequence[Counter], *, watched: bool) -> str:
    """One line: the job's cgroup, and the machine where that says something else."""
    shown = [c for c in counters if c.whose == "job"][:1]
    shown += [c for c in counters if c.whose == "machine" and (not shown or _said(c) != _said(shown[0]))]
    shown = shown or list(counters[:1])
    told = "; ".join(f"{plural(c.counted)} {where(c)}{_of_these(c, watched=watched)}" for c in shown)
    return f"the kernel counted {told}"


def _said(counter: Counter) -> tuple[object, ...]:
    known = counter.seen + counter.maybe
    return (counter.counted, known, counter.counted_again, counter.lost, counter.unexplained)


def _of_these(counter: Counter, *, watched: bool) -> str:
    if not watched:
        # What is known of kills then comes from the kernel's log, which names no cgroup by its id.
        known = min(counter.counted, counter.seen + counter.maybe)
        return f": {known} by its log, and nothing else watched it" if known else ", and nothing else watched it"
    if not (counter.counted or counter.seen or counter.maybe):
        return ""
    again = [f"{counter.counted_again} counted twice"] if counter.counted_again else []
    parts = [f"{counter.seen} seen", *again, f"{counter.lost} lost", *counter.explained_by]
    if counter.unexplained:
        parts.append(f"{abs(counter.unexplained)} {'not explained' if counter.unexplained > 0 else 'not counted'}")
    return ": " + ", ".join(parts)


def _difference(counter: Counter) -> str:
    again = f", {counter.counted_again} of them counted twice" if counter.counted_again else ""
    seen = f"{counter.seen} {'was' if counter.seen == 1 else 'were'} seen{again}"
    if counter.unexplained < 0:
        return (
            f"The kernel counted {plural(counter.counted)} {where(counter)}, and {seen}: "
            f"{-counter.unexplained} of these it did not count, and nothing explains that."
        )
    lost = f", {counter.lost} lost" if counter.lost else ""
    left = f"{counter.unexplained} {'is' if counter.unexplained == 1 else 'are'}"
    return f"The kernel counted {plural(counter.counted)} {where(counter)}; {seen}{lost}: {left} not explained."
