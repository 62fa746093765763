# SPDX-License-Identifier: Apache-2.0
"""A verdict against what a scenario declares: pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from tracer.attribution.places import describe, describe_itself
from tracer.repro.scenario import Counters, Expected, Json
from tracer.units import MIB
from tracer.verdict.model import Incident, Strength, Verdict

_ORDER: tuple[Strength, ...] = ("possible", "likely", "proved")
_NEARLY_NONE = 0.1
"""Of the swap."""


class Seen(NamedTuple):
    """What there is to be compared."""

    verdict: Verdict
    base: str
    """Path of the scenario's cgroup."""
    comms: Mapping[tuple[int, int | None], str | None]
    """Names of processes by pid and start time."""
    counters: Counters
    leftover: str | None = None
    """Something of the scenario that should be gone and is not."""

    @property
    def primary(self) -> Incident:
        return self.verdict.incidents[self.verdict.primary]

    @property
    def killed(self) -> tuple[str, ...]:
        """The names of those that the OOM killer is said to have killed."""
        ooms = [
            one for one in self.verdict.incidents if one.cause.startswith("host_oom") or one.cause == "operator_oom"
        ]
        return tuple(victim.comm or "?" for one in ooms for victim in one.victims)


class Difference(NamedTuple):
    """One thing that is not as declared."""

    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"


def declared(expected: Expected) -> dict[str, Json]:
    """As the document has it: what is left open is left out."""
    content: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(expected))
    always: dict[str, Json] = {"at_least": expected.at_least, "at_most": expected.at_most}
    return {**always, "killed": list(expected.killed), **content}


def found(seen: Seen) -> dict[str, Json]:
    """The same of what was seen, all of it."""
    primary = seen.primary
    limit, sender, victim = primary.limit, primary.sender, primary.victim
    return {
        "cause": primary.cause,
        "strength": primary.strength,
        "killed": len(seen.killed),
        "victim": victim.comm if victim is not None else None,
        "victim_role": victim.role if victim is not None else None,
        "victims": list(seen.killed[:50]),
        "trigger": primary.trigger.comm if primary.trigger is not None else None,
        "limit": _node(limit.cgroup, seen.base) if limit is not None else None,
        "limit_of": describe_itself(limit.place) if limit is not None and limit.place is not None else None,
        "ran_in": describe(victim.place) if victim is not None and victim.place is not None else None,
        "constraint": limit.constraint if limit is not None else None,
        "sender": sender.kind if sender is not None else None,
        "sender_comm": sender.comm if sender is not None else None,
        "blamed": _blamed(seen),
        "status": _status(seen),
        "collateral": len(primary.collateral),
        "causes": [str(one.cause) for one in seen.verdict.incidents[:50]],
        "ns_pids": list(victim.ns_pids or ()) if victim is not None else [],
        "shmem_mib": _mib(victim.rss_shmem_bytes) if victim is not None else None,
        "swapped_mib": _mib(victim.swap_bytes) if victim is not None else None,
        "swap_exhausted": _swap_exhausted(primary),
        "mechanism": None if primary.mechanism is None else primary.mechanism.name,
        "mechanism_or": [] if primary.mechanism is None else list(primary.mechanism.or_),
        "mechanism_strength": None if primary.mechanism is None else primary.mechanism.strength,
        "caveats": list(_caveats(seen)),
        "not_present": [
            f"{link.link}: {link.statement}" for link in primary.proof if _is_missing(link.link, link.status)
        ],
    }


def differences(expected: Expected, seen: Seen) -> tuple[Difference, ...]:
    """All that is not as declared; empty: it passes."""
    return (*_about_the_cause(expected, seen), *_about_people(expected, seen), *_about_the_rest(expected, seen))


def _about_the_cause(expected: Expected, seen: Seen) -> Iterator[Difference]:
    primary, facts = seen.primary, found(seen)
    if primary.cause not in expected.cause:
        yield Difference("cause", " or ".join(expected.cause), primary.cause)
    low, high = _ORDER.index(expected.at_least), _ORDER.index(expected.at_most)
    if not low <= _ORDER.index(primary.strength) <= high:
        span = expected.at_least if low == high else f"{expected.at_least} to {expected.at_most}"
        missing = facts["not_present"]
        yield Difference("strength", span, f"{primary.strength} {missing}" if missing else primary.strength)
    causes = [one.cause for one in seen.verdict.incidents]
    for cause in expected.also:
        if cause not in causes:
            yield Difference("further incidents", cause, ", ".join(causes))
    for cause in expected.never:
        if cause in causes:
            yield Difference("incidents", f"never {cause}", cause)
    for what in ("limit", "limit_of", "ran_in", "constraint"):
        wanted = getattr(expected, what)
        if wanted is not None and facts[what] != wanted:
            yield Difference(what, wanted, str(facts[what]))
    if expected.swap_exhausted not in {None, facts["swap_exhausted"]}:
        yield Difference("swap exhausted", str(expected.swap_exhausted), str(facts["swap_exhausted"]))


def _about_people(expected: Expected, seen: Seen) -> Iterator[Difference]:
    facts = found(seen)
    for what in ("victim", "victim_role", "trigger", "sender", "sender_comm"):
        wanted = getattr(expected, what)
        if wanted is not None and facts[what] != wanted:
            yield Difference(what, repr(wanted), repr(facts[what]))
    low, high = expected.killed
    if not low <= len(seen.killed) <= high:
        yield Difference(
            "killed for want of memory", str(low) if low == high else f"{low} to {high}", str(len(seen.killed))
        )
    if expected.victims is not None and sorted(expected.victims) != sorted(seen.killed):
        yield Difference("victims", repr(sorted(expected.victims)), repr(sorted(seen.killed)))
    innocent = expected.not_blamed
    if innocent is not None and innocent in (*seen.killed, facts["blamed"]):
        yield Difference("blamed", f"not {innocent!r}", repr(innocent))
    if expected.ns_pids is not None and len(_ns_pids(seen)) < expected.ns_pids:
        yield Difference("pids of the victim", f"{expected.ns_pids} levels", repr(_ns_pids(seen)))
    for what in ("shmem_mib", "swapped_mib"):
        least, had = getattr(expected, what), facts[what]
        if least is not None and (not isinstance(had, int) or had < least):
            yield Difference(f"{what} of the victim", f"{least} at least", str(had))


def _about_the_rest(expected: Expected, seen: Seen) -> Iterator[Difference]:
    facts = found(seen)
    if expected.status is not None and facts["status"] != expected.status:
        yield Difference("status of the job", expected.status, str(facts["status"]))
    if len(seen.primary.collateral) < expected.collateral:
        yield Difference("collateral", f"{expected.collateral} at least", str(len(seen.primary.collateral)))
    if expected.caveat is not None and not any(expected.caveat in caveat for caveat in _caveats(seen)):
        yield Difference("caveats", repr(expected.caveat), repr(_caveats(seen)))
    counters = seen.counters
    told = counters.seen + counters.lost + counters.counted_again
    if counters.kernel is not None and not told <= counters.kernel <= told + counters.maybe:
        again = f", {counters.counted_again} counted twice" if counters.counted_again else ""
        words = f"{counters.seen} seen, {counters.lost} lost{again}"
        yield Difference("kills that the kernel counted", str(counters.kernel), words)
    if counters.counted_again > expected.counted_twice:
        yield Difference("kills counted twice", str(expected.counted_twice), str(counters.counted_again))
    if seen.leftover is not None:
        yield Difference("left behind", "nothing", seen.leftover)


def _mib(size_bytes: int | None) -> int | None:
    return None if size_bytes is None else size_bytes // MIB


def _is_missing(link: int, status: str) -> bool:
    return link <= 4 and status != "present"


def _status(seen: Seen) -> str | None:
    """Without the signal's name, and whether it left a core."""
    job = seen.verdict.job
    return None if job is None or job.status is None else job.status.partition(" (")[0]


def _node(cgroup: str | None, base: str) -> str | None:
    """A cgroup relative to the scenario's: the kernel's own path may begin above the root of a namespace."""
    if cgroup is None:
        return None
    name = base.rstrip("/").rpartition("/")[2]
    _, mine, below = f"{cgroup}/".partition(f"/{name}/")
    if not mine:
        return cgroup
    return below.rstrip("/") or "."


def _blamed(seen: Seen) -> str | None:
    culprit = seen.primary.culprit
    return None if culprit is None else seen.comms.get((culprit.pid, culprit.start_ns))


def _ns_pids(seen: Seen) -> tuple[int, ...]:
    victim = seen.primary.victim
    return (victim.ns_pids or ()) if victim is not None else ()


def _swap_exhausted(incident: Incident) -> bool | None:
    limit = incident.limit
    if limit is None or limit.swap_free_bytes is None or limit.swap_total_bytes is None:
        return None
    return limit.swap_total_bytes > 0 and limit.swap_free_bytes <= _NEARLY_NONE * limit.swap_total_bytes


def _caveats(seen: Seen) -> tuple[str, ...]:
    return (*seen.primary.caveats, *seen.verdict.caveats)
