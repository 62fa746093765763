# SPDX-License-Identifier: Apache-2.0
"""Lines of jobs, launchers, services and clusters that are read, as a table: `python -m tests.training_logs`.

`--write-table FILE` puts it between its marks in a document. The lines are those of the tests, each with what must be
read in it.
"""

import argparse
import runpy
from pathlib import Path

from tracer.logs.reports import KINDS as REPORTED
from tracer.logs.training import KINDS

BEGIN = "<!-- made by python -m tests.training_logs --write-table: do not edit -->"
END = "<!-- end of what tests.training_logs made -->"
_LOGS = Path(__file__).parent / "unit" / "logs"
_EXAMPLE_CHARS = 70


def lines() -> list[tuple[str, str]]:
    """A line, and the kind that it must be."""
    found = []
    for test in (_LOGS / "training" / "test_shapes.py", _LOGS / "reports" / "test_reports.py"):
        found += [(line[0], line[1]) for line in runpy.run_path(str(test))["LINES"]]
    return found


def table() -> str:
    """In Markdown: what is said, in how many forms, and one of these."""
    examples: dict[str, list[str]] = {}
    for text, about in lines():
        examples.setdefault(about, []).append(text)
    rows = ["| Kind | Says | Forms | One of them |", "|---|---|---|---|"]
    for about, says in (KINDS | REPORTED).items():
        forms = examples.get(about, [])
        shown = min(forms, key=len)[:_EXAMPLE_CHARS].strip() if forms else ""
        example = "`" + shown.replace("|", "\\|").replace("`", "'") + "`" if forms else "(of several lines)"
        rows.append(f"| `{about}` | {says} | {len(forms) or ''} | {example} |")
    count = sum(len(forms) for forms in examples.values())
    return "\n".join([*rows, "", f"{count} forms, each read as its test says."])


def put_into(path: Path, text: str) -> None:
    """Between the marks of a document."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write-table", type=Path, metavar="FILE", required=True)
    put_into(parser.parse_args().write_table, table())


if __name__ == "__main__":
    main()
