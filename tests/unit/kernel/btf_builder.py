# SPDX-License-Identifier: Apache-2.0
"""Builds type information in memory, so that tests can have any kernel they like."""

import struct

from tracer.kernel import btf

SIZES = {"u8": 1, "char": 1, "s16": 2, "s32": 4, "u32": 4, "s64": 8, "u64": 8}


class BtfBuilder:
    """Types by name; each method returns the id of the type that it added."""

    def __init__(self) -> None:
        self.types: list[bytes] = []
        self.strings = bytearray(b"\0")
        self.ids: dict[str, int] = {}

    def named(self, name: str) -> int:
        if not name:
            return 0
        at = self.strings.find(b"\0" + name.encode() + b"\0")
        if at >= 0:
            return at + 1
        self.strings += name.encode() + b"\0"
        return len(self.strings) - len(name) - 1

    def add(self, name: str, kind: int, value: int, *, data: bytes = b"", vlen: int = 0, flag: bool = False) -> int:
        info = vlen | kind << 24 | int(flag) << 31
        self.types.append(struct.pack("=III", self.named(name), info, value) + data)
        return len(self.types)

    def integer(self, name: str) -> int:
        if name not in self.ids:
            self.ids[name] = self.add(name, btf.INT, SIZES[name], data=struct.pack("=I", SIZES[name] * 8))
        return self.ids[name]

    def pointer(self) -> int:
        return self.add("", btf.PTR, 0)

    def array(self, element: int, count: int) -> int:
        return self.add("", btf.ARRAY, 0, data=struct.pack("=III", element, element, count))

    def typedef(self, name: str, target: int) -> int:
        return self.add(name, btf.TYPEDEF, target)

    def structure(self, name: str, size: int, members: list[tuple[str, int, int]], *, flag: bool = False) -> int:
        """Members as (name, type id, byte offset); bit-field sizes go into the offset's upper byte with `flag`."""
        data = b"".join(struct.pack("=III", self.named(m), type_id, offset * 8) for m, type_id, offset in members)
        return self.add(name, btf.STRUCT, size, data=data, vlen=len(members), flag=flag)

    def enumeration(self, name: str, values: dict[str, int]) -> int:
        data = b"".join(struct.pack("=II", self.named(member), value) for member, value in values.items())
        return self.add(name, btf.ENUM, 4, data=data, vlen=len(values))

    def tracepoint(self, name: str, arguments: int) -> None:
        proto = self.add("", btf.FUNC_PROTO, 0, data=struct.pack("=II", 0, 0) * (arguments + 1), vlen=arguments + 1)
        self.typedef(f"btf_trace_{name}", self.add("", btf.PTR, proto))

    def build(self) -> bytes:
        types, strings = b"".join(self.types), bytes(self.strings)
        return struct.pack("=HBBIIIII", btf.MAGIC, 1, 0, 24, 0, len(types), len(types), len(strings)) + types + strings
