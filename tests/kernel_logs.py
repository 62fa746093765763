# SPDX-License-Identifier: Apache-2.0
"""Kernel logs from elsewhere, as they lie in tests/data/logs/kernel: a log, and next to it what must be read in it.

`NAME.log` is the log, of values of our own. `NAME.json` names the kernel and the format, says in `truth` what happened
(written with the log, by hand) and in `events` what the reader makes of it. `python -m tests.kernel_logs` reads all
logs anew and writes their events; `--write-table FILE` puts the table between its marks in a document.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tracer.events import (
    LogEvent,
    LogGap,
    LoggedChoice,
    LoggedDecision,
    LoggedGroupKill,
    LoggedInvocation,
    LoggedKill,
    LoggedOwner,
    LoggedReaped,
    LoggedStats,
    LoggedTasks,
    LoggedTrigger,
    LoggedUsage,
    LoggedXid,
)
from tracer.logs.kernel.reader import KernelLogReader

DATA = Path(__file__).parent / "data" / "logs" / "kernel"
BEGIN = "<!-- made by python -m tests.kernel_logs --write-table: do not edit -->"
END = "<!-- end of what tests.kernel_logs made -->"
CHUNK = 1 << 20


class Case(NamedTuple):
    """One log."""

    name: str
    kernel: str
    format: str
    about: str
    truth: dict[str, Any]
    events: list[dict[str, Any]]
    raw: bytes


def cases() -> list[Case]:
    """All of them, by name."""
    return [case_of(path) for path in sorted(DATA.glob("*.json"))]


def case_of(path: Path) -> Case:
    """One of them."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Case(path.stem, raw=path.with_suffix(".log").read_bytes(), **content)


def read(raw: bytes, chunk: int = CHUNK) -> list[LogEvent]:
    """The events of a log that comes in chunks."""
    reader = KernelLogReader()
    events = [event for at in range(0, len(raw), chunk) for event in reader.feed(raw[at : at + chunk])]
    return events + reader.end()


def dumped(events: Iterable[LogEvent]) -> list[dict[str, Any]]:
    """As they stand in the file: without their text, which is that of the log."""
    documents = json.loads(msgspec.json.encode(list(events)))
    return [{key: value for key, value in each.items() if key not in ("text", "source")} for each in documents]


def _first(events: Sequence[LogEvent], kind: type, field: str) -> Any:
    values = (getattr(event, field) for event in events if isinstance(event, kind))
    return next((value for value in values if value is not None), None)


def _all(events: Sequence[LogEvent], kind: type, *fields: str) -> list[list[Any]]:
    return [[getattr(event, field) for field in fields] for event in events if isinstance(event, kind)]


_LOOKS: dict[str, Callable[[Sequence[LogEvent]], Any]] = {
    "victims": lambda events: _all(events, LoggedKill, "pid", "comm"),
    "chosen": lambda events: _all(events, LoggedChoice, "pid", "comm"),
    "reaped": lambda events: _all(events, LoggedReaped, "pid", "comm"),
    "trigger": lambda events: _first(events, LoggedInvocation, "comm"),
    "xid": lambda events: _all(events, LoggedXid, "xid", "pid"),
    "release": lambda events: _first(events, LoggedTrigger, "release"),
    "constraint": lambda events: _first(events, LoggedDecision, "constraint"),
    "decided_pid": lambda events: _first(events, LoggedDecision, "tgid"),
    "group": lambda events: _first(events, LoggedGroupKill, "memcg"),
    "lost": lambda events: _first(events, LogGap, "lost"),
    "said_by": lambda events: _first(events, LoggedKill, "said_by"),
    "hosts": lambda events: [host for (host,) in _all(events, LoggedKill, "host")],
    "events": len,
    "stats": lambda events: _first(events, LoggedStats, "values"),
    "memcg": lambda events: next(
        (event.memcg for event in events if isinstance(event, LoggedKill | LoggedChoice) and event.memcg is not None),
        None,
    ),
    "oom_memcg": lambda events: _first(events, LoggedDecision | LoggedOwner, "oom_memcg"),
    "task_memcg": lambda events: _first(events, LoggedDecision | LoggedOwner, "task_memcg"),
    "limit_bytes": lambda events: _first(
        [event for event in events if isinstance(event, LoggedUsage) and event.counter == "memory"],
        LoggedUsage,
        "limit_bytes",
    ),
    "usage": lambda events: {
        event.counter: [event.usage_bytes, event.limit_bytes, event.failcnt]
        for event in events
        if isinstance(event, LoggedUsage)
    },
    "rows": lambda events: [
        [row.pid, row.tgid, row.rss_pages, row.comm]
        for event in events
        if isinstance(event, LoggedTasks)
        for row in event.rows
    ],
    "rss_rows": lambda events: len(
        [row for (rows,) in _all(events, LoggedTasks, "rows") for row in rows if row.rss_pages]
    ),
    **{
        name: lambda events, name=name: _first(events, LoggedKill, name)  # type: ignore[misc]
        for name in ("total_vm_bytes", "anon_rss_bytes", "file_rss_bytes", "shmem_rss_bytes")
    },
}


def unlike_the_truth(case: Case, events: Sequence[LogEvent]) -> list[str]:
    """What was read otherwise than it happened."""
    seen = {name: _LOOKS[name](events) for name in case.truth}
    return [f"{name}: {case.truth[name]!r}, read {seen[name]!r}" for name in seen if seen[name] != case.truth[name]]


def table() -> str:
    """In Markdown: format by kernel, with the cases of each."""
    found: dict[str, dict[str, list[str]]] = {}
    for case in cases():
        assert not unlike_the_truth(case, read(case.raw)), case.name
        found.setdefault(case.format, {}).setdefault(case.kernel, []).append(case.name)
    lines = ["| Format | Kernels | Logs |", "|---|---|---|"]
    for name in sorted(found, key=str.lower):
        kernels = ", ".join(
            sorted(found[name], key=lambda kernel: [int(part) for part in kernel.split()[0].split(".")])
        )
        lines.append(f"| {name} | {kernels} | {sum(map(len, found[name].values()))} |")
    return "\n".join([*lines, "", f"{len(cases())} logs, each read as its truth says."])


def put_into(path: Path, text: str) -> None:
    """Between the marks of a document."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write-table", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.write_table:
        put_into(args.write_table, table())
        return
    for case in cases():
        events = read(case.raw)
        for unlike in unlike_the_truth(case, events):
            print(f"{case.name}: {unlike}")
        now = {
            **{name: getattr(case, name) for name in ("kernel", "format", "about", "truth")},
            "events": dumped(events),
        }
        text = json.dumps(now, indent=1, ensure_ascii=False)
        (DATA / f"{case.name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
