# SPDX-License-Identifier: Apache-2.0
"""What launchers, schedulers and shells say of processes that ended, and whom they end themselves.

A command line in such a line may hold anything: of those no more is kept than what was recognised.
"""

import re

from tracer.logs.training.shape import (
    CODE,
    PID,
    SMALL,
    Found,
    Rule,
    ended_by,
    found,
    integer,
    numbers,
    pids,
    rule,
    says,
    signal_of,
)

_SIGNAL = r"(?P<signal>(?:Signals\.)?SIG[A-Z]{2,6}|\d{1,2})"


def _failed(match: re.Match[str], _: str) -> Found:
    rank = integer(match["local"])
    return found("rank_failed", match[0], pids=pids(match["pid"]), local_rank=rank, **ended_by(match["code"]))


def _ends(match: re.Match[str], _: str) -> Found:
    parts = match.groupdict()
    return found(
        "launcher_signals", match[0], pids=pids(parts.get("pid")) or None, signal=signal_of(parts.get("signal"))
    )


def _kills(match: re.Match[str], _: str) -> Found:
    return found("launcher_kills", match[0], pids=pids(match["pid"]))


def _told_to_stop(match: re.Match[str], _: str) -> Found:
    parts = match.groupdict()
    return found("launcher_stopped", match[0], pids=pids(parts.get("pid")) or None, signal=signal_of(match["signal"]))


def _spawned(match: re.Match[str], _: str) -> Found:
    number = signal_of(match["signal"])
    return found(
        "spawn_failed",
        match[0],
        local_rank=integer(match["process"]),
        what=match["signal"],
        **({"signal": number} if number else ended_by(match["code"])),
    )


def _ended(match: re.Match[str], _: str) -> Found:
    parts = match.groupdict()
    ended = ended_by(parts.get("code"))
    number = signal_of(parts.get("signal"))
    if number is not None:
        ended["signal"] = number
    rank = integer(parts.get("rank"))
    return found("exit_status", match[0], pids=pids(parts.get("pid")) or None, rank=rank, **ended)


def _odd_status(match: re.Match[str], _: str) -> Found | None:
    """A status alone, in whatever words: only one that says a signal is worth a line."""
    ended = ended_by(match["code"])
    return found("exit_status", match[0], **ended) if "signal" in ended else None


def _shell(match: re.Match[str], _: str) -> Found:
    parts = match.groupdict()
    return found("shell_killed", match[0].strip(), pids=pids(parts.get("pid")) or None, signal=9)


def _slurm(match: re.Match[str], _: str) -> Found:
    parts = match.groupdict()
    return found(
        "scheduler_oom",
        match[0],
        what="slurm",
        numbers=numbers(events=integer(parts.get("n")), task=integer(parts.get("task"))),
    )


def _ray(match: re.Match[str], _: str) -> Found:
    return found("ray_memory", match[0], numbers=numbers(workers=integer(match.groupdict().get("n"))))


RULES: tuple[Rule, ...] = (
    rule(
        "(exitcode: ",
        rf"(?:failed )?\(exitcode: (?P<code>{CODE})\)[^\n]{{0,300}}?local_rank: (?P<local>{SMALL}) "
        rf"\((?:pid|process ID): (?P<pid>{PID})\)",
        _failed,
    ),
    rule("closing signal", rf"Sending process (?P<pid>{PID}) (?:the )?closing signal {_SIGNAL}", _ends),
    rule("closing process", rf"Closing process (?P<pid>{PID}) via signal {_SIGNAL}", _ends),
    rule(
        "unable to shutdown process",
        rf"Unable to shutdown process (?P<pid>{PID}) via [\w.]{{1,20}}, "
        rf"forcefully exiting via {_SIGNAL}",
        _ends,
    ),
    rule("killing subprocess", rf"Killing subprocess (?P<pid>{PID})", _kills),
    rule("death signal", rf"Received {_SIGNAL} death signal, shutting down workers", _told_to_stop),
    rule("got signal: ", rf"SignalException: Process (?P<pid>{PID}) got signal: {_SIGNAL}", _told_to_stop),
    rule(
        "terminated with ",
        rf"\b[Pp]rocess (?P<process>{SMALL}) terminated with "
        rf"(?:signal (?P<signal>SIG[A-Z]{{2,6}})|exit code (?P<code>{CODE}))",
        _spawned,
    ),
    rule(
        "child process with pid",
        rf"\[rank: (?P<rank>{SMALL})\] Child process with PID (?P<pid>{PID}) terminated with code "
        rf"(?P<code>{CODE})",
        _ended,
    ),
    rule("died with <signals.", r"died with <Signals\.(?P<signal>SIG[A-Z]{2,6}): \d{1,2}>", _ended),
    rule("return code = ", rf"exits with return code = (?P<code>{CODE})", _ended),
    rule(
        "noticed that process rank",
        rf"noticed that process rank (?P<rank>{SMALL}) with PID (?P<pid>\d{{1,7}}) on node "
        r"[\w.-]{1,64} exited on signal (?P<signal>\d{1,2})",
        _ended,
    ),
    rule("exit with status code", rf"\bProcess (?P<rank>{SMALL}) exit with status code (?P<code>{CODE})", _ended),
    rule(
        "finished with exit code",
        rf"Process finished with exit code (?P<code>{CODE})"
        r"(?: \(interrupted by signal (?P<signal>\d{1,2}))?",
        _ended,
    ),
    rule(
        "code",
        rf"(?i:\b(?:exit ?code|error code|return ?code|exit status))(?::|=| =|:=)? ?(?P<code>{CODE})\b",
        _odd_status,
    ),
    rule(
        "abruptly",
        r"(?:One of the subprocesses has abruptly died during map operation|"
        r"process in the process pool was terminated abruptly)",
        says("subprocess_died"),
    ),
    rule(
        "managed by the executor",
        r"A worker process managed by the executor was unexpectedly terminated",
        says("subprocess_died"),
    ),
    rule(
        "killed",
        rf"^(?:[\w./-]{{1,80}}: line \d{{1,6}}: +(?P<pid>{PID}) Killed\b"
        r"|Killed(?: ?:? ?9)?$|\[\d{1,4}\][+-]? +Killed\b)",
        _shell,
    ),
    rule("zsh: killed", r"^zsh: killed\b", _shell),
    rule("oom", r"Detected (?P<n>\d{1,6}) oom[-_]kill events?(?:\(s\))?", _slurm),
    rule(": out of memory", rf"srun: error: [\w.-]{{1,64}}: task (?P<task>{SMALL}): Out Of Memory", _slurm),
    rule(
        "exceeded memory limit",
        r"(?:Job \d{1,9}|StepId=[\w.]{1,30}) exceeded memory limit \([\d.]{1,16} > [\d.]{1,16}\), being killed",
        _slurm,
    ),
    rule(
        "memory pressure (oom)",
        r"(?P<n>\d{1,7}) Workers \(tasks / actors\) killed due to memory pressure \(OOM\)",
        _ray,
    ),
    rule(
        "running low on memory", r"(?P<n>\d{1,7}) worker\(s\) were killed due to the node running low on memory", _ray
    ),
    rule("the node running low on memory", r"was killed due to the node running low on memory", _ray),
    rule("outofmemoryerror: task was killed", r"ray\.exceptions\.OutOfMemoryError", _ray),
)
