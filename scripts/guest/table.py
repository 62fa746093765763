# SPDX-License-Identifier: Apache-2.0
"""The matrix as a table in Markdown: scenario by kernel, with the reasons of whatever is no pass below it."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.guest.errors import VmError
from scripts.guest.results import BROKEN, FAIL, NOT_APPLICABLE, PASS, Counts, Result

BEGIN = "<!-- made by scripts/vm --matrix --write-table: do not edit -->"
END = "<!-- end of what scripts/vm made -->"
_WORDS = {PASS: "pass", FAIL: "FAIL", NOT_APPLICABLE: "n/a", BROKEN: "BROKEN"}


def table(results: Iterable[Result], scenarios: Sequence[str], kernels: Sequence[str]) -> str:
    """Rows and columns in the order given; a cell that was not run is empty."""
    cells = {(each.scenario, each.kernel): each for each in results}
    heads = [_head(kernel, [each for each in cells.values() if each.kernel == kernel]) for kernel in kernels]
    reasons: dict[str, int] = {}
    lines = [f"| scenario | {' | '.join(heads)} |", f"|---|{'---|' * len(kernels)}"]
    for scenario in scenarios:
        row = [_cell(cells.get((scenario, kernel)), reasons) for kernel in kernels]
        lines.append(f"| `{scenario}` | {' | '.join(row)} |")
    lines += ["", *(f"{number}. {_escaped(reason)}" for reason, number in reasons.items())]
    return "\n".join(lines).rstrip() + "\n"


def _head(kernel: str, column: Sequence[Result]) -> str:
    for each in column:
        if each.release:
            return f"{each.release}, bcc {each.bcc or 'unknown'}"
    return kernel


def _cell(result: Result | None, reasons: dict[str, int]) -> str:
    if result is None:
        return ""
    word = _WORDS[result.outcome] + (f" {result.profile}" if result.profile.startswith("v1") else "")
    if result.outcome == PASS:
        return word
    number = reasons.setdefault(result.reason or "no reason was given", len(reasons) + 1)
    return f"{word} ({number})"


def kills_in_words(result: Result) -> str:
    """What a scenario's line says of kills: how many the kernel counted, and how many were seen and lost."""
    ours = next(iter(result.counts.tools), None) if result.counts is not None else None
    if result.counts is None or ours is None or not (result.counts.counted or ours.seen):
        return ""
    counted = "no count" if result.counts.counted is None else str(result.counts.counted)
    return f", kills: {ours.seen} seen, {ours.lost} lost, {counted} by the kernel"


def counts(result: Result) -> str:
    """Every tool in one guest, on the same kills: what it took to start, what it held, what it saw."""
    if result.counts is None:
        return ""
    counted = "nothing that can be read" if result.counts.counted is None else str(result.counts.counted)
    return tools(f"Linux {result.release}, {result.scenario}: the kernel counted {counted} kills", result.counts)


def tools(title: str, found: Counts) -> str:
    """The rows."""
    ours = next(iter(found.tools), None)
    lines = [
        title,
        "",
        "| tool | kills seen | start to ready | memory (RSS) |",
        "|---|---|---|---|",
    ]
    for each in found.tools:
        if each.seen is None:
            lines.append(f"| {each.tool} | {_escaped(each.words or 'did not run')} | | |")
            continue
        lost = "" if each.lost is None else f", {each.lost} lost"
        ready = _beside(each.ready_s, ours.ready_s if ours is not None and each is not ours else None, "s")
        memory = _beside(each.rss_mib, ours.rss_mib if ours is not None and each is not ours else None, "MiB")
        words = f" ({_escaped(each.words)})" if each.words else ""
        lines.append(f"| {each.tool} | {each.seen}{lost}{words} | {ready} | {memory} |")
    return "\n".join(lines) + "\n"


def _beside(value: float | None, ours: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.1f} {unit}" + (f" ({value / ours:.2f} x)" if ours else "")


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "|<>`*_[]" else c for c in text)


def totals(results: Iterable[Result]) -> str:
    """One line."""
    outcomes = [each.outcome for each in results]
    return (
        ", ".join(f"{outcomes.count(each)} {_WORDS[each]}" for each in _WORDS if each in outcomes) or "nothing was run"
    )


def put_into(document: Path, text: str) -> None:
    """Between the marks of a document.

    Raises:
        VmError: it has none.
    """
    old = document.read_text(encoding="utf-8")
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise VmError(f"{document} has no place for the table: a line {BEGIN} and a line {END}")
    document.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
