# SPDX-License-Identifier: Apache-2.0
"""Lines of the job's own log as rows of the timeline, among what the kernel did: few, and each once."""

from collections.abc import Iterable, Sequence

from tracer.events import ProcessId, TrainingLine
from tracer.units import NS_PER_S
from tracer.verdict import people
from tracer.verdict.incident import Case, Finding
from tracer.verdict.model import Entry
from tracer.verdict.said import writer

MOST_ROWS = 12
"""Of those near the incident."""
TEXT_CHARS = 160
_SAME_NS = 60 * NS_PER_S


def rows(case: Case, primary: Finding) -> Iterable[Entry]:
    """First and last progress, and the last before the incident; of the rest those nearest to it."""
    lines = case.said.lines
    progress = [line for line in lines if line.about == "progress"]
    last = case.said.progress_before(primary.at_ns)
    shown = [*progress[:1], *([last] if last is not None else []), *progress[-1:]]
    for line in {line.seq: line for line in shown}.values():
        yield _row(case, primary, line, 1)
    told = _once([line for line in lines if line.about != "progress"])
    nearest = sorted(told, key=lambda pair: abs(pair[0].ts_ns - primary.at_ns))[:MOST_ROWS]
    for line, count in nearest:
        yield _row(case, primary, line, count)
    if len(told) > MOST_ROWS:
        at_ns = max(line.ts_ns for line, _ in told)
        text = f"{len(told) - MOST_ROWS} more lines that matter stand in the recording"
        yield Entry(at_ns=at_ns, offset_ns=at_ns - primary.at_ns, kind="note", who="log", text=text)


def _once(lines: Sequence[TrainingLine]) -> list[tuple[TrainingLine, int]]:
    """Each with how often it was said: ranks say the same, and a report repeats what a launcher has said."""
    first: dict[tuple[object, ...], list[TrainingLine]] = {}
    for line in lines:
        key = (line.about, line.text, line.pids, line.rank, line.ts_ns // _SAME_NS)
        first.setdefault(key, []).append(line)
    return [(same[0], len(same)) for same in first.values()]


def _row(case: Case, primary: Finding, line: TrainingLine, count: int) -> Entry:
    meant = [(pid, who) for pid in line.pids if (who := case.said.meant(line, pid)) is not None]
    text = line.text if len(line.text) <= TEXT_CHARS else f"{line.text[: TEXT_CHARS - 3]}..."
    # The log's own pid, where the kernel calls the process by another one.
    notes = [f"pid {pid} is {who.tgid} here" for pid, who in meant if pid != who.tgid]
    notes += [f"{count} times"] if count > 1 else []
    return Entry(
        at_ns=line.ts_ns,
        offset_ns=line.ts_ns - primary.at_ns,
        kind="log",
        who=_speaker(case, line, [who for _, who in meant]),
        text=f"{text} ({', '.join(notes)})" if notes else text,
        evidence=(line.seq,),
    )


def _speaker(case: Case, line: TrainingLine, meant: Sequence[ProcessId]) -> str:
    """Whom it is about, else who said it, as far as either is known."""
    whose = writer(line)
    if whose is not None and whose in case.story.tree.processes:
        return people.short(case.story, whose)
    if len(meant) == 1:
        return people.short(case.story, meant[0])
    rank = line.rank if line.rank is not None else line.local_rank
    return "log" if rank is None else f"rank {rank}" if line.rank is not None else f"local rank {rank}"
