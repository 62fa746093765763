# SPDX-License-Identifier: Apache-2.0
"""Lines that were cut, re-wrapped, quoted in other text or had their numbers rewritten: what of them is still certain.

For logs from elsewhere alone, after all strict families have said no. A value of which a part may be missing stays
`None`, and so does a name that several readings would explain.
"""

import re

from tracer.events import (
    LogEvent,
    LoggedChoice,
    LoggedDecision,
    LoggedInvocation,
    LoggedKill,
    LoggedOther,
    LoggedReaped,
)
from tracer.logs.kernel.shape import KB, PID, Stamp, kib, name, number

_MESSAGE = r"(?P<head>Memory cgroup out of memory|Out of memory)(?P<allocating> \(oom_kill_allocating_task\))?: {1,2}"
_KILL = re.compile(rf"(?:{_MESSAGE})?(?P<verb>Killed|Kill) process {{1,2}}(?P<pid>{PID})(?![0-9])")
_INSIDE = re.compile(rf"(?:{_MESSAGE}|(?<=[\s\"'>]))(?P<verb>Killed|Kill) process {{1,2}}(?P<pid>{PID})(?![0-9])")
_SIZE_KEYS = "total-vm|anon-rss|file-rss|shmem-rss|pgtables"
_NUMBER = r"[0-9][0-9, \n]{0,30}"
_SIZE = re.compile(rf"(?<![\w-])(?P<key>{_SIZE_KEYS}): {{0,2}}(?P<number>{_NUMBER})[kK]B")
_FIRST_SIZE = re.compile(rf"\)[ ,]{{1,4}}(?:UID {PID},? {{1,2}})?(?:{_SIZE_KEYS}):")
_UID = re.compile(rf"(?<![\w-])UID:? {{0,2}}(?P<uid>{PID})(?=[ ,])")
_ADJ = re.compile(r"(?<![\w-])oom_score_adj: {0,2}(?P<adj>-?[0-9]{1,4})(?![0-9])")
_SCORE = re.compile(r"\) {1,2}score {1,2}(?P<score>-?[0-9]{1,10})(?: or sacrifice child)?")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_COMM_BYTES = 15

_DECISION = re.compile(
    r"oom-kill: ?constraint= ?(?P<constraint>CONSTRAINT_(?:NONE|CPUSET|MEMORY_POLICY|MEMCG))(?P<rest>,.*)?", re.DOTALL
)
_BLANKS = re.compile(r",\s{1,3}(?=(?:nodemask|cpuset|mems_allowed|oom_memcg|task_memcg|task|pid|uid)=|global_oom)")
_END = re.compile(rf",pid=(?P<pid>{PID}),uid=(?P<uid>{PID})(?=\Z|\s|\")")

_INVOKED = re.compile(r"(?P<comm>.+) invoked oom-killer(?P<rest>[:.\s].*)?", re.DOTALL)
_MASK = re.compile(r"gfp_mask=(?P<mask>0x[0-9a-f]{1,16}(?:\([A-Z_0-9|]{0,400}\))?)(?=,)")
_ORDER = re.compile(r",\s{0,2}order=(?P<order>-?[0-9]{1,3})(?=,)")
_REAPED = re.compile(rf"oom_reaper: reaped process (?P<pid>{PID}) \((?P<comm>.*)\)?,?.*", re.DOTALL)

_STARTS = ("Kill", "Memory cgroup out of memory", "Out of memory", "oom-kill:", "oom_reaper: ")
_WITHIN = " invoked oom-killer"
"""What is read here begins with one of the former, or has the latter."""


def parse(text: str, stamp: Stamp) -> LogEvent | None:
    """What is left of a line of a report; quoted text is somebody else's and said to be so."""
    if not (text.startswith(_STARTS) or _WITHIN in text):
        return None
    for read in (_decision, _kill, _invocation, _reaped):
        event = read(text, stamp)
        if event is not None:
            return event
    return None


def quoted(text: str, stamp: Stamp) -> LogEvent | None:
    """A kill that another text tells of, as events of Kubernetes do: a user's words, whoever wrote the line."""
    found = _INSIDE.search(text) if "Kill" in text and " process " in text else None
    if found is None:
        return None
    return _of_kill(text[found.start() :], found, stamp._replace(said_by="user"), text[found.end() :])


def _kill(text: str, stamp: Stamp) -> LogEvent | None:
    found = _KILL.match(text)
    return None if found is None else _of_kill(text, found, stamp, text[found.end() :])


def _of_kill(text: str, found: re.Match[str], stamp: Stamp, rest: str) -> LogEvent | None:
    if not rest.startswith((" ", ",", "(", "\n")):  # a pid that may go on
        return LoggedOther(about="report", **stamp.fields(text)) if found["head"] else None
    memcg = None if found["head"] is None else found["head"].startswith("Memory")
    comm, tail = _comm(rest)
    if found["verb"] == "Kill":
        return _choice(text, found, stamp, rest)
    sizes = {match["key"]: _whole(match["number"]) for match in _SIZE.finditer(tail)}
    uid = _UID.search(tail) or (None if comm is None else _UID.match(rest, 2))
    adj = _ADJ.search(tail)
    return LoggedKill(
        pid=int(found["pid"]),
        comm=None if comm is None else name(comm, stamp),
        memcg=memcg,
        allocating_task=found["allocating"] is not None,
        total_vm_bytes=kib(sizes.get("total-vm")),
        anon_rss_bytes=kib(sizes.get("anon-rss")),
        file_rss_bytes=kib(sizes.get("file-rss")),
        shmem_rss_bytes=kib(sizes.get("shmem-rss")),
        pgtables_bytes=kib(sizes.get("pgtables")),
        uid=None if uid is None else number(uid["uid"]),
        oom_score_adj=None if adj is None else number(adj["adj"]),
        **stamp.fields(text),
    )


def _choice(text: str, found: re.Match[str], stamp: Stamp, rest: str) -> LoggedChoice:
    score = None
    for match in _SCORE.finditer(rest):
        score = match
    comm = rest[2 : score.start()] if score is not None and rest.startswith(" (") else None
    return LoggedChoice(
        pid=int(found["pid"]),
        comm=name(comm, stamp) if comm is not None and _fits(comm) else None,
        score=number(score["score"]) if score is not None and score[0].endswith("child") else None,
        memcg=None if found["head"] is None else found["head"].startswith("Memory"),
        allocating_task=found["allocating"] is not None,
        **stamp.fields(text),
    )


def _comm(rest: str) -> tuple[str | None, str]:
    """The name in parentheses, and what stands behind them."""
    rest = re.sub(rf"^, UID {PID},", "", rest)
    if not re.match(r" {1,2}\(", rest):
        return None, rest if rest.startswith((",", " ")) and "(" not in rest else ""
    inner = rest.lstrip(" ")[1:]
    end = None
    for match in _FIRST_SIZE.finditer(inner):
        end = match
    if end is not None:
        if len(inner.encode("utf-8", "replace")) < _COMM_BYTES + len(") total-vm:"):
            return None, ""  # cut so early that all of it may be a name
        comm = inner[: end.start()]
        return (comm, inner[end.start() + 1 :]) if _fits(comm) else (None, inner[end.start() + 1 :])
    whole = re.fullmatch(r"(?P<comm>.*)\)[,.\s]*", inner, re.DOTALL)
    if whole is not None and _fits(whole["comm"]):
        return whole["comm"], ""
    return None, ""


def _fits(comm: str) -> bool:
    return 0 < len(comm.encode("utf-8", "replace")) <= _COMM_BYTES


def _whole(written: str) -> str | None:
    """The digits of a number: split by blanks or line ends, or grouped by threes; `None`: grouped in no known way."""
    if "," in written:
        grouped = written.strip()
        return grouped.replace(",", "") if _GROUPED.fullmatch(grouped) else None
    digits = re.sub(r"\s", "", written)
    return digits if re.fullmatch(KB, digits) else None


def _decision(text: str, stamp: Stamp) -> LoggedDecision | None:
    found = _DECISION.match(text)
    if found is None:
        return None
    rest = _BLANKS.sub(",", found["rest"] or "")
    end = None
    for match in _END.finditer(rest):
        end = match
    owner, task = _paths(rest if end is None else rest[: end.start()], found["constraint"], stamp, cut=end is None)
    return LoggedDecision(
        constraint=found["constraint"],
        oom_memcg=owner,
        task_memcg=task,
        tgid=None if end is None else int(end["pid"]),
        uid=None if end is None else number(end["uid"]),
        **stamp.fields(text),
    )


def _paths(rest: str, constraint: str, stamp: Stamp, *, cut: bool) -> tuple[str | None, str | None]:
    """Of a line whose end is missing: the paths that another key follows, where each key is there once."""
    keys = [",mems_allowed=", ",task_memcg=", ",task="]
    if constraint != "CONSTRAINT_MEMCG" or any(rest.count(key) > 1 for key in [*keys, ",oom_memcg="]):
        return None, None
    _, _, behind = rest.partition(",oom_memcg=")
    owner, key, task = behind.partition(",task_memcg=")
    if not key or not owner.startswith("/"):
        return None, None
    task, another, _ = task.partition(",task=")
    within = owner in ("/", task) or task.startswith(owner + "/")
    if not within and not (cut and not another and owner.startswith(task)):
        return None, None
    return name(owner, stamp), name(task, stamp) if another and within else None


def _invocation(text: str, stamp: Stamp) -> LoggedInvocation | None:
    found = _INVOKED.fullmatch(text)
    if found is None or not _fits(found["comm"]):
        return None
    rest = found["rest"] or ""
    if rest.strip(":. \n") and "gfp_mask" not in rest and "..." not in rest:
        return None
    mask, order = _MASK.search(rest), _ORDER.search(rest)
    return LoggedInvocation(
        comm=name(found["comm"], stamp),
        gfp_mask=None if mask is None else mask["mask"],
        order=None if order is None else number(order["order"]),
        **stamp.fields(text),
    )


def _reaped(text: str, stamp: Stamp) -> LoggedReaped | None:
    found = re.match(rf"oom_reaper: reaped process (?P<pid>{PID}) \((?P<rest>.*)", text, re.DOTALL)
    if found is None:
        return None
    comm, tail = found["rest"], ""
    at = found["rest"].rfind("), now ")
    at = at if at >= 0 else found["rest"].rfind(") now ")
    if at >= 0:
        comm, tail = found["rest"][:at], found["rest"][at:]
    sizes = {match["key"]: _whole(match["number"]) for match in _SIZE.finditer(tail)}
    return LoggedReaped(
        pid=int(found["pid"]),
        comm=name(comm, stamp) if at >= 0 and _fits(comm) else None,
        anon_rss_bytes=kib(sizes.get("anon-rss")),
        file_rss_bytes=kib(sizes.get("file-rss")),
        shmem_rss_bytes=kib(sizes.get("shmem-rss")),
        **stamp.fields(text),
    )
