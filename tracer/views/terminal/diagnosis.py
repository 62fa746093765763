# SPDX-License-Identifier: Apache-2.0
"""What `doctor` and `selftest` found, for a terminal: what fails comes first, with what to type."""

from collections.abc import Iterable, Sequence

from rich.text import Text

from tracer.doctor.model import (
    Answer,
    Capability,
    Comparison,
    Diagnosis,
    Expectation,
    Expected,
    KillKind,
    Outlook,
    Selftest,
)
from tracer.verdict import words
from tracer.verdict.model import Status
from tracer.views.terminal.fit import pad
from tracer.views.terminal.page import ASCII, UNICODE, Page
from tracer.views.terminal.safe import safe

_NAME_ROOM = 25
_ANSWER_STYLES: dict[Answer, str] = {"yes": "green", "no": "bold red", "unknown": "yellow"}
_STATUS_STYLES: dict[Status, str] = {"present": "green", "absent": "bold red", "not_observed": "yellow"}
_EXPECTED_STYLES: dict[Expected, str] = {
    "proved": "bold green", "likely": "bold yellow", "possible": "bold magenta", "not_seen": "bold red",
}  # fmt: skip
_EXPECTED: dict[Expected, str] = {
    "proved": "proved", "likely": "likely", "possible": "possible", "not_seen": "not seen",
}  # fmt: skip
_KILLS: dict[KillKind, str] = {"cgroup_limit": "at a cgroup's limit", "machine": "machine-wide"}
_WEIGHTS = ("proof", "help", "note")


def render_diagnosis(diagnosis: Diagnosis, *, width: int, color: bool = False, ascii_only: bool = False) -> str:
    """Lay out what was found for `width` columns."""
    page = Page(width, ASCII if ascii_only else UNICODE)
    found = safe(diagnosis, ascii_only=ascii_only)
    page.title(Text(f"A kill here would be: {_phrase(found.here)}", _EXPECTED_STYLES[found.here.verdict]), Text())
    page.text(Text(page.tame(f"oomtrace {found.version}, Linux {found.kernel_release}, {found.distribution or '?'}")))
    rows = [one for one in found.capabilities if one.weight != "note"]
    missing = _first_things_first(one for one in rows if one.ok == "no")
    _write_rows(page, "Missing", missing, note="a kill is proved without" if found.complete else "")
    _write_rows(page, "Not known", _first_things_first(one for one in rows if one.ok == "unknown"))
    _write_links(page, found.here)
    _write_rows(page, "There", [one for one in rows if one.ok == "yes"], explained=False)
    _write_hooks(page, found)
    _write_rows(page, "By the way", [one for one in found.capabilities if one.weight == "note"])
    page.blank()
    _write_last_words(page, found)
    return page.written(color=color)


def render_selftest(selftest: Selftest, *, width: int, color: bool = False, ascii_only: bool = False) -> str:
    """Lay out each comparison for `width` columns."""
    page = Page(width, ASCII if ascii_only else UNICODE)
    found = safe(selftest, ascii_only=ascii_only)
    wrong = sum(not one.agrees for one in found.comparisons)
    if found.agrees:
        title = Text.styled("One real kill and one control: all agree", "bold green")
    else:
        title = Text.styled(f"{wrong} of {len(found.comparisons)} comparisons disagree", "bold red")
    page.title(title, Text())
    page.text(Text(f"oomtrace {found.version}, Linux {found.kernel_release}, cgroup v{found.cgroup_version}"))
    for run, heading, note in (("kill", "A kill", ""), ("control", "Control", "the same program, without a kill")):
        page.heading(heading, note)
        for one in (one for one in found.comparisons if one.run == run):
            _write_comparison(page, one)
    for number, caveat in enumerate(found.caveats):
        if not number:
            page.heading("Caveats")
        page.hang(Text(page.glyphs.bullet), Text(page.tame(caveat)), indent=2)
    if found.recording is not None:
        page.blank()
        page.text(Text(f"recorded  {page.short(found.recording, width - 14)}"))
    return page.written(color=color)


def _write_comparison(page: Page, one: Comparison) -> None:
    answer: Answer = "yes" if one.agrees else "no"
    both = one.found if one.found == one.expected else f"{one.found}; by the kernel: {one.expected}"
    lead = _mark(page, answer).append(" ").append(page.short(one.what, _NAME_ROOM))
    page.hang(lead, Text(page.tame(both)), indent=_NAME_ROOM + 3)


def _first_things_first(rows: Iterable[Capability]) -> list[Capability]:
    return sorted(rows, key=lambda one: _WEIGHTS.index(one.weight))


def _write_rows(
    page: Page, heading: str, rows: Sequence[Capability], *, note: str = "", explained: bool = True
) -> None:
    if not rows:
        return
    page.heading(heading, note)
    for together in _grouped(rows):
        one = together[0]
        name = one.name if len(together) == 1 else one.group or one.name
        mark = Text(page.glyphs.bullet) if one.weight == "note" else _mark(page, one.ok)
        lead = mark.append(" ").append(page.short(name, _NAME_ROOM))
        indent = _NAME_ROOM + 3
        if len(together) > 1:
            page.hang(lead, Text(f"{', '.join(each.name for each in together)}: {one.found}"), indent=indent)
        else:
            page.hang(lead, Text(page.tame(one.found, indent=indent)), indent=indent)
        if not explained:
            continue
        if len(together) == 1:
            numbers = ", ".join(map(str, one.links)) if one.weight != "note" else ""
            links = f" (link{'s' if len(one.links) > 1 else ''} {numbers})" if numbers else ""
            page.hang(Text(), Text.styled(page.tame(one.meaning + links, indent=indent), "dim"), indent=indent)
        if one.remedy is not None:
            page.hang(Text(), Text.styled(f"{page.glyphs.pointer} {one.remedy}", "bold"), indent=indent)


def _grouped(rows: Sequence[Capability]) -> list[list[Capability]]:
    """Those of one group, what was found and the remedy being the same, told in one row."""
    groups: dict[tuple[str | None, ...], list[Capability]] = {}
    for one in rows:
        key = (one.id, None, None) if one.group is None else (one.group, one.found, one.remedy)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _write_links(page: Page, outlook: Outlook) -> None:
    same = len({_statuses(kill) for kill in outlook.kills}) == 1
    for kill in outlook.kills[:1] if same else outlook.kills:
        page.heading("Proof", "" if same else _KILLS[kill.kill])
        for link in kill.links:
            glyph = {"present": page.glyphs.present, "absent": page.glyphs.absent}.get(
                link.status, page.glyphs.not_observed
            )
            lead = Text.styled(pad(glyph, _mark_room(page)), _STATUS_STYLES[link.status])
            lead.append(f" {link.link} {link.name}")
            body = Text(page.tame(link.why))
            if link.rung is not None:
                body.append(f" [{words.rung(link)}]", "dim")
            page.hang(lead, body, indent=_NAME_ROOM + 3)


def _statuses(kill: Expectation) -> tuple[object, ...]:
    return (kill.verdict, kill.at_best, *(link.status for link in kill.links))


def _write_hooks(page: Page, found: Diagnosis) -> None:
    by_rung: dict[str, list[str]] = {}
    for hook in found.hooks:
        if hook.attached:
            rung, _, target = hook.name.partition(":")
            by_rung.setdefault(rung, []).append(target)
    if by_rung:
        page.heading("Hooks", "tried, and let go again")
    for rung, targets in by_rung.items():
        page.hang(Text(f"  {page.short(rung, _NAME_ROOM)}"), Text(", ".join(targets)), indent=_NAME_ROOM + 3)


def _write_last_words(page: Page, found: Diagnosis) -> None:
    who = '"sudo oomtrace run"' if found.here.root else f'"oomtrace run" by user {found.uid}'
    page.text(Text.styled(f"Here {who} would give: {_phrase(found.here)}", "bold"))
    if found.with_root is not None:
        page.text(Text.styled(f'Here "sudo oomtrace run" would give: {_phrase(found.with_root)}', "bold"))


def _phrase(outlook: Outlook) -> str:
    if outlook.verdict != outlook.at_best:
        return f"not known until it is tried; {_EXPECTED[outlook.at_best]} at best"
    if len({kill.verdict for kill in outlook.kills}) == 1:
        return _EXPECTED[outlook.verdict]
    return ", ".join(f"{_EXPECTED[kill.verdict]} {_KILLS[kill.kill]}" for kill in outlook.kills)


def _mark(page: Page, answer: Answer) -> Text:
    glyphs = page.glyphs
    mark = {"yes": glyphs.present, "no": glyphs.absent, "unknown": glyphs.not_observed}[answer]
    return Text.styled(pad(mark, _mark_room(page)), _ANSWER_STYLES[answer])


def _mark_room(page: Page) -> int:
    return max(len(mark) for mark in (page.glyphs.present, page.glyphs.absent, page.glyphs.not_observed))
