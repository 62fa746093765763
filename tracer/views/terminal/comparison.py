# SPDX-License-Identifier: Apache-2.0
"""Two runs side by side: the outcome in a sentence, their memory on one scale, and what was compared."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from tracer.units import GIB, KIB, MIB, NS_PER_S, format_bytes, format_duration
from tracer.verdict.comparison.model import Comparison, Outcome, Side
from tracer.verdict.comparison.run import REFUSED
from tracer.verdict.projected import Interval
from tracer.views.terminal.page import ASCII, INDENT, UNICODE, Page
from tracer.views.terminal.safe import safe
from tracer.views.terminal.sparkline import sparkline

_STYLES: dict[Outcome, str] = {
    "fixed": "bold green", "reduced": "bold yellow", "unchanged": "bold red", "worse": "bold red",
    "cannot_tell": "bold magenta",
}  # fmt: skip
_LABEL = 18
_UNITS = {"epoch": "epoch", "step": "step", "worker_start": "start of workers", "second": "second"}
_BYTES = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 1024 * GIB}
_TOO_LONG_S = 30 * 24 * 3600.0


def render_comparison(comparison: Comparison, *, width: int, color: bool = False, ascii_only: bool = False) -> str:
    """Lay it out for `width` columns."""
    page = Page(width, ASCII if ascii_only else UNICODE)
    found = safe(comparison, ascii_only=ascii_only)
    badge = found.outcome.replace("_", " ")
    page.title(Text.styled(_title(found), "bold"), Text.styled(badge, _STYLES[found.outcome]))
    page.text(Text(page.tame(found.statement)))
    _write_courses(page, found)
    _write_table(page, found)
    page.heading("Aligned")
    page.text(Text(page.tame(f"{found.aligned.statement}; {_covered(found)}")))
    _write_list(page, "Why", found.reasons)
    _write_list(page, "Not the same", found.differences)
    _write_list(page, "Not observed", found.caveats)
    page.blank()
    for name, side in (("before", found.before), ("after", found.after)):
        if side.recording is not None:
            page.text(Text(f"{name.ljust(6)}  {page.short(side.recording, width - 12)}"))
    return page.written(color=color)


def _title(found: Comparison) -> str:
    if found.outcome == "fixed":
        return "The growth is gone" if found.basis == "growth" else "It fits now"
    if found.outcome == "unchanged" and found.basis == "growth":
        return "The growth is still there"
    return {
        "reduced": "It grows less, and still grows", "unchanged": "Nothing has changed", "worse": "It has become worse",
    }.get(found.outcome, "It cannot be told whether it is fixed")  # fmt: skip


def _write_courses(page: Page, found: Comparison) -> None:
    both = (*found.before.series_bytes, *found.after.series_bytes)
    top = max((value for value in both if value is not None), default=0)
    if not top:
        return
    span = format_duration(round(max(found.before.seconds, found.after.seconds) * NS_PER_S))
    page.heading("Memory that cannot be given back", f"0 to {format_bytes(top)}, {span}")
    for name, side in (("before", found.before), ("after", found.after)):
        room = page.width - INDENT - 8
        page.hang(Text(name), Text(sparkline(side.series_bytes, room, levels=page.glyphs.levels, top=top)), indent=8)


def _write_table(page: Page, found: Comparison) -> None:
    one, two = found.before, found.after
    rows = [("", "before", "after")]
    by_growth = found.basis in {"growth", "none"}
    if by_growth:
        each = f"growth per {_UNITS[found.aligned.unit]}"
        rows.append((each, _interval(one.growth_bytes), _interval(two.growth_bytes)))
    rows.append(("level at the end", format_bytes(one.level_bytes), format_bytes(two.level_bytes)))
    rows.append(("peak", format_bytes(one.peak_bytes), format_bytes(two.peak_bytes)))
    rows.append(("limit", _limit(one), _limit(two)))
    if by_growth:
        rows.append(("time to the limit", _time_left(one), _time_left(two)))
    rows.append(("ended", _ended(one), _ended(two)))
    if one.mechanism or two.mechanism:
        rows.append(("mechanism", _mechanism(one), _mechanism(two)))
    rows += [(what, _part(one, what), _part(two, what)) for what in _kinds((one, two))]
    page.blank()
    label = min(max(cell_len(row[0]) for row in rows) + 2, page.width // 2)
    room = (page.width - INDENT - label - 2) // 2
    for number, (what, was, now) in enumerate(rows):
        style = "dim" if number == 0 else ""
        # What stands behind a comma can be done without.
        one_cell, two_cell = (
            text if cell_len(text) <= room else page.short(text.partition(", ")[0], room) for text in (was, now)
        )
        body = Text(f"{one_cell.ljust(room + 2)}{two_cell}", style)
        page.hang(Text(page.short(what, label - 2), "dim"), body, indent=label)


def _kinds(sides: Sequence[Side]) -> list[str]:
    return list(dict.fromkeys(part.what for side in sides for part in side.parts))


def _part(side: Side, what: str) -> str:
    part = next((one for one in side.parts if one.what == what), None)
    return "-" if part is None else f"{format_bytes(part.first_bytes)} to {format_bytes(part.last_bytes)}"


def _limit(side: Side) -> str:
    return "none" if side.limit_bytes is None else format_bytes(side.limit_bytes)


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return "?"
    ends = [abs(one) for one in (interval.low, interval.value, interval.high) if one is not None]
    unit = format_bytes(round(max(ends))).rpartition(" ")[2]
    low, value, high = (_in(unit, one) for one in (interval.low, interval.value, interval.high))
    return f"{value} ({low} to {high}) {unit}"


def _in(unit: str, value_bytes: float | None) -> str:
    """A number of that unit, whatever its own would be."""
    number, own = format_bytes(None if value_bytes is None else round(value_bytes)).partition(" ")[::2]
    if value_bytes is None or own == unit:
        return number
    return f"{round(value_bytes / _BYTES[unit], 2) + 0.0:g}"


def _time_left(side: Side) -> str:
    if side.killed:
        return "refused" if side.cause in REFUSED else "killed"
    if side.limit_bytes is None:
        return "no limit"
    left = side.time_to_limit_s
    if left is None:
        return "no growth seen" if side.growth_bytes is not None else "?"
    return "over 30 days" if left.value > _TOO_LONG_S else f"about {format_duration(round(left.value * NS_PER_S))}"


def _ended(side: Side) -> str:
    if side.killed:
        return f"{side.cause}, {side.strength}"
    return "as asked, by oomtrace" if side.ended_as_asked else side.status or side.cause


def _mechanism(side: Side) -> str:
    one = side.mechanism
    if one is None:
        return "-"
    return f"{one.name}{f' or {len(one.or_)} more' if one.or_ else ''}"


def _covered(found: Comparison) -> str:
    def span(side: Side) -> str:
        if side.covered is None:
            return "nothing"
        number = f"{side.covered:.1f}".removesuffix(".0")
        unit = _UNITS[found.aligned.unit]
        return f"{number} {unit if number == '1' or unit.startswith('start') else unit + 's'}"

    return f"compared: {span(found.before)} of BEFORE, {span(found.after)} of AFTER"


def _write_list(page: Page, heading: str, texts: Sequence[str]) -> None:
    if texts:
        page.heading(heading)
    for text in texts:
        page.hang(Text(page.glyphs.bullet), Text(page.tame(text)), indent=2)
