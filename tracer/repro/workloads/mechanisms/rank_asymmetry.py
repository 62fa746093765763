# SPDX-License-Identifier: Apache-2.0
"""Rank 0 has a process beside it that collects metrics, and never lets go of one. Fixed: it keeps the last few."""

import os

from tracer.repro.workloads.mechanisms.programs import launch

TRAIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "train.py")
WORDS = ("--workers", "1", "--epochs", "3", "--steps", "40", "--leak-mib", "8")


def main(*, fixed: bool, leak: tuple[str, ...] = ("--auxiliary",)) -> None:
    """The job of tests/torch, and what goes wrong in it is this."""
    launch(TRAIN, *WORDS, *leak, *(("--keeps", "4") if fixed else ()), ranks=2)
