# SPDX-License-Identifier: Apache-2.0
"""The running kernel's own type information: where a field lies, how large it is, what an enumerator is worth.

Looks up what it is asked for and builds no index: that would cost 0.1 s, each time. Runs in the loader
child: Python 3.8, standard library only. Format: Documentation/bpf/btf.rst.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VMLINUX = "/sys/kernel/btf/vmlinux"
MAGIC = 0xEB9F

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO = range(1, 14)
VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(14, 20)
_MODIFIERS = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)

# Words of data that follow a type's three, by kind: fixed, and for each of its vlen parts.
_FIXED = {INT: 1, ARRAY: 3, VAR: 1, DECL_TAG: 1}
_EACH = {STRUCT: 3, UNION: 3, ENUM: 2, FUNC_PROTO: 2, DATASEC: 3, ENUM64: 3}
DEEPEST = 64
"""Of types within types, or one behind the other. No compiler writes such; a circle has no end."""
_EXTRA = tuple((_FIXED.get(kind, 0), _EACH.get(kind, 0)) for kind in range(32))


class BtfError(Exception):
    """There is no type information, it does not have what was asked for, or it is damaged."""


class Member(NamedTuple):
    """Where a field lies in the struct that was asked about, through all that encloses it."""

    offset: int
    size: int
    """Of the whole field; of an array all its elements."""
    elements: int | None
    """How many, where it is an array; 0 for a flexible one."""


class _Type(NamedTuple):
    at: int
    kind: int
    vlen: int
    kind_flag: bool
    value: int
    """Size, or the id of another type."""


class Btf:
    """Type information in memory.

    Raises:
        BtfError: this is no BTF.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < 24:
            raise BtfError("no type information: too short")
        magic, _version, _flags, hdr_len, type_off, type_len, str_off, str_len = struct.unpack_from("=HBBIIIII", data)
        if magic != MAGIC or hdr_len % 4 or type_off % 4:
            raise BtfError("no type information: wrong magic number")
        self._types = data[hdr_len + type_off : hdr_len + type_off + type_len]
        self._words = memoryview(self._types[: len(self._types) // 4 * 4]).cast("I")
        self._strings = data[hdr_len + str_off : hdr_len + str_off + str_len]
        self._starts = [0]
        """Word index of each type walked so far; type 0 is void and has none."""
        self._walked = 0

    @classmethod
    def load(cls, path: str = VMLINUX) -> Btf:
        """Of the running kernel.

        Raises:
            BtfError: it has none (CONFIG_DEBUG_INFO_BTF), or it cannot be read.
        """
        try:
            with open(path, "rb") as file:
                return cls(file.read())
        except OSError as error:
            raise BtfError(f"cannot read {path}: {error.strerror}") from error

    def struct_size(self, name: str) -> int | None:
        """Size of a struct or union, `None` when there is no such one."""
        found = self._named(name)
        return None if found is None else found.value

    def member(self, name: str, path: str) -> Member | None:
        """The field `path` (`memory.usage`, `si_code`) of struct `name`, anonymous parts looked through."""
        outer = self._named(name)
        offset = 0
        found = None
        for part in path.split("."):
            if outer is None:
                return None
            found = self._find(outer, part)
            if found is None:
                return None
            offset += found[0]
            outer = self._resolve(found[1])
        if outer is None:
            return None
        elements = self._word(outer.at + 5) if outer.kind == ARRAY else None
        return Member(offset, self._size(outer), elements)

    def enumerator(self, name: str) -> int | None:
        """Value of an enumerator of whatever enum, `None` when there is no such one."""
        wanted = self._name_offset(name)
        if wanted is None:
            return None
        return next((self._word(at + 1) for at in self._occurrences(wanted) if self._in_enum(at)), None)

    def tracepoint_args(self, name: str) -> int | None:
        """How many arguments a tracepoint passes, `None` when it is not there."""
        typedef = self._named("btf_trace_" + name, (TYPEDEF,))
        pointer = None if typedef is None else self._resolve(typedef.value)
        proto = None if pointer is None else self._resolve(pointer.value)
        # The first parameter is the tracepoint's private data.
        return proto.vlen - 1 if proto is not None and proto.kind == FUNC_PROTO else None

    def _named(self, name: str, kinds: tuple[int, ...] = (STRUCT, UNION)) -> _Type | None:
        wanted = self._name_offset(name)
        if wanted is None:
            return None
        for at in self._occurrences(wanted):
            # A member record cannot look like this: its second word is a type id, below 2**24.
            if at + 2 < len(self._words) and (self._words[at + 1] >> 24) & 31 in kinds:
                return self._type_at(at)
        return None

    def _in_enum(self, at: int) -> bool:
        """Whether the pair here belongs to an enum: the number alone may be an id, an offset, a size."""
        for back in range(min(at // 2, 256)):
            info = self._words[at - 2 * back - 2]
            if (info >> 24) & 31 == ENUM and info & 0xFFFF > back:
                return True
        return False

    def _name_offset(self, name: str) -> int | None:
        at = self._strings.find(b"\0" + name.encode() + b"\0")
        return None if at < 0 else at + 1

    def _occurrences(self, word: int) -> Iterator[int]:
        # Not re.finditer: a hit across two words would hide the true one that overlaps it.
        wanted, end = struct.pack("=I", word), len(self._types) - 8
        at = self._types.find(wanted)
        while 0 <= at <= end:
            if at % 4 == 0:
                yield at // 4
            at = self._types.find(wanted, at + 1)

    def _find(self, outer: _Type, name: str) -> tuple[int, int] | None:
        """Byte offset and type id of a member."""
        return self._find_below(outer, self._name_offset(name), set(), 0)

    def _find_below(self, outer: _Type, wanted: int | None, met: set[int], depth: int) -> tuple[int, int] | None:
        # An anonymous part that does not have it is looked through once.
        if outer.kind not in (STRUCT, UNION) or outer.at in met:
            return None
        met.add(outer.at)
        if depth > DEEPEST:
            raise BtfError("damaged type information: a struct without end")
        for index in range(outer.vlen):
            at = outer.at + 3 + 3 * index
            name_off, type_id, bits = self._word(at), self._word(at + 1), self._word(at + 2)
            if outer.kind_flag:
                if bits >> 24:
                    continue  # a bit field: nothing that could be read by its address
                bits &= 0xFFFFFF
            if name_off == wanted:
                return bits // 8, type_id
            if name_off == 0:
                inner = self._resolve(type_id)
                found = self._find_below(inner, wanted, met, depth + 1) if inner is not None else None
                if found is not None:
                    return bits // 8 + found[0], found[1]
        return None

    def _resolve(self, type_id: int) -> _Type | None:
        """The type behind typedefs and qualifiers; `None` for void."""
        for _ in range(DEEPEST):
            if not type_id:
                return None
            found = self._type_at(self._word_of(type_id))
            if found.kind not in _MODIFIERS:
                return found
            type_id = found.value
        raise BtfError("damaged type information: a type that stands for itself")

    def _size(self, found: _Type, depth: int = 0) -> int:
        if found.kind == PTR:
            return 8
        if found.kind != ARRAY:
            return found.value
        if depth > DEEPEST:
            raise BtfError("damaged type information: an array without end")
        element = self._resolve(self._word(found.at + 3))
        return self._word(found.at + 5) * (self._size(element, depth + 1) if element is not None else 0)

    def _word_of(self, type_id: int) -> int:
        """Types have no index: walk on from where the last walk ended. What we ask for stands early."""
        words, starts, at = self._words, self._starts, self._walked
        while len(starts) <= type_id:
            if at + 2 >= len(words):
                raise BtfError(f"type information ends before type {type_id}")
            starts.append(at)
            info = words[at + 1]
            fixed, each = _EXTRA[(info >> 24) & 31]
            at += 3 + fixed + each * (info & 0xFFFF)
        self._walked = at
        return starts[type_id]

    def _type_at(self, at: int) -> _Type:
        info = self._word(at + 1)
        return _Type(at, (info >> 24) & 31, info & 0xFFFF, bool(info >> 31), self._word(at + 2))

    def _word(self, at: int) -> int:
        if at >= len(self._words):
            raise BtfError("damaged type information: it ends within a type")
        return self._words[at]
