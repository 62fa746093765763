# SPDX-License-Identifier: Apache-2.0
"""The kernel: what it has, and whether the BPF programs really load and attach. Closes what it opened."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tracer.doctor import remedies
from tracer.doctor.model import Answer, Capability, HookAnswer
from tracer.doctor.reading import Places, word
from tracer.doctor.rights import Rights
from tracer.errors import LoaderFailed, OomtraceError, PermissionDenied
from tracer.kernel.btf import Btf, BtfError
from tracer.kernel.probes import Wanted
from tracer.kernel.session import open_session
from tracer.rights import as_root
from tracer.sources.live import events_h_digest
from tracer.units import format_duration

OLDEST, RING_BUFFER_SINCE = (5, 4), (5, 8)
DECISION_HOOK = "oom_kill_process"
CONSOLE_HOOK = "console"
_EVERY_LINK = (1, 2, 3, 4)


@dataclass(frozen=True)
class Tried:
    """What came of loading the programs."""

    hooks: tuple[HookAnswer, ...] = ()
    """Empty: they did not load."""
    start_to_armed_ns: int | None = None
    why_not: str | None = None
    denied: bool = False
    stage: str | None = None
    """Of the loader, where it failed."""
    transport: str | None = None
    """How records come."""
    bare: tuple[HookAnswer, ...] = ()
    """Of the programs that read none of the kernel's memory, where the others did not load."""

    @property
    def holds(self) -> bool:
        return bool(self.hooks) and all(hook.attached for hook in self.hooks if hook.required)


def try_programs() -> Tried:
    """Load and attach all, and let go at once: nothing else says whether it works."""
    tried = _try(Wanted(console=True))
    if tried.hooks or tried.denied:
        return tried
    return replace(tried, bare=_try(Wanted(scalars=True)).hooks)


def _try(wanted: Wanted) -> Tried:
    try:
        with open_session(events_h_digest=events_h_digest(), wanted=wanted) as session:
            hooks = tuple(
                HookAnswer(name=h.name, attached=h.attached, required=h.required, why_not=h.why_not)
                for h in session.hooks
            )
            return Tried(hooks, session.start_to_armed_ns, transport=session.transport)
    except PermissionDenied as error:
        return Tried(why_not=error.what, denied=True)
    except LoaderFailed as error:
        return Tried(why_not=error.why, stage=error.stage)
    except OomtraceError as error:
        return Tried(why_not=str(error))
    except Exception as error:  # noqa: BLE001 - a doctor who dies of the illness helps nobody
        return Tried(why_not=f"{type(error).__name__}: {error}")


def check(places: Places, rights: Rights, tried: Tried, *, bcc_with_root: bool) -> Iterable[Capability]:
    """The kernel's own answers, then what came of trying.

    Args:
        places: where to look.
        rights: of this process.
        tried: what came of loading.
        bcc_with_root: whether root would find a bcc that can be used.
    """
    needs = (_release(places, tried), _btf(places), _lockdown(places))
    yield from needs
    possible = bcc_with_root and all(one.ok != "no" for one in needs)
    with_root = _programs_with_root(rights, tried, possible=possible)
    yield _programs(rights, tried, with_root)
    yield _decision(rights, tried, with_root)
    console = next((hook for hook in tried.hooks if hook.name.rpartition(":")[2] == CONSOLE_HOOK), None)
    if tried.holds and console is not None:
        yield _console(console)
    if tried.bare:
        yield _bare(tried)
    mark = _mark(places)
    if mark is not None:
        yield mark


def _release(places: Places, tried: Tried) -> Capability:
    release = word(f"{places.proc}/sys/kernel/osrelease") or "unknown"
    match = re.match(r"(\d{1,4})\.(\d{1,4})", release)
    version = None if match is None else (int(match[1]), int(match[2]))
    old = version is not None and version < RING_BUFFER_SINCE
    too_old = version is not None and version < OLDEST
    # Enterprise kernels have all that under an older number: trying tells, where that is allowed.
    ok: Answer = "yes" if tried.holds or (version and not old) else "no" if too_old and not tried.denied else "unknown"
    return Capability(
        id="kernel_release",
        name="kernel",
        ok=ok,
        found=f"Linux {release[:80]}",
        meaning="5.4 or newer, which some distributions' older ones are by what they have; before 5.8 records come "
        "by perf buffers in place of a ring buffer",
        links=_EVERY_LINK,
        weight="proof",
        remedy="boot a kernel of 5.8 or newer" if old and ok != "yes" else None,
    )


def _btf(places: Places) -> Capability:
    path = f"{places.sys}/kernel/btf/vmlinux"
    ok: Answer = "yes" if os.access(path, os.R_OK) and os.path.isfile(path) else "no"
    return Capability(
        id="btf",
        name="type information (BTF)",
        ok=ok,
        found=path if ok == "yes" else f"no {path}" if not os.path.exists(path) else f"{path} cannot be read",
        meaning="says where the kernel keeps what is read; nothing is read at a guessed place",
        links=_EVERY_LINK,
        weight="proof",
        remedy=None
        if ok == "yes"
        else "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (the distributions' are, from about 2020 on), and in a "
        "container mount the machine's /sys read-only",
    )


def _lockdown(places: Places) -> Capability:
    text = word(f"{places.sys}/kernel/security/lockdown")
    match = re.search(r"\[(\w{1,40})\]", text or "")
    mode = match[1] if match else None
    return Capability(
        id="lockdown",
        name="lockdown",
        ok="no" if mode == "confidentiality" else "yes",
        found=mode if mode is not None else "this kernel has none" if text is None else text[:60],
        meaning="under confidentiality no BPF program may read the kernel's memory",
        links=_EVERY_LINK,
        weight="proof",
        remedy="boot with lockdown=integrity or without lockdown (it can only be raised at run time)"
        if mode == "confidentiality"
        else None,
    )


def _programs(rights: Rights, tried: Tried, with_root: Answer) -> Capability:
    needed = [hook for hook in tried.hooks if hook.required]
    held = [hook for hook in needed if hook.attached]
    if tried.holds:
        armed = format_duration(tried.start_to_armed_ns)
        kinds = " and ".join(sorted({hook.name.partition(":")[0].replace("_", " ") for hook in held}))
        by = f", records come by {tried.transport.replace('_', ' ')}" if tried.transport else ""
        found = f"{len(held)} of {len(needed)} hooks hold by {kinds}{by}, armed in {armed}"
    else:
        missing = [f"{hook.name} ({hook.why_not})" for hook in needed if not hook.attached]
        found = " ".join((tried.why_not or ", ".join(missing) or "unknown").split())[:400]
    return Capability(
        id="bpf_programs",
        name="BPF programs",
        ok="yes" if tried.holds else "no",
        found=found,
        meaning="loaded and attached, and let go again: without them there is no proof of what the kernel did",
        links=_EVERY_LINK,
        weight="proof",
        remedy=None if tried.holds else _programs_remedy(rights, tried),
        with_root=with_root,
    )


def _programs_remedy(rights: Rights, tried: Tried) -> str | None:
    if tried.denied and not rights.root:
        return as_root("doctor")
    if tried.denied:
        return remedies.CONTAINER_RIGHTS
    return None if tried.stage in {"import", "btf"} else "see which of the rows about the kernel says no"


def _programs_with_root(rights: Rights, tried: Tried, *, possible: bool) -> Answer:
    if tried.holds:
        return "yes"
    allowed = rights.root_would_have("CAP_BPF", "CAP_PERFMON") or rights.root_would_have("CAP_SYS_ADMIN")
    if rights.root or not possible or not allowed or not rights.can_become_root or not tried.denied:
        return "no"
    return "unknown"


def _decision(rights: Rights, tried: Tried, with_root: Answer) -> Capability:
    hook = next((h for h in tried.hooks if h.name.rpartition(":")[2] == DECISION_HOOK), None)
    if hook is None:
        found = "not tried: the programs did not load"
    else:
        found = hook.name.partition(":")[0] if hook.attached else hook.why_not or "refused"
    ok: Answer = "yes" if hook is not None and hook.attached else "no"
    return Capability(
        id="oom_decision",
        name="oom_kill_process hook",
        ok=ok,
        found=found[:300],
        meaning="says whether machine, cpuset, memory policy or cgroup ran out; else the kernel's log does",
        links=(2,),
        remedy=None if ok == "yes" or hook is None else "boot a kernel with CONFIG_KPROBES",
        with_root=ok if rights.root or hook is not None else with_root if with_root == "no" else "unknown",
    )


def _console(hook: HookAnswer) -> Capability:
    return Capability(
        id="printk_console",
        name="printk hook",
        ok="yes" if hook.attached else "no",
        found="printk:console" if hook.attached else hook.why_not or "refused",
        meaning="what the kernel prints of its decision (from about 6.1 on), where its log cannot be read",
        links=(2,),
    )


def _bare(tried: Tried) -> Capability:
    held = [hook for hook in tried.bare if hook.attached]
    return Capability(
        id="bare_programs",
        name="bare BPF programs",
        ok="yes" if held else "no",
        found=f"{len(held)} of {len(tried.bare)} hooks hold",
        meaning="see OOM kills without reading the kernel's memory: whom they hit is known by pid alone",
        links=(1,),
    )


def _mark(places: Places) -> Capability | None:
    """Which form the tracepoint has; `None`: without type information that is not known, nor needed."""
    try:
        arguments = Btf.load(f"{places.sys}/kernel/btf/vmlinux").tracepoint_args("mark_victim")
    except BtfError:
        return None
    if arguments is None:
        return None
    # (task, uid) since 72ba14deb40a (6.9, and stable kernels), (pid) before.
    by_task = arguments > 1
    return Capability(
        id="mark_victim",
        name="victim of a mark",
        ok="yes",
        found="the tracepoint gives the task" if by_task else "by pid, and the SIGKILL just before (signal_generate)",
        meaning="how the process is known that the OOM killer marks",
        links=(1,),
    )
