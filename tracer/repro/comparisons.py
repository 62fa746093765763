# SPDX-License-Identifier: Apache-2.0
"""What the verdict says of a selftest's run, beside what the kernel's counters and wait() say: pure."""

import os
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tracer.doctor.model import Comparison
from tracer.repro.workloads.grow import CHILD_KILLED
from tracer.units import format_bytes
from tracer.verdict.model import Incident, Verdict


class Counted(NamedTuple):
    """OOM kills by the kernel's own counters; `None`: it does not count them."""

    in_cgroup: int | None
    on_machine: int | None
    """While it ran; kills of others are among them."""


class Ended(NamedTuple):
    """One run."""

    verdict: Verdict
    status: int
    """Wait status of the workload's first process."""
    cgroup: str
    counted: Counted

    @property
    def primary(self) -> Incident:
        return self.verdict.incidents[self.verdict.primary]

    @property
    def victims(self) -> int:
        """That the verdict tells of."""
        return sum(len(one.victims) for one in self.verdict.incidents if one.cause.startswith("host_oom"))


def compare_kill(ended: Ended, limit_bytes: int) -> Iterable[Comparison]:
    """A run whose child outgrows the limit."""
    primary, limit = ended.primary, ended.primary.limit
    yield _one("kill", "cause", "host_oom_cgroup", primary.cause)
    yield _one("kill", "strength", "proved", _strength(primary))
    yield from _counts("kill", ended)
    yield _one("kill", "exit status", _status(ended), _told_status(ended))
    # The parent's wait() saw it, and nothing of ours was asked.
    waited = "killed by SIGKILL" if ended.status == CHILD_KILLED << 8 else "not killed by SIGKILL"
    died = any(link.link == 4 and link.status == "present" for link in primary.proof)
    yield _one("kill", "child, by its parent", waited, "killed by SIGKILL" if died else "not seen to die of it")
    told = limit.cgroup if limit is not None else None
    # The kernel's own path may begin above the root that a cgroup namespace shows.
    same = told is not None and os.path.basename(told) == os.path.basename(ended.cgroup)
    yield _one("kill", "whose limit", ended.cgroup, ended.cgroup if same else str(told))
    reached = limit.limit_bytes if limit is not None else None
    yield _one("kill", "limit", format_bytes(limit_bytes), format_bytes(reached), same=reached == limit_bytes)


def compare_control(ended: Ended) -> Iterable[Comparison]:
    """The same program with less."""
    yield _one("control", "cause", "exited", ended.primary.cause)
    yield _one("control", "strength", "proved", _strength(ended.primary))
    yield from _counts("control", ended)
    yield _one("control", "exit status", "exit 0", _told_status(ended))


def _counts(run: Literal["kill", "control"], ended: Ended) -> Iterator[Comparison]:
    told, counted = ended.victims, ended.counted
    as_meant = told >= 1 if run == "kill" else told == 0
    expected = "no count to be read" if counted.in_cgroup is None else str(counted.in_cgroup)
    same = as_meant and counted.in_cgroup in {None, told}
    yield _one(run, "OOM kills in its cgroup", expected, str(told), same=same)
    # The machine's count has those of others in it, so it says nothing about a control.
    if run == "kill" and counted.on_machine is not None:
        expected = f"{counted.on_machine} in /proc/vmstat, of all the machine"
        yield _one(run, "OOM kills on the machine", expected, str(told), same=1 <= told <= counted.on_machine)


def _one(
    run: Literal["kill", "control"], what: str, expected: str, found: str, *, same: bool | None = None
) -> Comparison:
    agrees = expected == found if same is None else same
    return Comparison(run=run, what=what, expected=expected, found=found, agrees=agrees)


def _strength(incident: Incident) -> str:
    missing = [link.name for link in incident.proof if link.link <= 4 and link.status != "present"]
    return incident.strength + (f" (not seen: {', '.join(missing)})" if missing else "")


def _status(ended: Ended) -> str:
    code = os.waitstatus_to_exitcode(ended.status)
    return f"exit {code}" if code >= 0 else f"signal {-code}"


def _told_status(ended: Ended) -> str:
    job = ended.verdict.job
    return (job.status if job is not None else None) or "not observed"
