# SPDX-License-Identifier: Apache-2.0
"""The generated kernel.h: true offsets, refusal of what it does not know, the differences between kernels."""

import re

import pytest

from tests.unit.kernel.btf_builder import SIZES, BtfBuilder
from tracer.kernel import headers
from tracer.kernel.btf import Btf, BtfError
from tracer.kernel.fields import ENUMERATORS, FIELDS

MEMCG_EVENTS = 9
EMBEDDED = {"page_counter": 48, "list_head": 24}
"""Structs that stand in others, and their sizes."""


class Kernel:
    """A made-up kernel with every field, which tests change."""

    def __init__(self) -> None:
        self.build = BtfBuilder()
        self.without: set[str] = set()
        self.sizes: dict[str, str] = {}
        self.renamed: dict[str, str] = {}
        self.rss_stat = "per_cpu"
        self.css_offset = 0

    def type_of(self, c_type: str) -> tuple[int, int]:
        base, _, count = c_type.rstrip("]").partition("[")
        if base.endswith("*"):
            type_id, size = self.build.pointer(), 8
        elif base == "struct upid":
            type_id, size = self.build.integer("u64"), 8
        elif base.removeprefix("struct ") in EMBEDDED:
            name = base.removeprefix("struct ")
            type_id, size = self.build.ids[name], EMBEDDED[name]
        else:
            type_id, size = self.build.integer(base), SIZES[base]
        if "[" not in c_type:
            return type_id, size
        number = int(count or MEMCG_EVENTS)
        return self.build.array(type_id, number), size * number

    def header(self) -> str:
        structs: dict[str, list[tuple[str, str]]] = {}
        for field in sorted(FIELDS, key=lambda f: f.struct not in EMBEDDED):
            name = f"{field.struct}.{field.name}"
            if name not in self.without:
                members = structs.setdefault(field.struct, [])
                inner = next((path for path in field.candidates if "." in path), field.name)
                members.append((self.renamed.get(name, inner), self.sizes.get(name, field.c_type)))
        for struct, members in structs.items():
            self.structure(struct, members)
        present = [name for name in ENUMERATORS if name not in self.without]
        self.build.enumeration("", {name: number for number, name in enumerate(present)})
        self.build.enumeration("cgroup_subsys_id", {"cpu_cgrp_id": 1, "memory_cgrp_id": 4})
        return headers.kernel_h(Btf(self.build.build()), {"RING_PAGES": 64})

    def structure(self, struct: str, members: list[tuple[str, str]]) -> None:
        offset, placed = 16, []
        if struct == "mem_cgroup":
            placed.append(("css", self.build.pointer(), self.css_offset))
        if struct == "mm_struct":
            placed.append(("rss_stat", self.rss_type(), 1000))
        for name, c_type in members:
            type_id, size = self.type_of(c_type)
            outer, _, inner = name.partition(".")
            if inner:
                type_id = self.build.structure(f"{struct}_{outer}", size, [(inner, type_id, 0)])
            placed.append((outer, type_id, offset))
            offset += size
        size = EMBEDDED.get(struct, 8 if struct == "upid" else 2000)
        self.build.ids[struct] = self.build.structure(struct, size, placed)

    def rss_type(self) -> int:
        number = self.build.integer("s64")
        per_cpu = self.build.structure("percpu_counter", 40, [("lock", number, 0), ("count", number, 8)])
        if self.rss_stat == "per_cpu":
            return self.build.array(per_cpu, 4)
        if self.rss_stat == "plain":
            return self.build.structure("mm_rss_stat", 32, [("count", self.build.array(number, 4), 0)])
        return number


@pytest.fixture
def kernel():
    return Kernel()


def view(text: str, struct: str) -> str:
    return re.search(rf"^struct {struct} \{{\n(.*?)^\}};", text, re.MULTILINE | re.DOTALL)[1]


def test_a_view_has_each_field_behind_as_many_bytes_as_in_the_kernel(kernel):
    text = view(kernel.header(), "cred")

    assert "struct { char before_uid[16]; u32 uid; } __attribute__((packed));" in text
    assert "char whole[2000];" in text


def test_constants_and_what_the_kernel_has_are_defined(kernel):
    lines = kernel.header().splitlines()

    assert "#define RING_PAGES 64" in lines
    assert "#define HAS_MEM_CGROUP_MEMORY_EVENTS_LOCAL 1" in lines
    assert "#define MEMORY_CGRP_ID 4" in lines
    assert "#define SCHED_PROCESS_EXIT_ARGS 1" in lines


def test_an_optional_field_may_be_missing(kernel):
    kernel.without.add("mem_cgroup.oom_group")
    text = kernel.header()

    assert "HAS_MEM_CGROUP_OOM_GROUP" not in text
    assert "oom_group" not in view(text, "mem_cgroup")


def test_an_optional_field_of_another_size_counts_as_missing(kernel):
    kernel.sizes["oom_control.constraint"] = "u64"

    assert "HAS_OOM_CONTROL_CONSTRAINT" not in kernel.header()


def test_a_missing_required_field_is_refused_by_name(kernel):
    kernel.without.add("signal_struct.oom_mm")

    with pytest.raises(BtfError, match=r"no signal_struct\.oom_mm"):
        kernel.header()


def test_a_field_of_another_size_is_refused_by_name(kernel):
    kernel.sizes["task_struct.flags"] = "u64"

    with pytest.raises(BtfError, match=r"task_struct\.flags is 8 bytes in this kernel, 4 expected"):
        kernel.header()


def test_a_missing_enumerator_is_refused_by_name(kernel):
    kernel.without.add("MEMCG_OOM")

    with pytest.raises(BtfError, match=r"no MEMCG_OOM$"):
        kernel.header()


def test_an_older_name_is_used_under_the_newer_one(kernel):
    kernel.renamed["task_struct.start_boottime"] = "real_start_time"

    assert "u64 start_boottime;" in view(kernel.header(), "task_struct")


def test_per_cpu_counters_are_read_at_their_count(kernel):
    text = kernel.header()

    assert "char before_count[8]; s64 count;" in view(text, "mm_counter")
    assert "char whole[40];" in view(text, "mm_counter")
    assert "char before_rss_stat[1000]; struct mm_counter rss_stat[4];" in view(text, "mm_struct")


def test_plain_counters_are_read_by_the_same_name(kernel):
    kernel.rss_stat = "plain"
    text = kernel.header()

    assert "struct { s64 count; }" in view(text, "mm_counter")
    assert "char whole[8];" in view(text, "mm_counter")
    assert "struct mm_counter rss_stat[4];" in view(text, "mm_struct")


def test_counters_of_a_third_kind_are_refused(kernel):
    kernel.rss_stat = "unheard of"

    with pytest.raises(BtfError, match="rss_stat"):
        kernel.header()


def test_a_css_that_is_not_first_is_refused(kernel):
    kernel.css_offset = 8

    with pytest.raises(BtfError, match="css"):
        kernel.header()


def test_embedded_structs_come_before_what_embeds_them(kernel):
    text = kernel.header()

    assert text.index("struct page_counter {") < text.index("struct mem_cgroup {")
    assert text.index("struct mm_counter {") < text.index("struct mm_struct {")


def test_the_folder_has_what_bcc_asks_for(tmp_path):
    headers.write_include_folder(str(tmp_path), "/* views */", b"/* records */")
    include = tmp_path / "include"

    assert (include / "kernel.h").read_text() == "/* views */"
    assert (include / "events.h").read_bytes() == b"/* records */"
    assert re.search(r"#define PAGE_SIZE \d+UL", (include / "linux/kconfig.h").read_text())
    assert re.search(r"#define LINUX_VERSION_CODE \d+\n", (include / "linux/version.h").read_text())


def test_a_folder_that_is_not_fresh_is_an_error(tmp_path):
    headers.write_include_folder(str(tmp_path), "", b"")

    with pytest.raises(FileExistsError):
        headers.write_include_folder(str(tmp_path), "", b"")
