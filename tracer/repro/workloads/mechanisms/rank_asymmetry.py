# SPDX-License-Identifier: Apache-2.0
"""Rank 0 has a process beside it that collects metrics, and never lets go of one. Fixed: it keeps the last few."""

import os

from tracer.repro.workloads.mechanisms.programs import launch

TRAIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "train.py")
WORDS = ("--workers", "1", "--steps", "40", "--leak-mib", "8")
EPOCHS, FIXED_EPOCHS = "3", "6"
"""The twin goes on for longer, so that it is seen to be level."""


def main(*, fixed: bool, leak: tuple[str, ...] = ("--auxiliary",)) -> None:
    """The job of tests/torch, and what goes wrong in it is this."""
    epochs = ("--epochs", FIXED_EPOCHS if fixed else EPOCHS)
    launch(TRAIN, *WORDS, *epochs, *leak, *(("--keeps", "4") if fixed else ()), ranks=2)
