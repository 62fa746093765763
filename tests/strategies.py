# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for every event class, derived from the declarations: a new class is covered at once."""

import types
import typing
from typing import Annotated, Literal, TypeVar, Union

import msgspec
from hypothesis import strategies as st

from tracer.events import RECORDING_SCHEMA, AnyEvent, Event, Header
from tracer.wire import Wire

StructT = TypeVar("StructT", bound=msgspec.Struct)
EVENT_CLASSES: tuple[type[Event], ...] = typing.get_args(AnyEvent)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
"""What UTF-8 can hold, control characters and NUL included."""

raw_text = st.one_of(
    text,
    st.binary(max_size=24).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(max_size=20),
)
"""As text comes from the operating system: bytes that are no UTF-8 are lone surrogates."""

hostile_comms = st.one_of(
    st.sampled_from([
        "python3", "pt_data_worker", "(sd-pam)", "a) total-vm:1kB", "CPU 11/KVM", "GC Thread#9", ",task=x,pid=1",
        "runc:[2:INIT]", "x\nKilled", "]: [1.0]", "\\x0a", "))", "((", " ", ",uid=0", "a invoked oom", "\x1b[31m", "é",
    ]),
    st.binary(min_size=1, max_size=15).filter(lambda raw: b"\0" not in raw).map(lambda r: r.decode("latin-1")),
)  # fmt: skip
"""Names that a process may give itself: at most 15 bytes, any but NUL. One character here is one byte."""


def of_hint(hint: object, strings: st.SearchStrategy[str] = text) -> st.SearchStrategy[object]:
    """Values of one field's type."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        wire = next((option for option in options if isinstance(option, Wire)), None)
        return of_hint(options[0], strings) if wire is None else _of_wire(wire)
    if origin in (Union, types.UnionType):
        return st.one_of(*(of_hint(option, strings) for option in options))
    if origin is Literal:
        return st.sampled_from(options)
    if origin is tuple:
        return st.lists(of_hint(options[0], strings), max_size=4).map(tuple)
    if origin is dict:
        return st.dictionaries(of_hint(options[0], strings), of_hint(options[1], strings), max_size=4)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return events_of(hint, strings)
    return {
        int: st.integers(-(1 << 63), (1 << 64) - 1),
        str: strings,
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }[hint]


def events_of(kind: type[StructT], strings: st.SearchStrategy[str] = text) -> st.SearchStrategy[StructT]:
    """Events of one class, or what they are made of, all fields given."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: of_hint(hints[field.name], strings) for field in msgspec.structs.fields(kind)}
    return st.builds(kind, **fields)


def events(strings: st.SearchStrategy[str] = text) -> st.SearchStrategy[Event]:
    """Events of any class that may follow the header."""
    return st.one_of(*(events_of(kind, strings) for kind in EVENT_CLASSES if kind is not Header))


headers = events_of(Header).map(lambda header: msgspec.structs.replace(header, schema=RECORDING_SCHEMA))
"""Headers of the format that this version writes."""


def _of_wire(wire: Wire) -> st.SearchStrategy[object]:
    if wire.c_type == "char":
        return st.binary(max_size=wire.count - 1).map(_decoded)
    bits = 8 * wire.element_bytes
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if wire.code in "qi" else (0, (1 << bits) - 1)
    one = st.integers(low, high)
    return one if wire.count == 1 else st.lists(one, max_size=wire.count).map(tuple)


def _decoded(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")
