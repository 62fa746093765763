# SPDX-License-Identifier: Apache-2.0
"""Recordings of unfixed programs and of their fixed twins, two and two: what `compare` says of each pair."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tracer.recording import read_recording
from tracer.repro import corpus
from tracer.repro.scenario import Scenario
from tracer.verdict.comparison import Comparison, compare, judged as taken

EXPECTED = {"fixed": "fixed", "again": "unchanged"}
NEVER = {"fixed": frozenset({"unchanged", "worse"}), "again": frozenset({"fixed"})}


class Pair(NamedTuple):
    """Two recordings of one program."""

    program: str
    kind: str
    """`fixed`: the second one is of the fixed twin; `again`: it is of the same program."""
    before: Path
    after: Path


class Compared(NamedTuple):
    """A pair, and what was said of it."""

    pair: Pair
    comparison: Comparison

    @property
    def right(self) -> bool:
        return self.comparison.outcome == EXPECTED[self.pair.kind]

    @property
    def wrong(self) -> bool:
        """It is not merely open."""
        return self.comparison.outcome in NEVER[self.pair.kind]


def pairs(keep: Path, scenarios: Sequence[Scenario]) -> Iterator[Pair]:
    """Each unfixed run with its fixed twin of the same number, and with the unfixed run of the next number."""
    for scenario in scenarios:
        truth = corpus.truth_of(scenario)
        if truth.mechanism is None or truth.fixed:
            continue
        program = scenario.act[1]
        runs = sorted(keep.glob(f"{program}-killed-*.oomtrace"), key=_number)
        for run, following in zip(runs, [*runs[1:], *runs[:1]], strict=True):
            twin = keep / run.name.replace("-killed-", "-fixed-")
            if twin.exists():
                yield Pair(program, "fixed", run, twin)
            if following != run:
                yield Pair(program, "again", run, following)


def judged(pair: Pair) -> Compared:
    """By today's rules."""
    one, two = (taken(read_recording(path), path.name) for path in (pair.before, pair.after))
    return Compared(pair, compare(one, two))


def line(compared: Compared) -> str:
    """One pair, for a person."""
    pair, said = compared
    return f"{said.outcome:<12} {pair.before.stem} and {pair.after.stem}: {said.statement}"


def table(found: Iterable[Compared]) -> str:
    """A row for each program: what is said of its fixed twin, what of the same program once more."""
    by_program: dict[str, list[Compared]] = {}
    for one in found:
        by_program.setdefault(one.pair.program, []).append(one)
    rows = ["| Program | With its fixed twin | Once more, not fixed | By |", "|---|---|---|---|"]
    for program, group in by_program.items():
        cells = [_outcomes(one for one in group if one.pair.kind == kind) for kind in ("fixed", "again")]
        how = Counter(f"{c.comparison.basis}, {c.comparison.aligned.unit}" for c in group if c.pair.kind == "fixed")
        rows.append(f"| {program} | {cells[0]} | {cells[1]} | {'; '.join(how)} |")
    every = [one for group in by_program.values() for one in group]
    right = sum(one.right for one in every)
    wrong = sum(one.wrong for one in every)
    return "\n".join(
        [*rows, "", f"{len(every)} pairs: {right} as expected, {wrong} wrong, the others open or reduced."]
    )


def _outcomes(group: Iterable[Compared]) -> str:
    counts = Counter(one.comparison.outcome for one in group)
    return ", ".join(f"{outcome} {count}" for outcome, count in counts.most_common()) or "-"


def _number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
