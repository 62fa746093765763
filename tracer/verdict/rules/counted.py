# SPDX-License-Identifier: Apache-2.0
"""OOM kills that only a count tells of: likely at most, and a victim is named only where it can be no other."""

from collections.abc import Iterable, Sequence

import msgspec

from tracer.attribution.cgroup_paths import place_of
from tracer.events import CgroupSample, LoggedKill, ProcessId
from tracer.units import format_bytes, format_limit, has_limit
from tracer.verdict import growth, people
from tracer.verdict.counters import DYING_NS, SLACK_NS, Counted, count_kills
from tracer.verdict.incident import Case, Finding, belongs, strength
from tracer.verdict.kills import SIGKILL
from tracer.verdict.limit import Shortage
from tracer.verdict.model import Incident, Level, Limit, Link, Process, Status, Strength
from tracer.verdict.rules.host_oom import HEADLINES, SURE, not_cuda, ran_out

MOST_NAMED = 6
FULL = 0.5
RECENT = 20
"""So many samples before the end are looked at for what was used."""


def find(case: Case) -> Iterable[Finding]:
    """One finding a rise of a count."""
    for counted in count_kills(case.story, case.kills.kills, case.deaths):
        yield _finding(case, counted)


def _finding(case: Case, counted: Counted) -> Finding:
    story, rise = case.story, counted.rise
    victims = tuple(c.id for c in counted.named)
    ids = victims or tuple(c.id for c in counted.candidates) or ((story.tree.root,) if story.tree.root else ())
    # The kill came before whatever followed from it was seen.
    ends = [c.ended_ns for c in counted.named or counted.candidates]
    ends += [case.root_death.at_ns] if case.root_death is not None else []
    at_ns = max(rise.from_ns, min([*ends, rise.to_ns]))
    shortage = _shortage(case, counted)
    links = (_killed(case, counted), ran_out(shortage), _belongs(case, counted), _died(case, counted), not_cuda())
    sure: Strength = strength(links, ()) if counted.sure else "possible"
    found = growth.growths(story, at_ns)
    told = tuple(people.process(story, one) for one in victims) or tuple(map(_from_log, counted.logged))
    return Finding(
        at_ns=at_ns,
        ids=ids,
        kind="oom",
        incident=Incident(
            cause=shortage.cause,
            strength=sure,
            at=story.utc(at_ns),
            headline=f"{SURE[sure]} {HEADLINES[shortage.cause]}",
            summary=_summary(case, counted, at_ns),
            victim=next(iter(told), None),
            victims=told,
            culprit=growth.culprit(story, found),
            growth=growth.together(story, found),
            limit=shortage.limit,
            signal=SIGKILL,
            proof=links,
            caveats=() if rise.own else (f"The count is of {_whose(counted)}: others may live there as well.",),
        ),
    )


def _from_log(logged: LoggedKill) -> Process:
    return Process(
        pid=logged.pid,
        comm=logged.comm,
        role="job",
        rss_anon_bytes=logged.anon_rss_bytes,
        rss_file_bytes=logged.file_rss_bytes,
        rss_shmem_bytes=logged.shmem_rss_bytes,
    )


def _whose(counted: Counted) -> str:
    if counted.rise.cgroup is None:
        return "the machine"
    return "the job's own cgroup" if counted.rise.own else f"cgroup {counted.rise.cgroup}"


def _kills(counted: Counted) -> str:
    return "1 OOM kill" if counted.rise.kills == 1 else f"{counted.rise.kills} OOM kills"


def _killed(case: Case, counted: Counted) -> Link:
    if counted.logged:
        return Link(
            link=1,
            name="the kernel killed it",
            status="not_observed",
            statement=f"the kernel's log says so, and {_whose(counted)} counted {_kills(counted)}",
            evidence=(*(logged.seq for logged in counted.logged), *counted.rise.evidence),
            rung="kernel_log",
        )
    statement = f"{_whose(counted)} counted {_kills(counted)} at that time"
    others = len(counted.candidates) - len(counted.named)
    if counted.named and not others:
        statement += ", and nobody else of the job ended then" if len(counted.named) == 1 else ", as many as ended then"
    elif counted.named:
        statement += f"; it held by far the most of the {len(counted.candidates)} that ended then"
    else:
        statement += f"; whom it killed was not seen{_names(case, counted)}"
    return Link(
        link=1,
        name="the kernel killed it",
        status="not_observed",
        statement=statement,
        evidence=counted.rise.evidence,
        rung="cgroup_counters",
    )


def _names(case: Case, counted: Counted) -> str:
    shown = [people.describe(case.story, c.id) for c in counted.candidates[:MOST_NAMED]]
    more = f" and {len(counted.candidates) - len(shown)} more" if len(counted.candidates) > len(shown) else ""
    return f" (ended then: {', '.join(shown)}{more})" if shown else ""


def _belongs(case: Case, counted: Counted) -> Link:
    if counted.named:
        return belongs(case.story, counted.named[0].id)
    name = "it is yours"
    if counted.rise.own:
        statement = "nothing but the job ran in that cgroup"
        return Link(link=3, name=name, status="present", statement=statement, rung="cgroup_counters")
    return Link(link=3, name=name, status="not_observed", statement="who was killed is not known")


def _died(case: Case, counted: Counted) -> Link:
    name = "it died of that"

    def link(status: Status, statement: str, identity: ProcessId | None = None) -> Link:
        death = case.death(identity) if identity is not None else None
        evidence, rung = (death.evidence, death.rung) if death is not None else ((), None)
        return Link(link=4, name=name, status=status, statement=statement, evidence=evidence, rung=rung)

    first = next(iter(counted.named), None)
    if first is None:
        # The log names it; it was too short among the living for /proc to show it.
        whom = "how it ended was not seen" if counted.logged else "who was killed is not known"
        return link("not_observed", whom)
    if not first.by_sigkill:
        return Link(
            link=4,
            name=name,
            status="not_observed",
            statement="it vanished at that time; how it ended was not seen",
            evidence=first.evidence,
            rung="proc",
        )
    return link("present", "it ended by signal 9 at that time", first.id)


def _summary(case: Case, counted: Counted, at_ns: int) -> str:
    clock = (case.story.utc(at_ns) or "")[11:23]
    whose, kills = _whose(counted), _kills(counted)
    if counted.logged:
        first = counted.logged[0]
        at = f" at {clock} UTC" if clock else ""
        more = f", and {len(counted.logged) - 1} more," if len(counted.logged) > 1 else ""
        return f"{first.comm!r} (pid {first.pid}) died{at}{more} in {whose}, by the kernel's log."
    if not counted.named:
        by = f" by {clock} UTC" if clock else ""
        return f"{whose[0].upper()}{whose[1:]} counted {kills}{by}; whom it killed was not seen{_names(case, counted)}."
    at = f" at {clock} UTC" if clock else ""
    who = people.subject(case.story, counted.named[0].id)
    others = f", and {len(counted.named) - 1} more," if len(counted.named) > 1 else ""
    how = "died" if counted.named[0].by_sigkill else "vanished"
    return f"{who} {how}{at}{others} while {whose} counted {kills}."


def _shortage(case: Case, counted: Counted) -> Shortage:
    """Whose limit it was: the level whose own count of OOM events rose; v1 has none, and counts failed charges."""
    levels = [level for samples in _by_cgroup(case) if (level := _level(case, counted, samples)) is not None]
    # Parents are a part of their children's names.
    levels.sort(key=lambda level: -len(level.level.cgroup))
    failed = [level for level in levels if level.failed]
    # Page cache fills any limit, and charges fail there all the time: the one that is full of anything else is meant.
    # None fails where memory and swap together are limited to the same (v1): that has a count of its own.
    full = [level for level in failed or levels if level.full]
    owners = [level for level in levels if level.risen] or full or failed
    chain = tuple(one.level for one in levels)
    if len(owners) != 1:
        return Shortage(
            cause="host_oom_unknown_scope",
            status="not_observed",
            statement="which limit ran out was not observed",
            limit=Limit(chain=chain),
        )
    owner = owners[0].level
    ran_into = "the only limit that was run into" if owners[0].failed else "the only limit that was near"
    how = "its own OOM count rose" if owners[0].risen else ran_into
    used = f"{format_bytes(owner.usage_bytes)} of {format_limit(owner.limit_bytes)} when last seen"
    limit = Limit(
        constraint="CONSTRAINT_MEMCG",
        cgroup=owner.cgroup,
        cgroups=(owner.cgroup,),
        place=owner.place,
        usage_bytes=owner.usage_bytes,
        limit_bytes=owner.limit_bytes,
        chain=tuple(msgspec.structs.replace(level, owner=level is owner) for level in chain),
    )
    return Shortage(
        cause="host_oom_cgroup",
        status="present" if owners[0].risen else "not_observed",
        statement=f"limit of {owner.cgroup}: {used}; {how}",
        limit=limit,
        evidence=owners[0].evidence,
        rung="cgroup_counters",
    )


class _Level(msgspec.Struct, frozen=True):
    level: Level
    risen: bool
    """Its own count of OOM events rose with the count of kills."""
    failed: bool
    """It has a limit, and charges failed against that in the same time."""
    full: bool
    """Most of what it was last seen to hold could not be given back."""
    evidence: tuple[int, ...]


def _by_cgroup(case: Case) -> Iterable[Sequence[CgroupSample]]:
    return case.story.by(CgroupSample, lambda s: s.cgroup_id, "id").values()


def _level(case: Case, counted: Counted, samples: Sequence[CgroupSample]) -> _Level | None:
    rise, job = counted.rise, case.story.job
    until = [s for s in samples if s.ts_ns <= rise.to_ns + DYING_NS]
    if not until:
        return None
    first = next((s for s in reversed(until) if s.ts_ns <= rise.from_ns + SLACK_NS), until[0])
    last = until[-1]
    own = job is not None and job.own_cgroup and job.cgroup_id == last.cgroup_id

    def rose(now: int | None, before: int | None) -> bool:
        return now is not None and now > (0 if own else before or 0) and (own or before is not None)

    limited = None if last.limit_bytes is None else has_limit(last.limit_bytes)
    # What is read after the kill is what the victim left: the fullest counts.
    usage = max((s.usage_bytes for s in until[-RECENT:] if s.usage_bytes is not None), default=None)
    held = max((_unreclaimable(s) for s in until[-RECENT:]), default=0)
    return _Level(
        Level(
            cgroup=last.path,
            usage_bytes=usage,
            limit_bytes=last.limit_bytes if limited else None,
            limited=limited,
            oom_events=last.oom_local,
            place=place_of(last.path),
        ),
        rose(last.oom_local, first.oom_local),
        bool(limited) and rose(last.failcnt, first.failcnt),
        bool(limited) and held >= FULL * (last.limit_bytes or 0),
        (first.seq, last.seq),
    )


def _unreclaimable(sample: CgroupSample) -> int:
    cache_bytes = max(0, (sample.file_bytes or 0) - (sample.shmem_bytes or 0))
    return max(0, (sample.usage_bytes or 0) - cache_bytes)
