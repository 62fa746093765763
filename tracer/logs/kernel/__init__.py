# SPDX-License-Identifier: Apache-2.0
"""The text of the kernel's OOM reports, and of NVIDIA's driver: one log record in, one event out, or nothing. Pure.

What stands before the text (syslog, journald, `dmesg -T`) is stripped elsewhere: a reader of some
format yields bare texts, and all of them come through `parse_record`. Each family of lines has a
module, with one function that says `None` to what is not its own.

comm and cgroup names are chosen by user space and stand raw in the middle of these lines. So a line is
known by its fixed start and its fixed end, and what several readings would explain is left unknown.
"""

from collections.abc import Callable

from tracer.events import LogEvent, Source
from tracer.logs.kernel import decision, invocation, kill, other, usage, xid
from tracer.logs.kernel.shape import Stamp, bare

FAMILIES: tuple[Callable[[str, Stamp], LogEvent | None], ...] = (
    invocation.parse,
    usage.parse,
    decision.parse,
    kill.parse,
    xid.parse,
    other.parse,
)


def parse_record(
    text: str,
    *,
    ts_ns: int,
    log_usec: int | None = None,
    log_seq: int | None = None,
    trusted: bool = False,
    source: Source = "text",
) -> LogEvent | None:
    """The event in the text of one record, which may have several lines; `None`: nothing of all this.

    The text comes without any prefix; from /dev/kmsg with its escapes, which are undone in names.
    `trusted` says that user space could not have written the record.
    """
    stamp = Stamp(ts_ns, log_usec, log_seq, trusted, source)
    line = bare(text)
    for parse in FAMILIES:
        event = parse(line, stamp)
        if event is not None:
            return event
    return None


__all__ = ["parse_record"]
