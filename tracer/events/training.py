# SPDX-License-Identifier: Apache-2.0
"""What the job itself wrote, as far as a line was recognised: the rest of its output is in no recording."""

from tracer.events.base import Event

SAVES, SAVED, STEPS = "saves", "saved", "steps"
"""`TrainingLine.what` of a `checkpoint`, an `optimizer_step`, and of a `progress` that says one of these as well: a
checkpoint is saved, was saved; an optimizer steps."""


class TrainingLine(Event, frozen=True, kw_only=True, gc=False):
    """A line of the training log that matters. Anyone may write one: it corroborates and never proves.

    `ts_ns` is when it was read from the job's output, which is when it was written within milliseconds, unless
    whoever reads the output was slow.
    """

    about: str
    """What it says: one of `tracer.logs.training.KINDS`."""
    text: str
    """The line without its prefix and colours, secrets masked, cut to `tracer.logs.training.TEXT_CHARS`; of an epoch
    or step line no more than was recognised."""
    stream: str
    """`stdout`, `stderr`, `both` (they went to one place) or `error_file` (torch elastic's)."""
    pids: tuple[int, ...] = ()
    """That it names: pids as the writer's own namespace has them."""
    rank: int | None = None
    local_rank: int | None = None
    worker: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    what: str | None = None
    """Class of an exception, name of a program or signal, whatever the line is about."""
    numbers: dict[str, int | float] = {}
    """`requested_bytes`, `total_bytes`, `free_bytes`, `epoch`, `step`, ..."""
    root_cause: bool = False
    """torch elastic calls it the first failure that it observed."""
    tgid: int | None = None
    start_ns: int | None = None
    """The process whose file it was, of an error file."""
