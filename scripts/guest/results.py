# SPDX-License-Identifier: Apache-2.0
"""What came of a scenario on a kernel: read from the files that the guest left, kept by checkout for the next run."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from scripts.guest import truth
from scripts.guest.errors import VmError

PASS, FAIL, NOT_APPLICABLE, BROKEN = "pass", "fail", "not_applicable", "broken"
"""As declared; another verdict; cannot be made on this kernel; no answer, which is nobody's verdict."""
_EXITS = {0: PASS, 1: FAIL, 5: NOT_APPLICABLE}
_SETTLED = {PASS, NOT_APPLICABLE}


@dataclass(frozen=True)
class Tool:
    """What one tool that tells of OOM kills did in a guest."""

    tool: str
    ready_s: float | None = None
    rss_mib: float | None = None
    seen: int | None = None
    lost: int | None = None
    words: str | None = None
    """Why it did not run, in its own words."""


@dataclass(frozen=True)
class Counts:
    """OOM kills of one scenario: by the kernel's own counter, and by each tool that ran, ours first."""

    counted: int | None
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class Result:
    """One cell of the table."""

    scenario: str
    kernel: str
    profile: str
    outcome: str
    reason: str | None
    seconds: float
    release: str
    bcc: str | None
    """As the loader's Python in that guest says."""
    counts: Counts | None = None


def parse(folder: Path, *, died: str) -> tuple[str, str | None, float]:
    """Outcome, reason and seconds of a scenario, from its folder of files; `died`: what is known if it never ended."""
    ended = _json(folder / "ended.json")
    if ended is None:
        return BROKEN, died, 0.0
    seconds = float(ended.get("seconds", 0.0))
    if ended.get("timed_out"):
        return BROKEN, f"it did not end within {seconds:.0f} s", seconds
    exit_code, document = ended.get("exit"), _json(folder / "stdout")
    outcome = _EXITS.get(exit_code if isinstance(exit_code, int) else -1, BROKEN)
    if document is None or outcome == BROKEN:
        return BROKEN, f"exit {exit_code}: {_telling_line(folder / 'stderr')}", seconds
    said = document.get("outcome", outcome)
    if said != outcome:
        return BROKEN, f"exit {exit_code}, but its document says {said}", seconds
    return outcome, None if outcome == PASS else _why(document, folder), seconds


def counts(folder: Path) -> Counts | None:
    """Who counted how many kills, by what a scenario printed; `None`: it said nothing of that."""
    document = _json(folder / "stdout") or {}
    if document.get("schema") == "oomtrace.peers/1":
        return parse_counts(document)
    found = document.get("counters")
    ours = {"tool": "oomtrace", **found} if isinstance(found, dict) else None
    return None if found is None else parse_counts({"counted": found.get("kernel"), "tools": [ours]})


def parse_counts(content: dict[str, Any] | None) -> Counts | None:
    """From what a guest or an earlier run wrote, of which nothing is believed."""
    if not isinstance(content, dict) or not isinstance(content.get("tools"), list | tuple):
        return None
    tools = [each for each in content["tools"] if isinstance(each, dict)]
    return Counts(
        _number(content.get("counted"), int),
        tuple(
            Tool(
                _one_line(each.get("tool", "?")),
                _number(each.get("ready_s"), float),
                _number(each.get("rss_mib"), float),
                _number(each.get("seen"), int),
                _number(each.get("lost"), int),
                None if each.get("words") is None else _one_line(each["words"]),
            )
            for each in tools
        ),
    )


_N = TypeVar("_N", int, float)


def _number(value: object, kind: type[_N]) -> _N | None:
    return kind(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _why(document: dict[str, Any], folder: Path) -> str:
    if document.get("reason"):
        return _one_line(document["reason"])
    wrong = [each for each in document.get("comparisons", ()) if isinstance(each, dict) and each.get("agrees") is False]
    if wrong:
        return _one_line("; ".join(f"{each['run']}, {each['what']}: {each['found']}" for each in wrong))
    rows = [each for each in document.get("capabilities", ()) if isinstance(each, dict)]
    lacking = [
        f"{each['name']}: {each['found']}" for each in rows if each.get("ok") == "no" and each.get("weight") == "proof"
    ]
    return _one_line("; ".join(lacking)) if lacking else _telling_line(folder / "stderr")


def _json(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _telling_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    ours = [line.removeprefix("oomtrace: ") for line in lines if line.startswith("oomtrace: ")]
    return _one_line((ours or lines)[-1]) if lines else "it said nothing"


def _one_line(text: object) -> str:
    """What a guest said is shown on a terminal and written into a table: no control characters, no length."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())[:300]


def last_words(console: Path) -> str:
    """Why a guest ended, by its console."""
    try:
        lines = console.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    telling = [line for line in lines if "Kernel panic" in line or "oomtrace-guest:" in line or "BUG:" in line]
    telling = [line for line in telling if "oomtrace-guest: started" not in line]
    return _one_line(telling[0]) if telling else "the guest ended and left no word"


SCHEMA = "oomtrace.vm/1"


def write(path: Path, found: Iterable[Result]) -> None:
    """All cells as a document, for programs.

    Raises:
        VmError: the file cannot be written.
    """
    document = {"schema": SCHEMA, "results": [asdict(each) for each in found]}
    try:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise VmError(f"cannot write {path}: {error.strerror}") from error


def _result(content: dict[str, Any]) -> Result | None:
    """A cell as `asdict` wrote it; `None`: by another version."""
    try:
        return Result(**{**content, "counts": parse_counts(content.get("counts"))})
    except TypeError:
        return None


def read(paths: Iterable[Path]) -> list[Result]:
    """What several runs wrote; of a cell that more than one has, the last one's.

    Raises:
        VmError: a file is no such document.
    """
    cells: dict[tuple[str, str], Result] = {}
    for path in paths:
        document = _json(path)
        if document is None or document.get("schema") != SCHEMA:
            raise VmError(f"{path} is not what scripts/vm --json writes")
        for content in document["results"]:
            result = _result(content)
            if result is None:
                raise VmError(f"{path} was written by another version of scripts/vm")
            cells[result.scenario, result.kernel] = result
    return list(cells.values())


class Store:
    """Results of one checkout, on disk.

    Args:
        folder: for this checkout and no other.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, kernel: str, profile: str, scenario: str) -> Path:
        return self._folder / kernel / profile / f"{scenario}.json"

    def left(self, kernel: str, profile: str, scenario: str) -> Path:
        """Where that lies which a scenario left that has passed, if it is kept (see `truth`)."""
        return self._folder / kernel / profile / "left" / scenario

    def layouts(self, kernel: str) -> Path:
        """The same of a kernel's layouts (see `layouts`)."""
        return self._folder / kernel / "layouts"

    def keep(self, result: Result, found: Path | None = None) -> None:
        """At once, so that a run that is broken off loses nothing.

        Args:
            result: the cell.
            found: what the guest left of the scenario; kept if it has passed.
        """
        path = self._path(result.kernel, result.profile, result.scenario)
        path.parent.mkdir(parents=True, exist_ok=True)
        if found is not None and result.outcome == PASS and result.scenario not in truth.LEFT_OUT:
            truth.keep(found, self.left(result.kernel, result.profile, result.scenario))
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(result)), encoding="utf-8")
        new.rename(path)

    def settled(self, kernel: str, profile: str, scenario: str, *, with_left: bool = False) -> Result | None:
        """What need not be run again: a failure or no answer is asked once more.

        `with_left`: what it left is wanted too.
        """
        content = _json(self._path(kernel, profile, scenario))
        result = None if content is None else _result(content)
        if result is None or result.outcome not in _SETTLED:
            return None
        kept = result.outcome != PASS or scenario in truth.LEFT_OUT or self.left(kernel, profile, scenario).exists()
        return result if kept or not with_left else None
