# SPDX-License-Identifier: Apache-2.0
"""A verdict of texts on a page, in a paragraph, or line by line for an editor.

`oomtrace explain` is to answer at once, so nothing is imported here that takes its time: no rich.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from tracer.units import format_bytes
from tracer.verdict.model import Incident, Link, Process
from tracer.verdict.textual.model import Cited, Part, TextVerdict

DEFAULT_WIDTH = 80
LEAST_WIDTH, MOST_WIDTH = 40, 120
_LABEL = 11
_MOST_CITED = 8
_MOST_OTHERS = 6
_MARKS = {"present": "✓", "absent": "✗", "not_observed": "?"}
_MARKS_ASCII = {"present": "ok", "absent": "no", "not_observed": "?"}
_SEVERITIES: dict[Part, str] = {"first": "error", "cause": "error", "collateral": "warning", "note": "info"}
_LONG_ID = re.compile(r"([0-9a-f]{12})[0-9a-f]{20,}")
_LONGEST_WORD = 44
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def render(verdict: TextVerdict, *, width: int | None = None, color: bool = False, ascii_only: bool = False) -> str:
    """The page: cause, who, first failure, proof, what to do, consequences, caveats."""
    page = _Page(min(max(width or DEFAULT_WIDTH, LEAST_WIDTH), MOST_WIDTH), color=color, ascii_only=ascii_only)
    incident = verdict.incidents[verdict.primary]
    page.title(incident.headline, incident.strength)
    page.text(page.tame(incident.summary))
    page.blank()
    _facts(page, verdict, incident)
    _proof(page, incident.proof)
    page.section("What to do", (remedy.do for remedy in incident.remedies), [r.verify for r in incident.remedies])
    fallen = [one for one in verdict.cited if one.part == "collateral"]
    page.section("Consequences, not causes", _passages(fallen))
    others = [one for number, one in enumerate(verdict.incidents) if number != verdict.primary]
    told = [page.tame(f"{one.summary or one.headline} ({one.strength})") for one in others[:_MOST_OTHERS]]
    left = len(others) - len(told)
    page.section("Also seen", [*told, *([f"and {left} more (--json has them)"] if left else [])])
    page.section("Caveats", dict.fromkeys((*incident.caveats, *verdict.caveats)))
    page.blank()
    for read in verdict.read:
        page.fact("read", f"{read.file}: {read.kind}, {read.lines} line{'' if read.lines == 1 else 's'}")
    return page.written()


def render_brief(verdict: TextVerdict, *, ascii_only: bool = False) -> str:
    """Cause, who and the first thing to do, each in a line."""
    incident = verdict.incidents[verdict.primary]
    lines = [f"{incident.headline} ({incident.cause}, {incident.strength})", incident.summary]
    who = _who(verdict, incident)
    if who:
        lines.append(f"who: {who}")
    if incident.remedies:
        lines.append(f"do: {incident.remedies[0].do}")
        lines.append(f"check: {incident.remedies[0].verify}" if incident.remedies[0].verify else "")
    return "".join(f"{visible(line, ascii_only=ascii_only)}\n" for line in lines if line)


def render_editor(verdict: TextVerdict) -> str:
    """`file:line:col: severity: message`, a line each; the verdict itself at the line that it rests on."""
    incident = verdict.incidents[verdict.primary]
    places = list(verdict.cited)
    chief = next((one for part in ("first", "cause") for one in places if one.part == part), None)
    rows = []
    for one in places:
        if one is chief:
            rows.append(_row(one, "error", f"{incident.headline} [{incident.cause}, {incident.strength}]"))
            first = next(iter(incident.remedies), None)
            if first is not None:
                rows.append(_row(one, "info", f"{first.do}{f' Check: {first.verify}' if first.verify else ''}"))
        else:
            rows.append(_row(one, _SEVERITIES[one.part], _PART_WORDS[one.part] + one.says))
    if chief is None:
        name = verdict.read[0].file if verdict.read else "-"
        rows.append(f"{visible(name)}:1:1: info: {visible(incident.headline)} [{incident.cause}]")
    return "".join(f"{row}\n" for row in rows)


_PART_WORDS: dict[Part, str] = {"first": "first failure: ", "cause": "", "collateral": "consequence: ", "note": ""}


def visible(text: str, *, ascii_only: bool = False) -> str:
    """Text that cannot move the cursor, hide, reorder or begin a line: logs are written by anyone."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character, ascii_only=ascii_only) for character in text)


def _shown(character: str, *, ascii_only: bool) -> str:
    if " " <= character <= "~":
        return character
    plain = (
        not ascii_only
        and unicodedata.category(character)[0] not in "CMZ"
        and unicodedata.bidirectional(character) not in {"R", "AL", "AN"}
        and character not in "✓✗▸"
    )
    if plain:
        return character
    code = ord(character)
    if code <= 0xFF:
        return _SHORT_ESCAPES.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _row(one: Cited, severity: str, message: str) -> str:
    return f"{visible(one.file)}:{max(one.line, 1)}:{max(one.column, 1)}: {severity}: {visible(message)}"


def _facts(page: "_Page", verdict: TextVerdict, incident: Incident) -> None:
    who = _who(verdict, incident)
    if who:
        page.fact("who", who)
    if len(incident.victims) > 1:
        more = ", ".join(f"{one.comm or '?'} {one.pid}" for one in incident.victims[1:7])
        left = len(incident.victims) - 7
        page.fact("with it", f"{more}{f' and {left} more' if left > 0 else ''}")
    place = incident.victim.cgroup if incident.victim is not None else None
    if place is not None:
        page.fact("ran in", page.tame(place))
    if incident.sender is not None and incident.sender.comm is not None:
        page.fact("by", incident.sender.comm)
    limit = incident.limit
    if limit is not None and limit.limit_bytes is not None:
        of = f" in {limit.cgroup}" if limit.cgroup else ""
        page.fact("limit", page.tame(f"{format_bytes(limit.usage_bytes)} of {format_bytes(limit.limit_bytes)}{of}"))
    if incident.trigger is not None and (incident.victim is None or incident.trigger.pid != incident.victim.pid):
        page.fact("trigger", f"{incident.trigger.comm}, pid {incident.trigger.pid}: it asked for memory")
    page.fact("first", verdict.first_failure or "no failure of the job's own is told of")
    rank, local = verdict.initiating_rank, verdict.initiating_local_rank
    if rank is not None or local is not None:
        page.fact("began with", f"rank {rank}" if rank is not None else f"local rank {local}")


def _who(verdict: TextVerdict, incident: Incident) -> str:
    victim = incident.victim
    if victim is None:
        return ""
    inner = victim.ns_pids[-1] if victim.ns_pids else None
    pid = f"pid {victim.pid}" + (f" ({inner} in the job's log)" if inner is not None and inner != victim.pid else "")
    parts = [part for part in (_role(victim), pid, victim.comm) if part]
    sizes = ((victim.rss_anon_bytes, "anonymous"), (victim.rss_file_bytes, "file"), (victim.rss_shmem_bytes, "shared"))
    memory = ", ".join(f"{format_bytes(size)} {name}" for size, name in sizes if size)
    del verdict
    return ", ".join(parts) + (f": {memory}" if memory else "")


def _role(victim: Process) -> str:
    rank = f"rank {victim.rank}" if victim.rank is not None else ""
    if not rank and victim.local_rank is not None:
        rank = f"local rank {victim.local_rank}"
    if victim.role == "dataloader_worker":
        return f"DataLoader worker{f' of {rank}' if rank else ''}"
    return rank


def _proof(page: "_Page", links: Sequence[Link]) -> None:
    if not links:
        return
    page.heading("What the texts show")
    marks = _MARKS_ASCII if page.ascii_only else _MARKS
    room = max(len(mark) for mark in marks.values())
    names = max(len(link.name) for link in links)
    for link in links:
        lead = f"{marks[link.status]:<{room}} {link.name:<{names}}"
        page.hang(lead, page.tame(link.statement), room + names + 3)


def _passages(found: Sequence[Cited]) -> list[str]:
    told = [f"{one.file}:{one.line}: {one.says}{f' (pid {one.pid})' if one.pid else ''}" for one in found[:_MOST_CITED]]
    if len(found) > _MOST_CITED:
        told.append(f"and {len(found) - _MOST_CITED} more lines")
    return told


class _Page:
    """Rows of a width."""

    def __init__(self, width: int, *, color: bool, ascii_only: bool) -> None:
        self.width, self.ascii_only = width, ascii_only
        self._color = color
        self._rows: list[str] = []

    def title(self, text: str, badge: str) -> None:
        first, *rest = self._wrapped(text, self.width - len(badge) - 2)
        gap = " " * (self.width - _cells(first) - len(badge))
        self._rows.append(self._bold(first) + gap + self._bold(badge, 33))
        self._rows += [self._bold(f"  {row}") for row in rest]

    def text(self, text: str) -> None:
        self._rows += [f"  {row}" for row in self._wrapped(text, self.width - 2)]

    def tame(self, text: str) -> str:
        """With its longest words, which are paths of cgroups, cut in their middle: the document has them whole."""
        return " ".join(self._short(word) for word in text.split(" ")) if len(text) > _LONGEST_WORD else text

    def _short(self, word: str) -> str:
        dots = "..." if self.ascii_only else "…"
        if len(word) <= _LONGEST_WORD:
            return word
        word = _LONG_ID.sub(lambda match: match[1] + dots, word)
        if len(word) <= _LONGEST_WORD:
            return word
        last = word.rpartition("/")[2][-(_LONGEST_WORD - 8) :]
        return f"{word[:10]}{dots}/{last}" if "/" in word else f"{word[:20]}{dots}{word[-20:]}"

    def blank(self) -> None:
        if self._rows and self._rows[-1]:
            self._rows.append("")

    def heading(self, words: str) -> None:
        self.blank()
        self._rows.append(self._bold(words))

    def fact(self, label: str, text: str) -> None:
        self.hang(label, text, _LABEL)

    def hang(self, lead: str, text: str, indent: int) -> None:
        if indent > self.width // 2:  # there is no room beside it
            self._rows.append(f"  {lead.rstrip()}")
            self._rows += [f"      {row}" for row in self._wrapped(text, self.width - 6)]
            return
        for number, row in enumerate(self._wrapped(text, self.width - 2 - indent)):
            self._rows.append("  " + (f"{lead:<{indent}}" if number == 0 else " " * indent) + row)

    def section(self, words: str, texts: Iterable[str], commands: Sequence[str | None] = ()) -> None:
        for number, text in enumerate(texts):
            if number == 0:
                self.heading(words)
            self.hang(f"{number + 1}." if commands else "-", text, 3 if commands else 2)
            command = commands[number] if number < len(commands) else None
            if command:  # never broken: it is to be copied
                self._rows.append("     " + visible(command, ascii_only=self.ascii_only))

    def written(self) -> str:
        while self._rows and not self._rows[-1]:
            self._rows.pop()
        return "".join(f"{row.rstrip()}\n" for row in self._rows)

    def _bold(self, text: str, colour: int | None = None) -> str:
        if not self._color:
            return text
        return f"\x1b[1{'' if colour is None else f';{colour}'}m{text}\x1b[0m"

    def _wrapped(self, text: str, room: int) -> list[str]:
        rows: list[str] = []
        row = ""
        for word in visible(text, ascii_only=self.ascii_only).split(" "):
            for part in _pieces(word, room):
                if row and _cells(row) + 1 + _cells(part) > room:
                    rows.append(row)
                    row = part
                else:
                    row = f"{row} {part}" if row else part
        return [*rows, row]


def _pieces(word: str, room: int) -> Iterable[str]:
    while _cells(word) > room:
        at = room
        while _cells(word[:at]) > room:
            at -= 1
        yield word[:at]
        word = word[at:]
    yield word


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
