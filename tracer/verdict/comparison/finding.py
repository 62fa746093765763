# SPDX-License-Identifier: Apache-2.0
"""What was found, before it is put into words."""

import msgspec

from tracer.verdict.comparison.model import Basis, Need, Outcome
from tracer.verdict.projected import Interval


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """As in the document."""

    outcome: Outcome
    basis: Basis
    ratio: Interval | None = None
    left_bytes: int | None = None
    left_share: float | None = None
    reasons: tuple[str, ...] = ()
    need: Need | None = None


def cannot_tell(
    *reasons: str, basis: Basis = "none", need: Need | None = None, ratio: Interval | None = None
) -> Finding:
    """Neither the one nor the other."""
    return Finding(outcome="cannot_tell", basis=basis, reasons=reasons, need=need, ratio=ratio)
