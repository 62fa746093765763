# SPDX-License-Identifier: Apache-2.0
"""What stands beside the BPF programs: names of kernel functions, the kernel's log, file systems of tracing."""

import os
import re
import stat
from collections.abc import Iterable

from tracer.doctor.model import Answer, Capability
from tracer.doctor.reading import Places, number
from tracer.doctor.rights import SYSLOG, Rights
from tracer.rights import as_root
from tracer.sources.kmsg import KernelLogSource, KernelLogUnreadable

KILL_PATH = re.compile(rb"^([0-9a-f]+) [tT] __oom_kill_process(?:\.\S+)?$", re.MULTILINE)
"""The function whose name in the stack tells a kill from a mere mark."""
_BLOCK_BYTES = 1 << 20
_HIDDEN_FROM_ALL = 2


def check(places: Places, rights: Rights) -> Iterable[Capability]:
    """Each tried by reading it."""
    yield _symbols(places, rights)
    yield _log(places, rights)
    yield _tracing(places)


def _symbols(places: Places, rights: Rights) -> Capability:
    path = f"{places.proc}/kallsyms"
    restrict = number(f"{places.proc}/sys/kernel/kptr_restrict")
    address = _kill_path_at(path)
    ok: Answer = "yes" if address else "no"
    found = {None: f"{path} cannot be read, or has no __oom_kill_process", 0: "addresses are hidden"}.get(
        address, "__oom_kill_process has its address"
    )
    if address == 0 and restrict == 0:
        # For all to see only where kernel.perf_event_paranoid is below 2 (kallsyms_show_value()).
        found += " without CAP_SYSLOG"
    elif not address and restrict is not None:
        found += f" (kernel.kptr_restrict is {restrict})"
    hidden_from_all = restrict is not None and restrict >= _HIDDEN_FROM_ALL
    remedy = None
    if not address and hidden_from_all:
        remedy = "sudo sysctl kernel.kptr_restrict=1"
    elif not address and not rights.root:
        remedy = as_root("doctor")
    elif not address:
        remedy = "give CAP_SYSLOG (docker run --cap-add SYSLOG), and the machine's own /proc"
    with_root: Answer = "unknown" if address is None else "yes"
    if hidden_from_all or not rights.root_would_have(SYSLOG) or not rights.can_become_root:
        with_root = "no"
    return Capability(
        id="kernel_symbols",
        name="names of kernel functions",
        ok=ok,
        found=found,
        meaning="the kernel stack at a mark shows a kill, or that it was none; without names that is not observed",
        links=(1, 2),
        weight="proof",
        remedy=remedy,
        with_root=ok if rights.root or ok == "yes" else with_root,
    )


def _kill_path_at(path: str) -> int | None:
    """The address of the kill path: 0 where the kernel hides it, `None` where it is not among the names."""
    try:
        with open(path, "rb") as file:
            while lines := file.readlines(_BLOCK_BYTES):
                match = KILL_PATH.search(b"".join(lines))
                if match is not None:
                    return int(match[1], 16)
    except OSError:
        return None
    return None


def _log(places: Places, rights: Rights) -> Capability:
    path = f"{places.dev}/kmsg"
    ok: Answer
    log = KernelLogSource.open(path, debugfs=f"{places.sys}/kernel/debug")
    if isinstance(log, KernelLogUnreadable):
        ok, found = "no", log.why
    else:
        log.close()
        ok, found = "yes", f"{path} can be read"
    remedy = None
    if ok == "no":
        remedy = _log_remedy(path, rights)
    with_root: Answer = "yes" if _is_device(path) and rights.root_would_have(SYSLOG) else "no"
    return Capability(
        id="kernel_log",
        name="kernel log",
        ok=ok,
        found=found,
        meaning="a second witness, and the only one without BPF; names the limit of a machine-wide kill",
        links=(1, 2),
        remedy=remedy,
        with_root=ok if rights.root or ok == "yes" else with_root if rights.can_become_root else "no",
    )


def _log_remedy(path: str, rights: Rights) -> str:
    if not _is_device(path):
        return f"{path} is not the kernel's: in a container add --privileged, or --device /dev/kmsg --cap-add SYSLOG"
    if not rights.root:
        return f"{as_root('doctor')}; or for all users: sudo sysctl kernel.dmesg_restrict=0"
    return "give CAP_SYSLOG (docker run --cap-add SYSLOG)"


def _is_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode)


def _tracing(places: Places) -> Capability:
    mounted = [name for name in ("tracing", "debug") if os.path.isdir(f"{places.sys}/kernel/{name}") and _has_entries(
        f"{places.sys}/kernel/{name}")]  # fmt: skip
    return Capability(
        id="tracefs",
        name="tracefs, debugfs",
        ok="yes",
        found=" and ".join(f"{places.sys}/kernel/{name}" for name in mounted) or "not mounted, or not readable",
        meaning="not needed: raw tracepoints go without",
        weight="note",
    )


def _has_entries(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False
