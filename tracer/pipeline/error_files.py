# SPDX-License-Identifier: Apache-2.0
"""Which rank has an error file, and when it is looked at: once it has ended, and at the end once more."""

from collections.abc import Callable

from tracer.events import Event, ProcessExited, ProcessId, ProcessSeen, TrainingLine, process_id
from tracer.logs.training import TEXT_CHARS, recognise
from tracer.masking import mask_text
from tracer.pipeline.helper import Work
from tracer.sources.environ_names import ERROR_FILE, VALUE_CHARS
from tracer.sources.error_file import UserReader, read_error_file

MAX_FILES = 1024


class ErrorFiles:
    """Files that ranks may leave behind. A rank's workers have its environment, and so its file's name.

    Args:
        reader_for: with whose rights a process's file is read; asked while it lives. `None`: it is not read.
    """

    def __init__(self, reader_for: Callable[[ProcessSeen], UserReader | None], submit: Callable[[Work], None]) -> None:
        self._reader_for = reader_for
        self._reader: dict[str, UserReader | None] = {}
        self._submit = submit
        self._owner: dict[str, ProcessSeen] = {}
        self._path: dict[ProcessId, str] = {}
        self._told: set[str] = set()

    def seen(self, event: ProcessSeen) -> None:
        """A process of the job, and what its environment says."""
        path = (event.environ or {}).get(ERROR_FILE, "")
        # A name that was cut or masked is none.
        if not path or len(path) >= VALUE_CHARS or len(self._path) >= MAX_FILES * 8:
            return
        known = self._owner.get(path)
        if known is None and len(self._owner) >= MAX_FILES:
            return
        if known is None or event.start_ns < known.start_ns:
            self._owner[path] = event
            self._reader[path] = self._reader_for(event)
        self._path[process_id(event.tgid, event.start_ns)] = path

    def ended(self, event: ProcessExited) -> None:
        """A process is gone; one that ended well has nothing to say."""
        path = self._path.pop(process_id(event.tgid, event.start_ns), None)
        if path is not None and event.status and path not in self._told:
            self._look(path)

    def hurry(self) -> None:
        """The end is near: look at all that are left."""
        for path in self._owner.keys() - self._told:
            self._look(path)

    def take(self, line: TrainingLine) -> bool:
        """Whether it is new: a file may have been looked at twice."""
        new = bool(line.what) and line.what not in self._told
        if line.what:
            self._told.add(line.what)
        return new

    def _look(self, path: str) -> None:
        owner, reader = self._owner[path], self._reader[path]
        if reader is not None:
            self._submit(lambda: _line(path, owner, reader))


def _line(path: str, owner: ProcessSeen, reader: UserReader) -> Event | None:
    found = read_error_file(path, reader)
    if found is None:
        return None
    told, written_ns = found
    said = recognise(told.message)
    environ = owner.environ or {}
    named = {} if said is None else said.fields
    return TrainingLine(
        ts_ns=written_ns,
        source="text",
        about="exception" if said is None else said.about,
        text=mask_text(told.message[: 4 * TEXT_CHARS])[:TEXT_CHARS],
        stream="error_file",
        what=path,
        numbers={} if told.at_s is None else {"written_s": told.at_s},
        tgid=owner.tgid,
        start_ns=owner.start_ns,
        rank=_number(environ.get("RANK")),
        local_rank=_number(environ.get("LOCAL_RANK")),
        pids=named.get("pids", ()),
        signal=named.get("signal"),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 6 else None
