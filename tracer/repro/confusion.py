# SPDX-License-Identifier: Apache-2.0
"""What was named as the mechanism, against what it was: over many runs of the programs that show one. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tracer.repro.scenario import Outcome, Truth

NOTHING = "none"
"""Where no mechanism is named."""
CONTROL = "(page cache)"


class Run(NamedTuple):
    """One run of a program, and what was said of it."""

    truth: Truth
    outcome: Outcome
    """Whether cause, victims and all else that is declared are right."""
    named: str | None
    also: tuple[str, ...] = ()
    """What cannot be told from that."""
    strength: str | None = None
    lived: bool = False
    """The job ended well, and nothing was killed."""

    @property
    def right(self) -> bool:
        """Of a twin what it is asked for is its life; other kills on the machine may make that no proof."""
        return self.outcome == "not_applicable" or (self.lived if self.truth.fixed else self.outcome == "pass")

    @property
    def row(self) -> str:
        return self.truth.mechanism or CONTROL

    @property
    def exact(self) -> bool:
        """The true mechanism is named first."""
        return self.named == self.truth.mechanism

    @property
    def in_class(self) -> bool:
        """What is named leaves the traces that there are."""
        return self.exact or (self.named is not None and self.named in self.truth.among)

    @property
    def misled(self) -> bool:
        """Something wrong is named without doubt."""
        return self.named is not None and not self.in_class and self.strength not in {None, "possible"}


def run_of(truth: Truth, outcome: Outcome, found: Mapping[str, object]) -> Run:
    """From what `repro --json` prints."""
    named, also, strength = (found.get(f"mechanism{part}") for part in ("", "_or", "_strength"))
    return Run(
        truth,
        outcome,
        named if isinstance(named, str) else None,
        tuple(map(str, also)) if isinstance(also, list) else (),
        strength if isinstance(strength, str) else None,
        lived=found.get("status") == "exit 0" and not found.get("killed"),
    )


def table(runs: Iterable[Run], rows: Sequence[str]) -> str:
    """In Markdown: true mechanisms down, named ones across; rows in that order."""
    played = [each for each in runs if each.outcome != "not_applicable"]
    killed = [each for each in played if not each.truth.fixed]
    names = sorted({each.named for each in killed if each.named is not None})
    heads = ("what it was", *(f"`{name}`" for name in (*names, NOTHING)), "named", "in its class", "cause", "fixed")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        mine = [each for each in killed if each.row == row]
        twins = [each for each in played if each.truth.fixed and each.row == row]
        counts = Counter(each.named for each in mine)
        cells = [str(counts[name] or "") for name in (*names, None)]
        cells += [_share(each.exact for each in mine), _share(each.in_class for each in mine)]
        cells += [_share(each.right for each in mine), _share(each.right for each in twins)]
        lines.append(f"| `{row}` | {' | '.join(cells)} |")
    return "\n".join([*lines, "", totals(played)]) + "\n"


def totals(runs: Sequence[Run]) -> str:
    """The same in a sentence."""
    killed = [each for each in runs if not each.truth.fixed]
    shown = [each for each in killed if each.truth.mechanism is not None]
    twins = [each for each in runs if each.truth.fixed]
    return (
        f"{len(killed)} runs and {len(twins)} of fixed twins: the mechanism was named in "
        f"{sum(each.exact for each in shown)} of {len(shown)}, its class in {sum(each.in_class for each in shown)}, "
        f"a wrong one as `likely` in {sum(each.misled for each in killed)}; cause and victim were right in "
        f"{sum(each.right for each in killed)} of {len(killed)}; "
        f"{sum(each.right for each in twins)} of {len(twins)} twins ran to their end."
    )


def _share(whether: Iterable[bool]) -> str:
    found = list(whether)
    return f"{sum(found)}/{len(found)}" if found else ""
