# SPDX-License-Identifier: Apache-2.0
"""The parts of the report in their order, the timeline apart; each writes nothing when it has nothing to say."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.text import Text

from tracer.units import format_bytes, has_limit
from tracer.verdict import words
from tracer.verdict.model import Incident, Level, Link, Process, Report, Status, Strength, Verdict
from tracer.views.terminal.fit import pad
from tracer.views.terminal.memory import names
from tracer.views.terminal.page import INDENT, LEAST_BODY, Page
from tracer.views.terminal.sparkline import bar

_STRENGTH_STYLES: dict[Strength, str] = {"proved": "bold green", "likely": "bold yellow", "possible": "bold magenta"}
_STATUS_STYLES: dict[Status, str] = {"present": "green", "absent": "bold red", "not_observed": "yellow"}
_LABEL = 9
_MOST_VICTIMS = 16
_MOST_COLLATERAL = 8
_MOST_INNER_PIDS = 6
_MOST_PLACES = 3
_WIDEST_NAME = 24
_LEAST_WIDTH_FOR_BARS = 72


def write_headline(page: Page, incident: Incident) -> None:
    """What happened, how sure it is, and one sentence."""
    title = page.tame(words.headline(incident))
    if words.is_clean(incident):
        page.title(Text.styled(title, "bold green"), Text())
    else:
        page.title(Text.styled(title, "bold"), Text.styled(incident.strength, _STRENGTH_STYLES[incident.strength]))
    if incident.summary:
        page.text(Text(page.tame(incident.summary)))


def write_projection(page: Page, verdict: Verdict) -> None:
    """Where the memory of a job that was not killed was going."""
    if verdict.projection is not None:
        page.heading("Where its memory is going")
        page.text(Text(page.tame(verdict.projection.statement)))


def write_facts(page: Page, report: Report, incident: Incident) -> None:
    """Who was hit, who grew, who was allocating, who sent: each only where it says something new."""
    page.blank()
    victim = incident.victim or next(iter(incident.victims), None)
    if len(incident.victims) > 1:
        _victims(page, incident.victims)
    elif victim is not None:
        _fact(page, words.part_of(incident), _with_memory(victim))
    people = incident.victims or ((victim,) if victim is not None else ())
    _inner_pids(page, report.verdict, incident, people)
    _ran_in(page, people)
    culprit = incident.culprit
    if culprit is not None:
        itself = victim is not None and victim.pid == culprit.pid and len(incident.victims) < 2
        who = f"the {words.part_of(incident)} itself"
        _fact(page, "grew", f"{who if itself else culprit.who or f'pid {culprit.pid}'}: {culprit.why}")
    if culprit is None and incident.growth is not None:
        _fact(page, "grew", incident.growth)
    trigger = incident.trigger
    if trigger is not None and (victim is None or trigger.pid != victim.pid):
        _fact(page, "trigger", f"{words.described(trigger)}: it asked for memory at that moment")
    if incident.sender is not None:
        _fact(page, "sender", words.sender(incident.sender))
    limit = incident.limit
    whose = words.whose_limit(limit) if limit is not None else None
    if whose is not None:
        _fact(page, "limit", f"of {whose}")
    if limit is not None and (limit.mem_available_bytes is not None or limit.swap_total_bytes is not None):
        swap = "no swap" if limit.swap_total_bytes == 0 else (
            f"swap {format_bytes(limit.swap_free_bytes)} free of {format_bytes(limit.swap_total_bytes)}"
        )  # fmt: skip
        _fact(page, "machine", f"{format_bytes(limit.mem_available_bytes)} of RAM available, {swap}")
    mechanism = incident.mechanism
    if mechanism is not None:
        _fact(page, "why", f"{mechanism.statement} ({names(mechanism)})")
    if not any(entry.collateral for entry in report.timeline):
        _collateral(page, incident)


def write_proof(page: Page, links: tuple[Link, ...]) -> None:
    """The links: a mark that is a sign or a word, never a colour alone."""
    if not links:
        return
    page.heading("Proof")
    glyphs = page.glyphs
    marks: dict[Status, str] = {
        "present": glyphs.present, "absent": glyphs.absent, "not_observed": glyphs.not_observed,
    }  # fmt: skip
    mark_room = max(cell_len(mark) for mark in marks.values())
    number_room = max(len(str(link.link)) for link in links)
    name_room = min(max(cell_len(link.name) for link in links), _WIDEST_NAME)
    for link in links:
        lead = Text.styled(pad(marks[link.status], mark_room), _STATUS_STYLES[link.status])
        lead.append(f" {link.link:>{number_room}} ", "dim").append(page.short(link.name, name_room))
        indent = mark_room + 1 + number_room + 1 + name_room + 2
        body = Text(page.tame(link.statement, indent=INDENT + indent))
        if link.rung is not None:
            body.append(f" [{words.rung(link)}]", "dim")
        page.hang(lead, body, indent=indent)


def write_chain(page: Page, incident: Incident) -> None:
    """The limits from the victim's cgroup upwards, where more than one could have been the one."""
    chain = incident.limit.chain if incident.limit is not None else ()
    limited = [level for level in chain if level.limited or (level.limited is None and level.limit_bytes is not None)]
    if len(limited) < 2 and not any(level.owner for level in chain[1:]):
        return
    owners = sum(level.owner for level in chain)
    page.heading(
        "Limits", "from the victim's cgroup upwards" + ("; the marked ones cannot be told apart" if owners > 1 else "")
    )
    usage_room = max(len(format_bytes(level.usage_bytes)) for level in chain)
    limit_room = max(len(words.level_limit(level)) for level in limited) if limited else 0
    path_room = page.width * 9 // 20
    if page.width - INDENT - path_room - 4 < LEAST_BODY:
        path_room, usage_room, limit_room = page.width - INDENT - 2, 0, 0
    path_room = min(max(cell_len(level.cgroup) for level in chain), path_room)
    for level in chain:
        lead = Text.styled(pad(page.glyphs.pointer if level.owner else "", 2), "bold red")
        lead.append(page.short(level.cgroup, path_room), "bold" if level.owner else "")
        body = _filling(page, level, usage_room, limit_room)
        if level.owner:
            body.append("  ").append("hit" if owners == 1 else "hit?", "bold")
        indent = 2 + path_room + 2
        notes = Text.styled(_level_notes(level), "dim")
        if notes and INDENT + indent + body.cell_len + 2 + notes.cell_len <= page.width:
            body.append("  ").append_text(notes)
            notes = Text()
        page.hang(lead, body, indent=indent)
        if notes:
            page.hang(Text(), notes, indent=indent)


def write_remedies(page: Page, incident: Incident) -> None:
    """What to change, and the commands that show whether it helped: once, if all are the same. None is shortened."""
    if not incident.remedies:
        return
    page.heading("What to do")
    checks = [remedy.verify for remedy in incident.remedies]
    once = checks[0] if len(checks) > 1 and len(set(checks)) == 1 else None
    for number, remedy in enumerate(incident.remedies, 1):
        lead = f"{number}."
        page.hang(Text(lead), Text(remedy.do), indent=len(lead) + 1)
        for label, text in (("why: ", remedy.why), ("costs: ", remedy.costs)):
            if text:
                page.text(Text.styled(label, "dim").append(text), indent=INDENT + len(lead) + 1)
        if remedy.verify and once is None:
            page.command(Text.styled("check: ", "dim"), remedy.verify, indent=INDENT + len(lead) + 1)
    if once:
        page.command(Text.styled("check, after one change at a time: ", "dim"), once)


def write_others(page: Page, report: Report, primary: Incident) -> None:
    """The incidents that did not start the failure, a line each."""
    others = [incident for incident in report.verdict.incidents if incident is not primary]
    if not others:
        return
    page.heading("Also seen")
    for incident in others:
        told = incident.summary or words.headline(incident)
        _bulleted(page, Text(page.tame(told, indent=4)).append(f" ({incident.strength})", "dim"))


def write_caveats(page: Page, texts: Iterable[str]) -> None:
    """What limits the verdict, each once."""
    caveats = list(dict.fromkeys(text for text in texts if text))
    if not caveats:
        return
    page.heading("Caveats")
    for caveat in caveats:
        _bulleted(page, Text(page.tame(caveat, indent=4)))


def write_footer(page: Page, report: Report, *, confirmed: bool = False) -> None:
    """Which run it was, where its recording lies, and how its signs are listed."""
    page.blank()
    job = words.job(report.verdict.job) if report.verdict.job is not None else ""
    if job:
        _fact(page, "job", page.short(job, 3 * (page.width - INDENT - _LABEL)))
    if report.verdict.watched_by:
        _fact(page, "watched", ", ".join(report.verdict.watched_by))
    if report.verdict.reconciliation is not None:
        _fact(page, "counters", report.verdict.reconciliation.statement)
    if report.verdict.confirm is not None and not confirmed:
        how = f"oomtrace report --confirm {report.recording or 'FILE'}"
        _fact(page, "confirm", f"{report.verdict.confirm.statement}: {how}", shortened=False)
    if report.recording:
        _fact(page, "recorded", report.recording, shortened=False)


def _fact(page: Page, label: str, text: str, *, shortened: bool = True) -> None:
    indent = _LABEL + 1
    body = page.tame(text, indent=INDENT + indent) if shortened else text
    page.hang(Text.styled(label, "dim"), Text(body), indent=indent)


def _with_memory(process: Process) -> str:
    memory = words.memory(process)
    return f"{words.described(process)}: {memory}" if memory else words.described(process)


def _inner_pids(page: Page, verdict: Verdict, incident: Incident, victims: Sequence[Process]) -> None:
    """Whose pid in a container's log is another one here: of several victims the table tells."""
    people: list[tuple[int, tuple[int, ...] | None, str]] = []
    if len(victims) == 1:
        people.append((victims[0].pid, victims[0].ns_pids, "the victim" if words.has_victim(incident) else ""))
    if incident.culprit is not None:
        people.append((incident.culprit.pid, incident.culprit.ns_pids, "which grew"))
    if incident.trigger is not None:
        people.append((incident.trigger.pid, incident.trigger.ns_pids, "the trigger"))
    if incident.sender is not None and incident.sender.pid is not None:
        people.append((incident.sender.pid, incident.sender.ns_pids, "the sender"))
    people += [(fallen.pid, fallen.ns_pids, fallen.who or "went down") for fallen in incident.collateral]
    met = {process.pid for process in victims} if len(victims) > 1 else set()
    contained = any(process.place is not None and process.place.container for process in victims)
    where = "in its container" if contained else "in its pid namespace"
    outside = "on the host" if verdict.pids_of == "host" else "outside of it"
    rows: list[str] = []
    for pid, ns_pids, who in people:
        if pid not in met and ns_pids is not None and len(ns_pids) > 1 and ns_pids[-1] != pid:
            told = words.same_process((pid, *ns_pids[1:]), *(() if rows else (where, outside)))
            # A process without a part in the training is named with its pid, which stands here already.
            name = who.removesuffix(f" {pid}")
            rows.append(f"{told}: {name}" if name else told)
        met.add(pid)
    for index, row in enumerate(rows[:_MOST_INNER_PIDS]):
        _fact(page, "" if index else "pids", row)
    if len(rows) > _MOST_INNER_PIDS:
        _fact(page, "", f"and {len(rows) - _MOST_INNER_PIDS} more")


def _ran_in(page: Page, people: Sequence[Process]) -> None:
    """Where the victims ran, each place once."""
    places = [place for place in dict.fromkeys(map(words.ran_in, people)) if place]
    for index, place in enumerate(places[:_MOST_PLACES]):
        _fact(page, "" if index else "ran in", place)
    if len(places) > _MOST_PLACES:
        _fact(page, "", f"and {len(places) - _MOST_PLACES} more places")


def _victims(page: Page, victims: tuple[Process, ...]) -> None:
    shown = victims[:_MOST_VICTIMS]
    wide = page.width >= 100
    pid = words.pid if wide else words.short_pid
    columns = [(page.short(words.who(process), 32), pid(process), process.comm or "") for process in shown]
    anonymous = max(cell_len(words.anonymous(process)) for process in shown)
    rooms = [max(cell_len(row[column]) for row in columns) for column in range(3)]
    for index, (process, row) in enumerate(zip(shown, columns, strict=True)):
        memory = words.memory(process) if wide else words.anonymous(process).rjust(anonymous)
        cells = [pad(cell, room) for cell, room in zip(row, rooms, strict=True)]
        body = Text("  ".join([*cells, memory]).rstrip())
        page.hang(Text.styled("victims" if index == 0 else "", "dim"), body, indent=_LABEL + 1)
    if len(victims) > len(shown):
        _fact(page, "", f"and {len(victims) - len(shown)} more")


def _collateral(page: Page, incident: Incident) -> None:
    shown = incident.collateral[:_MOST_COLLATERAL]
    for index, fallen in enumerate(shown):
        _fact(page, "" if index else "went down", f"pid {fallen.pid}: {fallen.how}")
    if len(incident.collateral) > len(shown):
        _fact(page, "", f"and {len(incident.collateral) - len(shown)} more")


def _filling(page: Page, level: Level, usage_room: int, limit_room: int) -> Text:
    if level.usage_bytes is None and level.limited is None:
        return Text.styled("unknown", "dim")
    usage = format_bytes(level.usage_bytes).rjust(usage_room)
    limit = words.level_limit(level)
    if level.limited is False:
        return Text.styled(f"{usage}, {limit}", "dim")
    body = Text(f"{usage} of {limit.ljust(limit_room)}")
    if level.usage_bytes is not None and level.limit_bytes is not None and page.width >= _LEAST_WIDTH_FOR_BARS:
        room = 16 if page.width >= 100 else 8
        drawn = bar(level.usage_bytes, level.limit_bytes, room, full=page.glyphs.full, empty=page.glyphs.empty)
        body.append("  ").append(drawn, "red" if level.owner else "cyan")
    return body


def _level_notes(level: Level) -> str:
    notes = []
    if level.oom_events:
        notes.append(f"{level.oom_events} OOM{'' if level.oom_events == 1 else 's'}")
    if level.swap_usage_bytes or (level.owner and has_limit(level.swap_limit_bytes)):
        limit = f" of {format_bytes(level.swap_limit_bytes)}" if has_limit(level.swap_limit_bytes) else ""
        notes.append(f"swap {format_bytes(level.swap_usage_bytes)}{limit}")
    if level.memsw_limit_bytes is not None:
        used = format_bytes(level.memsw_usage_bytes)
        notes.append(f"memory and swap {used} of {format_bytes(level.memsw_limit_bytes)}")
    return ", ".join(notes)


def _bulleted(page: Page, body: Text) -> None:
    page.hang(Text.styled(page.glyphs.bullet, "dim"), body, indent=2)
