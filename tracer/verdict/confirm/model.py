# SPDX-License-Identifier: Apache-2.0
"""What the document says of the checklist."""

from typing import Literal

import msgspec

SignName = Literal[
    "worker_killed_said", "kernel_record", "gpu_had_room", "launcher_reported", "staircase", "no_cuda_oom"
]
Seen = Literal["present", "absent", "not_observed"]


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """One of the signs by which people know a host OOM kill of a training job."""

    name: SignName
    what: str
    """In words."""
    status: Seen
    statement: str
    evidence: tuple[int, ...] = ()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What to do to confirm it."""

    do: str
    command: str | None = None


class Checklist(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run shows the known signs, and how to make sure: of the incident that started the failure."""

    statement: str
    """`4 of 6 known signs of such a kill are there, 1 not, 1 not seen`."""
    signs: tuple[Sign, ...]
    steps: tuple[Step, ...]
