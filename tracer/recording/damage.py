# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a recording, and where."""

from dataclasses import dataclass, field
from typing import Literal

Wrong = Literal["damaged", "missing", "repeated", "torn"]
"""damaged: lines that are not what was written; missing: no damage, but numbers lack; repeated: lines with numbers that
had come already; torn: the end of the file is no end of a line."""

MOST_PLACES = 200
"""So many are told one by one; of more only how many there are."""


@dataclass(frozen=True)
class Place:
    """One place of a recording where something is wrong, between two events that could be read."""

    wrong: Wrong
    offset_bytes: int
    """Of its first line in the file; where only numbers are missing, of the line behind them."""
    line: int
    """Counted from 1."""
    lines: int = 0
    """That could not be read, or were left out; 0: there is no trace of what is missing."""
    size_bytes: int = 0
    first_seq: int | None = None
    """Numbers of the events that are missing; `None`: it is not known, as behind the last one that could be read."""
    last_seq: int | None = None
    after_ns: int | None = None
    """Times of the events before it and behind it."""
    before_ns: int | None = None

    @property
    def missing(self) -> int:
        """Events that are missing there, as far as that is known."""
        return 0 if self.first_seq is None or self.last_seq is None else self.last_seq - self.first_seq + 1


@dataclass(frozen=True)
class Damage:
    """What is wrong with a recording; all of it belongs among the caveats."""

    torn: str | None = None
    """The file does not end as a recording does; at most its last event is lost."""
    damaged_lines: int = 0
    """Lines that are not what was written: holes, flipped bits, foreign text, too long."""
    gaps: int = 0
    """Places where numbers are missing."""
    missing: int = 0
    """Events that are missing there."""
    duplicates: int = 0
    """Lines with a number that had come already; left out."""
    unknown: int = 0
    """Whole lines of a kind or shape that this version does not know: a newer one wrote them."""
    places: tuple[Place, ...] = field(default=(), compare=False)
    """Where, in the order of the file; `MOST_PLACES` at most."""
    places_left_out: int = field(default=0, compare=False)

    @property
    def whole(self) -> bool:
        """Whether all that was written is there. What a newer version wrote is, understood or not."""
        return self.torn is None and not (self.damaged_lines or self.missing or self.duplicates)

    def statements(self) -> tuple[str, ...]:
        """One sentence for each thing that is wrong."""
        said = [] if self.torn is None else [f"The recording has a torn end: {self.torn}."]
        if self.damaged_lines:
            where = self._first("damaged")
            said.append(f"{self.damaged_lines} damaged line(s) of the recording could not be read{where}.")
        if self.missing:
            said.append(f"{self.missing} event(s) are missing in the recording, in {self.gaps} place(s).")
        if self.duplicates:
            said.append(f"{self.duplicates} line(s) of the recording repeat an earlier number and were left out.")
        if self.unknown:
            said.append(f"{self.unknown} event(s) of the recording are of a newer version and were not understood.")
        return tuple(said)

    def _first(self, wrong: Wrong) -> str:
        place = next((one for one in self.places if one.wrong == wrong), None)
        if place is None:
            return ""
        first = "the first is " if self.damaged_lines > 1 else ""
        return f" ({first}line {place.line}, at byte {place.offset_bytes}; `oomtrace verify` tells all places)"
