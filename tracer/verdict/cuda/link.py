# SPDX-License-Identifier: Apache-2.0
"""Link 5 of a host kill, *not CUDA*: seen and not assumed, else absent or not observed with the reason."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tracer.events import CudaMemory, CudaProbed, ProcessId
from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict import people
from tracer.verdict.cuda import devices, unaccounted
from tracer.verdict.cuda.calls import Failure, Held, symbol_name
from tracer.verdict.cuda.coverage import GAP_NS, Watch
from tracer.verdict.cuda.facts import CUDA_HOOK, TOO_SHORT_NS, Cuda
from tracer.verdict.incident import Case
from tracer.verdict.model import Limit, Link, Rung, Status

NAME = "not CUDA"
NOT_WATCHED = "GPU calls were not watched: this speaks of host RAM alone"
MAJOR_SHARE = 0.1
"""Of what ran out: with so much of it pinned or managed by CUDA nobody says that it was not CUDA."""
MOST_NAMES = 6
MOST_EVIDENCE = 40
LIVED_ON_NS = 60 * NS_PER_S
"""A job that goes on so long after a refusal has got over it in some way, though not by getting that much."""


class _Told(msgspec.Struct, frozen=True):
    status: Status
    statement: str
    rung: Rung | None = None
    evidence: tuple[int, ...] = ()


def not_cuda(case: Case, at_ns: int, limit: Limit) -> Link:
    """Whether it can be ruled out that CUDA had to do with a kill.

    Args:
        at_ns: the kill.
        limit: what ran out.
    """
    told = _told(case, at_ns, limit)
    via = (CUDA_HOOK,) if told.rung == "bpf" else ()
    return Link(
        link=5,
        name=NAME,
        status=told.status,
        statement=told.statement,
        evidence=told.evidence,
        rung=told.rung,
        via=via,
    )


def caveats(case: Case, link: Link, at_ns: int) -> Iterable[str]:
    """What remains to be said beside link 5 where calls were watched, and ruled it out."""
    probed = [one for one in case.story.of(CudaProbed) if one.ts_ns <= at_ns]
    unknown = sorted({name for one in probed for name in one.unknown})
    if (link.status, link.rung) == ("present", "bpf") and unknown:
        more = f" and {len(unknown) - MOST_NAMES} more" if len(unknown) > MOST_NAMES else ""
        names = ", ".join(unknown[:MOST_NAMES])
        yield f"This libcuda has functions that look like allocation and are not watched: {names}{more}."


def _told(case: Case, at_ns: int, limit: Limit) -> _Told:
    cuda = case.cuda
    if not cuda.watched_at_all:
        return _Told("not_observed", NOT_WATCHED)
    refused = _refused(case, at_ns)
    if refused is not None and refused.status == "absent":
        return refused
    held = cuda.held(at_ns)
    major = _major(case, cuda.held(at_ns, at_most=True), at_ns, limit)
    if major is not None:
        return major
    watches = cuda.watches(at_ns)
    why_not = next(_obstacles(case, watches, at_ns), None)
    if why_not is not None:
        rung: Rung | None = "bpf" if cuda.calls.callers else None
        return _Told("not_observed", f"{why_not}: this speaks of host RAM alone", rung)
    if refused is not None:
        return refused
    return _present(case, watches, held, at_ns)


def _refused(case: Case, at_ns: int) -> _Told | None:
    """A refusal that was not survived: it may be why the job failed, or be over for long."""
    failures = case.cuda.failures(CudaMemory.DEVICE, CudaMemory.MANAGED, CudaMemory.PINNED, CudaMemory.REGISTERED)
    left = [f for f in failures if f.out_of_memory and f.survived is None and f.call.ts_ns <= at_ns]
    recent = [f for f in left if not _got_over(case, f, at_ns)]
    if recent and (missing := case.cuda.calls.missing(recent[-1].id)) is not None:
        text = f"{_refusal_text(case, recent[-1], at_ns)}, as far as that was seen: {missing}"
        return _Told("not_observed", text, "bpf", (recent[-1].call.seq,))
    if recent:
        return _Told("absent", _refusal_text(case, recent[-1], at_ns), "bpf", (recent[-1].call.seq,))
    if left:
        text = f"{_refusal_text(case, left[-1], at_ns)}, though the job went on"
        return _Told("not_observed", text, "bpf", (left[-1].call.seq,))
    return None


def _got_over(case: Case, failure: Failure, at_ns: int) -> bool:
    death = case.death(failure.id)
    if death is not None and death.at_ns <= at_ns and not death.failed:
        return True
    return at_ns - failure.call.ts_ns > LIVED_ON_NS


def _refusal_text(case: Case, failure: Failure, at_ns: int) -> str:
    call = failure.call
    before = format_duration(at_ns - call.ts_ns)
    size = format_bytes(call.bytes) if call.bytes is not None else "memory"
    who = people.describe(case.story, failure.id)
    return f"{symbol_name(call)} refused {who} {size} {before} before, and it never got that much after"


def _major(case: Case, held: Held, at_ns: int, limit: Limit) -> _Told | None:
    """Host memory that CUDA holds. A cgroup is not charged with pinned pages of the driver; managed ones count."""
    whole = limit.limit_bytes
    charged = held.managed_bytes
    if limit.constraint != "CONSTRAINT_MEMCG" or whole is None:
        whole = unaccounted.machine_bytes(case.story, at_ns)
        charged += held.pinned_bytes
    if not charged or (whole is not None and charged < MAJOR_SHARE * whole):
        return None
    parts = [f"{format_bytes(held.pinned_bytes)} pinned"] if charged > held.managed_bytes else []
    parts += [f"{format_bytes(held.managed_bytes)} managed"] if held.managed_bytes else []
    if whole is None:
        text = f"the job held {' and '.join(parts)} by CUDA, and of how much in all is not known"
        return _Told("not_observed", text, "bpf")
    text = f"of {format_bytes(whole)} the job held {' and '.join(parts)}: host memory by way of CUDA"
    return _Told("absent", text, "bpf")


def _obstacles(case: Case, watches: Sequence[Watch], at_ns: int) -> Iterator[str]:
    """Why nothing can be ruled out, the weightiest first."""
    cuda, story = case.cuda, case.story
    nodes = devices.coherent_nodes(story)
    if nodes:
        size = format_bytes(sum(node.mem_total_bytes for node in nodes))
        named = ", ".join(str(node.node) for node in nodes[:4])
        yield f"NUMA node {named} has {size} and no CPU: memory of a GPU may be RAM of the host here"
    lost = cuda.lost()
    if lost is not None:
        yield lost
    if not story.follows_job or story.pids_differ:
        yield "what the kernel says of processes could not be told to be of this job"
    yield from _uncovered(case, watches, at_ns)
    for identity in sorted(cuda.calls.callers):
        missing = cuda.calls.missing(identity)
        if missing is not None:
            yield f"of {people.describe(story, identity)} {missing}"
    unplaced = [identity for identity in cuda.there(at_ns) if identity not in story.tree.members]
    if unplaced:
        yield f"the fork of {people.describe(story, unplaced[0])} was not recorded, and others may be missing"
    attached = story.job is not None and story.job.attached
    if attached and not story.watched_since_attach("sched_process_fork"):
        yield "not all processes of the job were known from when oomtrace attached on"
    if not attached and not story.watched_from_start("sched_process_fork"):
        yield "forks were not watched from the job's start on"


def _uncovered(case: Case, watches: Sequence[Watch], at_ns: int) -> Iterable[str]:
    story, cuda = case.story, case.cuda
    for watch in sorted(watches, key=lambda w: w.state != "other_vendor"):
        if cuda.ended_well(watch.id, at_ns) or (watch.state == "unknown" and cuda.too_short(watch.id, at_ns)):
            continue
        who = people.describe(story, watch.id)
        if watch.state in {"unknown", "other_vendor"}:
            yield f"{who} {watch.why}"
        elif watch.state == "watched" and watch.gap_ns is None:
            yield f"{who} had libcuda mapped before its calls were watched"
        elif watch.state == "watched" and (watch.gap_ns or 0) > GAP_NS:
            yield f"{who} may have called libcuda for {format_duration(watch.gap_ns)} before that was watched"
        elif watch.state == "watched" and (watch.gap_ns or 0) > TOO_SHORT_NS and cuda.gone(watch.id, at_ns):
            gap = format_duration(watch.gap_ns or 0)
            yield f"{who} ended of a failure, and may have called libcuda for {gap} before that was watched"
    if any(w.state == "watched" for w in watches) and not cuda.calls.callers:
        yield "libcuda was mapped and no call of it was seen, so that its probes work was not shown"


def _present(case: Case, watches: Sequence[Watch], held: Held, at_ns: int) -> _Told:
    cuda, story = case.cuda, case.story
    there = [w for w in watches if not cuda.gone(w.id, at_ns)]
    before = _before(cuda, watches, at_ns)
    evidence = tuple(dict.fromkeys(seq for w in watches for seq in w.evidence))[:MOST_EVIDENCE]
    watched = [w for w in watches if w.state == "watched"]
    if not watched:
        count = "1 process" if len(there) == 1 else f"{len(there)} processes"
        until = min((w.until_ns for w in there if w.until_ns is not None), default=at_ns)
        as_of = f"as of {format_duration(at_ns - until)} before" if until < at_ns else "looked at until then"
        nobody = f"no process of the job had mapped libcuda ({count}, {as_of}){before}"
        return _Told("present", nobody, "proc", evidence)
    text = _calls_text(cuda, [w.id for w in watches], at_ns)
    gpu = devices.held_text(devices.used_by(story, [w.id for w in watched], at_ns))
    text += f", {gpu}" if gpu else f", device memory unknown ({devices.why_unknown(story) or 'not sampled'})"
    text += f"; {_host_text(held)}"
    gap_ns = max(w.gap_ns or 0 for w in watched)
    one = len(watched) == 1
    count = "the one process with libcuda was" if one else f"the {len(watched)} processes with libcuda were"
    since = "for life" if not gap_ns else f"from at most {format_duration(gap_ns)} after it was mapped on"
    return _Told("present", f"{text}; {count} watched {since}{before}", "bpf", evidence)


def _before(cuda: Cuda, watches: Sequence[Watch], at_ns: int) -> str:
    """Those that had ended by then, and how many of them nobody could look at."""
    ended = [w for w in watches if cuda.gone(w.id, at_ns)]
    unseen = sum(1 for w in ended if w.state == "unknown")
    if not unseen:
        return ""
    return f"; of {len(ended)} that had ended before, {unseen} were not looked at"


def _host_text(held: Held) -> str:
    """Pinned and managed memory are stated always, registered where there is any: it is the process's own."""
    if not (held.pinned_bytes or held.managed_bytes or held.registered_bytes):
        return "no host memory pinned or managed by it"
    text = f"{format_bytes(held.pinned_bytes)} pinned, {format_bytes(held.managed_bytes)} managed"
    return f"{text}, {format_bytes(held.registered_bytes)} registered" if held.registered_bytes else text


def _calls_text(cuda: Cuda, ids: Sequence[ProcessId], at_ns: int) -> str:
    failures = [f for f in cuda.failures(CudaMemory.DEVICE, CudaMemory.MANAGED) if f.call.ts_ns <= at_ns]
    refused = sum(1 for f in failures if f.out_of_memory)
    text = f"{refused} of {device_calls(cuda, ids, at_ns)} device allocations failed"
    if refused:
        text += ", and each was got later" if refused > 1 else ", and was got later"
    other = len(failures) - refused
    return f"{text} ({other} more not for want of memory)" if other else text


def device_calls(cuda: Cuda, ids: Iterable[ProcessId], at_ns: int) -> int:
    """Calls that asked for device or managed memory, up to a moment."""
    return sum(cuda.calls.asked(identity, at_ns) for identity in ids)
