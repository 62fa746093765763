# SPDX-License-Identifier: Apache-2.0
"""What a kernel looks like from inside, small enough to be kept: tracepoint formats, type information, what that says.

`.venv/bin/python -m scripts.guest.layouts` keeps those of the kernel that runs here in tests/data/kernels/.
"""

import json
import lzma
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from scripts.guest.extract import ENUMS, STRUCTS, TRACEPOINTS, Types, extract
from scripts.guest.inside.drive import copy_layouts
from scripts.guest.truth import DATA, packed, replace, series
from tracer.kernel import btf, headers
from tracer.kernel.btf import Btf, BtfError
from tracer.kernel.fields import FIELDS

BTF, EXTRACT, SAYS = "vmlinux.btf", "vmlinux.btf.xz", "layout.json"
FURTHER = (
    ("mem_cgroup", "css"), ("mm_struct", "rss_stat"), ("mm_struct", "rss_stat.count"), ("percpu_counter", "count"),
)  # fmt: skip
"""What `tracer/kernel/headers.py` asks for beside the fields."""


def says(data: bytes) -> dict[str, Any]:
    """What `tracer/kernel/btf.py` finds in a kernel's type information, all that is ever asked."""
    found = Btf(data)
    paths = dict.fromkeys([*((field.struct, path) for field in FIELDS for path in field.candidates), *FURTHER])
    return {
        "members": {f"{name}.{path}": found.member(name, path) for name, path in paths},
        "sizes": {name: found.struct_size(name) for name in sorted(STRUCTS)},
        "enumerators": {name: found.enumerator(name) for name in sorted(ENUMS)},
        "arguments": {name: found.tracepoint_args(name) for name in TRACEPOINTS},
    }


def argument_of_mark_victim(data: bytes) -> str:
    """`pid` or `task`: told from the type of the tracepoint's first argument."""
    types = Types(data)
    for type_id in types.wanted():
        each = types.types[type_id]
        if each.kind == btf.TYPEDEF and types.text(each.name) == "btf_trace_mark_victim":
            # The first parameter is the tracepoint's private data; newer kernels have a third, the user.
            _, (_, argument), *_ = types.types[types.types[types.behind(each.value)].value].parts()
            return "task" if types.types[types.behind(argument)].kind == btf.PTR else "pid"
    raise BtfError("no tracepoint mark_victim")


def keep(found: Path, target: Path, release: str) -> None:
    """From what `copy_layouts` left.

    Raises:
        BtfError: the type information is none, or the extract would say something else than the whole.
        OSError: there is none.
    """
    whole = (found / BTF).read_bytes()
    part = extract(whole)
    said = says(whole)
    if says(part) != said or headers.kernel_h(Btf(part), {}) != headers.kernel_h(Btf(whole), {}):
        raise BtfError("the extract of the type information differs from the whole")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(found / "formats", target / "formats")
    (target / EXTRACT).write_bytes(packed(part))
    told = {"release": release, "mark_victim": argument_of_mark_victim(whole), **said}
    (target / SAYS).write_text(_lines(told), encoding="utf-8")


def unpacked(folder: Path) -> bytes:
    """The extract."""
    return lzma.decompress((folder / EXTRACT).read_bytes())


def _lines(content: dict[str, Any]) -> str:
    """JSON with an entry a line, so that a change is seen."""
    parts = []
    for key, value in content.items():
        text = json.dumps(value)
        if isinstance(value, dict):
            text = "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "\n }"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    """Of the kernel that runs here."""
    release = os.uname().release
    target = DATA / series(release)
    target.mkdir(parents=True, exist_ok=True)
    new = target / "new"
    try:
        copy_layouts(new / "found")
        keep(new / "found", new / "kept", release)
        for path in (new / "kept").iterdir():
            replace(path, target / path.name)
    except (OSError, BtfError) as error:
        print(f"layouts: {error}", file=sys.stderr)
        return 3
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
