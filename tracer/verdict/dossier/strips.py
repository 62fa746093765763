# SPDX-License-Identifier: Apache-2.0
"""How hard memory was to get over time: tasks stalled in reclaim, and pressure."""

import itertools
from collections.abc import Iterable, Sequence

from tracer.events import CgroupSample, PressureSample, ReclaimSample
from tracer.units import NS_PER_S, NS_PER_US
from tracer.verdict.dossier.model import Strip
from tracer.verdict.story import Story

STEPS = 120
LOOK_NS = NS_PER_S
"""A counter that had not moved at the last look, so long before this one, is not written: it moved since then."""

Readings = Sequence[tuple[int, int]]
"""(ts_ns, total), in time order."""


def strips(story: Story, cgroup_ids: frozenset[int], from_ns: int, to_ns: int) -> tuple[Strip, ...]:
    """Those that were read and ever moved in this time.

    Args:
        cgroup_ids: whose memory it is about; empty: the machine's.
    """
    stalls = story.by(ReclaimSample, lambda s: s.cgroup_id, "cgroup")
    runs = [[(s.ts_ns, s.memcg_stall_ns + s.direct_stall_ns) for s in samples] for samples in stalls.values()]
    own = story.by(CgroupSample, lambda s: s.cgroup_id, "id")
    waits = [
        [(s.ts_ns, s.psi_full_total_us * NS_PER_US) for s in own.get(cgroup_id, ()) if s.psi_full_total_us is not None]
        for cgroup_id in sorted(cgroup_ids)
    ]
    where = "all tasks of the cgroup waited for memory"
    if not any(waits):
        waits = [
            [
                (s.ts_ns, s.psi_some_total_us * NS_PER_US)
                for s in story.of(PressureSample)
                if s.psi_some_total_us is not None
            ]
        ]
        where = "some task of the machine waited for memory"
    found = (
        Strip(kind="reclaim", what="tasks stalled in reclaim", values=_spread(runs, from_ns, to_ns)),
        Strip(
            kind="pressure",
            what=f"share of the time in which {where}",
            values=_spread(waits, from_ns, to_ns, whole=True),
        ),
    )
    return tuple(one for one in found if any(value >= 0.001 for value in one.values))


def _spread(counters: Iterable[Readings], from_ns: int, to_ns: int, *, whole: bool = False) -> tuple[float, ...]:
    """What all counters together rose by in each step, as a share of the step.

    Args:
        whole: it rises by the time that passes at most, so what rose by more began earlier.
    """
    steps = [0.0] * STEPS
    width = max(1, (to_ns - from_ns) / STEPS)
    for readings in counters:
        for (before_ns, before), (now_ns, now) in itertools.pairwise(readings):
            start = max(before_ns, min(now_ns - LOOK_NS, now_ns - (now - before) if whole else now_ns))
            if now <= before or now_ns <= start or now_ns <= from_ns or start >= to_ns:
                continue
            rate = (now - before) / (now_ns - start)
            first, last = (start - from_ns) / width, (now_ns - from_ns) / width
            for step in range(max(0, int(first)), min(STEPS, int(last) + 1)):
                steps[step] += rate * max(0.0, min(last, step + 1) - max(first, step))
    return tuple(round(min(1.0, value) if whole else value, 4) for value in steps)
