# SPDX-License-Identifier: Apache-2.0
"""Times of two lines beside each other: zones and years may be unknown, and what had to be assumed is said."""

from typing import NamedTuple

from tracer.events import Passage
from tracer.units import NS_PER_S

NEAR_S = 90
"""A launcher looks after its ranks every few seconds, a DataLoader after its workers; a log may be written late."""
DRIFT_S = 600
"""So far `dmesg -T` may be off: its times are of the boot clock, which stands still while the machine sleeps."""
_HALF_HOUR_S = 1800
_FURTHEST_ZONES_S = 26 * 3600


class Gap(NamedTuple):
    """How much later the second was."""

    seconds: float
    assumed: str | None = None
    sure: bool = True
    """Nothing but the clocks themselves was taken on trust."""


def gap(one: Passage, other: Passage, *, drifts: bool = False) -> Gap | None:
    """`None`: they cannot be compared, as one of them has no time."""
    if one.wall_ns is None or other.wall_ns is None:
        return None
    first, second = one.wall_ns, other.wall_ns
    years = one.year_known and other.year_known
    if not years:
        first, second = _within_year(first), _within_year(second)
    delta = (second - first) / NS_PER_S
    if one.zone_known == other.zone_known and (one.zone_known or one.file == other.file):
        return Gap(delta, None, sure=not drifts)
    if abs(delta) <= (DRIFT_S if drifts else NEAR_S):
        return Gap(delta, "the times of both logs were taken as of one zone", sure=False)
    rounded = round(delta / _HALF_HOUR_S) * _HALF_HOUR_S
    if abs(rounded) <= _FURTHEST_ZONES_S and abs(delta - rounded) <= NEAR_S:
        hours = f"{abs(rounded) / 3600:g} h"
        return Gap(delta - rounded, f"the zones of the two logs were taken to lie {hours} apart", sure=False)
    return Gap(delta, None, sure=False)


def is_near(found: Gap, *, drifts: bool = False) -> bool:
    """Whether both may be of one moment."""
    return abs(found.seconds) <= (DRIFT_S if drifts else NEAR_S)


def is_far(found: Gap) -> bool:
    """Whether no zone and no drift brings both together."""
    return abs(found.seconds) > (3600 if found.sure else _FURTHEST_ZONES_S)


_YEAR_2000_NS = 946_684_800 * NS_PER_S
_FOUR_YEARS_NS = 1461 * 86_400 * NS_PER_S
_DAYS = (366, 365, 365, 365)


def _within_year(moment_ns: int) -> int:
    """Since the beginning of its year, with a 29th of February in each: a day off at most, where years are unknown."""
    rest = (moment_ns - _YEAR_2000_NS) % _FOUR_YEARS_NS
    for place, days in enumerate(_DAYS):
        year_ns = days * 86_400 * NS_PER_S
        if rest < year_ns:
            after_february = place > 0 and rest >= 59 * 86_400 * NS_PER_S
            return rest + (86_400 * NS_PER_S if after_february else 0)
        rest -= year_ns
    return rest
