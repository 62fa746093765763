# SPDX-License-Identifier: Apache-2.0
"""One declaration for both languages: field markers, and what is derived from a class that uses them.

A class annotated with these markers is at once what Python reads, what the recording holds and what
the BPF programs fill in: `Layout` derives the C struct, its checks and the decoder. It knows no event.
"""

import enum
import struct
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

HEAD_FIELDS = (("ts_ns", "u64"), ("kind", "u32"), ("cpu", "u32"))
HEAD = struct.Struct("=QII")
MAX_RECORD_BYTES = 1024
"""BPF clears a record before it fills it, and LLVM has no larger memset."""


class LayoutError(TypeError):
    """A class cannot be laid out: a gap, a size that is no multiple of 8, an unknown marker."""


@dataclass(frozen=True)
class Wire:
    """How a field lies in a record: C element type, `struct` code, element count."""

    c_type: str
    code: str
    count: int = 1

    @property
    def element_bytes(self) -> int:
        return struct.calcsize("=" + self.code)

    @property
    def size_bytes(self) -> int:
        return self.element_bytes * self.count


u64 = Annotated[int, Wire("u64", "Q")]
s64 = Annotated[int, Wire("s64", "q")]
u32 = Annotated[int, Wire("u32", "I")]
s32 = Annotated[int, Wire("s32", "i")]
Comm = Annotated[str, Wire("char", "s", 16)]
"""TASK_COMM_LEN bytes; arbitrary bytes but NUL, chosen by the process itself."""
CgroupName = Annotated[str, Wire("char", "s", 128)]
"""One path component; 127 bytes and a NUL, cut where longer (`cri-containerd-<64 hex>.scope` is 85)."""
PrintkText = Annotated[str, Wire("char", "s", 464)]
"""A piece of a line of the kernel's log, cut where it is longer; a path may be."""
StackAddresses = Annotated[tuple[int, ...], Wire("u64", "Q", 48)]

EventT = TypeVar("EventT")


@dataclass(frozen=True)
class Field:
    """One field of a record."""

    name: str
    wire: Wire
    offset: int
    optional: bool
    """All bits set on the wire means that the kernel does not have the value: `None`."""


class Layout(Generic[EventT]):
    """The record of one event class.

    Args:
        event: a class whose annotations carry markers; fields without one never touch the wire.
        kind: the record's number, never reused.

    Raises:
        LayoutError: the fields would need padding, or the size is no multiple of 8.
    """

    def __init__(self, event: type[EventT], kind: int) -> None:
        self.event, self.kind = event, kind
        self.fields = tuple(_fields(event))
        last = self.fields[-1] if self.fields else None
        self.size_bytes = HEAD.size if last is None else last.offset + last.wire.size_bytes
        if self.size_bytes % 8 or self.size_bytes > MAX_RECORD_BYTES:
            raise LayoutError(f"{event.__name__}: {self.size_bytes} bytes is no size for a record")
        body = "".join(_code(field.wire) for field in self.fields)
        self._body = struct.Struct("=" + body)

    @property
    def c_name(self) -> str:
        """The struct's name in C: the class's name in snake case."""
        name = self.event.__name__
        return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")

    def decode(self, record: bytes | memoryview, **extra: Any) -> EventT:
        """The event in one record of exactly `size_bytes`.

        Raises:
            struct.error: the record has another length.
        """
        ts_ns, _kind, cpu = HEAD.unpack_from(record)
        values = iter(self._body.unpack(record[HEAD.size :]))
        taken = {field.name: _take(field, values) for field in self.fields}
        return self.event(ts_ns=ts_ns, cpu=cpu, **taken, **extra)  # type: ignore[call-arg]

    def encode(self, event: EventT) -> bytes:
        """The record that the kernel would have sent; for tests."""
        values: list[Any] = []
        for field in self.fields:
            values.extend(_give(field, getattr(event, field.name)))
        head = HEAD.pack(event.ts_ns, self.kind, event.cpu)  # type: ignore[attr-defined]
        return head + self._body.pack(*values)

    def c_struct(self) -> str:
        """The struct and its static assertions, as C text."""
        lines = [f"struct {self.c_name} {{"]
        lines += [f"\t{c_type} {name};" for name, c_type in HEAD_FIELDS]
        for field in self.fields:
            size = f"[{field.wire.count}]" if field.wire.count > 1 else ""
            lines.append(f"\t{field.wire.c_type} {field.name}{size};")
        lines += ["};", f'_Static_assert(sizeof(struct {self.c_name}) == {self.size_bytes}, "size");']
        for field in self.fields:
            offset = f"__builtin_offsetof(struct {self.c_name}, {field.name})"
            lines.append(f'_Static_assert({offset} == {field.offset}, "{field.name}");')
        return "\n".join(lines) + "\n"


def c_enum(name: str, members: Iterable[enum.IntEnum]) -> str:
    """An IntEnum as a C enum whose constants are `NAME_MEMBER`."""
    body = "".join(f"\t{name.upper()}_{member.name} = {member.value},\n" for member in members)
    return f"enum {name} {{\n{body}}};\n"


def _fields(event: type[Any]) -> Iterable[Field]:
    offset = HEAD.size
    for name, hint in typing.get_type_hints(event, include_extras=True).items():
        wire, optional = _marker(hint)
        if wire is None:
            continue
        if offset % wire.element_bytes:
            raise LayoutError(f"{event.__name__}.{name}: would need padding at {offset}")
        yield Field(name, wire, offset, optional)
        offset += wire.size_bytes


def _marker(hint: Any) -> tuple[Wire | None, bool]:
    options = typing.get_args(hint)
    if typing.get_origin(hint) is Annotated:
        return next((m for m in options[1:] if isinstance(m, Wire)), None), False
    if type(None) in options:
        return next((w for w, _ in map(_marker, options) if w is not None), None), True
    return None, False


def _code(wire: Wire) -> str:
    return f"{wire.count}{wire.code}" if wire.count > 1 else wire.code


def _take(field: Field, values: Iterable[Any]) -> Any:
    iterator = iter(values)
    if field.wire.c_type == "char":
        raw: bytes = next(iterator)
        return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")
    if field.wire.count > 1:
        return tuple(next(iterator) for _ in range(field.wire.count))
    value = next(iterator)
    return None if field.optional and value == _absent(field.wire) else value


def _give(field: Field, value: Any) -> Iterable[Any]:
    if field.wire.c_type == "char":
        return (value.encode("utf-8", "surrogateescape")[: field.wire.count - 1],)
    if field.wire.count > 1:
        return tuple(value) + (0,) * (field.wire.count - len(value))
    return (_absent(field.wire) if value is None else value,)


def _absent(wire: Wire) -> int:
    return -1 if wire.code in "qi" else (1 << (8 * wire.element_bytes)) - 1
