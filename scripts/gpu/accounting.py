# SPDX-License-Identifier: Apache-2.0
"""Where pinned host memory shows: this process, its cgroup, the machine. Standard library alone."""

import re
from pathlib import Path

_MEMINFO = (
    "MemFree", "AnonPages", "Cached", "Buffers", "Slab", "KernelStack", "PageTables", "Percpu", "VmallocUsed",
    "Hugetlb", "Unevictable", "Mlocked",
)  # fmt: skip
_SUMMED = ("MemFree", "AnonPages", "Cached", "Buffers", "Slab", "KernelStack", "PageTables", "Percpu", "Hugetlb")
_DEVICES = re.compile(r"^[0-9a-f]+-[0-9a-f]+ .*?(/dev/nvidia\S*)$")


def look() -> dict[str, int]:
    """All counters, in bytes but for those of vmstat, which count pages."""
    status, meminfo = _kib("/proc/self/status"), _kib("/proc/meminfo")
    found = {f"process {key}": status.get(key, 0) for key in ("RssAnon", "RssFile", "RssShmem", "VmLck", "VmPin")}
    found["process, mapped from /dev/nvidia*"] = _mapped()
    found |= {f"machine {key}": meminfo.get(key, 0) for key in _MEMINFO}
    found["machine, in none of these"] = meminfo.get("MemTotal", 0) - sum(meminfo.get(key, 0) for key in _SUMMED)
    charged = _charged()
    if charged is not None:
        found["cgroup usage"] = charged
    for line in _text("/proc/vmstat").splitlines():
        if line.startswith("nr_foll_pin_"):
            name, _, value = line.partition(" ")
            found[f"vmstat {name} (pages)"] = int(value)
    return found


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _kib(path: str) -> dict[str, int]:
    return {key: int(value) << 10 for key, value in re.findall(r"^(\w+):\s+(\d+) kB$", _text(path), re.MULTILINE)}


def _mapped() -> int:
    """Rss of what is mapped from the driver's devices."""
    device, total = False, 0
    for line in _text("/proc/self/smaps").splitlines():
        if line.startswith("Rss:") and device:
            total += int(line.split()[1]) << 10
        elif re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            device = _DEVICES.match(line) is not None
    return total


def _charged() -> int | None:
    """Usage of this process's memory cgroup."""
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            text = _text(f"/sys/fs/cgroup/memory{path}/memory.usage_in_bytes")
        elif not controllers:
            text = _text(f"/sys/fs/cgroup{path}/memory.current")
        else:
            continue
        if text.strip().isdigit():
            return int(text)
    return None
