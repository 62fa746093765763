# SPDX-License-Identifier: Apache-2.0
"""The include folder that BCC compiles against: stubs in place of kernel headers, and views of its structs.

The views come from the running kernel's type information and name only the fields that the programs
read, each at its true offset. A field of another size than the programs expect is an error with a name,
never garbage. Runs in the loader child: Python 3.8, standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tracer.kernel.btf import Btf, BtfError, Member
from tracer.kernel.fields import ENUMERATORS, FIELDS, OPTIONAL_ENUMERATORS, KernelField

_SIZES = {"u8": 1, "s8": 1, "char": 1, "s16": 2, "u16": 2, "s32": 4, "u32": 4, "s64": 8, "u64": 8}

_TYPES = """\
#ifndef OOMTRACE_TYPES_H
#define OOMTRACE_TYPES_H
typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef signed short __s16;
typedef unsigned int __u32;
typedef signed int __s32;
typedef unsigned long long __u64;
typedef signed long long __s64;
typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __le16;
typedef __u32 __le32;
typedef __u64 __le64;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef unsigned long size_t;
typedef long ssize_t;
typedef unsigned long uintptr_t;
typedef int pid_t;
typedef unsigned int uid_t;
typedef unsigned int gid_t;
typedef unsigned int gfp_t;
typedef _Bool bool;
#define true 1
#define false 0
#ifndef NULL
#define NULL ((void *)0)
#endif
#define __aligned_u64 __u64 __attribute__((aligned(8)))
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#else
struct user_pt_regs {
	__u64 regs[31], sp, pc, pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
	__u64 orig_x0;
};
#endif
#endif
"""

_STUBS = {
    "include/linux/kconfig.h": (
        "#define CONFIG_BPF_SYSCALL 1\n#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))\n"
        "#define PAGE_SIZE {page_bytes}UL\n"
    ),
    "include/linux/version.h": "#define LINUX_VERSION_CODE {version_code}\n",
    "include/linux/log2.h": "#define roundup_pow_of_two(n) (n)\n",
    "include/linux/types.h": _TYPES,
    "include/uapi/linux/types.h": "#include <linux/types.h>\n",
    "include/linux/bpf_common.h": "",
    "include/uapi/linux/bpf.h": "",
    "include/uapi/linux/if_packet.h": "",
    "include/uapi/linux/ptrace.h": "#include <linux/types.h>\n",
    "arch/x86/include/asm/page.h": "",
    "arch/arm64/include/asm/page.h": "",
}
"""What BCC's own text includes; what it gets is enough for it, and for us."""


class Placed(NamedTuple):
    """A field at its place in this kernel."""

    field: KernelField
    member: Member


def write_include_folder(folder: str, kernel_h: str, events_h: bytes) -> None:
    """Stubs, the generated `kernel.h` and `events.h`, below an existing folder."""
    release = os.uname().release.split("-")[0].split(".")
    numbers = [int(part) if part.isdigit() else 0 for part in [*release, "0", "0"][:3]]
    # BPF_PROG_TYPE_KPROBE wants it before 5.0; nothing of ours asks for the version.
    version_code = (numbers[0] << 16) + (numbers[1] << 8) + min(numbers[2], 255)
    filled = {"{page_bytes}": str(os.sysconf("SC_PAGE_SIZE")), "{version_code}": str(version_code)}
    for path, text in _STUBS.items():
        whole = text
        for mark, value in filled.items():
            whole = whole.replace(mark, value)
        _write(os.path.join(folder, path), whole.encode())
    _write(os.path.join(folder, "include", "kernel.h"), kernel_h.encode())
    _write(os.path.join(folder, "include", "events.h"), events_h)


def kernel_h(btf: Btf, constants: Mapping[str, int]) -> str:
    """The text of `kernel.h` for this kernel.

    Args:
        btf: the kernel's type information.
        constants: what the programs and the parent agree on: map sizes, counter slots.

    Raises:
        BtfError: a required field is missing, or has another size.
    """
    placed = list(_place(btf, FIELDS))
    lines = ["/* Generated at load time from /sys/kernel/btf/vmlinux. */", "#include <linux/types.h>"]
    lines += [f"#define {name} {value}" for name, value in constants.items()]
    lines += [f"#define {p.field.define} 1" for p in placed if p.field.optional]
    lines += _enumerators(btf)
    css = btf.member("mem_cgroup", "css")
    if css is None or css.offset != 0:
        raise BtfError("mem_cgroup.css is not at the start of mem_cgroup")
    lines.append(_mm_counter(btf, placed))
    by_struct: dict[str, list[Placed]] = {}
    for place in placed:
        by_struct.setdefault(place.field.struct, []).append(place)
    # Embedded structs first; pointers need no order.
    embedded = [name for name in by_struct if any(p.field.c_type.split("[")[0] == "struct " + name for p in placed)]
    for name in [*embedded, *(name for name in by_struct if name not in embedded)]:
        lines.append(_view(name, btf.struct_size(name) or 0, by_struct[name]))
    return "\n".join(lines) + "\n"


def scalar_h(constants: Mapping[str, int]) -> str:
    """`kernel.h` for programs that read nothing of the kernel's: no type information is needed."""
    lines = [
        "/* Generated at load time. */",
        "#include <linux/types.h>",
        "struct task_struct;",
        "#define SCALARS_ONLY 1",
    ]
    lines += [f"#define {name} {value}" for name, value in constants.items()]
    return "\n".join(lines) + "\n"


def _place(btf: Btf, fields: Iterable[KernelField]) -> Iterable[Placed]:
    for field in fields:
        found = next(filter(None, (btf.member(field.struct, path) for path in field.candidates)), None)
        wanted = None if found is None else _size(btf, field.c_type, found)
        if found is not None and wanted == found.size:
            yield Placed(field, found)
        elif not field.optional:
            name = f"{field.struct}.{field.name}"
            if found is None:
                raise BtfError(f"this kernel has no {name}")
            raise BtfError(f"{name} is {found.size} bytes in this kernel, {wanted} expected")


def _size(btf: Btf, c_type: str, found: Member) -> int:
    """Bytes that the programs will take the field for."""
    base, _, count = c_type.rstrip("]").partition("[")
    if base.endswith("*"):
        size = 8
    elif base.startswith("struct "):
        size = btf.struct_size(base[len("struct ") :]) or 0
    else:
        size = _SIZES[base]
    if "[" not in c_type:
        return size
    return size * (int(count) if count else found.elements or 0)


def _enumerators(btf: Btf) -> list[str]:
    lines = []
    for name in ENUMERATORS:
        value = btf.enumerator(name)
        if value is None:
            raise BtfError(f"this kernel has no {name}")
        lines.append(f"#define {name} {value}")
    for name in OPTIONAL_ENUMERATORS:
        value = btf.enumerator(name)
        if value is not None:
            lines += [f"#define {name} {value}", f"#define HAS_{name} 1"]
    memory = btf.enumerator("memory_cgrp_id")
    if memory is None:
        raise BtfError("this kernel has no memory cgroups (CONFIG_MEMCG)")
    lines.append(f"#define MEMORY_CGRP_ID {memory}")
    lines.append("#define SCHED_PROCESS_EXIT_ARGS {}".format(btf.tracepoint_args("sched_process_exit") or 1))
    return lines


def _mm_counter(btf: Btf, placed: list[Placed]) -> str:
    """`struct mm_counter`, so that programs say `rss_stat[i].count` on every kernel.

    An array of percpu_counter since f1a7941243c1 ("mm: convert mm's rss stats into percpu_counter", 6.2),
    before that atomic numbers in a struct: the report prints, and we read, the plain count of either.
    """
    per_cpu, plain = btf.member("percpu_counter", "count"), btf.member("mm_struct", "rss_stat.count")
    whole, stride = btf.member("mm_struct", "rss_stat"), btf.struct_size("percpu_counter")
    if plain is not None and plain.elements:
        offset, size, inner, count = plain.offset, plain.size // plain.elements, 0, plain.elements
    elif whole is not None and whole.elements and per_cpu is not None and stride:
        offset, size, inner, count = whole.offset, stride, per_cpu.offset, whole.elements
    else:
        raise BtfError("mm_struct.rss_stat is neither percpu counters nor an array of numbers")
    if size * count > (plain or whole or Member(0, 0, 0)).size:
        raise BtfError("mm_struct.rss_stat has an unknown layout")
    counter = KernelField("mm_counter", "count", "s64")
    field = KernelField("mm_struct", "rss_stat", "struct mm_counter[]")
    placed.append(Placed(field, Member(offset, size * count, count)))
    return _view("mm_counter", size, [Placed(counter, Member(inner, 8, None))])


def _view(name: str, size: int, placed: Iterable[Placed]) -> str:
    lines = [f"struct {name} {{", "\tunion {"]
    for field, member in placed:
        base, _, _ = field.c_type.partition("[")
        array = "" if "[" not in field.c_type else f"[{member.elements or 1}]"
        pad = f"char before_{field.name}[{member.offset}]; " if member.offset else ""
        gap = "" if base.endswith("*") else " "
        declared = f"{base}{gap}{field.name}{array};"
        lines.append(f"\t\tstruct {{ {pad}{declared} }} __attribute__((packed));")
    lines += [f"\t\tchar whole[{size}];", "\t};", "};"]
    return "\n".join(lines)


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        file.write(data)
