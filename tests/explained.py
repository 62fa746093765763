# SPDX-License-Identifier: Apache-2.0
"""Logs as somebody would send them, in tests/data/explain: texts, and next to them what must be said of them.

`python -m tests.explained --write-table FILE` puts the table of them between its marks in a document.

`NAME/expected.json`, written by hand: how they are given (`args`), fields of the document that must be (`expect`, by
path), words that the page must have (`says`), and what neither page nor document may say (`never`).
`NAME/document.json`, written by `python -m tests.explained --write`: the whole document but for what is null or empty,
a line for each field of an incident and for each line that is cited. A change of what is said shows there, and is
looked at before it is committed.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tracer.events import Passage, Text
from tracer.logs.texts import TextReader, numbered
from tracer.verdict.textual.judge import explain
from tracer.verdict.textual.model import TextVerdict

BEGIN = "<!-- made by python -m tests.explained --write-table: do not edit -->"
END = "<!-- end of what tests.explained made -->"
DATA = Path(__file__).parent / "data" / "explain"
_KINDS = {"--kernel-log": "kernel", "--train-log": "training"}


class Case(NamedTuple):
    """One of them."""

    name: str
    about: str
    args: list[str]
    expect: dict[str, Any]
    says: list[str]
    never: list[str]

    def texts(self) -> list[tuple[str, str, bytes]]:
        """Name, kind and content of each, in the order of the command."""
        found: list[tuple[str, str, bytes]] = []
        kind = "mixed"
        for word in self.args:
            if word in _KINDS:
                kind = _KINDS[word]
                continue
            found.append((word, kind, (DATA / self.name / word).read_bytes()))
            kind = "mixed"
        return found


def cases() -> list[Case]:
    """All of them, by name."""
    return [
        Case(path.parent.name, **json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(DATA.glob("*/expected.json"))
    ]


Cut = Callable[[bytes], Iterable[bytes]]


def passages_of(given: Iterable[tuple[str, str, bytes]], cut: Cut) -> tuple[list[Passage], list[Text]]:
    """What some texts say, read in chunks as `cut` makes them."""
    passages: list[Passage] = []
    texts: list[Text] = []
    for place, (name, kind, raw) in enumerate(given):
        reader = TextReader(place, name, kind)  # type: ignore[arg-type]
        for chunk in cut(raw):
            passages += reader.feed(chunk)
        passages += reader.end()
        texts.append(reader.text)
    return numbered(passages), texts


def explained(given: Iterable[tuple[str, str, bytes]], chunk: int = 1 << 20) -> TextVerdict:
    """The verdict of some texts."""
    return explain(*passages_of(given, lambda raw: (raw[at : at + chunk] for at in range(0, len(raw), chunk))))


def at(document: Any, path: str) -> Any:
    """A field by its path; `None` where a part of it is not there."""
    for part in path.split("."):
        if isinstance(document, list):
            document = document[int(part)] if int(part) < len(document) else None
        elif document is not None:
            document = document[part]
    return document


def written(case: Case) -> str:
    """The whole document of a case, as it lies beside it."""
    document = _full(json.loads(msgspec.json.encode(explained(case.texts()))))
    parts = [f' "{name}": {_laid_out(part, 1, 3 if name == "incidents" else 2)}' for name, part in document.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _full(value: Any) -> Any:
    """Without what is null or empty."""
    if isinstance(value, dict):
        parts = {name: _full(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part not in (None, [], {})}
    return [_full(part) for part in value] if isinstance(value, list) else value


def _laid_out(value: Any, depth: int, deepest: int) -> str:
    if depth == deepest or not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    indent = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f'{indent}"{name}": {_laid_out(part, depth + 1, deepest)}' for name, part in value.items()]
    else:
        parts = [indent + _laid_out(part, depth + 1, deepest) for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(parts) + f"\n{indent[1:]}{closing}"


def table() -> str:
    """In Markdown: the cases by what must be said of them."""
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases():
        cause = case.expect.get("incidents.0.cause", "one of several")
        found.setdefault((cause, case.expect["incidents.0.strength"]), []).append(case)
    rows = ["| What must be said | Cases | Which |", "|---|---|---|"]
    for (cause, strength), those in sorted(found.items()):
        rows.append(f"| `{cause}`, {strength} | {len(those)} | {', '.join(case.name for case in those)} |")
    return "\n".join([*rows, "", f"{len(cases())} cases; each has words that its page must have, or may not have."])


def put_into(path: Path, text: str) -> None:
    """Between the marks of a document."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Logs that are explained.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write-table", type=Path, metavar="FILE", help="put their table into a document")
    what.add_argument("--write", action="store_true", help="write what is said of each beside it")
    args = parser.parse_args()
    if args.write_table:
        put_into(args.write_table, table())
        return
    for case in cases():
        (DATA / case.name / "document.json").write_text(written(case), encoding="utf-8")


if __name__ == "__main__":
    main()
