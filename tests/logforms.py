# SPDX-License-Identifier: Apache-2.0
"""Records of a kernel's log, written as other programs write them: each form is a function from records to bytes."""

import datetime
import json
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

HOST = "node-17"
BOOT = datetime.datetime(2024, 4, 28, 5, 57, 48, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
"""When the kernel's clock was at 0."""
RUSSIAN = ["янв", "фев", "мар", "апр", "май", "июн", "июл", "авг", "сен", "окт", "ноя", "дек"]
FRENCH = ["janv.", "févr.", "mars", "avril", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc."]


class Rec(NamedTuple):
    """One record."""

    text: str
    """As the kernel has it: line ends are its own."""
    usec: int = 0
    level: int = 6
    seq: int = 0

    @property
    def wall(self) -> datetime.datetime:
        return BOOT + datetime.timedelta(microseconds=self.usec)

    @property
    def stamp(self) -> str:
        return f"[{self.usec // 1_000_000:5d}.{self.usec % 1_000_000:06d}] "

    @property
    def month_day(self) -> str:
        return f"{self.wall:%b} {self.wall.day:2d}"


Form = Callable[[Sequence[Rec]], bytes]


def _lines(records: Sequence[Rec], line: Callable[[Rec], str]) -> bytes:
    return "".join(line(record) + "\n" for record in records).encode("utf-8", "surrogateescape")


def _simple(line: Callable[[Rec], str]) -> Form:
    return lambda records: _lines(records, line)


def _around(inner: Form, line: Callable[[str, int], str]) -> Form:
    """Each line of another form, wrapped."""

    def form(records: Sequence[Rec]) -> bytes:
        texts = inner(records).decode("utf-8", "surrogateescape").split("\n")[:-1]
        return "".join(line(text, number) + "\n" for number, text in enumerate(texts)).encode(
            "utf-8", "surrogateescape"
        )

    return form


def _escaped(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in raw)


def _rsyslog(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", lambda found: f"#{ord(found[0]):03o}", text)


def _journal_fields(record: Rec) -> dict[str, str]:
    epoch = int(record.wall.timestamp()) * 1_000_000 + record.wall.microsecond
    return {
        "__CURSOR": "s=9b1c;i=4d2;b=77aa",
        "__REALTIME_TIMESTAMP": str(epoch + 211),
        "__MONOTONIC_TIMESTAMP": str(record.usec + 211),
        "_BOOT_ID": "77aa6c0f3be94d16a5d9f0b6d0ad3d14",
        "PRIORITY": str(record.level),
        "_MACHINE_ID": "0c1bb4f3c4b64a41b6e0d9a2b8b8c7f1",
        "_HOSTNAME": HOST,
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": "0",
        "SYSLOG_IDENTIFIER": "kernel",
        "_SOURCE_MONOTONIC_TIMESTAMP": str(record.usec),
        "MESSAGE": record.text,
    }


def _json(record: Rec) -> str:
    if not record.text.isprintable() and "\n" not in record.text:
        return _json_bytes(record)
    return json.dumps(_journal_fields(record), ensure_ascii=False)


def _json_bytes(record: Rec) -> str:
    fields = {**_journal_fields(record), "MESSAGE": list(record.text.encode("utf-8", "surrogateescape"))}
    return json.dumps(fields, separators=(",", ":"))


def _verbose(records: Sequence[Rec]) -> bytes:
    texts = []
    for record in records:
        fields = _journal_fields(record)
        message = fields.pop("MESSAGE").replace("\n", "\n" + " " * 12)
        lines = [f"    {name}={value}" for name, value in fields.items() if not name.startswith("__")]
        head = f"{record.wall:%a %Y-%m-%d %H:%M:%S.%f} CEST [s=9b1c;i=4d2;b=77aa;m=1f;t=61f;x=c0ffee]"
        texts.append("\n".join([head, *lines[:4], f"    MESSAGE={message}", *lines[4:]]))
    return ("\n".join(texts) + "\n").encode("utf-8", "surrogateescape")


def _export(records: Sequence[Rec]) -> bytes:
    return b"\n".join(
        b"".join(_exported(name, value) for name, value in _journal_fields(each).items()) for each in records
    )


def _exported(name: str, value: str) -> bytes:
    """What is no plain text has its length before it, in binary."""
    raw = value.encode("utf-8", "surrogateescape")
    if value.isprintable():
        return f"{name}={value}\n".encode()
    return name.encode() + b"\n" + len(raw).to_bytes(8, "little") + raw + b"\n"


def _json_pretty(records: Sequence[Rec]) -> bytes:
    texts = []
    for record in records:
        fields: dict[str, object] = {**_journal_fields(record)}
        if not record.text.replace("\n", "").isprintable():
            fields["MESSAGE"] = list(record.text.encode("utf-8", "surrogateescape"))
        text = json.dumps(fields, ensure_ascii=False, indent="\t", separators=(",", " : "))
        texts.append(f"{text}\n")
    return "".join(texts).encode()


def _html(text: str, _number: int) -> str:
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(sign, entity)
    return f'<span class="line">{text}</span><br/>'


def _mail(text: str, _number: int) -> str:
    parts = textwrap.wrap(text, 76, break_long_words=False, break_on_hyphens=False, drop_whitespace=True) or [text]
    return "\n".join(parts)


def _terminal(text: str, _number: int) -> str:
    return "\n".join(text[at : at + 100] for at in range(0, len(text), 100)) or text


def _docker(text: str, number: int) -> str:
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return json.dumps({"log": text + "\n", "stream": "stdout", "time": f"2024-04-28T08:00:{number % 60:02d}.5Z"})


dmesg = _simple(lambda r: r.stamp + r.text)
syslog = _simple(lambda r: f"{r.month_day} {r.wall:%H:%M:%S} {HOST} kernel: {r.stamp}{_rsyslog(r.text)}")

FORMS: dict[str, Form] = {
    "/dev/kmsg": _simple(lambda r: f"{r.level},{r.seq},{r.usec},-;{_escaped(r.text)}"),
    "/dev/kmsg with callers": _simple(lambda r: f"{r.level},{r.seq},{r.usec},-,caller=T9;{_escaped(r.text)}"),
    "dmesg": dmesg,
    "dmesg with callers": _simple(lambda r: f"{r.stamp[:-1]}[ T4711] {r.text}"),
    "dmesg, whole seconds": _simple(lambda r: f"[{r.usec // 1_000_000:5d}] {r.text}"),
    "dmesg -x": _simple(lambda r: f"kern  :{'info' if r.level == 6 else 'warn':<6}: {r.stamp}{r.text}"),
    "dmesg -r": _simple(lambda r: f"<{r.level}>{r.stamp}{r.text}"),
    "dmesg -d": _simple(lambda r: f"{r.stamp[:-2]} <    0.000011>] {r.text}"),
    "dmesg -H": _simple(lambda r: f"[  +0.000011] {r.text}"),
    "dmesg -T": _simple(lambda r: f"[{r.wall:%a} {r.month_day} {r.wall:%H:%M:%S %Y}] {r.text}"),
    "dmesg -T, Chinese": _simple(lambda r: f"[日 {r.wall.month}月 {r.wall.day:2d} {r.wall:%H:%M:%S %Y}] {r.text}"),
    "dmesg -T, Russian": _simple(
        lambda r: f"[вт {RUSSIAN[r.wall.month - 1]} {r.wall.day:2d} {r.wall:%H:%M:%S %Y}] {r.text}"
    ),
    "dmesg -T, French": _simple(
        lambda r: f"[dim. {FRENCH[r.wall.month - 1]} {r.wall.day:2d} {r.wall:%H:%M:%S %Y}] {r.text}"
    ),
    "dmesg --time-format iso": _simple(lambda r: f"{r.wall:%Y-%m-%dT%H:%M:%S},{r.wall:%f}+02:00 {r.text}"),
    "syslog with stamps": syslog,
    "syslog": _simple(lambda r: f"{r.month_day} {r.wall:%H:%M:%S} {HOST} kernel: {_rsyslog(r.text)}"),
    "syslog without host": _simple(lambda r: f"{r.month_day} {r.wall:%H:%M:%S} kernel: {r.stamp}{_rsyslog(r.text)}"),
    "syslog, microseconds": _simple(
        lambda r: f"{r.month_day} {r.wall:%H:%M:%S.%f} {HOST} kernel: {r.stamp}{_rsyslog(r.text)}"
    ),
    "syslog, Russian": _simple(
        lambda r: f"{RUSSIAN[r.wall.month - 1]} {r.wall.day:2d} {r.wall:%H:%M:%S} {HOST} kernel: {_rsyslog(r.text)}"
    ),
    "syslog, no identifier": _simple(lambda r: f"{r.month_day} {r.wall:%H:%M:%S} {HOST} {r.stamp}{_rsyslog(r.text)}"),
    "rsyslog, ISO": _simple(
        lambda r: f"{r.wall:%Y-%m-%dT%H:%M:%S.%f}+02:00 {HOST} kernel: {r.stamp}{_rsyslog(r.text)}"
    ),
    "RFC 5424": _simple(
        lambda r: f"<{r.level}>1 {r.wall:%Y-%m-%dT%H:%M:%S.%f}+02:00 {HOST} kernel - - - {_rsyslog(r.text)}"
    ),
    "journalctl": _simple(
        lambda r: f"{r.month_day} {r.wall:%H:%M:%S} {HOST} kernel: " + r.text.replace("\n", "\n" + " " * 32)
    ),
    "journalctl -o short-iso": _simple(
        lambda r: f"{r.wall:%Y-%m-%dT%H:%M:%S}+0200 {HOST} kernel: " + r.text.replace("\n", "\n" + " " * 41)
    ),
    "journalctl -o short-full": _simple(
        lambda r: f"{r.wall:%a %Y-%m-%d %H:%M:%S} CEST {HOST} kernel: " + r.text.replace("\n", "\n" + " " * 47)
    ),
    "journalctl -o short-unix": _simple(
        lambda r: f"{r.wall.timestamp():.6f} {HOST} kernel: " + r.text.replace("\n", "\n" + " " * 35)
    ),
    "journalctl -o short-delta": _simple(
        lambda r: f"{r.stamp[:-2]} <    0.000011 >] {HOST} kernel: " + r.text.replace("\n", "\n" + " " * 48)
    ),
    "journalctl -o short-monotonic": _simple(
        lambda r: f"{r.stamp}{HOST} kernel: " + r.text.replace("\n", "\n" + " " * 31)
    ),
    "journalctl -o json": _simple(_json),
    "journalctl -o json, bytes": _simple(_json_bytes),
    "journalctl -o verbose": _verbose,
    "journalctl -o export": _export,
    "journalctl -o json-pretty": _json_pretty,
    "docker, JSON": _around(dmesg, _docker),
    "CRI": _around(dmesg, lambda text, n: f"2024-04-28T08:00:{n % 60:02d}.123456789Z stdout F {text}"),
    "docker compose": _around(dmesg, lambda text, _: f"node-logs-1  | {text}"),
    "kubectl logs --prefix": _around(syslog, lambda text, _: f"[pod/logs-x7k2p/tail] {text}"),
    "Talos": _simple(
        lambda r: f"kern: {'info' if r.level == 6 else 'warning'}: [{r.wall:%Y-%m-%dT%H:%M:%S.%f}Z]: {r.text}"
    ),
    "quoted in a mail": _around(dmesg, lambda text, _: f"> {text}"),
    "quoted twice, wrapped": _around(_around(dmesg, _mail), lambda text, _: f">> {text}"),
    "indented": _around(dmesg, lambda text, _: f"    {text}"),
    "first bracket lost": _around(dmesg, lambda text, _: text.removeprefix("[")),
    "stamp on a line of its own": _simple(lambda r: f"{r.stamp}\n{r.text}"),
    "wrapped by a terminal": _around(dmesg, _terminal),
    "wrapped by a mail program": _around(dmesg, _mail),
    "HTML": _around(dmesg, _html),
    "colours": _simple(lambda r: f"\x1b[32m{r.stamp}\x1b[0m\x1b[33m{r.text}\x1b[0m"),
    "PowerShell, UTF-16": lambda records: b"\xff\xfe" + dmesg(records).decode("utf-8", "replace").encode("utf-16-le"),
    "CRLF": _around(dmesg, lambda text, _: f"{text}\r"),
    "bare text": _simple(lambda r: r.text),
}
"""By what they are called in tests/README.md."""
WRAPPING = frozenset({"quoted twice, wrapped", "wrapped by a terminal", "wrapped by a mail program"})
"""Where a line was broken, no one can say whether a blank was there: a name may be unknown."""
LINE_ENDS_LOST = frozenset({"bare text", "HTML"})
"""A record's own line ends cannot be told from those between records."""
