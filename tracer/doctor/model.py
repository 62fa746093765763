# SPDX-License-Identifier: Apache-2.0
"""What `doctor` and `selftest` find: two documents, versioned as the verdict is, and all that their views need."""

from typing import Literal

from tracer.verdict.model import Rung, Status, Struct

DOCTOR_SCHEMA = "oomtrace.doctor/1"
SELFTEST_SCHEMA = "oomtrace.selftest/1"

Answer = Literal["yes", "no", "unknown"]
Weight = Literal["proof", "help", "note"]
"""proof: links 1 to 4 rest on it; help: it adds to a report, or to how a job can be run; note: only said."""
Expected = Literal["proved", "likely", "possible", "not_seen"]
"""The strength that the verdict on a kill would have; not_seen: nothing here would tell of it."""
KillKind = Literal["cgroup_limit", "machine"]


class Capability(Struct, frozen=True, kw_only=True):
    """One thing that this machine and this user have, or do not."""

    id: str
    """Stable: `bpf_programs`, `kernel_log`, `cap_syslog`, ..."""
    name: str
    ok: Answer
    found: str
    """What was looked at and seen, in one line."""
    meaning: str
    """What it is for, and what is missing without it."""
    links: tuple[int, ...] = ()
    """Of the proof, those that rest on it."""
    weight: Weight = "help"
    group: str | None = None
    """What a view may tell together with others of the same answer."""
    remedy: str | None = None
    """What to type or to change; `None`: nothing has to be done, or nothing can."""
    with_root: Answer | None = None
    """What it would be for root on this machine, as far as that can be known; `None`: the same."""


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What became of one hook of the ladder."""

    name: str
    """`raw_tracepoint:mark_victim`: the rung that holds, else the last one that was tried."""
    attached: bool
    required: bool
    why_not: str | None = None


class LinkOutlook(Struct, frozen=True, kw_only=True):
    """What one link of a proof would be here."""

    link: int
    name: str
    status: Status
    why: str
    rung: Rung | None = None
    via: tuple[str, ...] = ()
    """What it would rest on, and by which hooks: as in `verdict.model.Link`."""


class Expectation(Struct, frozen=True, kw_only=True):
    """What the verdict on one kind of kill would be."""

    kill: KillKind
    verdict: Expected
    """At least; the same as `at_best` where all that it rests on is known."""
    at_best: Expected
    links: tuple[LinkOutlook, ...]
    """For `verdict`."""


class Outlook(Struct, frozen=True, kw_only=True):
    """What one user could expect of `oomtrace run` here."""

    root: bool
    verdict: Expected
    """The weakest of all kinds of kills, at least."""
    at_best: Expected
    kills: tuple[Expectation, ...]


class Diagnosis(Struct, frozen=True, kw_only=True):
    """The document that `doctor --json` prints."""

    schema: str = DOCTOR_SCHEMA
    version: str
    """Of oomtrace."""
    kernel_release: str
    machine: str
    distribution: str | None
    uid: int
    here: Outlook
    """For who asked."""
    with_root: Outlook | None = None
    """For root, where that is another."""
    capabilities: tuple[Capability, ...]
    hooks: tuple[HookAnswer, ...] = ()
    """Empty: none could be tried."""

    @property
    def complete(self) -> bool:
        """Whether each kind of kill would be proved for who asked."""
        return self.here.verdict == "proved"


class Comparison(Struct, frozen=True, kw_only=True):
    """What was said of one thing by two that do not know of each other."""

    run: Literal["kill", "control"]
    what: str
    expected: str
    """By the kernel's own counters, by wait(), or by what was set up."""
    found: str
    """By the verdict."""
    agrees: bool


class Selftest(Struct, frozen=True, kw_only=True):
    """The document that `selftest --json` prints."""

    schema: str = SELFTEST_SCHEMA
    version: str
    kernel_release: str
    cgroup_version: int
    comparisons: tuple[Comparison, ...]
    caveats: tuple[str, ...] = ()
    """Of the verdict on the kill."""
    recording: str | None = None
    """Of the kill, where it was kept."""

    @property
    def agrees(self) -> bool:
        """Whether everything does."""
        return bool(self.comparisons) and all(one.agrees for one in self.comparisons)
