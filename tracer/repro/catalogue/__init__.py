# SPDX-License-Identifier: Apache-2.0
"""All scenarios, a family a file; each is declared once, and its declaration is its test."""

from tracer.repro.catalogue import growth, identity, limits, machine, mechanisms, signals, storms
from tracer.repro.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *limits.SCENARIOS,
    *growth.SCENARIOS,
    *identity.SCENARIOS,
    *signals.SCENARIOS,
    *storms.SCENARIOS,
    *machine.SCENARIOS,
    *mechanisms.SCENARIOS,
)


def by_name() -> dict[str, Scenario]:
    """All of them."""
    return {scenario.name: scenario for scenario in SCENARIOS}
