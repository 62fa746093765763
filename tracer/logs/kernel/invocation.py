# SPDX-License-Identifier: Apache-2.0
"""`COMM invoked oom-killer: ...`: the start of a report, which names the trigger."""

import re

from tracer.events import LoggedInvocation
from tracer.logs.kernel.shape import Stamp, name, number

# 3.10: gfp_mask=0xd0; 4.5 and newer: with names; 4.10 to 4.18: nodemask= behind it. oom_score_adj may be
# cut off by a log reader, and is not needed. comm is greedy: "x invoked oom-killer: " may be part of it.
_LINE = re.compile(
    r"(?P<comm>.+) invoked oom-killer: gfp_mask=(?P<mask>0x[0-9a-f]{1,16}(?:\([A-Z_0-9|]*\))?),"
    r"(?: nodemask=[^ ]+,)? order=(?P<order>-?\d{1,3})(?:, oom_score_adj=-?\d{1,5}|, oom_adj=-?\d{1,3})?",
    re.DOTALL,
)


def parse(text: str, stamp: Stamp) -> LoggedInvocation | None:
    """The trigger's line, and nothing else."""
    found = _LINE.fullmatch(text)
    if found is None:
        return None
    return LoggedInvocation(
        comm=name(found["comm"], stamp),
        gfp_mask=found["mask"],
        order=number(found["order"]),
        **stamp.fields(text),
    )
