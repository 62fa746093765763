# SPDX-License-Identifier: Apache-2.0
"""Rank 0 itself keeps what it logs of each step, and the other rank does not. Fixed: it keeps the last few."""

from tracer.repro.workloads.mechanisms import rank_asymmetry


def main(*, fixed: bool) -> None:
    """As with a process beside it."""
    rank_asymmetry.main(fixed=fixed, leak=("--leaking-rank", "0"))
