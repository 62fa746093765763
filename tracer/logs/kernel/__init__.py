# SPDX-License-Identifier: Apache-2.0
"""The text of the kernel's OOM reports, and of NVIDIA's driver: one log record in, one event out, or nothing. Pure.

Live records come through `live.LiveRecords`, which puts the rows of tables together, or `parse_record`: bare texts of
/dev/kmsg, and of printk. Each family of lines has a
module, with one function that says `None` to what is not its own.

A log from elsewhere comes through `reader.KernelLogReader`, in chunks of bytes of whatever size:

    reader = KernelLogReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)] + reader.end()

Events come in the order of the file (those of several hosts or containers: each one's own). `source` is `text`,
and none is `trusted`; `said_by` says who wrote the record as far as the log does, `log_line` and `log_column` where
its text begins, `wall` the time before it with what was written of it, `host` the machine or container. `ts_ns` is the
kernel's stamp, the wall time where there is none, 0 without both: within one file it orders records, nothing more.
What was cut, and that of which two readings are possible, is `None`. Memory and the work a line are bounded.

    feed      bytes: lines near to anything of a report, all else is searched for needles and passed over
    ../prefixes   a line: text, times, host, who says so
    journal   `journalctl -o verbose` and `-o export`: records of many lines
    stream    lines of one writer: records, tables, lost ones
    joining   records that were broken into lines: what all ways to join them say
    older     families that live records keep as text: triggers, owners, choices, group kills, the reaper
    tables    task tables and memory.stat
    loose     what is certain of lines that were cut, shortened, rewritten or quoted

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
