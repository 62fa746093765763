# SPDX-License-Identifier: Apache-2.0
"""Where fields lie in real kernels, from extracts of their type information: old and new layouts, and odd headers."""

import json
import re
import struct

import pytest

from scripts.guest import layouts
from scripts.guest.extract import STRUCTS, Types, extract
from tests.captured import DATA, kernels, unpacked
from tests.unit.kernel.btf_builder import BtfBuilder
from tracer.kernel import btf, headers
from tracer.kernel.btf import Btf, BtfError
from tracer.kernel.fields import FIELDS
from tracer.kernel.probes import PROBES

ALL = kernels()
HDR_LEN = 24
each_kernel = pytest.mark.parametrize("kernel", ALL)


def extract_of(kernel):
    return unpacked(DATA / kernel / layouts.EXTRACT)


def told(kernel):
    """What the whole type information said when the extract was made."""
    return json.loads((DATA / kernel / layouts.SAYS).read_text())


def release(kernel):
    return tuple(map(int, kernel.split(".")))


def unlike(data, kernel):
    """Whatever an extract says otherwise than the whole did; what nobody asks for any more is passed over."""
    now, then = json.loads(json.dumps(layouts.says(data))), told(kernel)
    return [
        f"{part} {name}: {then[part].get(name)} then, {value} now"
        for part in now
        for name, value in now[part].items()
        if then[part].get(name) != value
    ]


@each_kernel
def test_an_extract_says_what_the_whole_said(kernel):
    """If a field that is new here is missing in it: `scripts/vm doctor --capture` takes the layouts anew."""
    assert unlike(extract_of(kernel), kernel) == []


@each_kernel
def test_an_index_of_all_types_finds_the_same_structs_as_a_search_for_their_names(kernel):
    types, found = Types(extract_of(kernel)), Btf(extract_of(kernel))
    sizes = {}
    for each in types.types:
        if each.kind in {btf.STRUCT, btf.UNION}:
            sizes.setdefault(types.text(each.name), each.value)

    assert {name: sizes.get(name) for name in STRUCTS} == {name: found.struct_size(name) for name in STRUCTS}


def padded(data, extra):
    """The same with a longer header, as newer kernels and backports may have: what is not known is passed over."""
    return data[:4] + struct.pack("=I", HDR_LEN + len(extra)) + data[8:HDR_LEN] + extra + data[HDR_LEN:]


@each_kernel
def test_an_extract_is_small(kernel):
    assert len(extract_of(kernel)) < 100_000


@each_kernel
@pytest.mark.parametrize("extra", [bytes(8), b"\xff" * 8, bytes(40)], ids=["zero", "set", "long"])
def test_a_header_that_is_longer_is_read_by_what_it_says(kernel, extra):
    assert unlike(padded(extract_of(kernel), extra), kernel) == []


def swapped(data):
    """As a machine of the other byte order would have it."""
    words = struct.unpack(f">{(len(data) - 4) // 4}I", data[4 : len(data) // 4 * 4])
    return struct.pack("<H", struct.unpack_from(">H", data)[0]) + data[2:4] + struct.pack(f"<{len(words)}I", *words)


@each_kernel
def test_the_other_byte_order_is_refused(kernel):
    data = extract_of(kernel)

    with pytest.raises(BtfError, match="magic"):
        Btf(swapped(data))
    with pytest.raises(BtfError):
        extract(swapped(data))


@each_kernel
def test_the_header_is_made_with_these_very_offsets(kernel):
    text = headers.kernel_h(Btf(extract_of(kernel)), {"RING_PAGES": 64})
    members = told(kernel)["members"]

    for field in FIELDS:
        found = next(filter(None, (members[f"{field.struct}.{path}"] for path in field.candidates)), None)
        view = re.search(rf"^struct {field.struct} {{\n(.*?)^}};", text, re.MULTILINE | re.DOTALL)[1]
        line = re.search(rf"struct {{ (?:char before_{field.name}\[(\d+)\]; )?[^;]*\b{field.name}(\[\d+\])?; }}", view)
        assert (line is None) == (found is None), field
        if found is not None:
            assert int(line[1] or 0) == found[0], field


@each_kernel
def test_differences_between_kernels_are_told_as_the_table_in_bpf_says(kernel):
    text, members = headers.kernel_h(Btf(extract_of(kernel)), {}), told(kernel)["members"]
    lines = text.splitlines()
    per_cpu = members["mm_struct.rss_stat.count"] is None

    assert per_cpu == (release(kernel) >= (6, 2))
    stride = told(kernel)["sizes"]["percpu_counter"] if per_cpu else 8
    assert f"char whole[{stride}];" in re.search(r"^struct mm_counter {.*?^};", text, re.MULTILINE | re.DOTALL)[0]
    assert f"#define SCHED_PROCESS_EXIT_ARGS {2 if release(kernel) >= (6, 18) else 1}" in lines
    assert ("#define HAS_MEMCG_OOM_GROUP_KILL 1" in lines) == (release(kernel) >= (5, 17))
    assert "#define HAS_MEM_CGROUP_MEMORY_EVENTS_LOCAL 1" in lines
    assert "#define HAS_OOM_CONTROL_CONSTRAINT 1" in lines
    assert members["task_struct.real_start_time"] is None  # start_boottime since 5.5
    assert members["kernfs_node.id"][1] == 8
    # One union, by two names.
    assert members["mem_cgroup.swap"] == members["mem_cgroup.memsw"] is not None


@each_kernel
def test_what_mark_victim_passes_is_what_its_format_shows(kernel):
    text = (DATA / kernel / "formats" / "oom-mark_victim.txt").read_text()
    fields = re.findall(r"field:[^;]*?(\w+)(?:\[\d*\])?;", text)[4:]

    assert fields[0] == "pid"
    assert told(kernel)["mark_victim"] == ("task" if "total_vm" in fields else "pid")
    assert layouts.argument_of_mark_victim(extract_of(kernel)) == told(kernel)["mark_victim"]


def test_both_layouts_of_what_changed_most_are_there():
    assert {told(kernel)["mark_victim"] for kernel in ALL} == {"pid", "task"}
    assert {told(kernel)["arguments"]["sched_process_exit"] for kernel in ALL} == {1, 2}
    assert {told(kernel)["members"]["mm_struct.rss_stat.count"] is None for kernel in ALL} == {True, False}


@each_kernel
def test_every_tracepoint_that_is_hooked_has_a_format_and_its_arguments(kernel):
    formats = {path.stem.partition("-")[2] for path in (DATA / kernel / "formats").iterdir()}
    hooked = {rung.target for probe in PROBES for rung in probe.rungs if rung.kind == "raw_tracepoint"}

    assert hooked <= formats
    assert hooked <= {name for name, count in told(kernel)["arguments"].items() if count}


@pytest.mark.parametrize("name", ["oom_control", "mem_cgroup", "task_struct"])
def test_an_extract_without_a_struct_is_seen(name):
    data = extract_of(ALL[0])
    at = data.index(b"\0" + name.encode() + b"\0") + 1

    assert any(name in each for each in unlike(data[:at] + b"_" + data[at + 1 :], ALL[0]))


def made_up():
    """A kernel in which something is asked for, and something is not."""
    build = BtfBuilder()
    far = build.structure("far_away", 8, [("x", build.integer("u64"), 0)])
    pointer = build.add("", btf.PTR, far)
    inner = build.typedef("inner_t", build.structure("", 8, [("usage", build.integer("s64"), 0)]))
    build.structure("unasked", 8, [("far", pointer, 0)])
    build.structure("page_counter", 24, [("", inner, 0), ("far", pointer, 8), ("max", build.integer("u64"), 16)])
    build.enumeration("unasked_enum", {"A": 1})
    build.enumeration("", {"MEMCG_MAX": 3})
    build.tracepoint("mark_victim", 1)
    return build.build()


def test_an_extract_holds_what_is_asked_for_and_what_that_is_made_of_and_nothing_else():
    whole, part = Btf(made_up()), Btf(extract(made_up()))

    assert layouts.says(made_up()) == layouts.says(extract(made_up()))
    assert part.member("page_counter", "max") == whole.member("page_counter", "max") == (16, 8, None)
    assert part.enumerator("MEMCG_MAX") == 3
    assert part.tracepoint_args("mark_victim") == 1
    assert (whole.struct_size("unasked"), part.struct_size("unasked"), part.enumerator("A")) == (8, None, None)
    assert (whole.struct_size("far_away"), part.struct_size("far_away")) == (8, None)


def test_an_extract_of_an_extract_is_the_same():
    for kernel in ALL:
        assert extract(extract_of(kernel)) == extract_of(kernel)


@pytest.mark.parametrize("data", [b"", bytes(100), b"\x9f\xeb"])
def test_what_is_no_type_information_has_no_extract(data):
    with pytest.raises(BtfError):
        extract(data)
