# SPDX-License-Identifier: Apache-2.0
"""Rows of the timeline that say the same of several processes become one: `3 workers` instead of three rows."""

from collections.abc import Sequence

import msgspec

from tracer.units import NS_PER_S
from tracer.verdict.model import Entry

FOLD_NS = 2 * NS_PER_S
FOLD_REACH = 12


def folded(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Rows of one kind that say the same of several processes at about one time become one row."""
    rows: list[Entry] = []
    for entry in entries:
        alike = [e for e in rows[-FOLD_REACH:] if _same_row(e, entry)]
        if alike:
            place = rows.index(alike[-1])
            rows[place] = _joined(rows[place], entry)
        else:
            rows.append(entry)
    return rows


def _same_row(row: Entry, entry: Entry) -> bool:
    # An OOM victim's exit stays beside its kill.
    foldable = entry.kind == "signal" or (entry.kind == "exit" and entry.collateral)
    foldable = foldable and not entry.primary and not row.primary
    same = (row.kind, row.text, row.collateral, row.outside) == (
        entry.kind,
        entry.text,
        entry.collateral,
        entry.outside,
    )
    return foldable and same and entry.at_ns - row.at_ns <= FOLD_NS and _class_of(row.who) == _class_of(entry.who)


def _joined(row: Entry, entry: Entry) -> Entry:
    count = int(row.who.split(" ", 1)[0]) + 1 if row.pid is None else 2
    evidence = (*row.evidence, *entry.evidence)
    return msgspec.structs.replace(row, who=f"{count} {_class_of(entry.who)}s", pid=None, evidence=evidence)


def _class_of(who: str) -> str:
    """`worker` of `r1 worker 3` and of `3 workers`; the name itself where it has no number."""
    words = [word for word in who.split(" ") if not word.isdigit() and not (word[:1] == "r" and word[1:].isdigit())]
    return " ".join(words).removesuffix("s") or who
