# SPDX-License-Identifier: Apache-2.0
"""Which of the recognised lines are recorded: of steps and repetitions a few, and what was left out is counted.

- Progress of one writer: the first line; the first 100 new epochs at once, later ones at most once a second, or a
  thousandth of the time so far, with the last line of the epoch before it, so that its length is known; any other one
  at most once a second, or in a hundredth of the time so far. The newest that was left out is recorded just before
  the next line of another kind, and at the end: so the last step before a failure is known.
- All other kinds: the first 100 of each, then one in 10 s.
"""

from collections.abc import Iterable, Iterator

from tracer.events import TrainingLine
from tracer.units import NS_PER_S

FIRST_LINES = 100
PAUSE_NS = NS_PER_S
REPEATED_PAUSE_NS = 10 * NS_PER_S
EPOCH_PAUSE_NS = NS_PER_S
FIRST_EPOCHS = 100
MAX_WRITERS = 128

_Writer = tuple[str, int | None, int | None]


class Thinning:
    """State of one run. `left_out` counts all that was recognised and not recorded."""

    def __init__(self) -> None:
        self.left_out = 0
        self._began_ns: int | None = None
        self._progress: dict[_Writer, tuple[int, int]] = {}
        self._withheld: dict[_Writer, TrainingLine] = {}
        self._epochs: dict[_Writer, int] = {}
        self._counts: dict[str, tuple[int, int]] = {}

    def take(self, lines: Iterable[TrainingLine]) -> Iterator[TrainingLine]:
        """Those that are to be recorded."""
        for line in lines:
            if self._began_ns is None:
                self._began_ns = line.ts_ns
            if line.about == "progress":
                yield from self._of_progress(line)
            elif self._wanted(line):
                yield from self.rest()
                yield line
            else:
                self.left_out += 1

    def rest(self) -> Iterator[TrainingLine]:
        """The newest progress that was left out, of each writer."""
        for writer, line in self._withheld.items():
            self._progress[writer] = (line.ts_ns, _epoch(line))
            self.left_out -= 1
            yield line
        self._withheld.clear()

    def _of_progress(self, line: TrainingLine) -> Iterator[TrainingLine]:
        writer = (line.stream, line.rank, line.local_rank)
        last = self._progress.get(writer)
        if last is None and len(self._progress) >= MAX_WRITERS:
            self.left_out += 1
            return
        since_ns = line.ts_ns - (self._began_ns or 0)
        pause_ns = max(PAUSE_NS, since_ns // 100)
        if last is not None and last[1] != _epoch(line):
            began = self._epochs.get(writer, 0)
            pause_ns = 0 if began < FIRST_EPOCHS else max(EPOCH_PAUSE_NS, since_ns // 1000)
            self._epochs[writer] = began + 1
        if last is None or line.ts_ns - last[0] >= pause_ns:
            withheld = self._withheld.pop(writer, None)
            if withheld is not None and last is not None and _epoch(line) != _epoch(withheld) == last[1]:
                self.left_out -= 1
                yield withheld
            self._progress[writer] = (line.ts_ns, _epoch(line))
            yield line
        else:
            self._withheld[writer] = line
            self.left_out += 1

    def _wanted(self, line: TrainingLine) -> bool:
        count, last_ns = self._counts.get(line.about, (0, 0))
        if count >= FIRST_LINES and line.ts_ns - last_ns < REPEATED_PAUSE_NS:
            return False
        self._counts[line.about] = (count + 1, line.ts_ns)
        return True


def _epoch(line: TrainingLine) -> int:
    return int(line.numbers.get("epoch", -1))
