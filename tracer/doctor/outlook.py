# SPDX-License-Identifier: Apache-2.0
"""What the verdict on a kill would be here: the rules are asked, over a recording as this machine would make it."""

from collections.abc import Mapping, Sequence

from tracer.doctor.model import Answer, Capability, Expectation, Expected, KillKind, LinkOutlook, Outlook
from tracer.doctor.specimen import DECISION_HOOK, Seen, recording
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident, Status

KILLS: tuple[KillKind, ...] = ("cgroup_limit", "machine")
FUNCTION_HOOKS = ("fentry", "kprobe")
_FROM_WEAK_TO_STRONG: tuple[Expected, ...] = ("not_seen", "possible", "likely", "proved")
_LINKS = ("the kernel killed it", "memory ran out", "it is yours", "it died of that", "not CUDA")


def outlook(capabilities: Sequence[Capability], *, root: bool, asker_is_root: bool) -> Outlook:
    """For who asked, or for root.

    Args:
        capabilities: all that were found.
        root: for root.
        asker_is_root: who asked is root: what was found holds for root then.
    """
    by_root = root and not asker_is_root
    answers = {one.id: (one.with_root or one.ok) if by_root else one.ok for one in capabilities}
    worst, best = _seen(answers, hopeful=False), _seen(answers, hopeful=True)
    # The specimen has one, the machine perhaps the other.
    kinds = [one.found for one in capabilities if one.id == "oom_decision" and one.found in FUNCTION_HOOKS]
    hook = next((f"{kind}:oom_kill_process" for kind in kinds), DECISION_HOOK)
    kills = tuple(_expectation(kill, worst, best, hook) for kill in KILLS)
    return Outlook(
        root=root,
        verdict=min((one.verdict for one in kills), key=_FROM_WEAK_TO_STRONG.index),
        at_best=min((one.at_best for one in kills), key=_FROM_WEAK_TO_STRONG.index),
        kills=kills,
    )


def _seen(answers: Mapping[str, Answer], *, hopeful: bool) -> Seen:
    taken = {"yes", "unknown"} if hopeful else {"yes"}

    def has(name: str) -> bool:
        return answers.get(name, "unknown") in taken

    programs = has("bpf_programs") and answers.get("other_kernel") != "no"
    return Seen(
        programs=programs,
        names=has("kernel_symbols"),
        decision=has("oom_decision"),
        log=has("kernel_log"),
        # Where there is no memory controller nobody asked for its count.
        counts=answers.get("oom_count") == "yes" and answers.get("other_kernel") != "no",
        # A run translates both, by what the programs tell of its own forks.
        same_pids=programs or has("pid_namespace"),
        same_clocks=programs or has("time_namespace"),
        survives=has("group_kill") or has("own_oom_score"),
        # Offered only where they were tried.
        bare=answers.get("bare_programs") == "yes" and not programs and has("pid_namespace") and has("time_namespace"),
        printk=programs and answers.get("printk_console") == "yes",
    )


def _expectation(kill: KillKind, worst: Seen, best: Seen, hook: str) -> Expectation:
    verdict, incident = _judged(kill, worst)
    at_best, _ = _judged(kill, best)
    return Expectation(kill=kill, verdict=verdict, at_best=at_best, links=_links(incident, worst, kill, hook))


def _judged(kill: KillKind, seen: Seen) -> tuple[Expected, Incident | None]:
    verdict = judge(recording(kill, seen)).verdict
    for incident in verdict.incidents:
        if incident.cause.startswith("host_oom"):
            return incident.strength, incident
    return "not_seen", None


def _links(incident: Incident | None, seen: Seen, kill: KillKind, hook: str) -> tuple[LinkOutlook, ...]:
    proof = {} if incident is None else {link.link: link for link in incident.proof}
    found = []
    for number, name in enumerate(_LINKS, 1):
        link = proof.get(number)
        status: Status = "not_observed" if link is None else link.status
        rung, via = (None, ()) if link is None or number == len(_LINKS) else (link.rung, link.via)
        via = tuple(hook if name == DECISION_HOOK else name for name in via)
        if rung == "proc" and not seen.bare:
            found.append(LinkOutlook(link=number, name=name, status=status, why=_BY_PROC, rung=rung))
            continue
        why = _why(number, status, seen, kill)
        found.append(LinkOutlook(link=number, name=name, status=status, why=why, rung=rung, via=via))
    return tuple(found)


def _why(number: int, status: Status, seen: Seen, kill: KillKind) -> str:
    if number == len(_LINKS):
        return _CUDA if status == "present" else _NO_CUDA
    if status == "present":
        return _present(number, seen, kill)
    if not seen.programs and seen.bare and number <= len(_WITH_BARE):
        return _WITH_BARE[number - 1]
    if not seen.programs:
        return _without_programs(number, seen)
    if not seen.names and number == 1:
        return "the kernel's stack has no names, so a kill and a mere mark look alike"
    if not seen.survives:
        return "the kill takes oomtrace as well (memory.oom.group), before it could say what it lost"
    return "neither the oom_kill_process hook nor the kernel's log would say whose memory ran out"


_CUDA = "by what each process has mapped, and by probes on libcuda where that is among it"
_NO_CUDA = "without the kernel's records of forks and calls, who calls CUDA is not known"
_BY_PROC = "by /proc alone: the kernel is not watched"
_WITH_BARE = (
    "SIGKILL, OOM mark and stack would be seen, but whom they hit is known by its pid alone",
    "the stack and the kernel's log or counts would tell, but no cgroup is seen at the mark",
    "by /proc alone: its forks would not be recorded",
    "that it went would be seen; how, where its parent's wait tells",
)


def _without_programs(number: int, seen: Seen) -> str:
    if number > 2 or not (seen.log or seen.counts):
        return "the kernel is not watched"
    if seen.log and seen.same_pids:
        return "only the kernel's log would tell of it"
    only = "only a count of OOM kills would tell of it" if seen.counts else "nothing would tell of it"
    return f"{only}: the kernel's log speaks of other pids than /proc does here" if seen.log else only


def _present(number: int, seen: Seen, kill: KillKind) -> str:
    if number == 2 and (kill == "machine" or not seen.names):
        words = "the kernel's log" if seen.log else "what the kernel is seen to print"
        return "by the oom_kill_process hook" if seen.decision else f"by {words}"
    if number == 2 and seen.programs and seen.decision:
        return "by the oom_kill_process hook, and the figures of each cgroup above the victim"
    if number == 2 and seen.programs:
        return "by usage, limit and OOM count of each cgroup above the victim"
    programs = (
        "by the kernel's SIGKILL, its OOM mark and its stack",
        "",
        "by the forks, from the job's first process on",
        "by the exit status, as the kernel sets it",
    )
    return programs[number - 1] if seen.programs else "by the kernel's log and /proc"
