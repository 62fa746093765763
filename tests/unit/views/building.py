# SPDX-License-Identifier: Apache-2.0
"""Short ways to write a report by hand."""

from tracer.units import MIB, NS_PER_S
from tracer.verdict.model import (
    Entry,
    Incident,
    Link,
    Report,
    Series,
    Verdict,
)

AT = "2026-11-30T14:02:31.118204Z"
AT_NS = 5_000 * NS_PER_S


def entry(offset_ns: int, kind, who: str, text: str, **more) -> Entry:
    return Entry(at_ns=AT_NS + offset_ns, offset_ns=offset_ns, kind=kind, who=who, text=text, **more)


def links(*statements: str) -> tuple[Link, ...]:
    """The links of a proof from their statements, each after `+` present, `-` absent or `?` not observed."""
    names = ("the kernel killed it", "memory ran out", "it is yours", "it died of that", "not CUDA")
    status = {"+": "present", "-": "absent", "?": "not_observed"}
    return tuple(
        Link(link=number, name=name, status=status[text[0]], statement=text[2:], evidence=(300 + number,))
        for number, (name, text) in enumerate(zip(names, statements, strict=False), 1)
    )


def series(*values_mib: int | None) -> Series:
    values = tuple(None if value is None else value * MIB for value in values_mib)
    return Series(values_bytes=values, first_ns=AT_NS - 12 * NS_PER_S, last_ns=AT_NS)


def report(
    *incidents: Incident, timeline=(), job=None, caveats=(), recording="oomtrace-20261130-140219-41200.oomtrace"
):
    verdict = Verdict(primary=0, incidents=incidents, job=job, caveats=caveats)
    return Report(verdict=verdict, timeline=tuple(timeline), recording=recording)
