# SPDX-License-Identifier: Apache-2.0
"""`memory: usage ..., limit ..., failcnt ...`: the counters of the cgroup whose limit was hit."""

import re

from tracer.events import LoggedUsage
from tracer.logs.kernel.shape import KB, Stamp, number
from tracer.units import KIB

_LINE = re.compile(
    rf"(?P<counter>memory|memory\+swap|swap|kmem): usage (?P<usage>{KB})kB, limit (?P<limit>{KB})kB"
    r"(?:, failcnt (?P<failcnt>\d{1,18}))?"
)


def parse(text: str, stamp: Stamp) -> LoggedUsage | None:
    """One counter."""
    found = _LINE.fullmatch(text)
    if found is None:
        return None
    return LoggedUsage(
        counter=found["counter"],
        usage_bytes=int(found["usage"]) * KIB,
        limit_bytes=int(found["limit"]) * KIB,
        failcnt=number(found["failcnt"]),
        **stamp.fields(text),
    )
