# SPDX-License-Identifier: Apache-2.0
"""`run --until` and `--for`: a job that has gone far enough is ended as a launcher would do, and that is recorded."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tracer.events import (
    EndAsked,
    Event,
    OomMark,
    ProcessExited,
    ProcessGone,
    ProcessId,
    ProcessSample,
    ProcessSeen,
    TrainingLine,
    process_id,
)
from tracer.units import NS_PER_S, format_duration

GRACE_NS = 20 * NS_PER_S
"""So long a job may take to end itself."""
SILENT_NS = 120 * NS_PER_S
"""After so long without a mark it is said that none has come."""
WORKER_COMM = "pt_data_worker"


@dataclass(frozen=True)
class Until:
    """What is asked for; each is met by itself, and the first ends the job."""

    epochs: int | None = None
    steps: int | None = None
    for_ns: int | None = None

    @property
    def needs_marks(self) -> bool:
        return self.epochs is not None or self.steps is not None


class Ender:
    """Sees what the job says and which workers come and go; ends the job once."""

    def __init__(
        self,
        until: Until,
        send: Callable[[int], object],
        append: Callable[[Event], None],
        say: Callable[[str], None],
    ) -> None:
        """`send` gives a signal to the job's process group; `say` is for whoever waits in front of a terminal."""
        self._until = until
        self._send, self._append, self._say = send, append, say
        self._began_ns: int | None = None
        self._asked_ns: int | None = None
        self._killed = self._told = False
        self._first_epoch: float | None = None
        self._epochs = 0.0
        self._step: int | None = None
        self._step_epoch: float | None = None
        self._steps = 0
        self._rank_zero = False
        self._seen: set[ProcessId] = set()
        self._oom = False
        self._workers: set[ProcessId] = set()
        self._starts = 0

    @property
    def asked(self) -> bool:
        """Whether the job was ended by us, and had lost no process to the OOM killer: then its own status counts."""
        return self._asked_ns is not None and not self._oom

    def unmet(self) -> str | None:
        """What is to be said of a job that ended by itself before it was that far."""
        until = self._until
        if self.asked or not until.needs_marks or self._met(self._began_ns or 0) is not None:
            return None
        goals = [f"{name}={n}" for name, n in (("epochs", until.epochs), ("steps", until.steps)) if n is not None]
        seen = f"epochs={self._epochs:g}, steps={self._steps} were seen" if self._marks else "no mark of it was seen"
        return f"The job ended before {' or '.join(goals)} was reached: {seen}."

    def begin(self) -> None:
        """The job runs from now on."""
        self._began_ns = time.monotonic_ns()

    def line(self, line: TrainingLine) -> None:
        """A line of the job's output that was recognised."""
        if line.about != "progress" or (self._rank_zero and line.rank not in {None, 0}):
            return
        self._rank_zero = self._rank_zero or line.rank == 0
        epoch, step = line.numbers.get("epoch"), line.numbers.get("step")
        if epoch is not None:
            if self._first_epoch is None or epoch < self._first_epoch:
                self._first_epoch = float(epoch)
            self._epochs = max(self._epochs, epoch - self._first_epoch)
        if step is not None:
            self._count(int(step), None if epoch is None else float(epoch))

    def event(self, event: Event) -> None:
        """Anything that is recorded: workers of a DataLoader that are started anew are a pass over the data."""
        if isinstance(event, ProcessSeen):
            self._seen.add(process_id(event.tgid, event.start_ns))
        if isinstance(event, OomMark):
            self._oom = self._oom or process_id(event.tgid, event.start_ns) in self._seen
        elif isinstance(event, ProcessSample | ProcessSeen) and event.comm == WORKER_COMM:
            identity = process_id(event.tgid, event.start_ns)
            if identity not in self._workers:
                self._starts += not self._workers
                self._workers.add(identity)
        elif isinstance(event, ProcessExited | ProcessGone):
            self._workers.discard(process_id(event.tgid, event.start_ns))

    def look(self, now_ns: int) -> None:
        """End the job if it is time."""
        if self._began_ns is None or self._killed:
            return
        if self._asked_ns is not None:
            if now_ns - self._asked_ns >= GRACE_NS:
                self._killed = True
                self._ask(f"it had not ended {format_duration(GRACE_NS)} after SIGTERM", signal.SIGKILL, now_ns)
            return
        why = self._met(now_ns)
        if why is not None:
            self._asked_ns = now_ns
            self._ask(why, signal.SIGTERM, now_ns)
        elif self._until.needs_marks and not self._told and now_ns - self._began_ns >= SILENT_NS and not self._marks:
            self._told = True
            waits = "" if self._until.for_ns is None else f"; it is ended after {format_duration(self._until.for_ns)}"
            self._say(f"no epoch or step was seen in {format_duration(SILENT_NS)}{waits or '; --for ends it by time'}")

    @property
    def _marks(self) -> bool:
        return self._first_epoch is not None or self._step is not None or self._starts > 1

    def _met(self, now_ns: int) -> str | None:
        until = self._until
        if until.epochs is not None:
            if self._epochs >= until.epochs:
                return f"epochs={until.epochs} was reached"
            if self._first_epoch is None and self._starts > until.epochs:
                return f"epochs={until.epochs} was reached, by starts of DataLoader workers"
        if until.steps is not None and self._steps >= until.steps:
            return f"steps={until.steps} was reached"
        if until.for_ns is not None and now_ns - (self._began_ns or now_ns) >= until.for_ns:
            missing = ", and no epoch or step was seen" if until.needs_marks and not self._marks else ""
            return f"{format_duration(until.for_ns)} have passed{missing}"
        return None

    def _count(self, step: int, epoch: float | None) -> None:
        if self._step is None:
            self._step, self._step_epoch = step, epoch
            return
        anew = epoch is not None and self._step_epoch is not None and int(epoch) > int(self._step_epoch)
        if step > self._step:
            self._steps += step - self._step
        elif anew or step < self._step // 2:
            self._steps += step + 1
        else:
            return  # another rank, a little behind
        self._step, self._step_epoch = step, epoch

    def _ask(self, why: str, number: signal.Signals, now_ns: int) -> None:
        marks = self._until.needs_marks
        self._append(
            EndAsked(ts_ns=now_ns, source="job", why=why, signal=number, tracer_tgid=os.getpid(),
                     epochs=self._epochs if marks else None, steps=self._steps if marks else None)
        )  # fmt: skip
        self._send(number)
