# SPDX-License-Identifier: Apache-2.0
"""What the job's own log says of its failures: which came first, which are consequences, what is only an echo."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tracer.events import Passage, TrainingLine
from tracer.verdict.model import Role

How = Literal[
    "sigkill",
    "vanished",
    "crash",
    "shm",
    "fds",
    "pinned",
    "host_alloc",
    "device",
    "cuda_error",
    "budget",
    "told",
    "raised",
]
_SHM_SURE = ("No space left", "unable to write to file", "unable to allocate shared memory", "posix_fallocate")
_SIGKILL, _SIGTERM, _SIGBUS = 9, 15, 7
_ROLES: dict[str, Role] = {
    "worker_killed": "dataloader_worker",
    "worker_exited": "dataloader_worker",
    "worker_fault": "dataloader_worker",
    "rank_failed": "rank",
    "failure_report": "rank",
    "spawn_failed": "rank",
}
_BECAUSE_OF_OTHERS = frozenset({
    "collective", "launcher_signals", "launcher_kills", "loader_timeout",
})  # fmt: skip
_ECHOES = frozenset({"exit_status", "shell_killed", "rank_failed", "failure_report", "spawn_failed"})
"""What is said by whoever started a process: where something inside of it told of its end, this merely follows."""


@dataclass(frozen=True)
class Failure:
    """One that may have been the first."""

    how: How
    passage: Passage
    line: TrainingLine
    survived: bool = False
    """Progress was made after it."""

    @property
    def role(self) -> Role | None:
        """Of the process that it is about."""
        return _ROLES.get(self.line.about)


@dataclass(frozen=True)
class Own:
    """All that the job's own logs say."""

    failures: tuple[Failure, ...]
    collateral: tuple[Passage, ...]
    lines: tuple[Passage, ...]

    @property
    def files(self) -> frozenset[int]:
        """Texts that it stands in."""
        return frozenset(passage.file for passage in self.lines)

    @property
    def first(self) -> Failure | None:
        """The one that explains the others; of what was survived none, if there is another."""
        lasting = [failure for failure in self.failures if not failure.survived] or list(self.failures)
        inside = [failure for failure in lasting if failure.line.about not in _ECHOES]
        told = [failure for failure in lasting if failure.line.about in _ECHOES]
        root = next((failure for failure in told if failure.line.root_cause), None)
        if root is not None and root.how == "raised":
            # It ended by itself: what its launcher then killed came after, and its own words say why.
            told = [root]
            own = [failure for failure in inside if _same_rank(failure, root)]
            inside = own or inside
        # A rank that was killed cannot say so; its launcher's word for that goes before another rank's complaint.
        killed = [failure for failure in told if failure.how in {"sigkill", "crash"}]
        if root is not None and root.how in {"sigkill", "crash"}:
            own = [failure for failure in inside if _same_rank(failure, root)]
            return own[0] if own else root
        strong = [failure for failure in inside if failure.how not in {"raised", "vanished"}]
        for some in (strong, killed, inside, told):
            if some:
                return some[0]
        return None

    def rank_of(self, line: TrainingLine) -> int | None:
        """Of the process that a line is about, where another line tells it."""
        if line.rank is not None:
            return line.rank
        for passage in self.lines:
            other = passage.event
            assert isinstance(other, TrainingLine)
            same = set(line.pids) & set(other.pids)
            if other.rank is not None and other.about == "failure_report" and same:
                return other.rank
        return None

    def claims(self, signal: int = _SIGKILL) -> list[tuple[int, Passage, TrainingLine]]:
        """Pids that it says were ended by a signal, or vanished, each with the line that does."""
        found = []
        for passage in self.lines:
            line = passage.event
            assert isinstance(line, TrainingLine)
            vanished = line.about in {"worker_exited", "subprocess_died"} and line.exit_code is None
            if (line.signal == signal and line.about in _NAMES_DEAD) or vanished:
                found += [(pid, passage, line) for pid in line.pids]
        return found


_NAMES_DEAD = frozenset({
    "worker_killed", "worker_exited", "rank_failed", "failure_report", "exit_status", "shell_killed", "spawn_failed",
})  # fmt: skip


def own_of(passages: Iterable[Passage]) -> Own:
    """The job's own story."""
    lines = tuple(passage for passage in passages if isinstance(passage.event, TrainingLine))
    last_progress: dict[int, int] = {}
    for passage in lines:
        if isinstance(passage.event, TrainingLine) and passage.event.about == "progress":
            last_progress[passage.file] = passage.line
    failures: list[Failure] = []
    collateral: list[Passage] = []
    ended_by_launcher: set[int] = set()
    for passage in lines:
        line = passage.event
        assert isinstance(line, TrainingLine)
        if line.about in _BECAUSE_OF_OTHERS or (line.signal == _SIGTERM and line.about in _NAMES_DEAD):
            collateral.append(passage)
            ended_by_launcher.update(line.pids if line.about in {"launcher_signals", "launcher_kills"} else ())
            continue
        if line.about in _NAMES_DEAD and line.pids and ended_by_launcher.issuperset(line.pids):
            collateral.append(passage)
            continue
        how = _how(line)
        if how is not None:
            survived = how in {"device", "cuda_error", "host_alloc", "raised"} and passage.line < last_progress.get(
                passage.file, 0
            )
            failures.append(Failure(how, passage, line, survived))
    return Own(tuple(_in_time(failures)), tuple(collateral), lines)


def _in_time(failures: list[Failure]) -> list[Failure]:
    """Of several logs by their times, where all have one and of one kind; else as the logs were given."""
    places = [failure.passage for failure in failures]
    alike = len({(place.zone_known, place.year_known) for place in places}) == 1
    if len({place.file for place in places}) < 2 or not alike or any(place.wall_ns is None for place in places):
        return failures
    return sorted(failures, key=lambda failure: failure.passage.wall_ns or 0)


def _same_rank(one: Failure, other: Failure) -> bool:
    ranks = (one.line.rank, other.line.rank), (one.line.local_rank, other.line.local_rank)
    return any(a is not None and a == b for a, b in ranks)


def _how(line: TrainingLine) -> How | None:  # noqa: PLR0911 - a table in words
    about = line.about
    if about == "shm":
        return "fds" if line.what == "Too many open files" else "shm"
    if about in {"pinned_alloc", "host_alloc"}:
        return "pinned" if about == "pinned_alloc" else "host_alloc"
    if about == "device_oom":
        return "device"
    if about == "device_budget":
        return "budget"
    if about == "cuda_error":
        return "cuda_error"
    if about == "launcher_stopped":
        return "told"
    if about == "worker_raised":
        return "host_alloc" if line.what == "MemoryError" else "raised"
    if about == "exception":
        return "raised"
    if about == "pin_thread":
        return "raised"
    if about == "subprocess_died" or (about == "worker_exited" and line.exit_code is None):
        return "vanished"
    if about in _NAMES_DEAD or about == "worker_fault":
        return _by_status(line)
    return None


def _by_status(line: TrainingLine) -> How | None:
    if line.signal == _SIGKILL:
        return "sigkill"
    if line.signal == _SIGBUS:
        return "shm" if line.about == "worker_fault" or "shared memory" in line.text else "crash"
    if line.signal is not None:
        return "crash"
    return None if line.exit_code in {None, 0} else "raised"


def shm_is_sure(failures: Sequence[Failure]) -> bool:
    """Whether a refusal of shared memory was told, and not merely a bus error, which has other reasons as well."""
    return any(
        failure.how == "shm" and (failure.line.about == "shm" or any(sign in failure.line.text for sign in _SHM_SURE))
        for failure in failures
    )
