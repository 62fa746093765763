# SPDX-License-Identifier: Apache-2.0
"""The table of all processes, as one look at /proc shows it: who stands below whom. Looks at nothing itself."""

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from typing import NamedTuple

from tracer.events import ProcessId, process_id
from tracer.pipeline.ports import Row

MAX_ANCESTORS = 4096
Table = Mapping[int, Row]
"""By pid."""


class Sight(NamedTuple):
    """A process and its parent, as one look showed them."""

    row: Row
    parent: Row | None

    @property
    def id(self) -> ProcessId:
        return id_of(self.row)


def id_of(row: Row) -> ProcessId:
    """Which process it is."""
    return process_id(row.tgid, row.start_ns)


def all_below(is_ours: Callable[[ProcessId], bool], table: Table) -> list[Sight]:
    """All that live and stand below ours, parents first; ours are not among them."""
    children: dict[int, list[Row]] = {}
    for row in table.values():
        if not row.ended:
            children.setdefault(row.parent_tgid, []).append(row)
    found: list[Sight] = []
    # The children of a pid are ours only as long as the pid is.
    ahead = [row for row in table.values() if is_ours(id_of(row))]
    met = {id_of(row) for row in ahead}
    while ahead:
        parent = ahead.pop()
        for row in children.get(parent.tgid, ()):
            if id_of(row) not in met and parent.start_ns <= row.start_ns:
                met.add(id_of(row))
                found.append(Sight(row, parent))
                ahead.append(row)
    return found


def stands_below(tgid: int, tops: AbstractSet[ProcessId], table: Table) -> bool:
    """Whether a process stands below one of these; itself may be one of them."""
    row = table.get(tgid)
    for _ in range(MAX_ANCESTORS):
        row = table.get(row.parent_tgid) if row is not None else None
        if row is None:
            return False
        if id_of(row) in tops:
            return True
    return False


def tops_of(new: Sequence[Row], ours: AbstractSet[ProcessId], table: Table) -> list[Row]:
    """Of processes that are new those that stand below no other of them and below none of ours, oldest first."""
    above = ours | {id_of(row) for row in new}
    tops = [row for row in new if not stands_below(row.tgid, above, table)]
    return sorted(tops, key=lambda row: (row.start_ns, row.tgid))
