# SPDX-License-Identifier: Apache-2.0
"""What a verdict of texts may say beside the truth: less, and nothing else."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.explained import passages_of
from tracer.events import LoggedDecision, LoggedUsage, Passage, Text
from tracer.verdict.model import Incident, Process
from tracer.verdict.textual.deaths import own_of
from tracer.verdict.textual.judge import explain
from tracer.verdict.textual.model import TextVerdict
from tracer.verdict.textual.others import by_itself

Given = Sequence[tuple[str, str, bytes]]
OF_THE_KERNEL = ("host_oom_", "operator_oom")
_OF_A_VICTIM = ("comm", "cgroup", "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes")
_OF_A_LIMIT = ("cgroup", "limit_bytes", "usage_bytes", "constraint")
_WEAKER = {
    "host_oom_unknown_scope": {
        "host_oom_global", "host_oom_cpuset", "host_oom_mempolicy", "host_oom_cgroup", "operator_oom",
    },
    "host_oom_global": {"operator_oom"},
}  # fmt: skip
OPERATOR = "an operator may have asked for it"
"""Is then a caveat: the line that says so may be gone."""


class Truth(NamedTuple):
    """What the whole texts say."""

    kills: dict[int, tuple[Incident, Process]]
    """By pid."""
    cgroups: frozenset[tuple[int, str]]
    """Of pids, as the kernel's decisions have them; of several kills at one limit a verdict has but the first."""
    usages: frozenset[int]
    """At any limit: which report one belongs to, a text from which lines are lost may not show."""
    causes: frozenset[str]
    """That the job's own end may have: of the verdict, and of each failure that is told. Which came first, a text from
    which lines are lost may not show."""


def whole(given: Given) -> tuple[TextVerdict, list[Passage], list[Text]]:
    """The verdict of texts, and what was read in them."""
    passages, texts = passages_of(given, lambda raw: [raw])
    return explain(passages, texts), passages, texts


def truth_of(given: Given) -> Truth:
    """Of texts that are not damaged."""
    verdict, passages, texts = whole(given)
    own = own_of(passages)
    told = {by_itself(failure, own, texts) for failure in own.failures}
    causes = {one.cause for one in told if one.strength == "likely"} | {verdict.incidents[0].cause}
    kills = {
        victim.pid: (one, victim)
        for one in verdict.incidents
        if one.cause.startswith(OF_THE_KERNEL)
        for victim in one.victims
    }
    events = [passage.event for passage in passages]
    cgroups = {
        (event.tgid, event.task_memcg)
        for event in events
        if isinstance(event, LoggedDecision) and event.tgid is not None and event.task_memcg is not None
    }
    usages = {event.usage_bytes for event in events if isinstance(event, LoggedUsage)}
    return Truth(kills, frozenset(cgroups), frozenset(usages), frozenset(causes))


def lies(verdict: TextVerdict, truth: Truth) -> list[str]:
    """What it says, as likely, that is not so."""
    found = ["something is proved"] if any(one.strength == "proved" for one in verdict.incidents) else []
    for one in verdict.incidents:
        if one.strength == "likely" and one.cause.startswith(OF_THE_KERNEL):
            for victim in one.victims:
                found += _of_victim(one, victim, truth)
    first = verdict.incidents[0]
    if first.strength == "likely" and not first.cause.startswith(OF_THE_KERNEL) and first.cause not in truth.causes:
        found.append(f"{first.cause} in place of {sorted(truth.causes)}")
    return found


def _of_victim(one: Incident, victim: Process, truth: Truth) -> Iterator[str]:
    if victim.pid not in truth.kills:
        yield f"pid {victim.pid} was not killed"
        return
    kill, process = truth.kills[victim.pid]
    for name in _OF_A_VICTIM:
        said, true = getattr(victim, name), getattr(process, name)
        told = name == "cgroup" and (victim.pid, said) in truth.cgroups
        if said is not None and said != true and not told:
            yield f"{name} of pid {victim.pid} is {said!r} in place of {true!r}"
    weaker = kill.cause in _WEAKER.get(one.cause, ())
    if kill.cause == "operator_oom" and weaker:
        weaker = any(OPERATOR in caveat for caveat in one.caveats)
    if one.cause != kill.cause and not weaker:
        yield f"{one.cause} in place of {kill.cause}"
    for name in _OF_A_LIMIT:
        said, true = getattr(one.limit, name, None), getattr(kill.limit, name, None)
        told = name == "usage_bytes" and said in truth.usages
        if said is not None and said != true and not told:
            yield f"{name} of the limit is {said!r} in place of {true!r}"


def damaged(given: Given, how, chance: random.Random) -> list[tuple[str, str, bytes]]:
    """The same texts, each with that done to its lines."""
    return [(name, kind, b"\n".join(how(raw.split(b"\n"), chance))) for name, kind, raw in given]
