# SPDX-License-Identifier: Apache-2.0
"""Each known sign of a host OOM kill: present, absent, or not seen; and the commands that confirm it.

A sign proves nothing: the links of the proof do. It tells people who know the failure by its signs which of these
this run had, so that the next one can be compared.
"""

from collections.abc import Sequence

from tracer.events import OutputWatched, TrainingLine
from tracer.events.signals import SIGKILL
from tracer.units import format_bytes
from tracer.verdict import people
from tracer.verdict.confirm.model import Checklist, Seen, Sign, SignName, Step
from tracer.verdict.incident import Case, Finding
from tracer.verdict.kills import Kill
from tracer.verdict.mechanisms.staircase import LEAST_EPOCHS
from tracer.verdict.model import Incident
from tracer.verdict.verify import run_again, run_and_compare

FULL_SHARE, ROOM_SHARE = 0.95, 0.9
"""Of a GPU's memory: from here on it is full; below that it was never near."""
HUGE_SHARE = 0.1
"""Of the limit: what the victim must have had of its own for its kill to tell of its growth."""
LAUNCHERS = frozenset({"failure_report", "rank_failed", "spawn_failed"})
NOT_READ = "the job's log was not read (run --log FILE)"
CLASS_OF_CUDA = frozenset({"device_oom", "cuda_error"})


def checklist(case: Case, finding: Finding, recording: str | None) -> Checklist | None:
    """Of what started the failure; `None`: that was no want of host memory."""
    incident = finding.incident
    if not incident.cause.startswith("host_oom"):
        return None
    signs = (
        _worker_killed_said(case, finding),
        _kernel_record(case, finding),
        _gpu_had_room(incident),
        _launcher_reported(case, finding),
        _staircase(case, finding),
        _no_cuda_oom(case, incident),
    )
    counts = {status: sum(sign.status == status for sign in signs) for status in ("present", "absent", "not_observed")}
    statement = f"{counts['present']} of {len(signs)} known signs of such a kill are there"
    statement += f", {counts['absent']} not" if counts["absent"] else ""
    statement += f", {counts['not_observed']} not seen" if counts["not_observed"] else ""
    return Checklist(statement=statement, signs=signs, steps=_steps(case, finding, recording))


def _steps(case: Case, finding: Finding, recording: str | None) -> tuple[Step, ...]:
    mechanism = finding.incident.mechanism
    steps = [
        Step(
            do="Reproduce it from a clean start: no process and no file in /dev/shm of an earlier run.",
            command=run_again(case, "again.oomtrace"),
        )
    ]
    if mechanism is not None and mechanism.name != "unknown":
        steps.append(
            Step(
                do="See what such a failure looks like where it is made on purpose.",
                command=f"sudo oomtrace repro mechanism-{mechanism.name.replace('_', '-')}",
            )
        )
    steps.append(Step(do="Change one variable at a time; of the remedies the first one first."))
    steps.append(
        Step(
            do="See that the symptom is gone, or clearly less, within one validation pass.",
            command=run_and_compare(case, finding.at_ns, recording),
        )
    )
    return tuple(steps)


def _sign(name: SignName, what: str, status: Seen, statement: str, evidence: Sequence[int] = ()) -> Sign:
    return Sign(name=name, what=what, status=status, statement=statement, evidence=tuple(evidence)[:20])


def _is_read(case: Case) -> bool:
    return bool(case.story.of(OutputWatched)) or bool(case.said.lines)


def _worker_killed_said(case: Case, finding: Finding) -> Sign:
    name: SignName = "worker_killed_said"
    what = '"DataLoader worker is killed"'
    lines = [line for line in case.said.lines if line.about == "worker_killed" and line.signal == SIGKILL]
    named = [(line, who) for line in lines for pid in line.pids if (who := case.said.meant(line, pid)) is not None]
    hit = next(((line, who) for line, who in named if who in finding.ids), None)
    if hit is not None:
        line, who = hit
        of = "the victim" if who == finding.ids[0] else "another victim of this shortage"
        return _sign(name, what, "present", f"the log names {_pid(line, who.tgid)}, {of}", (line.seq,))
    if named:
        line, who = named[0]
        text = f"the log names {_pid(line, who.tgid)}, which is not whom the kernel killed first"
        return _sign(name, what, "present", text, (line.seq,))
    if lines:
        return _sign(name, what, "present", "the log has it, without a pid that is known", (lines[0].seq,))
    if not _is_read(case):
        return _sign(name, what, "not_observed", NOT_READ)
    role = case.story.roles.get(finding.ids[0]) if finding.ids else None
    worker = role is not None and role.name == "dataloader_worker"
    text = "no such line was read" if worker else "no such line was read, and the victim is no DataLoader worker"
    return _sign(name, what, "absent", text)


def _pid(line: TrainingLine, tgid: int) -> str:
    """As the log has it, and as the kernel."""
    if tgid in line.pids:
        return f"pid {tgid}"
    return f"pid {line.pids[0]}, which is {tgid} here" if line.pids else f"pid {tgid}"


def _kernel_record(case: Case, finding: Finding) -> Sign:
    name: SignName = "kernel_record"
    what = "the kernel's record of the kill"
    kill = case.kills.of(finding.ids[0]) if finding.ids else None
    if kill is None:
        return _sign(name, what, "not_observed", "the kernel's counters alone tell of it")
    logged = kill.logged is not None and kill.logged.trusted
    if kill.mark is None and not logged:
        return _sign(name, what, "not_observed", "neither its log nor its mark was read", kill.evidence)
    by = "its log and BPF agree" if logged and kill.mark is not None else "its log" if logged else "by BPF"
    return _sign(name, what, "present", f"{by}: {_memory(case, finding, kill)}", kill.evidence)


def _memory(case: Case, finding: Finding, kill: Kill) -> str:
    record = kill.mark or kill.logged
    anon = record.anon_rss_bytes if record is not None else None
    limit = finding.incident.limit.limit_bytes if finding.incident.limit is not None else None
    who = people.short(case.story, kill.id)
    if anon is None:
        return f"{who} was killed; its memory is not told"
    text = f"anon-rss of {who} {format_bytes(anon)}"
    if not limit:
        return text
    small = "" if anon >= HUGE_SHARE * limit else ": small, it was not what filled it"
    return f"{text}, {anon / limit:.0%} of the limit{small}"


def _gpu_had_room(incident: Incident) -> Sign:
    name: SignName = "gpu_had_room"
    what = "GPU memory was not near full"
    facts = incident.cuda
    devices = [d for d in (facts.devices if facts is not None else ()) if d.total_bytes and d.used_bytes is not None]
    if devices:
        fullest = max(devices, key=lambda d: (d.used_bytes or 0) / (d.total_bytes or 1))
        used, total = fullest.used_bytes or 0, fullest.total_bytes or 1
        text = f"GPU {fullest.index}: {format_bytes(used)} of {format_bytes(total)} in use at the last look"
        status: Seen = "present" if used < ROOM_SHARE * total else "absent"
        if ROOM_SHARE * total <= used < FULL_SHARE * total:
            text += ", nearly full (which caching allocators do without any need)"
        return _sign(name, what, status, text)
    link = next((one for one in incident.proof if one.link == 5), None)
    unused = facts is not None and not facts.processes and facts.unmapped > 0
    if unused and link is not None and link.status == "present":
        return _sign(name, what, "present", "no process of the job had a GPU's library mapped", link.evidence)
    why = facts.device_memory_unknown if facts is not None else None
    return _sign(name, what, "not_observed", f"GPU memory was not seen: {why or 'not watched'}")


def _launcher_reported(case: Case, finding: Finding) -> Sign:
    name: SignName = "launcher_reported"
    what = "a launcher reports exit code -9"
    lines = [line for line in case.said.lines if line.about in LAUNCHERS]
    killed = [line for line in lines if line.signal == SIGKILL]
    if killed:
        rank = killed[0].rank
        text = f"of rank {rank}" if rank is not None else "of a process"
        meant = [who for line in killed for pid in line.pids if (who := case.said.meant(line, pid)) is not None]
        text += ", the victim itself" if any(who in finding.ids for who in meant) else ""
        return _sign(name, what, "present", f"{text}: what it reports is collateral", [line.seq for line in killed])
    if lines:
        line = next((one for one in lines if one.exit_code is not None), lines[0])
        of = f" of rank {line.rank}" if line.rank is not None else ""
        code = "another end" if line.exit_code is None else f"exit code {line.exit_code}"
        text = f"it reports {code}{of}: of a process that failed because another one was killed"
        return _sign(name, what, "absent", text, (line.seq,))
    if not any(role.name == "launcher" for role in case.story.roles.values()):
        return _sign(name, what, "absent", "the job has no launcher")
    if not _is_read(case):
        return _sign(name, what, "not_observed", NOT_READ)
    return _sign(name, what, "absent", "no report of a launcher was read")


def _staircase(case: Case, finding: Finding) -> Sign:
    name: SignName = "staircase"
    what = "memory rose once an epoch"
    picture = finding.incident.picture
    steps = picture.staircase if picture is not None else None
    if steps is None:
        told = sum(mark.at_ns <= finding.at_ns for mark in case.marks.epochs)
        text = f"each of {told - 1} epochs was too short to look into (6 s are needed), or added hardly anything"
        if picture is None:
            text = "how the limit filled was not seen"
        elif told <= LEAST_EPOCHS:
            text = f"{max(0, told - 1)} whole epochs were told apart, and {LEAST_EPOCHS} are needed"
            text = text if _is_read(case) else f"{text}: {NOT_READ}"
        return _sign(name, what, "not_observed", text)
    return _sign(name, what, "present" if steps.once else "absent", steps.statement, steps.evidence)


def _no_cuda_oom(case: Case, incident: Incident) -> Sign:
    name: SignName = "no_cuda_oom"
    what = "no CUDA out of memory anywhere"
    before = [line for line in case.said.lines if line.about in CLASS_OF_CUDA]
    if before:
        who = before[0].what or "CUDA"
        return _sign(name, what, "absent", f"the log has an out of memory of {who}", [line.seq for line in before])
    refused = [f for f in case.cuda.failures() if f.out_of_memory and f.survived is None]
    if refused:
        text = "calls of the driver were refused memory, and got no more"
        return _sign(name, what, "absent", text, [f.call.seq for f in refused])
    calls = next((link for link in incident.proof if link.link == 5 and link.status == "present"), None)
    seen = ["none in the log"] if _is_read(case) else []
    seen += ["none among the calls of CUDA (link 5 of the proof)"] if calls is not None else []
    if not seen:
        return _sign(name, what, "not_observed", f"{NOT_READ}, nor were calls of CUDA watched in full")
    return _sign(name, what, "present", ", ".join(seen), calls.evidence if calls is not None else ())
