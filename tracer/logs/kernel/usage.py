# SPDX-License-Identifier: Apache-2.0
"""`memory: usage ..., limit ..., failcnt ...` of the cgroup whose limit was hit, or the swap of the machine."""

import re

from tracer.events import LoggedSwap, LoggedUsage
from tracer.logs.kernel.shape import KB, Stamp, number
from tracer.units import KIB

_LINE = re.compile(
    rf"(?P<counter>memory|memory\+swap|swap|kmem): usage (?P<usage>{KB})kB, limit (?P<limit>{KB})kB"
    r"(?:, failcnt (?P<failcnt>\d{1,18}))?"
)
_SWAP = re.compile(rf"(?P<counter>Free|Total) swap  ?= ?(?P<size>{KB})kB")


def parse(text: str, stamp: Stamp) -> LoggedUsage | LoggedSwap | None:
    """One counter."""
    swap = _SWAP.fullmatch(text)
    if swap is not None:
        return LoggedSwap(counter=swap["counter"].lower(), size_bytes=int(swap["size"]) * KIB, **stamp.fields(text))
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
