# SPDX-License-Identifier: Apache-2.0
"""A kernel's type information cut down to what `tracer/kernel` asks of it: still valid BTF, some 100 KB of 5 MB.

Kept: the structs of `tracer/kernel/fields.py` with all that they hold, the enums of its enumerators, the arguments of
the tracepoints. A pointer to anything else points to a forward declaration of the same name, or to void.
Order is kept, and so is whatever shares a name with what is kept: who looks something up finds the same one.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tracer.kernel import btf
from tracer.kernel.btf import MAGIC, BtfError
from tracer.kernel.fields import ENUMERATORS, FIELDS, OPTIONAL_ENUMERATORS
from tracer.kernel.probes import PROBES

STRUCTS = frozenset({field.struct for field in FIELDS} | {"percpu_counter"})
ENUMS = frozenset({*ENUMERATORS, *OPTIONAL_ENUMERATORS, "memory_cgrp_id"})
TRACEPOINTS = tuple(rung.target for probe in PROBES for rung in probe.rungs if rung.kind == "raw_tracepoint")

_AGGREGATES = (btf.STRUCT, btf.UNION)
_ENUMS = (btf.ENUM, btf.ENUM64)
_REFERS = (btf.PTR, btf.TYPEDEF, btf.VOLATILE, btf.CONST, btf.RESTRICT, btf.TYPE_TAG)
_QUALIFIERS = (btf.TYPEDEF, btf.VOLATILE, btf.CONST, btf.RESTRICT, btf.TYPE_TAG)
_NAMED_PARTS = {btf.STRUCT: 3, btf.UNION: 3, btf.ENUM: 2, btf.ENUM64: 3, btf.FUNC_PROTO: 2}
"""Kinds whose parts begin with a name, and the words of a part."""
_TYPED_PARTS = (btf.STRUCT, btf.UNION, btf.FUNC_PROTO)
"""Kinds whose parts have a type as their second word."""
_FIXED = {btf.INT: 1, btf.ARRAY: 3, btf.VAR: 1, btf.DECL_TAG: 1}
_EACH = {**_NAMED_PARTS, btf.DATASEC: 3}


@dataclass(frozen=True)
class _Type:
    name: int
    info: int
    value: int
    """Size, or another type."""
    data: tuple[int, ...]

    @property
    def kind(self) -> int:
        return (self.info >> 24) & 31

    def parts(self) -> Iterator[tuple[int, ...]]:
        """Members, enumerators, parameters."""
        words = _NAMED_PARTS.get(self.kind, 0)
        return (self.data[at : at + words] for at in range(0, len(self.data), words)) if words else iter(())


class Types:
    """All of some type information, by id.

    Raises:
        BtfError: this is none.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < 24 or struct.unpack_from("=H", data)[0] != MAGIC:
            raise BtfError("no type information")
        hdr_len, type_off, type_len, str_off, str_len = struct.unpack_from("=IIIII", data, 4)
        words = memoryview(data[hdr_len + type_off : hdr_len + type_off + type_len]).cast("I").tolist()
        self._strings = data[hdr_len + str_off : hdr_len + str_off + str_len]
        self.types = [_Type(0, 0, 0, ())]
        at = 0
        while at < len(words):
            name, info, value = words[at : at + 3]
            kind = (info >> 24) & 31
            end = at + 3 + _FIXED.get(kind, 0) + _EACH.get(kind, 0) * (info & 0xFFFF)
            self.types.append(_Type(name, info, value, tuple(words[at + 3 : end])))
            at = end

    def text(self, name: int) -> str:
        """A name."""
        return self._strings[name : self._strings.index(b"\0", name)].decode()

    def behind(self, type_id: int) -> int:
        """Through typedefs and qualifiers."""
        while self.types[type_id].kind in _QUALIFIERS:
            type_id = self.types[type_id].value
        return type_id

    def wanted(self) -> Iterator[int]:
        """What is asked for."""
        typedefs = {f"btf_trace_{name}" for name in TRACEPOINTS}
        for type_id, each in enumerate(self.types):
            if each.kind in _ENUMS:
                if any(self.text(part[0]) in ENUMS for part in each.parts()):
                    yield type_id
            elif each.kind in _AGGREGATES:
                if self.text(each.name) in STRUCTS:
                    yield type_id
            elif each.kind == btf.TYPEDEF and self.text(each.name) in typedefs:
                yield type_id
                pointer = self.behind(each.value)
                yield from (pointer, self.types[pointer].value)

    def _within(self, type_id: int) -> list[int]:
        """The types that one cannot be told without."""
        each = self.types[type_id]
        if each.kind == btf.ARRAY:
            return list(each.data[:2])
        if each.kind == btf.PTR:
            return [each.value] if self._kept_whole(each.value) else []
        found = [part[1] for part in each.parts()] if each.kind in _TYPED_PARTS else []
        return [*found, each.value] if each.kind in _QUALIFIERS or each.kind == btf.FUNC_PROTO else found

    def _kept_whole(self, pointee: int) -> bool:
        """Whether what a pointer points to is small by itself."""
        return self.types[self.behind(pointee)].kind in {btf.INT, btf.FLOAT, btf.PTR}

    def needed(self, wanted: Iterable[int]) -> list[int]:
        """These, and all that they are made of, in order."""
        kept, left = {0}, list(wanted)
        while left:
            type_id = left.pop()
            if type_id not in kept:
                kept.add(type_id)
                left += self._within(type_id)
        return sorted(kept - {0})


class _Writer:
    """Writes some of the types anew."""

    def __init__(self, types: Types, kept: list[int]) -> None:
        self._types, self._kept = types, kept
        self._ids = {0: 0, **{old: new for new, old in enumerate(kept, 1)}}
        self._strings = bytearray(b"\0")
        self._names = {"": 0}
        self._forward: dict[tuple[str, int], int] = {}

    def write(self) -> bytes:
        words: list[int] = []
        for each in (self._types.types[type_id] for type_id in self._kept):
            words += (self._name(each.name), each.info, self._value(each), *self._data(each))
        for name, union in self._forward:
            words += (self._named(name), btf.FWD << 24 | union << 31, 0)
        types = struct.pack(f"={len(words)}I", *words)
        strings = bytes(self._strings)
        header = struct.pack("=HBBIIIII", MAGIC, 1, 0, 24, 0, len(types), len(types), len(strings))
        return header + types + strings

    def _named(self, text: str) -> int:
        if text not in self._names:
            self._names[text] = len(self._strings)
            self._strings += text.encode() + b"\0"
        return self._names[text]

    def _name(self, name: int) -> int:
        return self._named(self._types.text(name))

    def _value(self, each: _Type) -> int:
        if each.kind == btf.PTR:
            return self._pointee(each.value)
        return self._ids[each.value] if each.kind in _REFERS or each.kind == btf.FUNC_PROTO else each.value

    def _pointee(self, type_id: int) -> int:
        if type_id in self._ids:
            return self._ids[type_id]
        behind = self._types.behind(type_id)
        each = self._types.types[behind]
        if behind in self._ids:
            return self._ids[behind]
        if each.kind not in {*_AGGREGATES, btf.FWD} or not each.name:
            return 0
        union = each.kind == btf.UNION or (each.kind == btf.FWD and bool(each.info >> 31))
        key = (self._types.text(each.name), int(union))
        return self._forward.setdefault(key, len(self._kept) + len(self._forward) + 1)

    def _data(self, each: _Type) -> Iterator[int]:
        if each.kind == btf.ARRAY:
            yield from (self._ids[each.data[0]], self._ids[each.data[1]], each.data[2])
        elif each.kind in _NAMED_PARTS:
            for name, second, *rest in each.parts():
                yield from (self._name(name), self._ids[second] if each.kind in _TYPED_PARTS else second, *rest)
        else:
            yield from each.data


def extract(data: bytes) -> bytes:
    """The part of a kernel's type information that is asked for.

    Raises:
        BtfError: this is no type information.
    """
    types = Types(data)
    return _Writer(types, types.needed(types.wanted())).write()
