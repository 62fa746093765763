# SPDX-License-Identifier: Apache-2.0
"""Epochs and steps of a job over time: by its own output, else by DataLoader workers that are started anew.

Of one writer alone: that several ranks tell of the same epoch makes it no more than one.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from tracer.events import ProcessId, TrainingLine
from tracer.verdict.story import Story

KnownBy = Literal["log", "workers"]
LAGGING = 2
"""So many lines may tell of less than was told already: ranks that write to one place do not write in order. If more
do, the training began again, and what came before it is left out."""
MOST = 1e15
"""No training has so many steps, and a float counts no further one by one."""
_AS_ONE = 1e-9


class Mark(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A place in the training that was reached. It is known to be reached then, not to begin just then."""

    at_ns: int
    number: float
    """In epochs, or steps, or starts of DataLoader workers."""
    known_by: KnownBy
    text: str
    """`epoch 3`, `epoch 3 step 250`, `DataLoader workers, start 2`."""
    evidence: int
    """`seq` of the event."""


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """All of one job, each kind in order of time and of number."""

    epochs: tuple[Mark, ...] = ()
    """The first that was told of each; by workers each start of them: one a pass over the data, validation too."""
    steps: tuple[Mark, ...] = ()
    """Counted through all epochs."""
    epochs_meant: int | None = None
    """How many there are to be, as the job itself says."""
    last_ns: int | None = None
    """When the last line of progress was written."""
    began_again: bool = False
    """What came before that is left out."""

    @property
    def known_by(self) -> KnownBy | None:
        """Both kinds are known in one way; `None`: there are none."""
        found = (*self.epochs, *self.steps)
        return found[0].known_by if found else None

    @property
    def begin_ns(self) -> int | None:
        """Since when training is known to go on; `None`: it is not known to have begun."""
        return min((mark.at_ns for mark in (*self.epochs[:1], *self.steps[:1])), default=None)


class _Told(msgspec.Struct, frozen=True, gc=False):
    """One line."""

    at_ns: int
    epoch: float | None
    step: int | None
    steps: int | None
    line: TrainingLine


def marks_of(story: Story) -> Marks:
    """What is known of a recording."""
    told = _of_one_writer(story)
    told, again = _last_beginning(told)
    epochs, steps = tuple(_epochs(told)), tuple(_steps(told))
    meant = [number for one in told if (number := _number(one.line, "epochs")) is not None]
    if not epochs and not steps:
        return Marks(epochs=tuple(_starts_of_workers(story)))
    if len(epochs) < 2 and not steps:
        # A single line says less than workers that come and go.
        starts = tuple(_starts_of_workers(story))
        epochs = starts if len(starts) > 1 else epochs
    return Marks(
        epochs=epochs,
        steps=steps,
        epochs_meant=int(meant[-1]) if meant else None,
        last_ns=told[-1].at_ns,
        began_again=again,
    )


def _of_one_writer(story: Story) -> list[_Told]:
    """Rank 0's lines, or those of no rank, or the lowest's; of its streams the one that tells of most epochs."""
    writers: dict[tuple[int, str], list[_Told]] = {}
    for line in story.of(TrainingLine):
        if line.about == "progress" and (one := _told(line)) is not None:
            writers.setdefault((-1 if line.rank is None else line.rank, line.stream), []).append(one)
    ranks = {rank for rank, _ in writers}
    if not ranks:
        return []
    rank = 0 if 0 in ranks else min(ranks)
    of_it = [(stream, lines) for (one, stream), lines in writers.items() if one == rank]
    return max(of_it, key=lambda s: (len({t.epoch for t in s[1] if t.epoch is not None}), len(s[1]), s[0]))[1]


def _told(line: TrainingLine) -> _Told | None:
    epoch, step, steps = (_number(line, name) for name in ("epoch", "step", "steps"))
    if epoch is None and step is None:
        return None
    whole = None if step is None else int(step)
    return _Told(line.ts_ns, None if epoch is None else float(epoch), whole, None if not steps else int(steps), line)


def _number(line: TrainingLine, name: str) -> float | None:
    """`None`: it says none, or one that counts nothing."""
    number = line.numbers.get(name)
    return number if number is not None and math.isfinite(number) and 0 <= number <= MOST else None


def _last_beginning(told: Sequence[_Told]) -> tuple[list[_Told], bool]:
    """What came since training began for the last time, and whether it had begun before."""
    began, top, again = 0, -1.0, False
    lower: list[int] = []
    for place, one in enumerate(told):
        if one.epoch is None:
            continue
        if one.epoch >= top - _AS_ONE:
            top = one.epoch
            lower.clear()
            continue
        lower.append(place)
        if len(lower) > LAGGING:
            began, again = lower[0], True
            top = max(told[p].epoch or 0.0 for p in lower)
            lower.clear()
    return list(told[began:]), again


def _epochs(told: Sequence[_Told]) -> Iterator[Mark]:
    top: float | None = None
    for one in told:
        if one.epoch is not None and (top is None or one.epoch > top + _AS_ONE):
            top = one.epoch
            text = f"epoch {top:g}"
            yield Mark(at_ns=one.at_ns, number=top, known_by="log", text=text, evidence=one.line.seq)


def _steps(told: Sequence[_Told]) -> Iterator[Mark]:
    """Steps that are counted anew in each epoch go on from where the last one ended, as far as that is known."""
    lines = [one for one in told if one.step is not None]
    if any(one.epoch is not None for one in lines):
        lines = [one for one in lines if one.epoch is not None]  # the others count something else
    lengths = Counter(one.steps for one in lines if one.steps is not None)
    if lengths:
        [(usual, _)] = lengths.most_common(1)
        lines = [one for one in lines if one.steps in {usual, None}]  # a bar of validation has another length
    anew = any(two.epoch != one.epoch and _step(two) <= _step(one) for one, two in pairwise(lines))
    base, last = 0.0, -1.0
    first: _Told | None = None
    previous: _Told | None = None
    for one in lines:
        if previous is not None and first is not None and _is_new_pass(previous, one, anew=anew):
            if previous.steps is None and _step(previous) == _step(first):
                return  # of that epoch one line was recorded: how long it was is not known
            base += previous.steps or _step(previous) + 1
            first = one
        number = base + _step(one)
        if number <= last:
            continue
        first = first or one
        last, previous = number, one
        epoch = "" if one.epoch is None else f"epoch {one.epoch:g} "
        text = f"{epoch}step {one.step}"
        yield Mark(at_ns=one.at_ns, number=number, known_by="log", text=text, evidence=one.line.seq)


def _step(one: _Told) -> int:
    return one.step or 0


def _is_new_pass(previous: _Told, one: _Told, *, anew: bool) -> bool:
    """Whether steps are counted from nothing again since the line before."""
    if one.epoch is not None and previous.epoch is not None:
        return anew and int(one.epoch) > int(previous.epoch)
    return one.steps is not None and _step(one) < _step(previous) // 2


def _starts_of_workers(story: Story) -> Iterator[Mark]:
    """Each time that workers of one loading process begin after all before them have ended."""
    loaders: dict[ProcessId | None, list[tuple[int, int | None]]] = {}
    ranks: dict[ProcessId | None, int] = {}
    for member in story.tree.members.values():
        role = story.roles.get(member.id)
        if role is None or role.name != "dataloader_worker" or member.began_ns is None:
            continue
        loaders.setdefault(member.parent, []).append((member.began_ns, member.end_ns))
        ranks[member.parent] = -1 if role.rank is None else role.rank
    if not loaders:
        return
    rank = 0 if 0 in ranks.values() else min(ranks.values())
    starts = max((list(_generations(spans)) for loader, spans in loaders.items() if ranks[loader] == rank), key=len)
    for number, at_ns in enumerate(starts):
        seq = story.events[bisect_left(story.events, at_ns, key=lambda event: event.ts_ns)].seq
        text = f"DataLoader workers, start {number + 1}"
        yield Mark(at_ns=at_ns, number=float(number), known_by="workers", text=text, evidence=seq)


def _generations(spans: Sequence[tuple[int, int | None]]) -> Iterator[int]:
    until_ns: int | None = 0
    for began_ns, ended_ns in sorted(spans, key=lambda span: span[0]):
        if until_ns is None:
            return  # one of them still runs, or nobody saw it end
        if began_ns >= until_ns:
            yield began_ns
            until_ns = ended_ns
        else:
            until_ns = None if ended_ns is None else max(until_ns, ended_ns)


def reached(marks: Sequence[Mark], number: float) -> Mark | None:
    """The first mark at or beyond a number."""
    return next((mark for mark in marks if mark.number >= number - _AS_ONE), None)


def place_at(marks: Sequence[Mark], at_ns: int) -> float | None:
    """How far training was at a moment: in a straight line between two marks, and on at the last pace beyond them."""
    if len(marks) < 2:
        return None
    before, after = marks[0], marks[1]
    for one, two in pairwise(marks):
        before, after = one, two
        if at_ns <= two.at_ns:
            break
    span_ns = after.at_ns - before.at_ns
    if span_ns <= 0:
        return after.number
    return before.number + (after.number - before.number) * (at_ns - before.at_ns) / span_ns
