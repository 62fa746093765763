# SPDX-License-Identifier: Apache-2.0
"""The format of one /dev/kmsg record: `PRI,SEQ,USEC,FLAGS[,KEY=VALUE...];TEXT` and ` KEY=VALUE` lines. Pure."""

from dataclasses import dataclass

_NUMBER_DIGITS = 20


@dataclass(frozen=True)
class KmsgRecord:
    """One record, not judged yet."""

    facility: int
    """0: the kernel. User space can write any other, and since 3.11 not this one."""
    level: int
    seq: int
    usec: int
    """By printk's own clock: never to be compared with another."""
    continued: bool
    """A fragment of a line (flag `c`, 3.5 to 4.9 also `+`)."""
    text: str
    """As it came: control bytes, non-ASCII and backslashes stand as `\\xNN`."""


def parse_kmsg(raw: bytes) -> KmsgRecord | None:
    """The record in what one read returned; `None`: it is none."""
    prefix, semicolon, body = raw.partition(b";")
    parts = prefix.split(b",")
    if not semicolon or len(parts) < 4:
        return None
    numbers = parts[:3]
    if not all(part.isdigit() and len(part) <= _NUMBER_DIGITS for part in numbers):
        return None
    priority, seq, usec = (int(part) for part in numbers)
    if max(priority, seq, usec) >= 1 << 63:
        return None
    # The lines that begin with a space are the dictionary (SUBSYSTEM=, DEVICE=): a newline within
    # the text itself is escaped, so the first raw one ends it.
    text = body.partition(b"\n")[0].decode("ascii", "backslashreplace")
    return KmsgRecord(
        facility=priority >> 3,
        level=priority & 7,
        seq=seq,
        usec=usec,
        continued=parts[3][:1] in (b"c", b"+"),
        text=text,
    )
