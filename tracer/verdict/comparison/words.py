# SPDX-License-Identifier: Apache-2.0
"""Units in words."""

from tracer.units import NS_PER_S, format_duration
from tracer.verdict.projected import Unit

_NAMES: dict[Unit, str] = {
    "epoch": "epoch", "step": "step", "worker_start": "start of workers", "second": "second",
}  # fmt: skip
TENTHS_BELOW = 10


def per(unit: Unit) -> str:
    """`per epoch`."""
    return f"per {_NAMES[unit]}"


def amount(units: float, unit: Unit, seconds: float | None) -> str:
    """`3 epochs (4 min 10 s)`."""
    if unit == "second":
        return spell(units)
    number = f"{units:.1f}".removesuffix(".0") if units < TENTHS_BELOW else f"{units:.0f}"
    name = _NAMES[unit] if number == "1" else _NAMES[unit].replace("start of", "starts of")
    plural = name if number == "1" or name.startswith("starts") else f"{name}s"
    return f"{number} {plural}" + ("" if seconds is None else f" ({spell(seconds)})")


def spell(seconds: float) -> str:
    """A time."""
    return format_duration(round(seconds * NS_PER_S))
