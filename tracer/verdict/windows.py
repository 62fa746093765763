# SPDX-License-Identifier: Apache-2.0
"""How far apart records of one and the same kill may lie, and a kill and what comes of it."""

from tracer.units import NS_PER_S

BRACKET_NS = NS_PER_S
"""Nothing but the kill itself lies between its signal and its mark; a hypervisor may stretch it."""
LOG_WINDOW_NS = 5 * NS_PER_S
"""printk's clock drifts between calibrations; a pid is not reused for another OOM kill this fast."""
SOON_NS = 60 * NS_PER_S
"""A job that fails of a helper's OOM kill does so within this; an older one is told, and is not its cause."""
