# SPDX-License-Identifier: Apache-2.0
"""The table of kernel fields and the programs name the same ones."""

import re
from pathlib import Path

from tracer.kernel.fields import ENUMERATORS, FIELDS, OPTIONAL_ENUMERATORS

BPF = Path(__file__).parents[3] / "bpf"
READ = re.compile(r"\b(\w+), (\w+)(?:\[[^]]*\])?(?:\.(\w+))?\)")
# Made by headers.py itself: counters under one name on every kernel.
MADE = {("mm_struct", "rss_stat"), ("mm_counter", "count")}


def text() -> str:
    """All fragments without comments."""
    return re.sub(r"/\*.*?\*/", "", "\n".join(path.read_text() for path in sorted(BPF.glob("*.c"))), flags=re.DOTALL)


def named_by_the_programs() -> set[tuple[str, str]]:
    fields = {(field.struct, field.name): field for field in FIELDS}
    structs = {field.struct for field in FIELDS} | {"mm_counter"}
    found = set()
    for struct, name, inner in READ.findall(re.sub(r"\s+", " ", text())):
        if struct not in structs:
            continue
        found.add((struct, name))
        if inner and (struct, name) in fields:
            found.add((fields[struct, name].c_type.removeprefix("struct "), inner))
    if "offsetof(struct pid, numbers)" in text():
        found.add(("pid", "numbers"))
    return found


def test_every_field_that_the_programs_read_is_in_the_table_and_no_other():
    declared = {(field.struct, field.name) for field in FIELDS}

    assert named_by_the_programs() - MADE == declared


def test_every_enumerator_is_used():
    assert [name for name in (*ENUMERATORS, *OPTIONAL_ENUMERATORS) if name not in text()] == []


def test_what_may_be_missing_is_asked_for_before_it_is_read():
    assert [field.define for field in FIELDS if field.optional and f"#ifdef {field.define}" not in text()] == []


def test_kernel_memory_is_read_by_the_macro_alone():
    # BCC would rewrite these, wrongly for arrays: a view is never dereferenced.
    views = "|".join(sorted({field.struct for field in FIELDS}))
    pointers = set(re.findall(rf"struct (?:{views}) \*(\w+)\b", text()))

    assert [line for line in text().splitlines() if re.search(rf"\b(?:{'|'.join(pointers)})->", line)] == []
