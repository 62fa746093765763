# SPDX-License-Identifier: Apache-2.0
"""`NVRM: Xid (PCI:0000:08:00): 31, pid=1234, name=python3, ...`: what NVIDIA's driver reports of a GPU.

    NVRM: Xid (PCI:0000:08:00): 31, pid=1234, name=python3, Ch 00000010, intr 00000000. MMU Fault: ...
    NVRM: Xid (PCI:0000:08:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
    NVRM: Xid (0000:08:00): 31, Ch 00000010, engmask 00000101, intr 10000000     (drivers before 2014 or so)

The name is chosen by user space, and nothing fixed follows it: one that could end in two places is unknown.
"""

import re

from tracer.events import LoggedXid
from tracer.logs.kernel.shape import PID, Stamp, name, number, raw_name

_LINE = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): (?P<xid>\d{1,6})"
    rf"(?:, pid='?(?:(?P<pid>{PID})|<unknown>)'?(?:, name='?(?P<rest>.*))?|(?=[, ]|\Z).*)",
    re.DOTALL,
)
_UNKNOWN = "<unknown>"
_COMM_BYTES = 15


def parse(text: str, stamp: Stamp) -> LoggedXid | None:
    """The report; of a line that was cut, what is certain."""
    found = _LINE.match(text)
    if found is None:
        return None
    return LoggedXid(
        xid=int(found["xid"]),
        pci=found["pci"].lower(),
        pid=number(found["pid"]),
        comm=_comm(found["rest"] or "", stamp),
        **stamp.fields(text),
    )


def _comm(rest: str, stamp: Stamp) -> str | None:
    ends = [match.start() for match in re.finditer(", ", rest[: 8 * _COMM_BYTES])]
    names = {rest[:end].removesuffix("'") for end in (*ends, len(rest))}
    possible = [one for one in names if one and len(raw_name(one, stamp)) <= _COMM_BYTES]
    return name(possible[0], stamp) if len(possible) == 1 and possible[0] != _UNKNOWN else None
