# SPDX-License-Identifier: Apache-2.0
"""Whether two recordings are of one job. A fix may be another file or other arguments, and still is the same job."""

from collections.abc import Sequence
from itertools import pairwise

from tracer.verdict.comparison.run import Run

_SCRIPTS = (".py", ".sh", ".pyz")


def other_job(before: Run, after: Run) -> str | None:
    """What says that they are two: another program, which starts another number of ranks. `None`: nothing does."""
    one, two = before.case.story, after.case.story
    first, second = _programs(one.command or ()), _programs(two.command or ())
    if not first or not second or first & second or one.ranks == two.ranks:
        return None
    return f"{_told(first, one.ranks)}, and {_told(second, two.ranks)}"


def _programs(command: Sequence[str]) -> set[str]:
    """The scripts that are named, or modules, or else what is run."""
    modules = {word for before, word in pairwise(command) if before == "-m"}
    named = {word.rpartition("/")[2] for word in command if word.endswith(_SCRIPTS)} | modules
    return named or {word.rpartition("/")[2] for word in command[:1]}


def _told(programs: set[str], ranks: int) -> str:
    return f"{' '.join(sorted(programs))} with {ranks} rank{'' if ranks == 1 else 's'}"
