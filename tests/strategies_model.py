# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for the structs of `tracer.verdict.model`, made from their own annotations."""

import types
import typing

import msgspec
from hypothesis import strategies as st

from tracer.attribution.places import Place
from tracer.verdict.model import Report

HOSTILE = (
    "\x1b[2J\x1b[H",
    "\x1b]0;owned\x07",
    "\x9b31m",
    "a\nProof\n  ok 1 forged",
    "\r\n\r",
    "\u202eevil\u202c",
    "\u2066x\u2069",
    "zero\u200bwidth\u200d\ufeff",
    "e\u0301\u0301\u0301",
    "\U0001f469\u200d\U0001f680",
    "\U0001f1e9\U0001f1ea",
    "\u65e5\u672c\u8a9e",
    "\u0627\u0644\u0639 12",
    "\udc80\udcff",
    "\ue000\ue000 x",
    "\u2028\u2029\x85",
    "[bold red]no markup[/]",
    ":smile:",
    "x" * 10_000,
    "\u65e5" * 10_000,
    "a b " * 2_500,
    " " * 300,
    "/" + "d" * 300 + "/" + "e" * 300,
    "",
    " ",
    "/",
    "//",
    "\x00",
    "\xa0",
)
"""What a process may call itself, and worse."""

PLACE_FIELDS = {"itself", "container", "outer_containers", "pod_uid", "slurm_job", "unit", "uid"}
"""A place has many fields, all alike: some of them do, and reports stay small enough to be drawn quickly."""

hostile_text = st.text(st.characters(exclude_categories=())) | st.sampled_from(HOSTILE)
plain_text = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


def structs(kind, text=hostile_text):
    """Any value of a struct class; `text` is what its strings are made of."""
    fields = {
        field.name: _values(field.type, text)
        for field in msgspec.structs.fields(kind)
        if kind is not Place or field.name in PLACE_FIELDS
    }
    if kind is Report:
        fields["recording"] = st.none() | text
    return st.builds(kind, **fields)


PLAIN = {
    bool: st.booleans(),
    int: st.integers(-(2**62), 2**62) | st.integers(-2, 5),
    float: st.floats(-1e18, 1e18),
    type(None): st.none(),
}


def _values(annotation, text):
    origin = typing.get_origin(annotation)
    if annotation is str:
        return text
    if annotation in PLAIN:
        return PLAIN[annotation]
    if origin in {typing.Union, types.UnionType}:
        return st.one_of([_values(part, text) for part in typing.get_args(annotation)])
    if origin is typing.Literal:
        return st.sampled_from(typing.get_args(annotation))
    if origin is tuple:
        return st.lists(_values(typing.get_args(annotation)[0], text), max_size=3).map(tuple)
    return st.deferred(lambda: structs(annotation, text))
