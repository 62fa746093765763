# SPDX-License-Identifier: Apache-2.0
"""A report for an issue tracker: Markdown as GitHub, GitLab and others render it.

Names of processes, cgroups and lines of logs are anyone's: whatever has more than letters and plain punctuation in it
stands in a code span, in which nothing is a link, a mention, a tag or emphasis.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from tracer.units import format_bytes
from tracer.verdict.dossier.model import KernelLine
from tracer.verdict.legible import legible
from tracer.verdict.model import Incident, Link, Mechanism, Report, Verdict
from tracer.verdict.words import described, headline, is_clean, job, memory, moment, offset, part_of, rung, sender

MOST_CHARACTERS = 60_000
"""GitHub refuses an issue of more than 65,536."""
LONGEST_TEXT = 1000
LONGEST_LINE = 400
MOST_VICTIMS = 16
MOST_LINES = 80
_WORD = r"[(\"']*[A-Za-z0-9][A-Za-z0-9.,%'\"-]*[)\"'.,:;?%]*"
_CLOCK = r"[0-9]+:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?[.,;)]*"
_RATE = r"[KMGT]iB/s[.,;)]*"
_PLAIN = re.compile(f"{_WORD}|{_CLOCK}|{_RATE}")
_NUMBERED = re.compile(r"^(\d+)([.)])")
"""Would begin a list."""
_LINKS = re.compile(r"www\.|(?<![A-Za-z0-9])(?:[Gg][Hh]-?\d|[0-9a-f]{7,64}(?![A-Za-z0-9]))")
"""What trackers make links of though it looks plain: addresses, numbers of issues, hashes of commits."""
_OPERATORS = {"->": "→", ">": "\\>", "-": "\\-", "+": "\\+", "=": "\\=", "·": "·"}
_SIGNS = {"present": "✓", "absent": "✗", "not_observed": "?"}
_STATES = {"present": "present", "absent": "absent", "not_observed": "not observed"}


def render(report: Report, kernel: Sequence[KernelLine] = ()) -> str:
    """Lay out the whole; what makes it too long for a tracker is left out from the end, which is said."""
    verdict = report.verdict
    primary = verdict.incidents[verdict.primary]
    others = [one for one in verdict.incidents if one is not primary]
    sections = [
        _heading(primary),
        _facts(report, primary),
        _proof(primary.proof),
        _growth(primary),
        _mechanism(primary),
        _remedies(primary),
        _timeline(report),
        _others(others),
        _caveats(verdict, primary),
        _kernel(kernel),
    ]
    return _fitting(["\n".join(section) for section in sections if section])


def prose(text: str) -> str:
    """A sentence that may hold outside words."""
    cut = _cut(legible(text), LONGEST_TEXT)
    return _NUMBERED.sub(r"\1\\\2", " ".join(_word(word) for word in cut.split(" ") if word))


def code(text: str) -> str:
    """Outside text as it is."""
    shown = _cut(legible(text), LONGEST_TEXT)
    if not shown.strip():
        return ""
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if shown[0] in " `" or shown[-1] in " `" else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def _word(word: str) -> str:
    if word in _OPERATORS:
        return _OPERATORS[word]
    return word if _PLAIN.fullmatch(word) and not _LINKS.search(word) else _in_code(word)


def _in_code(word: str) -> str:
    """The word without the brackets and the punctuation that are the sentence's."""
    lead = word[: max(0, min(word.count("(") - word.count(")"), len(word) - len(word.lstrip("("))))]
    bare = word[len(lead) :].rstrip(".,;:")
    while bare.endswith(")") and bare.count(")") > bare.count("("):
        bare = bare[:-1].rstrip(".,;:")
    return f"{lead}{code(bare)}{word[len(lead) + len(bare) :]}" if bare else code(word)


def _cell(text: str) -> str:
    """For a table: a bar would end the cell even in a code span."""
    return text.replace("|", "\\|")


def _row(*cells: str) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(*head), f"|{' --- |' * len(head)}", *(_row(*row) for row in rows)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} ({len(text) - most} more characters)"


def _heading(incident: Incident) -> list[str]:
    strength = "" if is_clean(incident) else f" — {incident.strength}"
    told = [f"## {prose(headline(incident))}{strength}"]
    return [*told, "", prose(incident.summary)] if incident.summary else told


def _facts(report: Report, incident: Incident) -> list[str]:
    rows = [(label, text) for label, text in _said(report, incident) if text]
    return [f"- **{label}**: {text}" for label, text in rows]


def _said(report: Report, incident: Incident) -> Iterator[tuple[str, str]]:
    verdict = report.verdict
    victims = incident.victims or ((incident.victim,) if incident.victim is not None else ())
    label = part_of(incident)
    for victim in victims[:MOST_VICTIMS]:
        held = memory(victim)
        yield label, prose(f"{described(victim)}: {held}" if held else described(victim))
    if len(victims) > MOST_VICTIMS:
        yield label, f"and {len(victims) - MOST_VICTIMS} more"
    if incident.culprit is not None:
        yield "grew", prose(f"{incident.culprit.who or f'pid {incident.culprit.pid}'}: {incident.culprit.why}")
    elif incident.growth is not None:
        yield "grew", prose(incident.growth)
    if incident.sender is not None:
        yield "sender", prose(sender(incident.sender))
    if incident.mechanism is not None:
        yield "why", prose(f"{incident.mechanism.statement} ({_names(incident.mechanism)})")
    if incident.collateral:
        yield "went down with it", _collateral(incident)
    if verdict.job is not None:
        yield "job", code(job(verdict.job))
    if verdict.watched_by:
        yield "watched", prose(", ".join(verdict.watched_by))
    if verdict.reconciliation is not None:
        yield "counters", prose(verdict.reconciliation.statement)


def _collateral(incident: Incident) -> str:
    shown = [
        prose(one.how if one.who and one.how.startswith(one.who) else f"{one.who or f'pid {one.pid}'}: {one.how}")
        for one in incident.collateral[:MOST_VICTIMS]
    ]
    more = len(incident.collateral) - len(shown)
    return "; ".join([*shown, *((f"and {more} more",) if more else ())])


def _proof(links: Sequence[Link]) -> list[str]:
    if not links:
        return []
    rows = [
        (
            f"{link.link}",
            prose(link.name),
            f"{_SIGNS[link.status]} {_STATES[link.status]}",
            prose(link.statement),
            prose(rung(link)),
        )
        for link in links
    ]
    return ["### Proof", "", *_table(("", "Link", "Status", "What was seen", "By"), rows)]


def _growth(incident: Incident) -> list[str]:
    picture = incident.picture
    if picture is None or not picture.parts:
        return []
    rows = [
        (
            prose(one.what),
            format_bytes(one.size_bytes),
            "" if one.grown_bytes is None else f"{'+' if one.grown_bytes > 0 else ''}{format_bytes(one.grown_bytes)}",
        )
        for one in picture.parts
    ]
    name, total = ("in use", picture.usage_bytes) if picture.limit_bytes is None else ("limit", picture.limit_bytes)
    rows.append((f"**{name}**", f"**{format_bytes(total)}**", ""))
    by = "the kernel's own report" if picture.by == "kernel_log" else "the last samples"
    table = _table(("Memory at the kill", "Size", "Grown"), rows)
    return ["### Memory at the kill", "", f"By {by}. {prose(picture.statement)}".rstrip(), "", *table]


def _mechanism(incident: Incident) -> list[str]:
    mechanism = incident.mechanism
    if mechanism is None or not (mechanism.because or mechanism.against or mechanism.decide):
        return []
    told = [("for", mechanism.because), ("but", mechanism.against), ("decides", mechanism.decide)]
    rows = [f"- **{label}**: {prose(text)}" for label, texts in told for text in texts]
    return ["### Why memory grew", "", f"Named: {prose(_names(mechanism))}", "", *rows]


def _names(mechanism: Mechanism) -> str:
    """All that it may have been, and how sure that is."""
    return f"{' or '.join((mechanism.name, *mechanism.or_))}, {mechanism.strength}"


def _remedies(incident: Incident) -> list[str]:
    if not incident.remedies:
        return []
    rows: list[str] = []
    checks = [remedy.verify for remedy in incident.remedies]
    once = checks[0] if len(checks) > 1 and len(set(checks)) == 1 else None
    for number, remedy in enumerate(incident.remedies, 1):
        rows.append(f"{number}. {prose(remedy.do)}")
        for label, text in (("why", remedy.why), ("costs", remedy.costs)):
            if text:
                rows.append(f"   - {label}: {prose(text)}")
        if remedy.verify and once is None:
            rows.append(f"   - check: {code(remedy.verify)}")
    if once:
        rows += ["", f"Check, after one change at a time: {code(once)}"]
    return ["### What to do", "", *rows]


def _timeline(report: Report) -> list[str]:
    if not report.timeline:
        return []
    incident = report.verdict.incidents[report.verdict.primary]
    rows = []
    for entry in report.timeline:
        when = "" if entry.offset_ns is None else offset(entry.offset_ns)
        notes = [word for word, so in (("collateral", entry.collateral), ("outside the job", entry.outside)) if so]
        text = f"{entry.text} ({', '.join(notes)})" if notes else entry.text
        what = f"**{entry.kind}**" if entry.primary else entry.kind
        rows.append((when, what, prose(entry.who), prose(text)))
    zero = f"0 is {prose(moment(incident.at))}." if incident.at is not None else ""
    return ["### Timeline", "", *((zero, "") if zero else ()), *_table(("When", "What", "Who", ""), rows)]


def _others(incidents: Sequence[Incident]) -> list[str]:
    if not incidents:
        return []
    rows = [f"- {prose(one.summary or headline(one))} ({one.strength})" for one in incidents]
    return ["### Also seen", "", *rows]


def _caveats(verdict: Verdict, incident: Incident) -> list[str]:
    caveats = [text for text in dict.fromkeys((*incident.caveats, *verdict.caveats)) if text]
    return ["### Caveats", "", *(f"- {prose(text)}" for text in caveats)] if caveats else []


def _kernel(kernel: Sequence[KernelLine]) -> list[str]:
    if not kernel:
        return []
    shown = [_stamped(one.stamp_usec, legible(one.text)) for one in kernel[:MOST_LINES]]
    fence = "`" * max(3, 1 + max(len(run) for line in ("", *shown) for run in re.findall("`+", line) or [""]))
    left_out = len(kernel) - len(shown)
    more = ["", f"{left_out} more lines near the kill are in the recording."] if left_out else []
    forged = [] if all(one.trusted for one in kernel) else ["Lines marked ? may be anyone's.", ""]
    marked = [line if one.trusted else f"? {line}" for one, line in zip(kernel, shown, strict=False)]
    return ["### Kernel log", "", *forged, f"{fence}text", *marked, fence, *more]


def _stamped(stamp_usec: int | None, text: str) -> str:
    stamp = "" if stamp_usec is None else f"[{stamp_usec // 1_000_000:5d}.{stamp_usec % 1_000_000:06d}] "
    return _cut(f"{stamp}{text}", LONGEST_LINE)


def _fitting(sections: Sequence[str]) -> str:
    kept, size = [], 0
    for section in sections:
        size += len(section) + 2
        if size > MOST_CHARACTERS - 200:
            kept.append("*What does not fit into an issue was left out here; `oomtrace report` shows it.*")
            break
        kept.append(section)
    return "\n\n".join(kept) + "\n"
