# SPDX-License-Identifier: Apache-2.0
"""Who sent a signal: the kernel, the job itself, a program that does so by trade, or somebody else; in words too."""

from collections.abc import Iterator

from tracer.attribution import roles
from tracer.attribution.cgroup_paths import place_of
from tracer.events import EndAsked, ProcessId, SeenProgram, SenderSeen, SignalInfo, SignalSent, process_id
from tracer.events.signals import (
    CRASH_SIGNALS,
    KERNEL_INFO,
    PF_EXITING,
    PF_KTHREAD,
    SENT_BY_CURRENT,
    SI_QUEUE,
    SI_TKILL,
    SI_USER,
    SIGKILL,
)
from tracer.units import NS_PER_S
from tracer.verdict.model import Ancestor, Sender, SenderKind
from tracer.verdict.people import ns_pids
from tracer.verdict.programs import WORDS, Program, recognise
from tracer.verdict.story import Story

SHOWN_ANCESTORS = 3


def names_its_sender(signal: SignalSent) -> bool:
    """Whether `current` is who sent it: kill, sigqueue and tgkill run in the sender's own context.

    A timer's or a message queue's signal (SI_TIMER -2, ...) runs in whatever context its moment finds, and
    sigqueue lets a process claim any negative code: then the sender is unknown.
    """
    if signal.info == SignalInfo.NOINFO:
        return not (is_parents_death(signal) or is_failed_exec(signal))
    return signal.info == SignalInfo.POINTER and signal.code in SENT_BY_CURRENT


def is_parents_death(signal: SignalSent) -> bool:
    """Whether it was to come when the parent ended (PR_SET_PDEATHSIG): the kernel sends it as the parent dies."""
    return signal.info == SignalInfo.NOINFO and bool(signal.sender_flags & PF_EXITING)


def is_failed_exec(signal: SignalSent) -> bool:
    """Whether the kernel gave a process up that it could not go on with: a SIGKILL in its own context, from nobody.

    send_sig(SIGKILL, current, 0) in the loaders of programs (fs/exec.c, fs/binfmt_*.c). kill(2) to oneself has a
    siginfo of its own.
    """
    to_itself = sender_id(signal) == process_id(signal.tgid, signal.start_ns)
    return signal.info == SignalInfo.NOINFO and signal.signal == SIGKILL and to_itself


def is_of_the_kernel(signal: SignalSent) -> bool:
    """Whether no process sent it."""
    fault = signal.code > 0 and signal.signal in CRASH_SIGNALS
    own = signal.info in KERNEL_INFO or bool(signal.sender_flags & PF_KTHREAD) or fault
    return own or is_parents_death(signal) or is_failed_exec(signal)


def sender(story: Story, signal: SignalSent) -> Sender | None:
    """Who sent a signal; `None` where that cannot be known. A fault is raised by the kernel.

    A signal that oomtrace passed on comes from whoever sent it there, where that was seen.
    """
    signal = passed_on(story, signal) or signal
    if is_of_the_kernel(signal):
        return Sender(pid=None, comm=None, kind="kernel")
    if not names_its_sender(signal):
        return None
    kind = _kind(story, signal)
    seen = _seen(story, signal)
    itself = next((one for one in seen if one.depth == 0), None)
    program = recognise(signal.sender_comm, itself) if kind == "outside" else None
    cgroup = _cgroup(signal, seen)
    return Sender(
        pid=signal.sender_tgid,
        comm=signal.sender_comm,
        kind="daemon" if program is not None and program.certain else kind,
        uid=signal.sender_uid,
        # The parent of process 1 is the kernel's idle task (swapper/0), which started nobody.
        parent_comm=signal.sender_parent_comm if signal.sender_parent_tgid else None,
        program=program.name if program is not None else None,
        trade=program.trade if program is not None else None,
        known_by=program.known_by if program is not None else None,
        exe=_exe(signal, itself),
        cgroup=cgroup,
        place=place_of(cgroup),
        ns_pids=ns_pids(story, sender_id(signal)),
        ancestors=tuple(Ancestor(pid=one.tgid, comm=one.comm) for one in seen if one.depth),
    )


def program(story: Story, signal: SignalSent) -> Program | None:
    """What its sender is by trade; `None`: nothing that is known, or no process from outside the job."""
    signal = passed_on(story, signal) or signal
    if is_of_the_kernel(signal) or not names_its_sender(signal) or _kind(story, signal) != "outside":
        return None
    return recognise(signal.sender_comm, next((one for one in _seen(story, signal) if one.depth == 0), None))


def passed_on(story: Story, signal: SignalSent) -> SignalSent | None:
    """What oomtrace had got just before it sent this; `None`: it is not from oomtrace, or that was not seen."""
    if not _from_tracer(story, signal):
        return None
    got = [
        s
        for s in story.of(SignalSent)
        if s.tgid == signal.sender_tgid and s.signal == signal.signal and 0 <= signal.ts_ns - s.ts_ns <= NS_PER_S
    ]
    return got[-1] if got else None


def sender_id(signal: SignalSent) -> ProcessId:
    """The process in whose context the signal was sent."""
    return process_id(signal.sender_tgid, signal.sender_start_ns)


def sender_name(story: Story, signal: SignalSent) -> str:
    """For a headline: `itself`, `the kernel`, `earlyoom (pid 812)`, `'bash' (pid 812)`, `an unknown sender`."""
    who = sender(story, signal)
    if who is None:
        return "an unknown sender"
    if who.kind == "kernel":
        return "the kernel"
    if who.kind == "self":
        return "itself"
    if _from_tracer(story, signal) and passed_on(story, signal) is None:
        asked = any(one.ts_ns <= signal.ts_ns and one.signal == signal.signal for one in story.of(EndAsked))
        return "oomtrace, as asked" if asked else "oomtrace, which passed it on"
    role = story.roles.get(sender_id(signal))
    if who.kind in {"launcher", "job"} and role is not None:
        # By the name that it had when it sent: it may have begun another program since.
        return f"{roles.describe(role, signal.sender_comm)} (pid {who.pid})"
    return f"{who.program if who.kind == 'daemon' else repr(who.comm)} (pid {who.pid})"


def sender_in_short(story: Story, signal: SignalSent) -> str:
    """For a line among others: `rank 0 (pid 41210), of the same job`, `'kill' (pid 812), from outside the job`."""
    who = sender(story, signal)
    kind = who.kind if who is not None else None
    where = {"launcher": ", of the same job", "job": ", of the same job", "outside": ", from outside the job"}.get(
        kind or "", ""
    )
    return f"{sender_name(story, signal)}{where}"


def sender_text(story: Story, signal: SignalSent) -> str:
    """In full: `rank 0 (pid 41210), of the same job`, `'kill' (pid 8, uid 0, below 'sshd' > 'bash'), from outside`."""
    who = sender(story, signal)
    if who is not None and who.kind in {"launcher", "job"}:
        return f"{sender_name(story, signal)}, of the same job"
    passed = _from_tracer(story, signal)
    if who is None or who.kind not in {"outside", "daemon"} or (passed and passed_on(story, signal) is None):
        return sender_name(story, signal)
    via = " through oomtrace" if passed else ""
    trade = f", {WORDS[who.trade]} by {who.known_by}" if who.trade is not None else ""
    if who.kind == "daemon":
        return f"{who.program} (pid {who.pid}, uid {who.uid}){trade}{',' if via else ''}{via}"
    return f"{who.comm!r} (pid {who.pid}, uid {who.uid}{_above(who)}){trade}, from outside the job{via}"


def way(signal: SignalSent) -> str:
    """The call that sent it, as its form tells."""
    if signal.info == SignalInfo.NOINFO:
        # __cgroup_kill() alone sends SIGKILL to others in that form, send_sig(SIGKILL, task, 0), 5.14 and later.
        return "cgroup.kill" if signal.signal == SIGKILL else "by the kernel for another process"
    return {SI_USER: "kill", SI_QUEUE: "sigqueue", SI_TKILL: "tgkill"}.get(signal.code, f"code {signal.code}")


def by_the_kernel(story: Story, signal: SignalSent) -> str:
    """Why the kernel sent a SIGKILL of its own that was no OOM kill, as far as its context tells."""
    context = f"{signal.sender_comm!r} ({signal.sender_tgid})"
    if is_failed_exec(signal):
        return "in its own context, as it could not begin a program"
    if sender_id(signal) == process_id(signal.tgid, signal.start_ns):
        return "in its own context, as for its hard limit on CPU time (RLIMIT_CPU); a BPF program can send it too"
    if signal.sender_flags & PF_EXITING:
        first = _is_first_of_a_namespace(story, sender_id(signal))
        why = "as that ended, which was pid 1 of its pid namespace" if first else "as that ended"
        return f"in the context of {context}, {why}"
    return f"in the context of {context}"


def ended_with_its_namespace(story: Story, signal: SignalSent) -> bool:
    """Whether the kernel sent it as pid 1 of a pid namespace ended, in whose context that is done."""
    return bool(signal.sender_flags & PF_EXITING) and _is_first_of_a_namespace(story, sender_id(signal))


def _is_first_of_a_namespace(story: Story, identity: ProcessId) -> bool:
    """Whether the end of this process takes a pid namespace with it: zap_pid_ns_processes()."""
    member = story.tree.processes.get(identity)
    if member is None:
        return False
    if any(len(seen.ns_pids or ()) > 1 and (seen.ns_pids or ())[-1] == 1 for seen in member.seen):
        return True  # it ran before there was anybody to see its fork
    fork = member.fork
    return fork is not None and fork.ns_level > 0 and fork.ns_tgid == 1


def _from_tracer(story: Story, signal: SignalSent) -> bool:
    # In a namespace of its own, where that is not known, its pid is another process's to the kernel.
    return names_its_sender(signal) and story.tracer_pid is not None and signal.sender_tgid == story.tracer_pid


def _kind(story: Story, signal: SignalSent) -> SenderKind:
    source = sender_id(signal)
    target = process_id(signal.tgid, signal.start_ns)
    if source == target:
        return "self"
    if story.tree.is_ancestor(source, target):
        return "launcher"
    return "job" if source in story.tree.members else "outside"


def _seen(story: Story, signal: SignalSent) -> tuple[SeenProgram, ...]:
    """The sender and whoever stands above it, as far as /proc showed them at the time."""
    looks = story.by(SenderSeen, lambda s: process_id(s.tgid, s.start_ns), "sender").get(sender_id(signal), ())
    return looks[0].line if looks else ()


def _exe(signal: SignalSent, seen: SeenProgram | None) -> str | None:
    """Which file it ran, if /proc still showed the program that sent: by then it may have begun another one."""
    if seen is None or (seen.comm != signal.sender_comm and signal.sender_tid == signal.sender_tgid):
        return None  # a thread may be called otherwise than its process
    return seen.exe


def _cgroup(signal: SignalSent, seen: tuple[SeenProgram, ...]) -> str | None:
    """Where the sender was: the kernel's number of its cgroup, and a path that has that number."""
    wanted = signal.sender_cgroup_id
    for one in seen:
        if one.cgroup is not None and (one.cgroup_id == wanted if wanted is not None else one.depth == 0):
            return one.cgroup
    return None


def _above(who: Sender) -> str:
    names = [repr(name) for name in _line(who)]
    if len(names) > 1:
        return f", below {' > '.join(names)}"
    return f", started by {names[0]}" if names else ""


def _line(who: Sender) -> Iterator[str]:
    """From above: whoever is no first process of a machine or a container."""
    shown = [one.comm for one in who.ancestors if one.pid != 1][:SHOWN_ANCESTORS]
    if not who.ancestors and who.parent_comm:
        shown = [who.parent_comm]
    return reversed(shown)
