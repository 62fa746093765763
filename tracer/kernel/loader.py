# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402, PLC0415 - siblings can be imported only after the stand-ins; bcc is slow, so it comes late
"""The loader child: compiles and attaches the BPF programs, hands the descriptors over and is gone.

The only importer of bcc, which belongs to the distribution's Python and keeps LLVM in memory for as long
as the process lives. Started by `tracer.kernel.session` as a file, isolated and with a fixed environment:
nothing here may need more than Python 3.8 and its standard library.
"""

from __future__ import annotations

import os
import sys
import types

_HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__":
    # Stand-ins for the packages above, so that our siblings can be imported by their names without
    # sys.path: nothing of the installation that we come from may shadow the distribution's modules.
    for _name, _path in (("tracer", os.path.dirname(_HERE)), ("tracer.kernel", _HERE)):
        _package = types.ModuleType(_name)
        _package.__path__ = [_path]
        sys.modules[_name] = _package

import contextlib
import ctypes
import errno
import json
import resource
import shutil
import socket
import tempfile
import threading
import traceback
from typing import Any

from tracer.kernel import bpfcalls, cudacalls, handover, headers, trial
from tracer.kernel.btf import Btf, BtfError
from tracer.kernel.probes import CUDA_PROBES, CUDA_SUFFIX, FRAGMENTS, SCALAR_SUFFIX, Hook, Probe, Rung, Wanted
from tracer.kernel.uprobes import Uprobes

FOLDER_PREFIX = "oomtrace-{}-"
"""With the child's pid: the parent removes what a crashed compiler leaves behind."""


class LoadError(Exception):
    """What went wrong, and at which stage."""

    def __init__(self, stage: str, why: str, *, denied: bool = False) -> None:
        super().__init__(why)
        self.failure = handover.Failure(stage, why, denied)


def main(argv: list[str]) -> None:
    """Arguments: descriptor of the socket, folder with the C fragments, limits and what is wanted as JSON.

    In tests also how records are to go, which is else found out.
    """
    # The caller's limit on the size of files is for the job. SIGXFSZ would end us over our own headers.
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (hard, resource.RLIM_INFINITY):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sock = socket.socket(fileno=int(argv[1]))
    try:
        limits, wanted = handover.Limits(**json.loads(argv[3])), Wanted(*json.loads(argv[4]))
        transport = argv[5] if argv[5:] else None
        if wanted.cuda:
            # Taken at once: what nobody has read when we go would be in the way of what we say.
            report, descriptors = load_cuda(handover.borrow(sock), argv[2], limits, wanted, transport)
        else:
            report, descriptors = load(argv[2], limits, wanted, transport)
    except LoadError as error:
        handover.send(sock, error.failure, [])
        return
    handover.send(sock, report, descriptors)


def load(
    bpf_folder: str, limits: handover.Limits, wanted: Wanted, transport: str | None = None
) -> tuple[handover.Report, list[int]]:
    """Compiles, loads and attaches everything.

    Args:
        bpf_folder: with the C fragments.
        limits: sizes of the maps.
        wanted: which programs.
        transport: `handover.RING_BUFFER` or `PERF_BUFFER`; `None`: what this kernel has.

    Raises:
        LoadError: at a named stage; a failing optional hook is reported and no error.
    """
    program, digest, transport = _prepare(bpf_folder, limits, wanted, transport)
    hooks, links = [], []
    for probe in wanted.probes:
        hook, link, denied = _attach_first(program, probe)
        if wanted.scalars:
            hook = hook._replace(name=hook.name + SCALAR_SUFFIX)
        if link is None and hook.required:
            raise LoadError("attach", f"{hook.name}: {hook.why_not}", denied=denied)
        hooks.append(hook)
        links += [link] if link is not None else []
    _fork_once()
    maps = [program[name.encode()].map_fd for name in handover.MAPS]
    return handover.Report(digest, tuple(hooks), transport), maps + links


def load_cuda(
    lent: list[int], bpf_folder: str, limits: handover.Limits, wanted: Wanted, transport: str | None = None
) -> tuple[handover.Report, list[int]]:
    """Compiles and loads what sees calls of CUDA; the parent puts the uprobes where they belong, as these are found.

    Args:
        lent: `handover.SHARED_MAPS` of the other programs: tree, settings, counters and the way of records.
        bpf_folder: with the C fragments.
        limits: sizes of the maps.
        wanted: of CUDA.
        transport: the other programs'.

    Raises:
        LoadError: at a named stage.
    """
    program, digest, transport = _prepare(bpf_folder, limits, wanted, transport)
    ctypes.set_errno(0)
    try:
        ours = [program[name.encode()].map_fd for name in handover.SHARED_MAPS]
        places = dict(zip(ours, lent))

        def code_of(function: str) -> bytes:
            return bpfcalls.with_other_maps(program.dump_func(function.encode()), places)

        links = []
        for rung in (probe.rungs[0] for probe in CUDA_PROBES):
            fd = bpfcalls.load_program(bpfcalls.RAW_TRACEPOINT, code_of(rung.function), rung.function)
            links.append(bpfcalls.open_raw_tracepoint(rung.target, fd))
        codes = code_of(cudacalls.ENTERED), code_of(cudacalls.RETURNED)
        at_once, programs = _load_uprobes(*codes, one_by_one=wanted.one_by_one)
        uprobes = Uprobes()
        hurts = trial.why_returns_hurt(uprobes.type, uprobes.returns)
    except OSError as error:
        raise LoadError("attach", f"programs for CUDA: {error}", denied=error.errno == errno.EPERM) from error
    except Exception as error:  # bcc raises bare Exception
        raise LoadError("attach", f"programs for CUDA: {error}") from error
    if hurts is not None:
        raise LoadError("attach", hurts)
    # Types given: bcc cannot read what its own C side says of a struct within a struct.
    number = ctypes.c_uint64
    maps = [program.get_table(name.encode(), number, number).map_fd for name in handover.CUDA_MAPS]
    hooks = [Hook(probe.rungs[0].name + CUDA_SUFFIX, True, None, False) for probe in CUDA_PROBES]
    names = tuple(function.name for function in cudacalls.FUNCTIONS)
    return handover.Report(digest, tuple(hooks), transport, names, at_once), maps + links + programs


def _load_uprobes(entered: bytes, returned: bytes, *, one_by_one: bool) -> tuple[bool, list[int]]:
    """Whether one program sees all functions entered, and descriptors: of that or of each, and of the return's."""
    kind, multi = bpfcalls.KPROBE, bpfcalls.UPROBE_MULTI
    try:
        programs = [
            bpfcalls.load_program(kind, cudacalls.program_for(None, entered), cudacalls.ENTERED, multi),
            bpfcalls.load_program(kind, returned, cudacalls.RETURNED, multi),
        ]
        if not one_by_one and bpfcalls.has_uprobe_links(programs[0]):
            return True, programs
    except OSError:
        pass  # no such helper: 5.15; what else there is fails below as well, and is said
    programs = [
        bpfcalls.load_program(kind, cudacalls.program_for(function, entered), function.name)
        for function in cudacalls.FUNCTIONS
    ]
    return False, [*programs, bpfcalls.load_program(kind, returned, cudacalls.RETURNED)]


def _prepare(bpf_folder: str, limits: handover.Limits, wanted: Wanted, transport: str | None) -> tuple[Any, str, str]:
    """The compiled programs, the digest of the header of their records, and how these go."""
    text, events_h = _source(bpf_folder, wanted.fragments)
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    if transport is None:
        transport = handover.RING_BUFFER if bpfcalls.has_ring_buffer(page_bytes) else handover.PERF_BUFFER
    try:
        constants = handover.constants(limits, page_bytes, _own_pid_namespace(), transport)
        kernel_h = headers.scalar_h(constants) if wanted.scalars else headers.kernel_h(Btf.load(), constants)
    except BtfError as error:
        raise LoadError("btf", str(error)) from error
    return _compile(text, kernel_h, events_h), handover.digest_of(events_h), transport


def _own_pid_namespace() -> int:
    """Ours, and so the parent's. Without a /proc nothing is joined to it by pid, and any answer will do."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return handover.FIRST_PID_NAMESPACE


def _fork_once() -> None:
    """A new thread: from it the programs learn where our pid namespace lies, see `learn_own_level`."""
    with contextlib.suppress(RuntimeError):  # no thread can be had: the parent's own forks tell as well
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()


def _source(bpf_folder: str, fragments: tuple[str, ...] = FRAGMENTS) -> tuple[str, bytes]:
    """One translation unit of the fragments, and the header of the records."""
    parts = []
    try:
        for name in fragments:
            with open(os.path.join(bpf_folder, name), encoding="utf-8") as file:
                parts.append(f'#line 1 "bpf/{name}"\n{file.read()}')
        with open(os.path.join(bpf_folder, "events.h"), "rb") as file_h:
            return "\n".join(parts), file_h.read()
    except OSError as error:
        raise LoadError("start", f"cannot read {error.filename}: {error.strerror}") from error


def _compile(text: str, kernel_h: str, events_h: bytes) -> Any:
    try:
        import bcc  # type: ignore[import-not-found, import-untyped, unused-ignore]

        base: Any = bcc.BPF  # else something else is called so
    except Exception as error:  # bcc's own modules may be broken in any way
        why = "{} has no usable bcc ({}); install python3-bpfcc (Debian, Ubuntu) or python3-bcc (Fedora)"
        raise LoadError("import", why.format(sys.executable, error)) from error

    class Program(base):  # type: ignore[misc, unused-ignore]
        """BCC would load and attach by the functions' names, and give up at the first that fails."""

        def _trace_autoload(self) -> None:
            pass

    folder = _own_folder()
    try:
        headers.write_include_folder(folder, kernel_h, events_h)
        os.environ["BCC_KERNEL_SOURCE"] = folder
        return Program(text=text.encode(), cflags=[f"-I{folder}/include"])
    except Exception as error:  # bcc raises bare Exception
        # Maps are made at this stage as well; what the C side says of them goes to stderr, and is read by the parent.
        raise LoadError("compile", str(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _own_folder() -> str:
    """Ours alone (mkdtemp makes it 0700): what is compiled into the kernel is what was written here."""
    refused = []
    for place in handover.FOLDERS:
        try:
            return tempfile.mkdtemp(prefix=FOLDER_PREFIX.format(os.getpid()), dir=place)
        except OSError as error:
            refused.append(f"{place}: {error.strerror}")
    raise LoadError("compile", "no folder can be made for it ({})".format("; ".join(refused)))


def _attach_first(program: Any, probe: Probe) -> tuple[Hook, int | None, bool]:
    """The first rung that holds, and its descriptor; else every rung's reason, and whether one was EPERM."""
    reasons, denied = [], False
    for rung in probe.rungs:
        link, number, why = _attach(program, rung)
        if link is not None:
            return Hook(rung.name, True, None, probe.required), link, False
        denied = denied or number == errno.EPERM
        reasons.append(f"{rung.kind}: {why}")
    return Hook(probe.rungs[-1].name, False, "; ".join(reasons), probe.required), None, denied


def _attach(program: Any, rung: Rung) -> tuple[int | None, int, str]:
    """The descriptor that keeps the hook alive, or `None`, the error number and its text."""
    ctypes.set_errno(0)
    try:
        if rung.kind == "raw_tracepoint":
            program.attach_raw_tracepoint(tp=rung.target.encode(), fn_name=rung.function.encode())
            return int(program.raw_tracepoint_fds[rung.target.encode()]), 0, ""
        if rung.kind == "fentry":
            function = _fentry_name(program, rung.target)
            program.attach_kfunc(fn_name=function)
            return int(program.kfunc_entry_fds[function]), 0, ""
        program.attach_kprobe(event=rung.target.encode(), fn_name=rung.function.encode())
        return _innermost(program.kprobe_fds), 0, ""
    except Exception as error:  # noqa: BLE001 - bcc raises bare Exception, and says less than errno does
        number = ctypes.get_errno()
        return None, number, os.strerror(number) if number else str(error)


def _fentry_name(program: Any, target: str) -> bytes:
    """What KFUNC_PROBE made of the name: `kfunc__TARGET`, in newer BCC `kfunc__vmlinux__TARGET`."""
    from bcc import lib

    names = (lib.bpf_function_name(program.module, index) for index in range(lib.bpf_num_functions(program.module)))
    found: bytes = next(
        name for name in names if name.startswith(b"kfunc__") and name.endswith(b"__" + target.encode())
    )
    return found


def _innermost(descriptors: Any) -> int:
    """Older ones are kept by event, newer ones by event and function."""
    while isinstance(descriptors, dict):
        descriptors = next(iter(descriptors.values()))
    return int(descriptors)


if __name__ == "__main__":
    try:
        main(sys.argv)
    except BaseException:  # noqa: BLE001 - whatever it is, it is said, and nobody is left to catch it
        traceback.print_exc()
        os._exit(1)
    # No clean-up by bcc, which would detach, and none by LLVM, which would take its time.
    os._exit(0)
