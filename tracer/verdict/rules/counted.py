# SPDX-License-Identifier: Apache-2.0
"""OOM kills that only a count tells of: likely at most, and a victim is named only where it can be no other."""

from collections.abc import Iterable

from tracer.events import LoggedKill, ProcessId
from tracer.events.signals import SIGKILL
from tracer.verdict import growth, people
from tracer.verdict.counters import Counted, count_kills
from tracer.verdict.cuda import document
from tracer.verdict.cuda.link import not_cuda
from tracer.verdict.incident import Case, Finding, belongs, strength
from tracer.verdict.limit_counted import limit_by_counters
from tracer.verdict.model import Incident, Link, Process, Status, Strength
from tracer.verdict.rules.host_oom import headline, ran_out

MOST_NAMED = 6


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
    shortage = limit_by_counters(story, counted.rise)
    links = (
        _killed(case, counted),
        ran_out(shortage),
        _belongs(case, counted),
        _died(case, counted),
        not_cuda(case, at_ns, shortage.limit),
    )
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
            headline=headline(sure, shortage.cause, links),
            summary=_summary(case, counted, at_ns),
            victim=next(iter(told), None),
            victims=told,
            culprit=growth.culprit(story, found),
            growth=growth.together(story, found),
            limit=shortage.limit,
            signal=SIGKILL,
            proof=links,
            cuda=document.build(case, at_ns),
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
        evidence, rung, via = (death.evidence, death.rung, death.via) if death is not None else ((), None, ())
        return Link(link=4, name=name, status=status, statement=statement, evidence=evidence, rung=rung, via=via)

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
