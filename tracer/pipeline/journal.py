# SPDX-License-Identifier: Apache-2.0
"""What goes into the recording while a job runs, and when; and failures, that must not spread."""

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from tracer.events import Event, Note, ProcessId
from tracer.pipeline.helper import Helper
from tracer.recording import RecordingWriter
from tracer.units import NS_PER_MS

FLUSH_NS = 250 * NS_PER_MS
"""A kill of the tracer itself loses no more than this."""

STRIKES = 3
"""So often in a row something may fail before it is left alone for the rest of the run."""
MAX_NOTES = 200

ResultT = TypeVar("ResultT")


class Journal:
    """Appends events, flushes in time, and turns whatever fails into notes: nothing here ever raises."""

    def __init__(self, writer: RecordingWriter, disk: Helper) -> None:
        self.listener: Callable[[Event], None] | None = None
        """Gets each event that is recorded."""
        self._writer = writer
        self._disk = disk
        self._due_ns: int | None = None
        self._noted: set[str] = set()
        self._failures: dict[str, int] = {}
        self._last: dict[tuple[object, ...], Event] = {}

    def append(self, event: Event) -> None:
        """Take an event in."""
        try:
            self._writer.append(event)
        except Exception as error:  # noqa: BLE001 - the job must not pay for a fault of ours
            self._failed("the recording", error)
        if self.listener is not None:
            self.attempt("listening to events", lambda: self._tell(event), otherwise=None)
        if self._due_ns is None:
            self._due_ns = event.ts_ns + FLUSH_NS

    def _tell(self, event: Event) -> None:
        if self.listener is not None:
            self.listener(event)

    def append_changed(self, key: tuple[object, ...], event: Event, like: Event | None = None) -> bool:
        """Take a sample in, unless it says what the last one with this key said; whether it was taken.

        Args:
            like: what is compared in its place, where not every difference is worth a record: without a time.
        """
        bare: Event = msgspec.structs.replace(event, ts_ns=0, seq=0) if like is None else like
        if self._last.get(key) == bare:
            return False
        self._last[key] = bare
        self.append(event)
        return True

    def forget(self, process: ProcessId) -> None:
        """Nothing more of this process will come."""
        for kind in ("process", "seen", "looked", "code"):
            self._last.pop((kind, *process), None)

    def note(self, text: str) -> None:
        """Record something that a reader of the verdict should know, once."""
        if text not in self._noted and len(self._noted) < MAX_NOTES:
            self._noted.add(text)
            self.append(Note(ts_ns=time.monotonic_ns(), source="tracer", text=text))

    def attempt(self, what: str, action: Callable[[], ResultT], otherwise: ResultT) -> ResultT:
        """Do something that may fail; a failure is noted, and after three in a row the thing is left alone."""
        if self.gave_up(what):
            return otherwise
        try:
            result = action()
        except Exception as error:  # noqa: BLE001 - a broken source degrades the verdict, never the job
            self._failed(what, error)
            return otherwise
        self._failures.pop(what, None)
        return result

    def gave_up(self, what: str) -> bool:
        """Whether it has failed too often."""
        return self._failures.get(what, 0) >= STRIKES

    def due_ns(self) -> int | None:
        """When the next flush has to happen."""
        return self._due_ns

    def flush(self) -> None:
        """Hand all to the operating system now."""
        self._due_ns = None
        trouble_before = self._writer.trouble
        self.attempt("writing the recording", self._writer.flush, otherwise=False)
        if self._writer.trouble is not None and trouble_before is None:
            self.note(f"the recording could not be written as it should: {self._writer.trouble.why}")

    def flush_if_due(self, now_ns: int) -> None:
        """Hand all to the operating system if it is time."""
        if self._due_ns is not None and now_ns >= self._due_ns:
            self.flush()

    def secure(self) -> None:
        """A kill was seen: hand all over at once, and have the disk keep it (in the helper thread)."""
        self.flush()
        self._disk.submit(self._sync)

    def _sync(self) -> None:
        self._writer.sync()

    def _failed(self, what: str, error: Exception) -> None:
        self._failures[what] = self._failures.get(what, 0) + 1
        if self._failures[what] == 1 and what != "the recording":
            self.note(f"{what} failed: {type(error).__name__}: {error}")
