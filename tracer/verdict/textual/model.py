# SPDX-License-Identifier: Apache-2.0
"""The verdict of texts: the document of all verdicts, and where each of its facts was read."""

from typing import Literal

from tracer.verdict.model import Struct, Verdict

Part = Literal["first", "cause", "collateral", "note"]
"""first: the first failure that the job's own log has; cause: what the verdict rests on; collateral: a consequence;
note: something else that was recognised."""


class Cited(Struct, frozen=True, kw_only=True):
    """A passage that the verdict speaks of: `evidence` of a link has its `seq`."""

    seq: int
    file: str
    line: int
    column: int
    part: Part
    says: str
    """What was recognised in it, in words of ours."""
    text: str
    """The line itself, without what stood before it."""
    pid: int | None = None
    rank: int | None = None
    at: str | None = None
    """The time before it, as it was written."""


class Read(Struct, frozen=True, kw_only=True):
    """A text that was read."""

    file: str
    kind: str
    """`kernel log`, `training log`, both, or `neither`."""
    lines: int


class TextVerdict(Verdict, frozen=True, kw_only=True):
    """What `explain --json` prints: `oomtrace.verdict/1` with its source."""

    source: Literal["text"] = "text"
    first_failure: str | None = None
    """In one sentence."""
    initiating_rank: int | None = None
    initiating_local_rank: int | None = None
    cited: tuple[Cited, ...] = ()
    assumed: tuple[str, ...] = ()
    """What had to be assumed to tie texts together."""
    read: tuple[Read, ...] = ()
