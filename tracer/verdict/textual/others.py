# SPDX-License-Identifier: Apache-2.0
"""Ends that no record of the kernel's OOM killer tells of: by daemons, by request, by refusal, by crash, or untold."""

import re
from collections.abc import Sequence

from tracer.events import Passage, ReportedLine, Text, TrainingLine
from tracer.units import format_bytes
from tracer.verdict.model import Cause, Incident, Link, Process, Remedy, Sender, Strength
from tracer.verdict.programs import TRADES
from tracer.verdict.textual import advice
from tracer.verdict.textual.deaths import Failure, Own, shm_is_sure
from tracer.verdict.textual.host import not_cuda, place_in, role_of

_NAMES = {
    "earlyoom": "earlyoom", "systemd-oomd": "systemd-oomd", "nohang": "nohang", "ray": "raylet", "slurm": "slurmstepd",
    "lsf": "LSF", "kubelet": "kubelet", "docker": "dockerd", "systemd": "systemd",
}  # fmt: skip
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
SIGKILL, SIGTERM = 9, 15
_SLURM_JOB = re.compile(r"/job0{0,9}([1-9][0-9]{0,9})/slurm_script")


def by_daemon(passage: Passage, own: Own, texts: Sequence[Text]) -> Incident:
    """A program in user space that ends others for want of memory; the kernel's OOM killer did nothing."""
    line = passage.event
    assert isinstance(line, ReportedLine | TrainingLine)
    by = line.by if isinstance(line, ReportedLine) else "ray"
    name = _NAMES.get(by, by)
    pid, comm = (line.pid, line.comm) if isinstance(line, ReportedLine) else (None, None)
    cgroup = line.cgroup if isinstance(line, ReportedLine) else None
    signal = line.signal if line.signal is not None else None if by in {"slurm", "lsf", "kubelet"} else SIGKILL
    named = _named(pid, own)
    victim = _victim(pid, comm, named, cgroup)
    asked = signal == SIGTERM and named is not None and named[1].signal == SIGKILL
    whom = (
        f"{comm} (pid {pid})" if pid is not None else cgroup or (getattr(line, "unit", None)) or "processes of the job"
    )
    what = {
        "kubelet": "the kubelet evicted the pod: its node was low on memory",
        "slurm": "Slurm ended the job: by its own count it used more memory than asked for",
        "lsf": "LSF ended the job over its memory limit",
    }.get(by, f"{name} ended {whom}")
    return Incident(
        cause="userspace_oom_daemon",
        strength="possible" if asked else "likely",
        headline=f"Perhaps ended by {name} for want of host RAM"
        if asked
        else f"Probably ended by {name} for want of host RAM, and not by the kernel",
        summary=f"{what[0].upper()}{what[1:]} ({place_in(passage, texts)}).",
        victim=victim,
        victims=(victim,) if victim is not None else (),
        sender=Sender(
            pid=None,
            comm=name,
            kind="daemon",
            program=name,
            trade=TRADES.get(name, "batch_system" if by == "lsf" else "oom_daemon"),
            known_by="its own log line",
        ),
        signal=signal,
        proof=(
            Link(link=1, name=f"{name} ended it", status="present",
                 statement=f"it says so ({place_in(passage, texts)})", evidence=(line.seq,)),
            *_rest(named, own, texts),
        ),
        remedies=advice.remedies("userspace_oom_daemon", None, None, frozenset()),
        caveats=(
            *([_ASKED] if asked else []), "Whether that program itself wrote this line, a text does not show.",
        ),
    )  # fmt: skip


_ASKED = "It sent SIGTERM, and the job's log says SIGKILL: whether that came from it or from the kernel is not told."


def by_report(passage: Passage, own: Own, texts: Sequence[Text]) -> Incident:
    """A runtime, a scheduler or systemd saw the kernel's OOM killer at work in a container, a step, a unit."""
    line = passage.event
    assert isinstance(line, ReportedLine)
    hints = frozenset(hint for text in texts for hint in text.hints) | ({line.by} & {"kubernetes", "slurm", "docker"})
    of_a_cgroup = line.about in {"container_oom", "step_oom"} or "Memory cgroup out of memory" in line.text
    cause: Cause = "host_oom_cgroup" if of_a_cgroup else "host_oom_unknown_scope"
    old_slurm = line.by == "slurm" and "may have been killed" in line.text
    strength: Strength = "possible" if old_slurm or (line.by == "vertex-ai") else "likely"
    who = "a process" if line.pid is None else f"{line.comm} (pid {line.pid})"
    what = {
        "container_oom": "a container reached its memory limit, and the kernel killed in it",
        "step_oom": "a step reached its memory limit, and the kernel killed in it",
        "unit_oom": f"the OOM killer was at work in unit {line.unit}",
        "system_oom": f"the kernel killed {who} on its node for want of memory",
    }[line.about]
    named = _named(line.pid, own)
    victim = _victim(line.pid, line.comm, named, None)
    where = place_in(passage, texts)
    caveats = ["Which process it was, and with how much memory, the kernel's own log tells."]
    if not of_a_cgroup:
        caveats.append("Whose memory ran out, the machine's or a cgroup's, this line does not tell.")
    if old_slurm:
        caveats.append('This wording of Slurm counts OOM events as well that killed nobody: "may have been killed".')
    word = "Probably killed" if strength == "likely" else "Perhaps killed"
    scope = "host RAM ran out at a cgroup limit" if cause == "host_oom_cgroup" else "host RAM ran out"
    return Incident(
        cause=cause,
        strength=strength,
        headline=f"{word} by the kernel: {scope}",
        summary=f"{line.by} says that {what} ({where}).",
        victim=victim,
        victims=(victim,) if victim is not None else (),
        signal=SIGKILL,
        proof=(
            Link(link=1, name="the kernel killed it", status="present", statement=f"{line.by} says so ({where})",
                 evidence=(line.seq,)),
            Link(link=2, name="memory ran out", status="present" if cause == "host_oom_cgroup" else "not_observed",
                 statement=what, evidence=(line.seq,)),
            *_rest(named, own, texts),
        ),
        remedies=(*advice.remedies(cause, None, None, hints), *_kernel_log(line.slurm_job, hints)),
        caveats=tuple(caveats),
    )  # fmt: skip


def by_request(passage: Passage, own: Own, texts: Sequence[Text]) -> Incident:
    """Somebody says that he ended it: a service manager, a runtime, a scheduler; or the launcher was told to stop."""
    line = passage.event
    assert isinstance(line, ReportedLine | TrainingLine)
    signal = line.signal or SIGTERM
    by = line.by if isinstance(line, ReportedLine) else None
    name = _NAMES.get(by, by) if by is not None else None
    cause: Cause = "sigkill" if signal == SIGKILL else "sigterm"
    pid = line.pid if isinstance(line, ReportedLine) else next(iter(line.pids), None)
    comm = line.comm if isinstance(line, ReportedLine) else None
    where = place_in(passage, texts)
    told = f"{name} says so" if name is not None else "the launcher was told to stop before anything had failed"
    word = _SIGNALS.get(signal, f"signal {signal}")
    why = line.about != "cancelled" or "DUE TO" in line.text
    by_whom = f" by {name}" if name else " from outside"
    return Incident(
        cause=cause,
        strength="likely" if why else "possible",
        headline=f"Probably ended with {word}{by_whom}, not for want of memory"
        if why
        else f"Perhaps ended with {word}{by_whom}; why is not told",
        summary=f"{told[0].upper()}{told[1:]} ({where}).",
        victim=_victim(pid, comm, _named(pid, own), None),
        sender=None if name is None else Sender(
            pid=None, comm=name, kind="outside", program=name, trade=TRADES.get(name), known_by="its own log line"
        ),
        signal=signal,
        proof=(Link(link=1, name="it was told to end", status="present", statement=f"{told} ({where})",
                    evidence=(line.seq,)), *_rest(None, own, texts)),
        remedies=advice.remedies(cause, None, None, frozenset()),
        caveats=("Why it was sent, the log of whoever sent it tells.",),
    )  # fmt: skip


def by_itself(failure: Failure, own: Own, texts: Sequence[Text]) -> Incident:
    """What the job's own log says: memory that was refused, a crash, an exception; or merely that it is gone."""
    line = failure.line
    cause, strength, headline = _judged(failure, own)
    if failure.survived and strength == "likely":
        strength = "possible"
    where = place_in(failure.passage, texts)
    victim = _of_line(failure)
    hints = frozenset(hint for text in texts for hint in text.hints)
    caveats = []
    if failure.survived:
        caveats.append("The job made progress after it: it may have been survived.")
    if cause == "inconclusive":
        job = _SLURM_JOB.search(line.text)
        remedies = advice.to_settle(hints, victim, job[1] if job is not None else None)
        caveats.append("Killed, -9, 137 and 247 say SIGKILL: the kernel, a daemon, a scheduler or a person sends that.")
    else:
        remedies = advice.remedies(cause, None, None, hints)
        caveats.append("A text can be forged, and what it tells of may have been caught: likely is the most it can be.")
    figures = _figures(line)
    return Incident(
        cause=cause,
        strength=strength,
        headline=headline,
        summary=f"{_said(failure)}{f', {figures}' if figures else ''} ({where}).",
        victim=victim,
        signal=line.signal,
        exit_code=line.exit_code if line.exit_code is not None and line.exit_code >= 0 else None,
        proof=(
            Link(link=1, name="what was told", status="present", statement=f"{line.text[:120]} ({where})",
                 evidence=(line.seq,)),
        ),
        remedies=remedies,
        caveats=tuple(caveats),
    )  # fmt: skip


def from_status(passage: Passage, texts: Sequence[Text]) -> Incident:
    """A status alone, of a container or a unit: 137 and 9 leave open who it was."""
    line = passage.event
    assert isinstance(line, ReportedLine)
    code = line.exit_code
    signal = line.signal if line.signal is not None else code - 128 if code is not None else None
    where = place_in(passage, texts)
    hints = frozenset(hint for text in texts for hint in text.hints) | ({line.by} & {"kubernetes", "docker"})
    crashed = signal in {4, 6, 7, 8, 11}
    cause: Cause = "crash" if crashed else "sigterm" if signal == SIGTERM else "inconclusive"
    name = _SIGNALS.get(signal or 0, f"signal {signal}")
    headline = {
        "crash": f"Probably crashed ({name}), not for want of memory",
        "sigterm": "Probably ended with SIGTERM",
        "inconclusive": f"Killed with {name}; by whom is not told",
    }[cause]
    settle = (
        advice.to_settle(hints, None, None) if cause == "inconclusive" else advice.remedies(cause, None, None, hints)
    )
    return Incident(
        cause=cause,
        strength="possible" if cause == "inconclusive" else "likely",
        headline=headline,
        summary=f"{line.by} gives its status alone ({where}).",
        victim=_victim(line.pid, line.comm, None, None),
        signal=signal,
        exit_code=code,
        proof=(Link(link=1, name="what was told", status="present", statement=f"{line.text[:120]} ({where})",
                    evidence=(line.seq,)),),
        remedies=settle,
        caveats=("OOMKilled tells of a container's main process alone: false, or no word of it, proves nothing.",)
        if cause == "inconclusive" else (),
    )  # fmt: skip


def nothing(own: Own, texts: Sequence[Text]) -> Incident:
    """Nothing that was recognised tells of an end."""
    hints = frozenset(hint for text in texts for hint in text.hints)
    echo = next((passage for passage in own.collateral), None)
    summary = "No line that was recognised tells how it ended."
    if echo is not None:
        summary = f"Only consequences are there: another process was gone before ({place_in(echo, texts)})."
    return Incident(
        cause="inconclusive",
        strength="possible",
        headline="What ended the job is not in these texts",
        summary=summary,
        remedies=advice.to_settle(hints, None, None),
    )


_HOWS: dict[str, tuple[Cause, Strength, str]] = {
    "sigkill": ("inconclusive", "possible", "Killed with SIGKILL{gone}; by whom is not told"),
    "vanished": ("inconclusive", "possible", "A process vanished{gone}; how is not told"),
    "crash": ("crash", "likely", "Probably crashed ({signal}), not for want of memory"),
    "shm": (
        "shm_exhausted",
        "likely",
        "Probably /dev/shm was full: shared memory ran out, and nobody was killed for it",
    ),
    "fds": ("exited", "likely", "Probably too many open files (ulimit -n): not for want of memory"),
    "pinned": ("pinned_host_memory", "likely", "Probably pinned host memory ran out: host RAM, not GPU memory"),
    "host_alloc": ("host_allocation_failed", "likely", "Probably an allocation of host memory was refused"),
    "device": ("cuda_oom", "likely", "Probably out of GPU memory, not of host RAM"),
    "budget": ("cuda_oom", "likely", "Probably too little GPU memory was set aside"),
    "cuda_error": ("cuda_oom", "possible", "Perhaps out of GPU memory: CUDA's words fit pinned host memory as well"),
    "told": ("sigterm", "likely", "Probably told to stop from outside"),
    "raised": ("exited", "likely", "Probably ended by an exception{what}, not for want of memory"),
}


_VAGUE = re.compile(
    r"(?:Runtime|OS|IO|System)?Error|(?:Base)?Exception(?:Group)?|SystemExit|KeyboardInterrupt|StopIteration"
    r"|\w{0,40}(?:Memory|Dist|Backend|Nccl|NCCL|Connect|Pipe|EOF|Timeout|Failed|Process|Ray|Actor|Worker|Task|C[uU][dD][aA]"
    r"|Accelerator|Signal|Elastic|Rendezvous|Broken|Abort|Rpc|RPC|Launch)\w{0,40}"
)
"""Exceptions that are raised as well where another process is gone, or memory was refused."""


def _says_why(line: TrainingLine) -> bool:
    """Whether an exception is one's own mistake. A status alone says nothing, and neither does a name for anything."""
    if line.about not in {"exception", "worker_raised"} or line.what is None:
        return False
    return _VAGUE.fullmatch(line.what.rpartition(".")[2]) is None


def _judged(failure: Failure, own: Own) -> tuple[Cause, Strength, str]:
    line = failure.line
    cause, strength, headline = _HOWS[failure.how]
    if failure.how == "raised" and not _says_why(line):
        strength, headline = "possible", "Perhaps ended by itself{what}; why is not told"
    if failure.how == "shm" and line.about != "shm" and not shm_is_sure(own.failures):
        strength, headline = "possible", headline.replace("Probably", "Perhaps")
    told = {
        "gone": f" (pid {line.pids[0]})" if line.pids else "",
        "signal": _SIGNALS.get(line.signal or 0, f"signal {line.signal}"),
        "what": f" ({line.what})" if line.what else "",
    }
    for name, words in told.items():
        headline = headline.replace(f"{{{name}}}", words)
    return cause, strength, headline


def _said(failure: Failure) -> str:
    line = failure.line
    rank = (
        f"Rank {line.rank}"
        if line.rank is not None
        else f"Local rank {line.local_rank}"
        if line.local_rank is not None
        else None
    )
    worker = "a DataLoader worker" if failure.role == "dataloader_worker" else None
    who = ", ".join(part for part in (rank, worker) if part) or "The job's log"
    return f"{who[0].upper()}{who[1:]}: {_WORDS.get(line.about, line.about)}"


_WORDS = {
    "worker_killed": "killed by a signal", "worker_exited": "ended without a word", "worker_fault": "a fault",
    "worker_raised": "an exception", "rank_failed": "failed", "failure_report": "failed", "spawn_failed": "failed",
    "exit_status": "its status", "shell_killed": "the shell says killed",
    "subprocess_died": "a process of a pool vanished", "shm": "shared memory was refused",
    "device_oom": "GPU memory was refused", "device_budget": "too little was set aside",
    "cuda_error": "CUDA says out of memory", "host_alloc": "host memory was refused",
    "pinned_alloc": "pinned host memory was refused", "launcher_stopped": "the launcher was told to stop",
    "exception": "an exception ended it", "pin_thread": "the thread that pins memory failed",
}  # fmt: skip


def _figures(line: TrainingLine) -> str:
    names = (("requested_bytes", "asked for"), ("free_bytes", "free"), ("total_bytes", "in all"))
    return ", ".join(
        f"{format_bytes(int(line.numbers[name]))} {words}" for name, words in names if name in line.numbers
    )


def _of_line(failure: Failure) -> Process | None:
    line = failure.line
    if not line.pids:
        return None
    role, known_by = role_of(None, failure.role)
    return Process(
        pid=line.pids[0],
        role=role,
        role_known_by=known_by,
        rank=line.rank,
        local_rank=line.local_rank,
        worker=line.worker,
    )


def _victim(
    pid: int | None, comm: str | None, named: tuple[Passage, TrainingLine] | None, cgroup: str | None
) -> Process | None:
    if pid is None:
        return None
    line = named[1] if named is not None else None
    role, known_by = role_of(comm, "dataloader_worker" if line is not None and line.about == "worker_killed" else None)
    return Process(
        pid=pid,
        comm=comm,
        role=role,
        role_known_by=known_by,
        rank=line.rank if line is not None else None,
        local_rank=line.local_rank if line is not None else None,
        cgroup=cgroup,
    )


def _named(pid: int | None, own: Own) -> tuple[Passage, TrainingLine] | None:
    claims = (*own.claims(), *own.claims(SIGTERM))
    return next(((passage, line) for claimed, passage, line in claims if claimed == pid), None)


def _rest(named: tuple[Passage, TrainingLine] | None, own: Own, texts: Sequence[Text]) -> tuple[Link, ...]:
    if named is None:
        yours = Link(link=3, name="it is yours", status="not_observed", statement="no pid ties it to the job's log")
        died = Link(link=4, name="it died of that", status="not_observed", statement="no line tells how it ended")
    else:
        passage, line = named
        where, seen = place_in(passage, texts), (line.seq,)
        yours = Link(link=3, name="it is yours", status="present", statement=f"the job's own log names it ({where})",
                     evidence=seen)  # fmt: skip
        died = Link(link=4, name="it died of that", status="present", statement=f"signal {line.signal} ({where})",
                    evidence=seen)  # fmt: skip
    return yours, died, not_cuda(own)


def _kernel_log(job: str | None, hints: frozenset[str]) -> tuple[Remedy, ...]:
    return advice.to_settle(hints, None, job)[:2]
