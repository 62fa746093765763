# SPDX-License-Identifier: Apache-2.0
"""CUDA refused memory, nothing of that size was got after, and the process exited: of the device, or of the host.

The driver calls both "out of memory" (error 2), and a context or a module that it cannot make as well.
"""

from collections.abc import Iterable

from tracer.events import CudaMemory, PressureSample
from tracer.units import format_bytes
from tracer.verdict import people
from tracer.verdict.cuda import document, room
from tracer.verdict.cuda.calls import result_text, symbol_name
from tracer.verdict.cuda.facts import CUDA_HOOK
from tracer.verdict.cuda.refusals import SOON_NS, Refusal, ended_of_that, find_refusals, often, size_text
from tracer.verdict.deaths import Death
from tracer.verdict.incident import Case, Finding, belongs, doubt_caveats, strength
from tracer.verdict.model import Cause, Incident, Link, Status, Strength

HOST = frozenset({CudaMemory.PINNED, CudaMemory.REGISTERED})
SURE: dict[Strength, str] = {"proved": "", "likely": "Probably ", "possible": "Perhaps "}
SAID = {"device": ("device_oom", "cuda_error"), "host": ("pinned_alloc", "cuda_error")}
MAPPINGS = (
    "Error 2 of a function that pins host memory may also mean a limit: of address space (RLIMIT_AS, ulimit -v), or of "
    "mappings (vm.max_map_count) where many small pieces are registered."
)


def find(case: Case) -> Iterable[Finding]:
    """One finding a process."""
    for refusal in find_refusals(case):
        yield _finding(case, refusal)


def _finding(case: Case, refusal: Refusal) -> Finding:
    story, death = case.story, refusal.death
    at_ns, on_host = refusal.failures[0].call.ts_ns, refusal.memory in HOST
    doubts = story.doubts(at_ns, death.at_ns)
    status, statement = ended_of_that(case, refusal)
    links = (
        _refused(case, refusal),
        _host_memory(case, refusal) if on_host else _device_full(case, refusal),
        belongs(story, refusal.id),
        ended_link(death, status, statement),
        not_killed(case, death),
    )
    sure = strength(links, doubts)
    cause: Cause = "pinned_host_memory" if on_host else "cuda_oom"
    caveats = [*doubt_caveats(doubts), *(_host_caveats(case, refusal) if on_host else ())]
    incident = Incident(
        cause=cause,
        strength=sure,
        at=story.utc(at_ns),
        headline=_headline(refusal, sure),
        summary=_summary(case, refusal, links[1].statement),
        victim=people.process(story, refusal.id),
        victims=(people.process(story, refusal.id),),
        signal=death.signal or None,
        exit_code=None if death.signal else death.code,
        proof=links,
        caveats=tuple(caveats),
        cuda=document.build(case, at_ns),
    )
    return Finding(at_ns=at_ns, ids=(refusal.id,), incident=incident, kind="death")


def _headline(refusal: Refusal, sure: Strength) -> str:
    size = size_text(refusal.failures)
    if refusal.memory in HOST:
        text = f"CUDA refused {size} of pinned host memory: no GPU memory, whatever the error says"
    elif refusal.memory == CudaMemory.OTHER:
        text = f"out of memory in CUDA: {symbol_name(refusal.last.call)} failed"
    else:
        text = f"out of GPU memory: CUDA refused {size}"
    text = f"{SURE[sure]}{text}"
    return text[0].upper() + text[1:]


def _summary(case: Case, refusal: Refusal, figures: str) -> str:
    clock = (case.story.utc(refusal.last.call.ts_ns) or "")[11:23]
    at = f" at {clock} UTC" if clock else ""
    asked = f"{size_text(refusal.failures)}{at}"
    who = people.subject(case.story, refusal.id)
    return f"{who} was refused {asked} and ended by {refusal.death.status}: {figures}."


def _refused(case: Case, refusal: Refusal) -> Link:
    call = refusal.last.call
    size = f" of {format_bytes(call.bytes)}" if call.bytes is not None else ""
    held = format_bytes(call.pinned_bytes + call.registered_bytes if refusal.memory in HOST else call.device_bytes)
    times = often(refusal.failures)
    text = f"{symbol_name(call)}{size} returned {result_text(call)}{times}; it held {held} then"
    kinds = SAID["host" if refusal.memory in HOST else "device"]
    said = next(
        (
            line
            for line in case.said.lines
            if line.about in kinds and refusal.failures[0].call.ts_ns <= line.ts_ns <= refusal.death.at_ns + SOON_NS
        ),
        None,
    )
    return Link(
        link=1,
        name="CUDA refused it",
        status="present",
        statement=f"{text}; the job's own log says so too" if said is not None else text,
        evidence=tuple(f.call.seq for f in refusal.failures[-20:]),
        rung="bpf",
        via=(CUDA_HOOK,),
    )


def _device_full(case: Case, refusal: Refusal) -> Link:
    name = "too little was free"
    if refusal.memory == CudaMemory.OTHER:
        statement = f"{symbol_name(refusal.last.call)} may want memory of the device and of the host"
        return Link(link=2, name=name, status="not_observed", statement=statement)
    if refusal.memory == CudaMemory.MANAGED:
        statement = "managed memory may lie on the device and on the host"
        return Link(link=2, name=name, status="not_observed", statement=statement)
    found = room.room(case.story, refusal.last, refusal.death.at_ns)
    via = (CUDA_HOOK,) if found.rung == "bpf" else ()
    return Link(
        link=2,
        name=name,
        status=found.status,
        statement=found.statement,
        evidence=found.evidence,
        rung=found.rung,
        via=via,
    )


def _host_memory(case: Case, refusal: Refusal) -> Link:
    """What the function is for says whose memory it is; why it was refused is another matter."""
    call = refusal.last.call
    sample = _pressure(case, refusal)
    text = f"{symbol_name(call)} asks for memory of the host"
    if sample is not None:
        available = format_bytes(sample.mem_available_bytes)
        text += f": {available} of {format_bytes(sample.mem_total_bytes)} were available"
    evidence = (call.seq, *(() if sample is None else (sample.seq,)))
    return Link(
        link=2,
        name="it is host memory",
        status="present",
        statement=text,
        evidence=evidence,
        rung="bpf",
        via=(CUDA_HOOK,),
    )


def _pressure(case: Case, refusal: Refusal) -> PressureSample | None:
    at_ns = refusal.last.call.ts_ns
    samples = case.story.of(PressureSample)
    near = [s for s in samples if s.mem_available_bytes is not None and abs(s.ts_ns - at_ns) <= room.NEAR_NS]
    return min(near, key=lambda s: abs(s.ts_ns - at_ns), default=None)


def _host_caveats(case: Case, refusal: Refusal) -> Iterable[str]:
    sample, asked = _pressure(case, refusal), refusal.last.call.bytes
    if sample is None or asked is None or sample.mem_available_bytes is None or sample.mem_available_bytes >= asked:
        yield MAPPINGS


def ended_link(death: Death, status: Status, statement: str) -> Link:
    """Link 4."""
    return Link(
        link=4,
        name="it ended of that",
        status=status,
        statement=statement,
        evidence=death.evidence,
        rung=death.rung,
        via=death.via,
    )


def not_killed(case: Case, death: Death) -> Link:
    """Link 5."""
    name = "nobody killed it"
    if death.exit is None or not case.story.watched("mark_victim", "signal_generate"):
        statement = "OOM kills and signals were not watched in full"
        return Link(link=5, name=name, status="not_observed", statement=statement)
    statement = "the OOM killer neither killed nor marked it, and no signal from elsewhere ended it"
    return Link(link=5, name=name, status="present", statement=statement, evidence=(death.exit.seq,), rung="bpf")
