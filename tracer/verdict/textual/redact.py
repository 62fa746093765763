# SPDX-License-Identifier: Apache-2.0
"""A verdict that can be shared: hosts, users, paths, addresses and ids replaced, the same thing by the same name.

Lines of logs are not quoted at all: what was recognised in them stands there instead. Pids, names of processes (as
the kernel has them), sizes, times and ranks stay: without them nothing could be followed.
"""

import re
from typing import Any, TypeVar

import msgspec

from tracer.events import Passage, Text
from tracer.verdict.textual.citing import recognised
from tracer.verdict.textual.model import Cited, TextVerdict

_Value = TypeVar("_Value")

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("address", r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"),
        ("address", r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{1,5})?\b"),
        ("address", r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}(?![\w:])(?<!\d\d:\d\d:\d\d)"),
        ("address", r"\b(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}\b"),
        ("address", r"\b[a-z]{2,8}://[^\s'\"]{1,300}"),
        ("id", r"\b[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}\b"),
        ("id", r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{12,64}\b"),
        ("host", r"\bip-[0-9]{1,3}(?:-[0-9]{1,3}){3}\b"),
        (
            "user",
            r"(?<=\buid )[0-9]{1,10}\b|(?<=\buser )[0-9]{1,10}\b|(?<=\buid_)[0-9]{1,10}\b|(?<=\buser-)[0-9]{1,10}\b",
        ),
        ("job", r"(?<=\bSlurm job )[0-9]{1,10}\b|(?<=\bjob_)[0-9]{1,10}\b|(?<=sacct -j )[0-9]{1,10}\b"),
        ("unit", r"\b[A-Za-z0-9:_.\\@-]{1,200}\.(?:service|scope)\b"),
    )
)
_PATH = re.compile(r"(?<![\w/.<{$(-])/(?:[^\s'\":,;()|\]]{1,400})")
_OURS = (
    "/dev/shm", "/proc/meminfo", "/proc/sys/vm/overcommit_memory", "/sys/fs/cgroup", "/proc/self/cgroup",
)  # fmt: skip
_KEPT_AS_IS = frozenset({
    "comm", "cause", "strength", "status", "constraint", "schema", "source", "kind", "part", "rung", "role", "headline",
    "at",
})  # fmt: skip


class Redaction:
    """Names of things by what they were."""

    def __init__(self, hosts: frozenset[str], files: tuple[str, ...]) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        # The longest first: a host may be a part of another's name.
        self._hosts = [
            re.compile(rf"(?<![\w-]){re.escape(host)}(?![\w-])") for host in sorted(hosts, key=len, reverse=True)
        ]
        self._files = {name: f"file-{number}.log" for number, name in enumerate(files, 1)}

    def text(self, text: str) -> str:
        """With all that was found in it replaced."""
        if text in self._files:
            return self._files[text]
        for name, other in sorted(self._files.items(), key=lambda each: -len(each[0])):
            text = text.replace(name, other) if len(name) > 2 else text
        text = _PATH.sub(self._path, text)
        for kind, pattern in _PATTERNS:
            text = pattern.sub(lambda match, kind=kind: self._name(kind, match[0]), text)  # type: ignore[misc]
        for host in self._hosts:
            text = host.sub(lambda match: self._name("host", match[0]), text)
        return text

    def path(self, path: str) -> str:
        """A whole path, whatever it has in it."""
        return "/" if path == "/" else self._name("path", path)

    def _path(self, match: re.Match[str]) -> str:
        path = match[0].rstrip(".")
        if path == "/" or path.startswith(_OURS) or re.fullmatch(r"/(?:path|cgroup)-[0-9]+", path):
            return match[0]
        return self._name("path", path) + match[0][len(path) :]

    def _name(self, kind: str, what: str) -> str:
        key = (kind, what)
        if key not in self._names:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[key] = f"/{kind}-{number}" if kind == "path" else f"{kind}-{number}"
        return self._names[key]


def redacted(verdict: TextVerdict, passages: list[Passage], texts: list[Text]) -> TextVerdict:
    """The same verdict, without what says where and whose it was."""
    hosts = frozenset(passage.host for passage in passages if passage.host) | _named_hosts(passages)
    by = Redaction(hosts, tuple(text.name for text in texts))
    rests_on = {seq for one in verdict.incidents for link in one.proof for seq in link.evidence}
    rests_on |= {one.seq for one in verdict.cited}
    told = [passage.event for passage in passages if passage.event.seq in rests_on and passage.event.text]
    quotes = {event.text: recognised(event) for event in told}
    plain: TextVerdict = _rebuilt(verdict, by, quotes, "")
    return msgspec.structs.replace(plain, cited=tuple(_without_text(one) for one in plain.cited))


_HOST = re.compile(
    r"srun: error: ([\w.-]{1,64}):|on node ([\w.-]{1,64})|slurmstepd-([\w.-]{1,64}):| ON ([\w.-]{1,64}) CANCELLED"
)


def _named_hosts(passages: list[Passage]) -> frozenset[str]:
    return frozenset(
        name for passage in passages for found in _HOST.findall(passage.event.text) for name in found if name
    )


def _without_text(one: Cited) -> Cited:
    return msgspec.structs.replace(one, text="")


def _rebuilt(value: _Value, by: Redaction, quotes: dict[str, str], name: str) -> _Value:
    if isinstance(value, str):
        if name in _KEPT_AS_IS:
            return value
        if name == "cgroup" or (name == "cgroups" and value.startswith("/")):
            return by.path(value)  # type: ignore[return-value]
        text: str = value
        for quote, says in quotes.items():
            for length in (300, 200, 120):
                if len(quote[:length]) > 8:
                    text = text.replace(quote[:length], says)
        return by.text(text)  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(_rebuilt(item, by, quotes, name) for item in value)  # type: ignore[return-value]
    if isinstance(value, msgspec.Struct):
        if type(value).__name__ == "Place":
            return None  # type: ignore[return-value]
        fields: dict[str, Any] = {
            field: _rebuilt(getattr(value, field), by, quotes, field) for field in value.__struct_fields__
        }
        return type(value)(**fields)
    return value
