# SPDX-License-Identifier: Apache-2.0
"""hypothesis strategies for every record, from the same markers that lay it out."""

from hypothesis import strategies as st

from tracer.wire import Field, Layout

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


def values(field: Field) -> st.SearchStrategy:
    """What a field can hold, such that the wire gives it back."""
    wire = field.wire
    if wire.c_type == "char":
        # What fits before the NUL: names are bytes, mostly text.
        return st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=wire.count - 1).filter(
            lambda text: len(text.encode()) < wire.count
        )
    bits = 8 * wire.element_bytes
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if wire.code in "qi" else (0, 2**bits - 1)
    if wire.count > 1:
        return st.lists(st.integers(low, high), min_size=wire.count, max_size=wire.count).map(tuple)
    if not field.optional:
        return st.integers(low, high)
    # All bits set is how a record says that there is no value.
    return st.none() | (st.integers(low, high - 1) if low == 0 else st.integers(low, high).filter(lambda n: n != -1))


def events(layout: Layout) -> st.SearchStrategy:
    """Every event that one layout can carry."""
    fields = {field.name: values(field) for field in layout.fields}
    return st.builds(layout.event, ts_ns=U64, cpu=U32, **fields)
