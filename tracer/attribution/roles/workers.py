# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers: by the name that PyTorch gives them, else by their signal handlers; and their numbers."""

from collections.abc import Iterable, Sequence

from tracer.attribution.roles.evidence import Evidence, mask_of
from tracer.attribution.roles.names import WORKER_COMMS, is_python
from tracer.events import ProcessId
from tracer.events.signals import SIGBUS, SIGCHLD, SIGFPE, SIGSEGV, SIGTERM
from tracer.units import NS_PER_MS, NS_PER_S

FIRST_PAUSE_NS = 250 * NS_PER_MS
SHORT_PAUSE_NS = 100 * NS_PER_MS
PAUSE_FACTOR = 5
"""Workers of one loader start are forked one after the other, at a pace: a few ms, on a crowded machine 100 and more.
A first pause longer than that, or a later one longer than the second and than so many times the longest so far, may
be another loader's start. Two loaders that start at one pace look like one."""
UNNAMED_NS = NS_PER_S
"""A worker that was forked has its name after this; who was looked at later and has none is no worker."""

_HANDLERS = mask_of(SIGBUS, SIGFPE, SIGSEGV, SIGTERM)
"""What torch/csrc/DataLoader.cpp sets in a worker, in every version so far; and SIGCHLD in who loads."""
_OTHERS = mask_of(1, 3, 4, 5, 6)
"""SIGHUP, SIGQUIT, SIGILL, SIGTRAP, SIGABRT: a runtime that catches faults (Go, Java, faulthandler) has these too."""


def how_known(evidence: Evidence) -> str | None:
    """By what it is a DataLoader worker; `None`: it is none, as far as known."""
    name = next((comm for comm in reversed(evidence.comms) if comm in WORKER_COMMS), None)
    if name is not None:
        return f"named {name}"
    if _has_handlers(evidence):
        return "the signal handlers of a DataLoader worker"
    return None


def loader_of(evidence: Evidence) -> Evidence | None:
    """The process that loads through this worker: what forked it, or what started that forkserver."""
    parent = evidence.parent
    return parent.parent if parent is not None and parent.kind == "forkserver" else parent


def _has_handlers(evidence: Evidence) -> bool:
    """It has set a worker's handlers itself, and who loads has set its own: a child of who has them has them too."""
    loader = loader_of(evidence)
    if loader is None or not (evidence.is_image or evidence.kind == "spawn"):
        return False
    forker = evidence.parent if evidence.is_image else None
    if forker is not None and (not forker.caught or any(mask & _HANDLERS for mask in forker.caught)):
        return False
    if not any(mask & mask_of(SIGCHLD) for mask in loader.caught):
        return False
    return any(mask & _HANDLERS == _HANDLERS and not mask & _OTHERS for mask in evidence.caught)


def may_be_unnamed_worker(evidence: Evidence) -> bool:
    """Whether a process without a role may be a worker that ended, or was last looked at, before it had a name."""
    if any(not is_python((comm,), None, None) for comm in evidence.comms):
        return False  # it has taken another name
    if evidence.kind == "spawn":
        return True
    fork = evidence.member.fork
    return evidence.is_image and fork is not None and evidence.last_looked_ns - fork.ts_ns < UNNAMED_NS


def number(
    workers: Iterable[Evidence], unnamed: Iterable[Evidence], earlier: Sequence[Evidence]
) -> list[tuple[ProcessId, int | None]]:
    """Numbers by fork order within one loader start.

    A start begins anew where all earlier workers had ended. Where some still live and the pause is
    long it may be another loader's start: no number then, for that worker and those after it. Nor while
    some of those live whose forks were not recorded, as of those that ran when oomtrace attached: how many there had
    been is not known. Nor after one of `unnamed`, which may have been a worker of this start.
    """
    numbered: list[tuple[ProcessId, int | None]] = []
    nameless = {e.id for e in unnamed}
    ends = [(e.member.start_ns, _end_ns(e)) for e in earlier]
    count, all_ended_ns, certain, longest_ns, before_ns = 0, 0.0, True, 0, 0
    together = sorted((e for e in (*workers, *unnamed) if e.member.fork is not None), key=_began_ns)
    doubtful = False
    for evidence in together:
        began_ns = _began_ns(evidence)
        pause_ns = began_ns - before_ns if count or doubtful else 0
        long = pause_ns > (max(SHORT_PAUSE_NS, PAUSE_FACTOR * longest_ns) if longest_ns else FIRST_PAUSE_NS)
        if (count or doubtful) and all_ended_ns <= began_ns and (long or not doubtful):
            count, all_ended_ns, certain, longest_ns, doubtful, pause_ns = 0, 0.0, True, 0, False, 0
        elif long:
            certain = False
        if any(start_ns < evidence.member.start_ns and end_ns > began_ns for start_ns, end_ns in ends):
            certain = False
        longest_ns = max(longest_ns, pause_ns)
        all_ended_ns = max(all_ended_ns, _end_ns(evidence))
        before_ns = began_ns
        if evidence.id in nameless:
            certain, doubtful = False, True
            continue
        numbered.append((evidence.id, count if certain else None))
        count += 1
    return numbered


def _began_ns(evidence: Evidence) -> int:
    return evidence.member.fork.ts_ns if evidence.member.fork is not None else 0


def _end_ns(evidence: Evidence) -> float:
    end_ns = evidence.member.end_ns
    return float("inf") if end_ns is None else end_ns
