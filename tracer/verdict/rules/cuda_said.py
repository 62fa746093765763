# SPDX-License-Identifier: Apache-2.0
"""Out of CUDA memory by the framework's own words, where no call of the driver failed: likely at most, and why.

A share that is set (torch's fraction, vLLM's, a pool that was made before), or a wrapper above the driver (vGPU
preloads) refuses without asking it. A text alone may be caught and survived: only with an exit that follows.
"""

from collections.abc import Iterable

from tracer.events import CudaMemory, ProcessId, TrainingLine
from tracer.units import format_bytes, format_duration
from tracer.verdict import people
from tracer.verdict.cuda import document
from tracer.verdict.cuda.link import device_calls
from tracer.verdict.cuda.refusals import AT_ONCE_NS
from tracer.verdict.deaths import Death
from tracer.verdict.incident import Case, Finding, belongs, doubt_caveats, strength
from tracer.verdict.model import Cause, Incident, Link, Status
from tracer.verdict.rules.cuda_oom import SURE, ended_link
from tracer.verdict.spoken import is_anyones, went_on, whose

CAUSES: dict[str, Cause] = {
    "device_oom": "cuda_oom",
    "cuda_error": "cuda_oom",
    "pinned_alloc": "pinned_host_memory",
}


def find(case: Case, known: set[ProcessId]) -> Iterable[Finding]:
    """One a process of which nothing more is known.

    Args:
        known: processes that a call of the driver explains, or the kernel killed.
    """
    told: set[ProcessId] = set()
    for line in case.said.lines:
        if line.about not in CAUSES:
            continue
        death = whose(case, line)
        if death is None or death.id in told | known:
            continue
        told.add(death.id)
        yield _finding(case, line, death)


def _finding(case: Case, line: TrainingLine, death: Death) -> Finding:
    story, cause = case.story, CAUSES[line.about]
    doubts = story.doubts(line.ts_ns, death.at_ns)
    links = (
        _refused(case, line, death),
        _figures(line),
        belongs(story, death.id),
        ended_link(death, "not_observed", _ended_text(case, line, death)),
    )
    sure = strength(links, ("a text is no proof",))
    if _open(line) or went_on(case, line, death) or is_anyones(case, line, death):
        sure = "possible"
    what = "out of GPU memory" if cause == "cuda_oom" else "pinned host memory was refused"
    text = f"{SURE[sure]}{'out of memory in CUDA' if _open(line) else what}, by the words of its own log"
    return Finding(
        at_ns=min(line.ts_ns, death.at_ns),
        ids=(death.id,),
        kind="death",
        incident=Incident(
            cause=cause,
            strength=sure,
            at=story.utc(line.ts_ns),
            headline=text[0].upper() + text[1:],
            summary=f"{people.subject(story, death.id)} ended by {death.status}: {links[0].statement}.",
            victim=people.process(story, death.id),
            victims=(people.process(story, death.id),),
            exit_code=death.code,
            proof=links,
            caveats=doubt_caveats(doubts),
            cuda=document.build(case, line.ts_ns),
        ),
    )


def _open(line: TrainingLine) -> bool:
    """Whether it says no more than an error of CUDA's: of the device, a context, or pinned memory of the host."""
    return line.about == "cuda_error"


def _refused(case: Case, line: TrainingLine, death: Death) -> Link:
    status, why = _why_no_failure(case, line, death)
    whose = "a line of the job that does not say whose" if is_anyones(case, line, death) else "its log"
    return Link(
        link=1,
        name="CUDA refused it",
        status=status,
        statement=f"{whose} says so; {why}",
        evidence=(line.seq,),
    )


def _why_no_failure(case: Case, line: TrainingLine, death: Death) -> tuple[Status, str]:
    cuda, at_ns = case.cuda, line.ts_ns
    if not cuda.watched_at_all:
        return "not_observed", "GPU calls were not watched"
    watch = next((w for w in cuda.watches(at_ns) if w.id == death.id), None)
    if watch is None or watch.state == "unknown":
        return "not_observed", f"whether a call failed was not seen: it {watch.why if watch else 'is not known'}"
    if watch.state == "other_vendor":
        return "not_observed", f"it {watch.why}"
    if watch.state == "unmapped":
        return "absent", "but it had not mapped libcuda"
    kinds = (CudaMemory.DEVICE, CudaMemory.MANAGED, CudaMemory.PINNED, CudaMemory.REGISTERED)
    failed = [f for f in cuda.failures(*kinds) if f.id == death.id and f.out_of_memory and f.call.ts_ns <= at_ns]
    calls = device_calls(cuda, [death.id], at_ns)
    lost = cuda.lost() or cuda.calls.missing(death.id)
    if lost is not None:
        return "not_observed", f"whether a call failed is not known: {lost}"
    refuser = "a limit of the framework's own, its pool or a wrapper refused it"
    if not failed:
        return "not_observed", f"none of its {calls} device allocations failed in the driver: {refuser}"
    return "not_observed", f"of its {calls} device allocations {len(failed)} failed, and not just then: {refuser}"


def _figures(line: TrainingLine) -> Link:
    numbers = line.numbers
    asked, free, total = (numbers.get(f"{name}_bytes") for name in ("requested", "free", "total"))
    parts = [f"{format_bytes(round(asked))} asked for"] if asked is not None else []
    if free is not None:
        of = f" of {format_bytes(round(total))}" if total is not None else ""
        parts.append(f"{format_bytes(round(free))}{of} free")
    text = f"by its own words {', '.join(parts)}" if parts else "how much was free was not told"
    return Link(link=2, name="the memory was short", status="not_observed", statement=text, evidence=(line.seq,))


def _ended_text(case: Case, line: TrainingLine, death: Death) -> str:
    after_ns = max(death.at_ns - line.ts_ns, 0)
    text = f"{death.status} {format_duration(after_ns)} later"
    if went_on(case, line, death):
        return f"{text}, but a step was told in between"
    return f"{text}: that it was because of this is likely" if after_ns <= AT_ONCE_NS else text
