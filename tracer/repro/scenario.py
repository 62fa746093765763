# SPDX-License-Identifier: Apache-2.0
"""What a scenario is: what it sets up, what it runs, what the verdict must be and why. Data alone."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tracer.verdict.model import Cause, Role, SenderKind, Strength

RESULT_SCHEMA = "oomtrace.repro/1"
LIST_SCHEMA = "oomtrace.repro-list/1"

Where = Literal["here", "guest"]
"""here: in a memory cgroup of its own, on any machine; guest: in a test VM alone, since it uses the machine up."""
Outcome = Literal["pass", "fail", "not_applicable"]
Json = str | int | bool | None | list[str] | list[int]

HOST_OOM: tuple[Cause, ...] = (
    "host_oom_global",
    "host_oom_cgroup",
    "host_oom_cpuset",
    "host_oom_mempolicy",
    "host_oom_unknown_scope",
)
"""For `never`, where nothing was killed for want of memory."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base: immutable, keyword only."""


class Expected(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must be said, and what must not. What is `None` is left open."""

    cause: tuple[Cause, ...]
    """Of the primary incident: one of these."""
    at_least: Strength = "proved"
    at_most: Strength = "proved"
    killed: tuple[int, int] = (0, 0)
    """Victims of the OOM killer over all incidents: so many at least, so many at most."""
    victim: str | None = None
    """Of the primary incident, by the name that it gave itself."""
    victim_role: Role | None = None
    victims: tuple[str, ...] | None = None
    """The names of all victims of the OOM killer, in any order."""
    trigger: str | None = None
    """Who asked for the memory that was not there."""
    limit: str | None = None
    """Whose limit: a cgroup below the scenario's own, `.` for that itself."""
    limit_of: str | None = None
    """What that cgroup is, as the report has it: `unit a.scope`."""
    ran_in: str | None = None
    """Where the victim ran, likewise."""
    constraint: str | None = None
    """As the kernel spells it."""
    sender: SenderKind | None = None
    sender_comm: str | None = None
    not_blamed: str | None = None
    """Must be neither the victim nor the culprit."""
    status: str | None = None
    """Of the job: `exit 0`, `signal 9`."""
    collateral: int = 0
    """So many, at least, went down because of it."""
    also: tuple[Cause, ...] = ()
    """Causes that further incidents must have."""
    never: tuple[Cause, ...] = ()
    """Causes that no incident may have."""
    ns_pids: int | None = None
    """At so many levels, at least, the victim's pid is known."""
    shmem_mib: int | None = None
    """So much of the victim's memory, at least, was shared."""
    swapped_mib: int | None = None
    """So much of it, at least, was swapped out."""
    swap_exhausted: bool | None = None
    """Whether there was swap and nearly none of it was free."""
    caveat: str | None = None
    """Words that must stand among the caveats."""
    counted_twice: int = 0
    """So many, at most, the kernel may be seen to count once more (the first of a group, unless it is dead by then)."""


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cgroup below the scenario's own."""

    path: str
    memory_mib: int | None = None
    files: Mapping[str, str] = {}
    """Further files of it."""


class Stage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cgroups of a scenario and what of the machine it changes."""

    memory_mib: int | None = 64
    """The limit of its own cgroup; `None`: none."""
    swap_mib: int = 0
    """What may be swapped out, where swap is counted."""
    files: Mapping[str, str] = {}
    """Further files of its own cgroup."""
    below: tuple[Node, ...] = ()
    """The job then begins in a cgroup `job` beside these."""
    controllers: tuple[str, ...] = ()
    """Of cgroup v2, beside memory."""
    sysctls: Mapping[str, str] = {}
    """Guests alone; set back afterwards."""
    swap: bool = False
    """Swap must be there; in a guest without any, compressed swap in memory is made."""


class Truth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why memory grows in a scenario, whatever is said of it."""

    mechanism: str | None
    """As the verdict's document names it; `None`: there is nothing to be named."""
    among: tuple[str, ...] = ()
    """The others that leave the same traces: any of them, or all, may be named in its place."""
    fixed: bool = False
    """The mistake is put right."""


class Scenario(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to be killed, or not to be."""

    name: str
    what: str
    """What happens, one line."""
    why: str
    """The fact of the kernel that makes the verdict so, with its source."""
    act: tuple[str, ...]
    """What the job plays, see tracer/repro/workloads."""
    expected: Expected
    actor: tuple[str, ...] | None = None
    """What is done beside the job, by no part of it."""
    where: Where = "here"
    needs: tuple[str, ...] = ()
    stage: Stage = Stage()
    seconds: int = 60
    """After so long somebody steps in and ends it."""
    truth: Truth | None = None
    """Of those that show a mechanism."""


class Counters(Struct, frozen=True, kw_only=True):
    """Kills by the OOM killer."""

    seen: int
    lost: int
    """Marks that found no room in the ring buffer, without those whose kill was seen by its signal."""
    kernel: int | None
    """By its own counter; `None`: that went with its cgroup, or there is none."""
    counted_again: int = 0
    """Further counts of the kernel that were seen to be no further kills."""
    maybe: int = 0
    """Further signals of which it cannot be told whether it counted them."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The document that `repro --json` prints."""

    schema: str = RESULT_SCHEMA
    scenario: str
    outcome: Outcome
    reason: str | None
    expected: Mapping[str, Json]
    found: Mapping[str, Json]
    counters: Counters
    kernel_release: str
    seconds: float


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario in the list."""

    name: str
    what: str
    why: str
    where: Where
    needs: tuple[str, ...]
    seconds: int
    """After so long it is ended; on an emulated machine it may take several times that."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The document that `repro --list --json` prints."""

    schema: str = LIST_SCHEMA
    scenarios: tuple[Listed, ...]


def listed(scenario: Scenario) -> Listed:
    """What the list says of it."""
    return Listed(
        name=scenario.name,
        what=scenario.what,
        why=scenario.why,
        where=scenario.where,
        needs=scenario.needs,
        seconds=scenario.seconds,
    )
